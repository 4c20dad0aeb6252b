"""Comparisons: the same account for all, and no number for what is not a result."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from dualfl.algorithms import SVRP, Auto, DualFL, FedAvg, Scaffnew
from dualfl.algorithms.server import GradientDescent, ServerLBFGS
from dualfl.colours import COLOURS
from dualfl.engines import Problem, run
from dualfl.errors import InputError
from dualfl.experiments.compare import compare
from dualfl.experiments.grid_search import tuned
from dualfl.experiments.network import Network
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
    assert any(text.startswith("gd ") and "diverged" in text for text in table(result).splitlines())
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
    assert [len(curves_of(axes)) for axes in figure.axes] == [2, 2, 2, 2, 2]
    labels = [axes.get_xlabel() for axes in figure.axes]
    assert labels[0] == "exchanges" and "contacts" in labels[1] and "floats" in labels[2] and "network" in labels[3]
    assert all(len(text) <= 80 for text in table(result).splitlines())


def test_a_tolerance_ends_each_when_it_is_there() -> None:
    p, best = problem()
    result = compare(p, [ServerLBFGS(), GradientDescent()], rounds=500, reference=best, tol=1e-5, threads=1)
    for entry in result:
        errors = entry.history.column("relative_error")
        assert errors[-1] <= 1e-5 < errors[-2]
    with pytest.raises(InputError, match="needs a reference"):
        compare(p, [DualFL()], tol=1e-5)
    with pytest.raises(InputError, match=r"> 0, but it is -1\.0"):
        compare(p, [DualFL()], tol=-1.0, reference=best)


def test_how_far_below_the_tolerance_a_run_ends_is_no_merit() -> None:
    """The last step of a fast method may fall short of a power of ten which a slow one happens to pass."""
    p, best = problem()
    fast, slow = ServerLBFGS(), GradientDescent()
    tol = 0.5
    while True:  # a tolerance behind which the slow one, that needs more exchanges, ends lower
        result = compare(p, [fast, slow], rounds=500, reference=best, tol=tol, threads=1)
        ends = {entry.name: entry.final_error for entry in result}
        if ends["gd"] < ends["lbfgs"] and result["lbfgs"].reached(tol, "exchanges") < result["gd"].reached(
            tol, "exchanges"
        ):
            break
        tol *= 0.7
        assert tol > 1e-9
    assert result.ranking()[0].name == "lbfgs"
    assert result.levels == tuple(level for level in (1e-2, 1e-4, 1e-6, 1e-8) if level > tol) + (tol,)
    assert f"exchanges_to_{tol:g}" in rows(result.summary_csv())[0] and f"{tol:g}" in table(result)


def test_why_something_does_not_apply_is_not_cut_short() -> None:
    X = np.random.default_rng(0).standard_normal((10, 3))
    hinge = Problem([LinearModel(X, np.where(X[:, 0] > 0, 1.0, -1.0), Hinge(), ridge=0.1)])
    text = table(compare(hinge, [GradientDescent(), DualFL()], rounds=3))
    assert "cocoa and bundle need none." in " ".join(text.split()) and max(map(len, text.splitlines())) <= 80


def test_seeds_are_for_methods_that_draw_and_counts_are_medians() -> None:
    p, best = problem()
    result = compare(p, [Scaffnew(), DualFL(), FedAvg(C=2), FedAvg()], rounds=60, reference=best, seeds=3, threads=1)
    assert [len(entry.runs) for entry in result] == [3, 1, 3, 1]
    entry = result["scaffnew"]
    alone = [run(p, Scaffnew(), rounds=60, reference=best, seed=seed, threads=1).history for seed in range(3)]
    exchanges = sorted(history.rounds_to(1e-4, "exchanges") for history in alone)
    assert len(set(exchanges)) > 1 and entry.reached(1e-4, "exchanges") == exchanges[1]
    line = rows(result.summary_csv())[0]
    assert (line["exchanges_to_1e-04_least"], line["exchanges_to_1e-04_most"]) == (
        f"{exchanges[0]:g}",
        f"{exchanges[2]:g}",
    )
    least, middle, most = sorted(entry.each(1e-2, "exchanges"))
    assert f"{middle:g} ({least:g}-{most:g})" in table(result) and "To 1e-02;" in table(result)
    assert line["seeds"] == "3" and {r["seed"] for r in rows(result.seeds_csv())} == {"0", "1", "2"}
    assert any(axes.collections for axes in comparison_figure(result).axes)  # bands


def test_a_level_that_most_seeds_miss_is_not_reached() -> None:
    p, best = problem()
    entry = compare(p, [Scaffnew()], rounds=12, reference=best, seeds=4, threads=1)["scaffnew"]
    last = sorted(run.history.column("relative_error").min() for run in entry.runs)
    assert entry.reached(last[0], "rounds") is None and entry.reached(last[2], "rounds") is not None
    assert min(entry.each(last[0], "rounds")) < np.inf


def test_three_measures_are_what_the_engine_counts() -> None:
    """SVRP asks one client in most rounds, and all of them to begin with: few contacts, as many exchanges."""
    p, best = problem()
    both = compare(p, [SVRP(p=1e-9), GradientDescent()], rounds=10, reference=best, threads=1)
    last, all_of_them = both["svrp"].history[-1], both["gd"].history[-1]
    assert (last.exchanges, last.contacts) == (11, 3 + 10) and (all_of_them.exchanges, all_of_them.contacts) == (10, 30)
    assert last.payload == (4 + 4 + 3) + 10 * (4 + 4)  # up and down over the line of whoever is asked
    seconds = Network(latency=0.1, bandwidth=64e-6).seconds(np.array(11.0), np.array(last.payload))
    assert seconds == pytest.approx(1.1 + last.payload)


def curves_of(axes: Any) -> list[Any]:
    return [line for line in axes.lines if line.get_transform().contains_branch(axes.transData)]


def test_with_forty_methods_the_best_are_in_colour_and_named() -> None:
    p, best = problem()
    many = [GradientDescent(step=0.002 * k) for k in range(1, 41)]
    result = compare(p, many, rounds=8, reference=best, threads=1)
    main = comparison_figure(result).axes[0]
    coloured = [line for line in curves_of(main) if line.get_color() in COLOURS]
    assert len(curves_of(main)) == 40 and len(coloured) == len(COLOURS)
    samples = [line for line in main.lines if line not in curves_of(main)]  # each beside its name
    looks = {(line.get_color(), line.get_linestyle()) for line in coloured}
    assert {(line.get_color(), line.get_linestyle()) for line in samples} == looks and len(samples) == len(COLOURS)
    assert [line.get_ydata()[0] for line in samples] == [text.get_position()[1] for text in main.texts]
    named = [text.get_text() for text in main.texts]
    assert named == [entry.name for entry in result.ranking()[: len(COLOURS)]]
    heights = sorted(text.get_position()[1] for text in main.texts)
    assert np.diff(heights).min() > 0.04


def test_what_auto_picked_is_said() -> None:
    p, best = problem()
    result = compare(p, [Auto()], rounds=3, reference=best, threads=1)
    assert result["auto"].choice and result["auto"].choice.split()[0] in table(result)


def test_a_search_finds_a_better_step_and_leaves_alone_what_is_given() -> None:
    p, best = problem()
    slow = GradientDescent(step=1e-4)
    found = tuned(p, [GradientDescent(), slow], minutes=1, rounds=20, reference=best, threads=1)
    assert found[0].tried == found[0].cells == 1 + len(GradientDescent.grid["step"])
    assert found[1].algorithm == slow and found[1].tried == 1
    areas = []
    for step in (None, *GradientDescent.grid["step"]):
        result = compare(p, [GradientDescent(step=step)], rounds=20, reference=best, threads=1)["gd"]  # type: ignore
        errors = result.history.column("relative_error")
        areas.append(np.log10(np.maximum(errors, 1e-13)).mean() if result.status == "ok" else np.inf)
    chosen = [{}, *({"step": step} for step in GradientDescent.grid["step"])][int(np.argmin(areas))]
    assert found[0].found == chosen


def test_a_search_without_time_keeps_theory() -> None:
    p, best = problem()
    (found,) = tuned(p, [GradientDescent()], minutes=1e-9, rounds=20, reference=best, threads=1)
    assert found.tried == 1 and found.algorithm == GradientDescent() and "theory" in found.line
    with pytest.raises(InputError, match="minutes"):
        tuned(p, [GradientDescent()], minutes=0, reference=best)


def test_an_empty_grid_is_one_sentence() -> None:
    @dataclass(frozen=True)
    class Empty(GradientDescent):
        """Gradient descent whose grid somebody forgot to fill."""

        grid: ClassVar = {"step": []}

    p, best = problem()
    with pytest.raises(InputError, match="the grid of step is empty"):
        tuned(p, [Empty()], minutes=1, reference=best)
