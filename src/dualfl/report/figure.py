"""Pictures of runs, readable in colour, in grey and by colour-blind readers.

matplotlib is imported only when something is drawn, and never its global state: a figure is an object.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dualfl.colours import Style, styles
from dualfl.engines.history import History
from dualfl.errors import InputError
from dualfl.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FLOOR = 1e-16  # rounding: smaller errors mean nothing
LEGEND_LINE = 0.19  # inches
CEILING = 1e100  # a run that diverged; an axis that must hold 1e308 cannot be drawn


def convergence_figure(histories: Mapping[str, History], title: str = "") -> Figure:
    """Relative error (thick, filled markers) and certificate (thin, hollow markers) against rounds.

    Parameters
    ----------
    histories : mapping
        Runs by the names that the legend shows.
    title : str, default ''
        The title of the picture.

    Returns
    -------
    matplotlib.figure.Figure
        A picture; `savefig` writes it.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.DualFL(), rounds=20, reference=dualfl.reference(problem))
    >>> figure = dualfl.convergence_figure({"DualFL": result.history}, "Iris")
    """
    if not any(len(history) for history in histories.values()):
        raise InputError("There is nothing to draw: no run has a round.")
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    drawn = [_draw(axes, style, *run) for style, run in zip(styles(list(histories)), histories.items())]
    if any(drawn):
        axes.set_yscale("log")
        _name_curves(figure, len(axes.lines))
    axes.set_xlabel("communication rounds")
    axes.set_ylabel("relative energy error")
    axes.set_title(title, fontsize=10.5, loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.02)
    axes.grid(True, which="major", color="0.88", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _name_curves(figure: Figure, count: int) -> None:
    """A legend below the picture, which grows by it: inside it would cover curves."""
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE * -(-count // 2))
    figure.legend(loc="outside lower left", ncols=2, frameon=False, fontsize=8)


def _draw(axes: Any, looks: Style, name: str, history: History) -> bool:
    """One run; whether it had anything to show."""
    style = {
        "color": looks.colour,
        "linestyle": LINES[looks.line],
        "marker": MARKERS[looks.marker],
        "markersize": 5,
    }
    rounds = history.column("round")
    error = history.column("relative_error")
    best = np.fmin.accumulate(history.column("energy"))
    proven = history.column("certificate") / np.abs(best)
    every = max(1, len(rounds) // 12)
    some, certified = bool(np.isfinite(error).any()), bool(np.isfinite(proven).any())
    if some:
        label = rf"{name}: error $(E - E^*)/|E^*|$"
        axes.plot(rounds, np.clip(error, FLOOR, CEILING), linewidth=1.8, markevery=every, label=label, **style)
    if certified:
        label = f"{name}: proven bound of it, without $E^*$" if some else f"{name}: proven bound of $(E - E^*)/|E|$"
        hollow = style | {"markerfacecolor": "white", "linewidth": 1.0, "markevery": (every // 2, every)}
        axes.plot(rounds, np.clip(proven, FLOOR, CEILING), label=label, **hollow)
    return some or certified


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file, the same bytes for the same figure."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160, metadata={"Software": None})
    return buffer.getvalue()


def save_png(figure: Figure, path: Path) -> None:
    """Write a picture as a PNG file, whole or not at all.

    Parameters
    ----------
    figure : Figure
        The picture.
    path : Path
        Where it goes.

    Examples
    --------
    >>> import dualfl
    >>> dualfl.report.save_png(dualfl.convergence_figure({}), "empty.png")  # doctest: +SKIP
    """

    write_atomically(path, png(figure))
