"""Figure 1 as a picture: one block of panels a data set, each panel readable by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dualfl.colours import style_of
from dualfl.errors import InputError
from dualfl.experiments.figure1 import Line, Panel, title_of
from dualfl.report.figure import CEILING, FLOOR

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# DualFL in the colour that stands out, thick; what coincides is told apart by marker and dash.
STYLES: dict[str, dict[str, Any]] = {
    "dualfl": {"marker": "o", "linestyle": "-", "linewidth": 2.4, "zorder": 5},
    "fedpd": {"marker": "s", "linestyle": "-"},
    "feddr": {"marker": "^", "linestyle": (0, (4, 1.5))},
    "feddualavg": {"marker": "D", "linestyle": "-."},
    "feddyn": {"marker": "v", "linestyle": (0, (2, 1))},
    "scaffnew": {"marker": "P", "linestyle": "-"},
    "apda-inexact": {"marker": "X", "linestyle": "--"},
    "5gcs": {"marker": "*", "linestyle": "-"},
}
FAINT = {"color": "0.72", "linewidth": 1.0, "zorder": 1}
FAINT_LINES = ("-", "--", ":")
NAMES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "digits": "digits"}
RHO = r"$\rho$"
MARKS = 9  # markers on a curve


def figure1(panels: Sequence[Panel]) -> Figure:
    """All panels: two by two for one data set, a row each for several."""
    if not any(len(line.errors) for panel in panels for line in panel.lines):
        raise InputError("There is nothing to draw: no cell came to a result.")
    from matplotlib.figure import Figure

    datasets = list(dict.fromkeys(panel.dataset for panel in panels))
    widest = 3 if len(panels) == 3 else 2  # three in a row as in the paper; four would be too small to read
    columns = (
        min(len(panels), widest) if len(datasets) == 1 else max(sum(p.dataset == d for p in panels) for d in datasets)
    )
    rows = -(-len(panels) // columns) if len(datasets) == 1 else len(datasets)
    figure = Figure(figsize=(4.8 * columns, 4.1 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_visible(False)
    for place, panel in enumerate(panels):
        row, column = divmod(place, columns)
        if len(datasets) > 1:
            row = datasets.index(panel.dataset)
            column = [p for p in panels if p.dataset == panel.dataset].index(panel)
        axes = grid[row, column]
        axes.set_visible(True)
        draw(axes, panel)
        if column == 0:
            axes.set_ylabel("relative energy error")
    return figure


def draw(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    alone = panel.name in ("clients", "rho")
    shown = [line for line in panel.lines if len(line.errors)]
    for number, line in enumerate(shown):
        style = ramp(number, len(shown)) if alone else STYLES[line.label] | {"color": style_of(line.label).colour}
        draw_line(
            axes, line, number, len(shown), style, line.label.replace("rho", RHO) if alone else title_of(line.label)
        )
    for number, line in enumerate(line for line in panel.faint if len(line.errors)):
        style = FAINT | {"linestyle": FAINT_LINES[number % len(FAINT_LINES)]}
        axes.plot(np.clip(line.errors, FLOOR, CEILING), label=title_of(line.label), **style)
    for line in panel.check:
        hollow = {"marker": "o", "markersize": 8, "markerfacecolor": "none", "linestyle": "none", "zorder": 6}
        axes.plot(
            np.clip(line.errors, FLOOR, CEILING),
            label="DualFL, paper's AOGM",
            color=style_of("dualfl").colour,
            **hollow,
        )
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(numticks=9))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    cut = any(not line.whole for line in shown)
    axes.set_xlabel("communication rounds" + (" (a bar: its time was up)" if cut else ""))
    axes.set_title(
        f"({panel.letter}) {NAMES[panel.dataset]}: {panel.title.replace('rho', RHO)}", fontsize=9.5, loc="left"
    )
    axes.margins(x=0.02)
    axes.grid(True, which="major", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    # Below the axes, where no curve can be hidden.
    axes.legend(
        frameon=False,
        fontsize=7.5,
        ncols=4,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        handlelength=2.4,
        labelspacing=0.3,
        columnspacing=1.0,
    )


def draw_line(axes: Any, line: Line, number: int, total: int, style: dict[str, Any], label: str) -> None:
    every = max(1, len(line.errors) // MARKS)
    offset = number * every // max(1, total)  # markers of curves that coincide stand side by side
    curve = np.clip(line.errors, FLOOR, CEILING)
    axes.plot(curve, label=label, markersize=4.2, markevery=(offset, every), **({"linewidth": 1.3} | style))
    if not line.whole:
        axes.plot(len(curve) - 1, curve[-1], marker="|", markersize=11, markeredgewidth=1.8, color=style["color"])
    if (line.high > line.low).any():
        rounds = np.arange(len(curve))
        low, high = np.clip(line.low, FLOOR, CEILING), np.clip(line.high, FLOOR, CEILING)
        axes.fill_between(rounds, low, high, color=style["color"], alpha=0.25, linewidth=0, zorder=0)


def ramp(number: int, total: int) -> dict[str, Any]:
    """From dark to light, in one direction also for colour-blind readers and in grey."""
    from matplotlib import colormaps

    colour = colormaps["viridis"](0.88 * number / max(1, total - 1))
    return {"color": colour, "marker": "osv^DPX*<>"[number % 10]}
