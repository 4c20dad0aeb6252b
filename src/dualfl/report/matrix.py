"""The matrix as a heat map: one line an algorithm, one column a problem, exchanges to 1e-6 as shades.

There are more algorithms than problems, so that it is high and narrow, as a page is.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from dualfl.errors import InputError
from dualfl.experiments.matrix import MOST
from dualfl.experiments.matrix_scores import TIME, Ending, MatrixTable
from dualfl.report.matrix_answers import best_first

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNREACHED, CUT, ABSENT = 1.0, 0.35, "white"  # shades of grey, of 4
KEY = (
    f"best method first; boxed: the best of its problem; grey: the error after {MOST} exchanges; "
    "light grey: the error when its time was up; white: does not apply"
)
TITLES = {
    "exchanges": "exchanges to a relative error of {level:.0e}",
    "seconds": "seconds to a relative error of {level:.0e} on the network",
}


def heat_map(
    found: MatrixTable, count: str = "exchanges", level: float = 1e-6, network: str = "", about: str = ""
) -> Figure:
    """Dark is few. A box marks the best of a problem; grey did not get there, light grey had no more time, and both say
    how far they came; white does not apply."""
    if not found.used:
        raise InputError("There is nothing to draw: no algorithm applies to these rows.")
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    names = best_first(found)
    values = np.array([[getattr(found.scores[row][name][level], count) for row in found.rows] for name in names])
    applies = np.array([[found.applies(row, name) for row in found.rows] for name in names])
    reached = np.isfinite(values)
    low = max(float(values[reached].min()), 1e-3) if reached.any() else 1.0
    high = max(float(values[reached].max()), 1.01 * low) if reached.any() else 2.0
    width, height = max(6.0, 3.4 + 0.38 * len(found.rows)), 3.6 + 0.19 * len(names)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_facecolor(ABSENT)
    cut = np.array([[found.endings[row][name].what == TIME for row in found.rows] for name in names])
    grey = np.ma.masked_where(~applies | reached, np.where(cut, CUT, UNREACHED))
    axes.imshow(grey, cmap="Greys", vmin=0, vmax=4, aspect="auto")
    shades = np.ma.masked_where(~reached, np.maximum(np.nan_to_num(values), low))
    image = axes.imshow(shades, cmap="viridis", norm=LogNorm(low, high), aspect="auto")
    for j, row in enumerate(found.rows):
        best = found.best(row, level, count)
        for i, name in enumerate(names):
            if reached[i, j]:
                _write(axes, i, j, values[i, j], bool(values[i, j] == best), (low, high), count)
            elif applies[i, j]:
                axes.text(j, i, _how_far(found.endings[row][name]), ha="center", va="center", fontsize=6, color="0.35")
    titles = [row.title for row in found.rows]
    axes.set_xticks(range(len(titles)), titles, rotation=60, ha="left", rotation_mode="anchor", fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.tick_params(which="both", length=0, labeltop=True, labelbottom=False)
    axes.set_xticks(np.arange(-0.5, len(titles)), minor=True)
    axes.set_yticks(np.arange(-0.5, len(names)), minor=True)
    axes.grid(which="minor", color="white", linewidth=1.2)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, fraction=0.025, pad=0.01)
    bar.ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    bar.ax.yaxis.set_major_formatter("{x:g}")
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.tick_params(labelsize=8)
    title = ", ".join(filter(None, (TITLES[count].format(level=level), network, about)))
    figure.suptitle(
        fill(f"{title[0].upper()}{title[1:]}", width) + "\n" + fill(KEY, width), fontsize=9, x=0.01, ha="left"
    )
    return figure


def fill(text: str, width: float) -> str:
    """Lines that fit into so many inches."""
    return textwrap.fill(text, int(13.5 * width))


def _how_far(end: Ending) -> str:
    """The error at which a cell ended, short.

    >>> [_how_far(Ending(TIME, error)) for error in (0.00131, 0.24, 12.0, 1e9)]
    ['1e-3', '0.2', '1e+1', '> 1e3']
    >>> _how_far(Ending("diverged at round 3"))
    'div.'
    """
    if end.what.startswith("diverged"):
        return "div."
    if not np.isfinite(end.error):
        return ""  # no round in its time
    if end.error >= 1e3:
        return "> 1e3"
    if 0.095 <= end.error < 0.95:
        return f"{end.error:.1g}"
    return f"{end.error:.0e}".replace("e-0", "e-").replace("e+0", "e+")  # a plain 157 would pass for exchanges


def _write(axes: Axes, i: int, j: int, value: float, best: bool, span: tuple[float, float], count: str) -> None:
    from matplotlib.patches import Rectangle

    light = np.log(max(value, span[0]) / span[0]) > 0.6 * np.log(span[1] / span[0])
    shown = f"{value:.0f}" if count == "exchanges" or value >= 9.5 else f"{value:.1g}"
    axes.text(j, i, shown, ha="center", va="center", fontsize=6.5, color="black" if light else "white")
    if best:
        box = Rectangle((j - 0.44, i - 0.44), 0.88, 0.88, fill=False, edgecolor="#D55E00", linewidth=2.2, zorder=4)
        axes.add_patch(box)
