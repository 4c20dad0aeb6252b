"""The search for hyperparameters: what is best, what is kept, what a budget does, and the table beside the paper's."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from dualfl.algorithms.splitting import FedDyn
from dualfl.cli import main
from dualfl.data import make_problem
from dualfl.engines import run
from dualfl.errors import InputError
from dualfl.experiments import tune
from dualfl.experiments.cells import Cell, Outcome
from dualfl.experiments.store import Store
from dualfl.experiments.table2 import GRIDS
from dualfl.experiments.tune import RUNGS, BestFound, Rung, Search, Tried, Tuner, read_best, score, table
from dualfl.optimum import reference

BASIS = Cell("iris", "", clients=3, rounds=4)


def search(*names, **options):
    return Search(BASIS, 150, names or ("feddyn",), **options)


def test_the_best_cell_is_the_best_of_all(tmp_path):
    """Against runs of every cell by hand."""
    (best,) = Tuner(search(grid="paper", rungs=(Rung(1.0, 1.0, 1.0),)), Store(tmp_path)).run()
    problem = make_problem("iris", clients=3)
    areas = {}
    for alpha in GRIDS["feddyn"]["alpha"]:
        history = run(problem, FedDyn(alpha=alpha), rounds=4, reference=reference(problem)).history
        areas[alpha] = np.log10(history.column("relative_error")).mean()
    assert best.tried.hyperparameters == {"alpha": min(areas, key=areas.get)}
    assert best.tried.score == pytest.approx((min(areas.values()),), rel=1e-6)
    assert best.count == 7
    assert best.edge == ("alpha",)  # the paper's grid stops at 1, and the best lies below


@pytest.fixture
def many_rows(monkeypatch):
    """So that a part of iris is enough."""
    monkeypatch.setattr(tune, "FEW", 1)


@pytest.mark.usefixtures("many_rows")
def test_halving_keeps_the_best_third_and_goes_on_where_it_stopped(tmp_path):
    told = []
    (best,) = Tuner(search(grid="paper"), Store(tmp_path), tell=lambda c, o: told.append(c)).run()
    assert [sum(cell.rounds == r for cell in told) for r in (2, 3, 4)] == [7, 3, 2]
    assert best.complete and best.count == 12 == search(grid="paper").most
    again = []
    same = Tuner(search(grid="paper"), Store(tmp_path), tell=lambda c, o: again.append(c)).run()
    assert again == [] and same[0].tried.hyperparameters == best.tried.hyperparameters
    next(tmp_path.glob("*.json")).write_text("{")  # damaged: this one is run again
    Tuner(search(grid="paper"), Store(tmp_path), tell=lambda c, o: again.append(c)).run()
    assert len(again) == 1


@pytest.mark.usefixtures("many_rows")
def test_a_budget_ends_the_search_and_a_longer_one_goes_on(tmp_path, monkeypatch):
    told, said = [], []

    def tuner(minutes=None):
        return Tuner(search(grid="paper"), Store(tmp_path), minutes, tell=lambda c, o: told.append(c), say=said.append)

    (best,) = tuner(1e-12).run()
    assert told == [] and best.tried is None and best.count == 0
    clock = iter([*[0.0] * 4, *[1e9] * 100])
    with monkeypatch.context() as patch:
        patch.setattr("dualfl.experiments.tune.time.monotonic", lambda: next(clock))
        late = tuner(1.0)
        late._began = 0.0
        (best,) = late.run()
    before = len(told)
    assert 1 <= before < 7 and best.tried is not None and not best.complete
    assert any("time of this rung is up" in sentence for sentence in said)
    (best,) = tuner().run()
    assert best.complete and len(told) == 12


def test_a_budget_of_processor_time_does_not_depend_on_the_clock(tmp_path):
    one, other = (Tuner(search(), Store(tmp_path), 1.0, 2, by_processor=True, _spent=s, _began=0.0) for s in (119, 121))
    assert not one._late(1.0) and other._late(1.0) and one._late(0.9)
    assert Tuner(search(), Store(tmp_path), 1.0, 2, _began=0.0)._late(1.0)  # the clock began long ago


@pytest.mark.usefixtures("many_rows")
def test_no_cell_may_use_up_the_time_of_a_rung(tmp_path, monkeypatch):
    """Three times an equal share, in minutes, of 40, 30 and 30 % of the budget; what was cut so is still ranked."""
    told = []
    one = replace(BASIS, minutes=100.0)
    cut = Outcome.cut
    monkeypatch.setattr(Outcome, "cut", property(lambda self: cut.fget(self) or self.cell.rounds == 2))
    tuner = Tuner(Search(one, 150, ("feddyn",), "paper"), Store(tmp_path), 7.0, tell=lambda c, o: told.append(c))
    (best,) = tuner.run()
    shares = {2: 3 * 7 * 0.4 / 7, 3: 3 * 7 * 0.3 / 3, 4: 3 * 7 * 0.3 / 2}
    assert [cell.minutes for cell in told] == pytest.approx([shares[cell.rounds] for cell in told])
    assert best.complete and best.count == 12


def test_the_first_rung_takes_an_eighth_of_the_rows_if_that_is_enough():
    large = Search(Cell("mnist", "", rounds=40), 60_000, ("dualfl",))
    first, _, last = (large.cell("dualfl", {}, rung) for rung in RUNGS)
    assert (first.rows, first.rounds) == (7_500, 20) and (last.rows, last.rounds) == (None, 40)
    small = search().cell("dualfl", {}, RUNGS[0])
    assert small.rows is None and small.rounds == BASIS.rounds  # as a whole
    assert Search(BASIS, 20_000, ("dualfl",)).cell("dualfl", {}, RUNGS[0]).rows == 4_000


def test_wide_grids_have_the_defaults_of_theory_and_the_papers_do_not():
    assert search("fedpd").candidates("fedpd")[0] == {}
    paper = search("apda-inexact", grid="paper").candidates("apda-inexact")
    assert len(paper) == 49 and all(cell["c"] == 32.0 for cell in paper)


def test_scores():
    errors = np.array([1.0, 1e-2, 1e-4])
    assert score("area", errors) == (-2.0,)
    assert score("final", errors) == (-4.0,)
    assert score("rounds:1e-2", errors) == (1.0, -4.0)
    assert score("rounds:1e-9", errors) == (np.inf, -4.0)
    assert score("area", np.array([1.0, 0.0])) == (-6.5,)  # rounding is not rewarded
    assert score("area", np.array([1.0, np.nan]))[0] > 100


def outcome(errors, status="ok", **hyperparameters):
    cell = Cell("iris", "feddyn", hyperparameters, rounds=3)
    return Outcome(cell, status, {"relative_error": np.array(errors, dtype=float)})


class Memory:
    """A store of outcomes that were never run."""

    def __init__(self, outcomes):
        self.outcomes = outcomes

    def get(self, cell):
        return self.outcomes.get(cell.hyperparameters["alpha"])


def test_what_diverges_or_does_not_apply_is_never_best():
    known = {
        1.0: outcome([1, 1e-9], "diverged at round 2"),
        2.0: outcome([], "does not apply: x"),
        3.0: outcome([1, 0.9, 0.8, 0.7]),
        4.0: outcome([1, 0.9]),  # time cut it
    }
    cells = [Cell("iris", "feddyn", {"alpha": alpha}) for alpha in (1.0, 2.0, 3.0, 4.0, 5.0)]
    tried = sorted(Tuner(search(), Memory(known))._tried(cells), key=lambda t: t.score)
    assert [t.good for t in tried] == [True, True, False, False]
    assert tried[0].score[0] == pytest.approx(np.log10([1, 0.9, 0.8, 0.7]).mean())
    assert tried[1].score[0] == pytest.approx(np.log10([1, 0.9, 0.9, 0.9]).mean())


def test_the_table_stands_beside_the_papers():
    best = BestFound(
        "apda-inexact", Tried(outcome([1, 0.1], eta_x=0.1, beta=0.01, c=32.0), (-1.0,)), 2, 9, edge=("beta",)
    )
    rows = {line["hyperparameter"]: line for line in table([best, BestFound("dualfl", None, -1, 3)], "iris")}
    assert rows["eta_x"]["paper MNIST"] == "0.001" and rows["eta_x"]["paper CIFAR-10"] == "0.0001"
    assert rows["eta_x"]["here iris"] == "0.1" and rows["beta_y"]["here iris"] == "0.01 (edge)"
    assert rows["eta_y"]["here iris"] == "1/(32 eta_x)" and rows["theta"]["here iris"] == "theory"
    assert rows["rho"]["here iris"] == "none works" and rows["rho"]["paper MNIST"] == "0.003"
    other = table([BestFound("gd", Tried(outcome([1, 0.1], step=0.1), (-1.0,)), 2, 9)], "iris")
    assert other[0]["hyperparameter"] == "step" and other[0]["paper MNIST"] == ""


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: search(grid="papr"), "did you mean paper"),
        (lambda: search("gd", grid="paper"), "gd has no paper grid.*take the wide one"),
        (lambda: search("feddynn"), "did you mean feddyn"),
        (lambda: search(criterion="are"), "did you mean area"),
        (lambda: search(criterion="rounds"), "rounds needs a level, such as rounds:1e-4"),
        (lambda: Search(replace(BASIS, solver="exct"), 150, ("feddyn",)), "did you mean exact"),
        (lambda: Search(BASIS, 150, ()), "name one at least"),
        (lambda: Tuner(search(), Store("x"), 0.0), "minutes > 0, but it is 0"),
    ],
)
def test_bad_searches_are_sentences(call, says):
    with pytest.raises(InputError, match=says):
        call()


def test_an_empty_grid_is_a_sentence(monkeypatch):
    monkeypatch.setattr(FedDyn, "grid", {"alpha": ()})
    with pytest.raises(InputError, match="feddyn: the grid of alpha is empty; give it at least one value"):
        search()


def test_the_command_prints_the_table_and_writes_what_figure_1_reads(tmp_path):
    words = [
        "tune",
        "--dataset",
        "iris",
        "--clients",
        "3",
        "--rounds",
        "4",
        "--algorithms",
        "feddyn",
        "--grid",
        "paper",
    ]
    words += ["--processes", "1", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert max(len(line) for line in done.stdout.splitlines() if str(tmp_path) not in line) <= 80
    assert "feddyn" in done.stdout and "1000" in done.stdout and "(edge)" in done.stdout
    _, best = read_best(tmp_path / "tuned.json")
    assert best["feddyn"]["hyperparameters"] == {"alpha": 1.0} and best["feddyn"]["cells"] == 12
    assert (tmp_path / "table2.csv").read_text().splitlines()[0].endswith("here iris")
    words[words.index("feddyn")] = "fedpd"
    assert CliRunner().invoke(main, words, catch_exceptions=False).exit_code == 0
    assert set(read_best(tmp_path / "tuned.json")[1]) == {"feddyn", "fedpd"}  # what was found before stays
    other = CliRunner().invoke(main, [*words, "--ridge", "0.1"])
    assert other.exit_code == 2 and "has values for ridge = 0.01, and this search is for ridge = 0.1" in other.stderr
    wrong = CliRunner().invoke(main, [*words, "--rounds", "0"])
    assert wrong.exit_code == 2 and "rounds must be at least 1" in wrong.stderr
    for given in (["--cell-minutes", "inf"], ["--algorithms", ","], ["--solver", "bogus"], ["--out", "/proc/x"]):
        wrong = CliRunner().invoke(main, [*words, *given])
        assert wrong.exit_code == 2 and wrong.stderr.startswith("Error: "), given


def test_what_another_search_wrote_meanwhile_stays(tmp_path, monkeypatch):
    words = ["tune", "--dataset", "iris", "--clients", "3", "--rounds", "2", "--grid", "paper", "--processes", "1"]
    words += ["--out", str(tmp_path), "--algorithms"]
    finish = Tuner.run

    def run(self):
        found = finish(self)
        if self.search.algorithms == ("feddyn",):
            assert CliRunner().invoke(main, [*words, "fedpd"], catch_exceptions=False).exit_code == 0
        return found

    monkeypatch.setattr(Tuner, "run", run)
    assert CliRunner().invoke(main, [*words, "feddyn"], catch_exceptions=False).exit_code == 0
    assert set(read_best(tmp_path / "tuned.json")[1]) == {"feddyn", "fedpd"}
