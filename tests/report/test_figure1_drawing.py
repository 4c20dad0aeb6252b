"""Figure 1 on made-up curves: every layout, every kind of line."""

import numpy as np
import pytest

from dualfl.errors import InputError
from dualfl.experiments.figure1 import BENCHMARKS, CHECK, CHECKED, PANELS, PRIMAL, Line, Panel, Plan, letter
from dualfl.report.figure1 import figure1

ERRORS = 0.5 ** np.arange(11.0)


def panel(dataset, name):
    labels = {"clients": ["N = 2", "N = 1024"], "rho": ["rho = 0", "rho = 0.1"]}.get(name, BENCHMARKS)
    lines = tuple(Line(label, ERRORS, 0.9 * ERRORS, 1.1 * ERRORS) for label in labels)
    faint = tuple(Line(label, ERRORS, ERRORS, ERRORS) for label in PRIMAL) if name == "benchmarks" else ()
    return Panel(dataset, name, letter(dataset, name), "title", lines, faint)


@pytest.mark.parametrize(("datasets", "shape"), [(["mnist"], (2, 2)), (["mnist", "cifar10"], (2, 4))])
def test_layout(datasets, shape):
    figure = figure1([panel(dataset, name) for dataset in datasets for name in PANELS])
    grid = figure.axes[0].get_gridspec()
    assert (grid.nrows, grid.ncols) == shape
    titles = [axes.get_title(loc="left")[:4] for axes in figure.axes if axes.get_visible()]
    assert titles[0] == "(a) " and len(titles) == 4 * len(datasets)


def test_every_line_is_in_the_legend():
    (axes,) = figure1([panel("mnist", "benchmarks")]).axes
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(words) == len(BENCHMARKS) + len(PRIMAL) and words[0] == "DualFL"


def test_cifar_has_the_papers_solver_as_a_check():
    cells = Plan("cifar10").lines("benchmarks")
    assert cells[CHECK][0].solver == "paper" and cells["dualfl"][0].solver == "exact"
    assert cells[CHECK][0].rounds == CHECKED
    assert CHECK not in Plan("mnist").lines("benchmarks")
    assert CHECK not in Plan("cifar10", check=False).lines("benchmarks")


def test_nothing_to_draw_is_an_error():
    nothing = Line("dualfl", np.zeros(0), np.zeros(0), np.zeros(0), "diverged")
    with pytest.raises(InputError):
        figure1([Panel("mnist", "paper", "a'", "title", (nothing,))])
