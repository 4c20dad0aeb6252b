"""Comparisons: the same account for all, and no number for what is not a result."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from dualfl.algorithms import DualFL
from dualfl.algorithms.server import GradientDescent, ServerLBFGS
from dualfl.engines import Problem, run
from dualfl.errors import InputError
from dualfl.experiments.compare import compare
from dualfl.objectives import Hinge, LinearModel, Quadratic
from dualfl.report.comparison import comparison_figure, table, write


def problem() -> tuple[Problem, float]:
    rng = np.random.default_rng(0)
    clients = []
    for _ in range(3):
        A = rng.standard_normal((4, 4))
        clients.append(Quadratic(A @ A.T + np.eye(4), rng.standard_normal(4)))
    H = sum(np.asarray(f.A) for f in clients) / 3
    b = sum(f.b for f in clients) / 3
    star = np.linalg.solve(H, b)
    return Problem(clients), float(-b @ star / 2)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_entries_are_ordinary_runs() -> None:
    p, best = problem()
    both = compare(p, [DualFL(), ServerLBFGS()], rounds=15, reference=best, threads=1)
    alone = run(p, DualFL(), rounds=15, reference=best, threads=1)
    assert np.array_equal(both["dualfl"].history.column("energy"), alone.history.column("energy"))
    assert [r["name"] for r in rows(both.history_csv())] == ["dualfl"] * 16 + ["lbfgs"] * 16


def test_summary_counts_what_the_history_has() -> None:
    p, best = problem()
    both = compare(p, [GradientDescent(), ServerLBFGS()], rounds=200, reference=best)
    line = rows(both.summary_csv())[1]
    history = both["lbfgs"].history
    assert float(line["rounds_to_1e-06"]) == history.rounds_to(1e-6)
    assert float(line["exchanges_to_1e-06"]) == history.rounds_to(1e-6, "exchanges")
    first = next(row for row in history if row.relative_error <= 1e-6)
    assert float(line["floats_to_1e-06"]) == first.floats_up + first.floats_down
    assert both.ranking()[0].name == "lbfgs"


def test_divergence_is_no_result() -> None:
    p, best = problem()
    result = compare(p, [GradientDescent(step=1e3), ServerLBFGS()], rounds=30, reference=best)
    entry = result["gd"]
    assert entry.status.startswith("diverged")
    assert np.isnan(entry.final_error)
    assert "diverged" in table(result).splitlines()[-1]
    assert rows(result.summary_csv())[0]["final_error"] in ("", "nan")


def test_what_does_not_apply_says_why() -> None:
    X = np.random.default_rng(0).standard_normal((10, 3))
    hinge = Problem([LinearModel(X, np.where(X[:, 0] > 0, 1.0, -1.0), Hinge(), ridge=0.1)])
    result = compare(hinge, [GradientDescent(), DualFL()], rounds=3)
    status = result["gd"].status
    assert status.startswith("does not apply: gd is not compatible")
    assert status.endswith("dualfl, fista-dual, cocoa and bundle need none.")
    assert result["dualfl"].status == "ok"


def test_two_of_a_kind_are_numbered() -> None:
    p, best = problem()
    result = compare(p, [DualFL(rho=0.0), DualFL()], rounds=2, reference=best)
    assert [entry.name for entry in result] == ["dualfl-1", "dualfl-2"]


def test_nothing_to_compare() -> None:
    with pytest.raises(InputError, match="at least one algorithm"):
        compare(problem()[0], [])


def test_files_and_picture(tmp_path) -> None:  # type: ignore[no-untyped-def]
    p, best = problem()
    result = compare(p, [DualFL(), GradientDescent()], rounds=10, reference=best)
    assert write(result, tmp_path) == ["summary.csv", "history.csv", "convergence.png"]
    assert (tmp_path / "convergence.png").read_bytes().startswith(b"\x89PNG")
    figure = comparison_figure(result)
    assert [len(axes.lines) for axes in figure.axes] == [2, 2, 2, 2]
    labels = [axes.get_xlabel() for axes in figure.axes]
    assert labels[0] == "communication rounds" and "floats" in labels[2]
    assert all(len(text) <= 80 for text in table(result).splitlines())
