"""The table of statements and its command. The statements themselves are measured by `dualfl theory`; here, the quick
ones are, and the machinery is tested on made-up ones."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from dualfl import theory
from dualfl.algorithms.dual import DualFL
from dualfl.cli.theory import theory_command
from dualfl.engines import Problem, run
from dualfl.errors import Diverged, NotSupported
from dualfl.objectives import Quadratic
from dualfl.solvers import SDCA, GradientNorm, PrimalDualGap
from dualfl.theory import problems
from dualfl.theory.check import Measured, checks
from dualfl.theory.convergence import from_the_right
from dualfl.theory.trace import Trace

QUICK = ["Prop. 6.3", "Lemma 6.4", "Thm. 3.3  inexact", "Robust"]


@pytest.mark.parametrize("name", QUICK)
def test_statements_hold(name):
    found = theory.run_all(only=name)
    assert found
    for check in found:
        assert check.holds, check


def two():
    yield Measured("a small thing", 1e-3, 1.0)
    yield Measured("a large thing", 3.0, 2.0, ">=")


def bad():
    yield Measured("something [strange] and far too long to fit into one line of eighty columns", np.nan, 1.0)
    yield Measured("an infinity", np.inf, 1.0)


@pytest.fixture
def made_up(monkeypatch):
    def use(**statements):
        monkeypatch.setattr(theory, "STATEMENTS", {name.replace("_", " "): s for name, s in statements.items()})

    return use


def test_found_decides():
    assert [f.holds for f in two()] == [True, True]
    assert [f.holds for f in bad()] == [False, False]
    assert not Measured("", 1.0, 2.0, ">=").holds
    assert all(c.seconds >= 0 and c.statement == "S" for c in checks("S", two))


def test_a_statement_that_breaks_down_fails():
    def broken():
        yield from two()
        raise Diverged("The iterates left every bound.")

    found = list(checks("S", broken))
    assert [c.holds for c in found] == [True, True, False]
    assert found[-1].measured == "The iterates left every bound."


def test_progress_is_reported(made_up):
    made_up(first=two, second=two)
    seen = []
    assert len(theory.run_all(lambda *args: seen.append(args))) == 4
    assert seen == [("first", 0, 2), ("second", 1, 2)]
    assert len(theory.run_all(only="SECOND")) == 2


def test_the_command_prints_a_table_of_80_columns(made_up, tmp_path):
    made_up(Theorem_1=two)
    file = tmp_path / "table.json"
    result = CliRunner().invoke(theory_command, ["--json", str(file)])
    assert result.exit_code == 0, result.output
    assert "Theorem 1" in result.output and ">= 2" in result.output and "2 measurements, 0 outside" in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert [row["measured"] for row in json.loads(file.read_text())] == ["a small thing", "a large thing"]


def test_a_statement_that_fails_is_printed_and_sets_the_exit_code(made_up, tmp_path):
    made_up(good=two, wrong=bad)
    file = tmp_path / "table.json"
    result = CliRunner().invoke(theory_command, ["--json", str(file)])
    assert result.exit_code == 1
    assert result.output.count("FAILS") == 2 and "2 outside" in result.output and "[strange]" in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert json.loads(file.read_text())[2]["value"] is None  # JSON has no NaN


def test_a_name_that_nothing_has(made_up):
    made_up(good=two)
    result = CliRunner().invoke(theory_command, ["--only", "xyz"])
    assert "No statement's name contains 'xyz'" in str(result.exception)


# -- what the statements stand on ---------------------------------------------------------------------


def test_trace_gives_the_iterates_of_run():
    problem = problems.logistic(3)
    moments = list(Trace(problem, DualFL()).rounds(6))
    result = run(problem, DualFL(), rounds=6)
    assert [m.n for m in moments] == [1, 2, 3, 4, 5, 6]
    assert np.array_equal(moments[-1].theta, result.state.theta)
    assert [sum(m.iterations) for m in moments] == [row.local_iterations for row in result.history][1:]


def test_solution_of_medians_is_optimal():
    for problem in (problems.medians(6), problems.medians(5, mu=0.0), problems.medians(5, mu=0.0).regularised(0.1)):
        star = problems.solution(problem)
        best = problem.value(star)
        rng = np.random.default_rng(0)
        for size in (1.0, 1e-2, 1e-4):
            for _ in range(20):
                assert problem.value(star + size * rng.standard_normal(problem.d)) >= best - 1e-14


def test_solution_of_hinge_is_the_pooled_one():
    problem = problems.hinge(3, n=15, d=3)
    star = problems.solution(problem)
    rng = np.random.default_rng(0)
    assert min(problem.value(star + 1e-3 * rng.standard_normal(3)) for _ in range(50)) > problem.value(star)


def test_closed_forms_agree_with_solvers():
    rng = np.random.default_rng(0)
    f = problems.medians(1, d=5).clients[0]
    c = rng.standard_normal(5)
    closed = problems.Kinks().solve(f.tilted(0.1, c), None, GradientNorm())
    ascent = SDCA().solve(f.tilted(0.1, c), None, PrimalDualGap(1e-15))
    assert np.abs(closed.x - ascent.x).max() <= 1e-6
    assert closed.value == pytest.approx(ascent.value, abs=1e-12)
    g = Quadratic(np.diag([1.0, 1e5]), np.ones(2))
    direct = problems.Direct().solve(g.tilted(0.5, np.ones(2)), None, GradientNorm())
    assert np.allclose(direct.x, [2 / 1.5, 2 / (1e5 + 0.5)], rtol=1e-14)
    assert direct.value == pytest.approx(g.tilted(0.5, np.ones(2)).value(direct.x))


@pytest.mark.parametrize("solver", [problems.Direct(), problems.Kinks()])
def test_special_solvers_refuse_what_they_cannot_solve(solver):
    with pytest.raises(NotSupported, match="and Logistic is none"):
        run(Problem(problems.logistic(1).clients, solvers=solver), DualFL(), rounds=1)


def test_envelope():
    assert from_the_right(np.array([3.0, 1.0, 2.0, 0.5])).tolist() == [3.0, 2.0, 2.0, 0.5]
