"""What a comparison looks like: a table for the terminal, five panels for paper, CSV files behind them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dualfl.colours import COLOURS, Style, styles
from dualfl.data.label_mix import Mix
from dualfl.errors import InputError
from dualfl.experiments.compare import Comparison, Entry, count_of, level_text
from dualfl.experiments.network import Network
from dualfl.report.figure import CEILING, FLOOR, LINES, MARKERS, png
from dualfl.report.folder import environment, plain
from dualfl.report.results import PARTITION, REPORT, partition_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAIN = ("exchanges", "exchanges")
PANELS = {
    "contacts": "contacts with single clients",
    "floats": "floats up and down, all clients",
    "network": f"seconds on a network\n({Network()})",
    "gradients": "local gradients, all clients",
}
SUMMARY, HISTORY, PICTURE, RECORD = "summary.csv", "history.csv", "convergence.png", "comparison.json"
SEEDS = "seeds.csv"  # only where an algorithm ran more than once
FILES = (SUMMARY, HISTORY, SEEDS, PICTURE, PARTITION, RECORD, REPORT)
GREY, WIDTH = "0.78", 80
SHOWN = len(COLOURS)  # curves in colour: more cannot be followed
GAP = 0.042  # of the panel's height, between two names


def comparison_figure(comparison: Comparison, title: str = "") -> Figure:
    """Relative error against exchanges, with names, and small against contacts, floats, network and local gradients.

    As many as there are colours are drawn in colour, the best ones; all others in grey. A band reaches from the best to
    the worst seed.
    """
    drawn = [entry for entry in comparison.ranking() if entry.status == "ok" and np.isfinite(entry.final_error)]
    if not drawn:
        raise InputError("There is nothing to draw: no algorithm came to a result.")
    from matplotlib.figure import Figure

    looks: list[Style | None] = [*styles([entry.name for entry in drawn[:SHOWN]])]
    looks += [None] * (len(drawn) - SHOWN)
    figure = Figure(figsize=(11.0, 5.6), layout="constrained")
    grid = figure.add_gridspec(2, 4, width_ratios=[1.0, 1.0, 1.1, 1.1])
    main = figure.add_subplot(grid[:, :2])
    small = [figure.add_subplot(grid[i, 2 + j], sharey=main) for i in range(2) for j in range(2)]
    for axes, (count, label) in zip([main, *small], [MAIN, *PANELS.items()]):
        for entry, look in reversed(list(zip(drawn, looks))):  # the best on top
            draw(axes, entry, count, look, large=axes is main)
        axes.set_yscale("log")
        least = min(first_positive(entry, count) for entry in drawn)
        axes.set_xscale("symlog", linthresh=least if np.isfinite(least) else 1.0)
        axes.set_xlim(left=least / 2 if np.isfinite(least) else 0.0)
        axes.set_xlabel(label, fontsize=9)
        axes.tick_params(labelsize=8, labelleft=axes in (main, small[0], small[2]))
        axes.grid(True, which="major", color="0.93", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    main.set_ylabel("relative energy error")
    write_names(main, drawn, looks)
    others = len(drawn) - SHOWN
    more = f"; the best {SHOWN} of {len(drawn)} in colour, the others grey" if others > 0 else ""
    seeds = max(len(entry.runs) for entry in drawn)
    bands = f"; medians and bands of {seeds} seeds" if seeds > 1 else ""
    figure.suptitle(f"{title}{more}{bands}", fontsize=10.5, x=0.01, ha="left")
    return figure


def draw(axes: Axes, entry: Entry, count: str, look: Style | None, *, large: bool) -> None:
    """One algorithm in one panel: the median of its seeds, and a band if there are several; grey without a style."""
    x, errors = curves(entry, count)
    colour = GREY if look is None else look.colour
    y = np.clip(np.median(errors, axis=0), FLOOR, CEILING)
    axes.plot(
        x,
        y,
        color=colour,
        linestyle="-" if look is None else LINES[look.line],
        marker=None if look is None else MARKERS[look.marker],
        markersize=3.5 if large else 2.5,
        markevery=max(1, len(x) // 8),
        linewidth=0.8 if look is None else 1.5,
        zorder=1 if look is None else 3,
    )
    if len(errors) > 1 and look is not None:
        low, high = (np.clip(end(axis=0), FLOOR, CEILING) for end in (errors.min, errors.max))
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)


def write_names(axes: Axes, drawn: Sequence[Entry], looks: Sequence[Style | None]) -> None:
    """The names of the coloured ones at the right edge, as high as their curves end, one above the other where these
    meet."""
    low, high = np.log10(axes.get_ylim())
    ends = [np.clip(np.median(curves(entry, MAIN[0])[1], axis=0)[-1], FLOOR, CEILING) for entry in drawn]
    heights = spread([(np.log10(end) - low) / (high - low) for end in ends[:SHOWN]], GAP)
    for entry, height, look in zip(drawn, heights, looks):
        write_name(axes, height, entry.name, look)


def write_name(axes: Axes, height: float, name: str, look: Style | None, width: float = 1.6, end: float = 1.06) -> None:
    """A name at the right edge, `height` between 0 and 1, behind a sample of its line: there are more methods than
    colours."""
    colour = GREY if look is None else look.colour
    line = "-" if look is None else LINES[look.line]
    place: dict[str, Any] = {"transform": axes.transAxes, "color": colour, "clip_on": False}
    axes.plot([1.015, end], [height, height], linestyle=line, linewidth=width, **place)
    axes.text(end + 0.01, height, name, fontsize=8, va="center", fontweight="bold", **place)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """The same order, none nearer to another than `gap`, all within 0 and 1 as far as they fit.

    >>> [round(h, 2) for h in spread([0.5, 0.5, 0.0], 0.1)]
    [0.5, 0.6, 0.0]
    """
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    placed = [0.0] * len(heights)
    floor = 0.0
    for i in order:
        placed[i] = floor = max(heights[i], floor)
        floor += gap
    ceiling = 1.0
    for i in reversed(order):
        placed[i] = ceiling = min(placed[i], ceiling)
        ceiling -= gap
    return placed


def curves(entry: Entry, count: str) -> tuple[np.ndarray, np.ndarray]:
    """The median count of each round, and the errors of every seed; a seed that has ended keeps its last ones."""
    most = max(len(run.history) for run in entry.runs)

    def filled(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, np.full(most - len(values), values[-1])])

    x = np.stack([filled(count_of(run.history, count)) for run in entry.runs])
    return np.median(x, axis=0), np.stack([filled(run.history.column("relative_error")) for run in entry.runs])


def first_positive(entry: Entry, count: str) -> float:
    x = curves(entry, count)[0]
    return float(x[x > 0].min(initial=np.inf))


# -- the terminal -----------------------------------------------------------------------------------------


def table(comparison: Comparison) -> str:
    """Exchanges to each level and the final error, best first; then all measures at the last level anybody reached."""
    width = 8 * len(comparison.levels)
    lines = [f"{'':<20}{'exchanges to' if width < 32 else 'exchanges to relative error':^{width}}"]
    lines[0] += f"{'final':>10}{'local':>10}"
    head = "".join(f"{level_text(level):>8}" for level in comparison.levels)
    lines.append(f"{'algorithm':<20}{head}{'error':>10}{'gradients':>10}{'s':>8}")
    ranked = comparison.ranking()
    lines += [line(entry) for entry in ranked]
    told = [each.choice or f"{each.name}: {each.status}" for each in ranked if each.choice or cut(each)]
    lines += [textwrap.fill(text, WIDTH, subsequent_indent="  ") for text in told]
    return "\n".join([*lines, *measures(ranked, comparison.levels)])


def measures(ranked: Sequence[Entry], levels: Sequence[float]) -> list[str]:
    """All measures at the smallest level that three algorithms reached, or, if there is none, anybody."""
    reached = {
        level: [each for each in ranked if each.status == "ok" and each.reached(level, "rounds")] for level in levels
    }
    enough = min(3, max(map(len, reached.values())))
    if not enough:
        return []
    level = min(level for level in levels if len(reached[level]) >= enough)
    there = reached[level]
    told = (
        f"To {level_text(level)}; s net: seconds on a network with {Network()}, computing left out; of several seeds "
        "the median, and of the exchanges the extremes."
    )
    lines = [
        "",
        *textwrap.wrap(told, WIDTH),
        f"{'algorithm':<20}{'rounds':>7}{'exchanges':>14}{'contacts':>9}{'floats':>9}{'s net':>9}{'gradients':>10}",
    ]
    for entry in there:
        rounds, exchanges, contacts, floats, net, gradients = (
            entry.reached(level, count)
            for count in ("rounds", "exchanges", "contacts", "floats", "network", "gradients")
        )
        span = entry.each(level, "exchanges")
        shown = f"{exchanges:g}"
        if len(span) > 1:
            most = f"{max(span):g}" if np.isfinite(max(span)) else "never"
            shown += f" ({min(span):g}-{most})"
        lines.append(
            f"{entry.name:<20}{rounds:>7g}{shown:>14}{contacts:>9.6g}{floats:>9.3g}{net:>9.3g}{gradients:>10.3g}"
        )
    return lines


def cut(entry: Entry) -> bool:
    """Whether the line of an algorithm has no room for its whole status."""
    return entry.status != "ok" and 20 + len(entry.status) > WIDTH


def line(entry: Entry) -> str:
    if entry.status != "ok":
        return f"{entry.name:<20}{entry.status.partition(':')[0] if cut(entry) else entry.status}"
    reached = [entry.reached(level, "exchanges") for level in entry.levels]
    counts = "".join(f"{'-' if r is None else int(r):>8}" for r in reached)
    last = entry.history[-1]
    return f"{entry.name:<20}{counts}{entry.final_error:>10.1e}{last.local_gradients:>10.3g}{last.seconds:>8.1f}"


def write(comparison: Comparison, folder: Path, title: str = "") -> list[str]:
    """The files of a comparison, into a folder that `dualfl.outputs.adding` makes."""
    (folder / SUMMARY).write_bytes(comparison.summary_csv().encode())
    (folder / HISTORY).write_bytes(comparison.history_csv().encode())
    written = [SUMMARY, HISTORY]
    if any(len(entry.runs) > 1 for entry in comparison):
        (folder / SEEDS).write_bytes(comparison.seeds_csv().encode())
        written.append(SEEDS)
    if any(entry.status == "ok" and np.isfinite(entry.final_error) for entry in comparison):
        (folder / PICTURE).write_bytes(png(comparison_figure(comparison, title)))
        written.append(PICTURE)
    return written


def write_record(folder: Path, command: str, settings: Mapping[str, Any], mix: Mix) -> list[str]:
    """What it takes to repeat the comparison, and who had which rows in it."""
    content = plain({"command": command, "settings": settings, "environment": environment()})
    (folder / PARTITION).write_bytes(partition_file(mix))
    (folder / RECORD).write_bytes((json.dumps(content, indent=2, allow_nan=False) + "\n").encode())
    return [PARTITION, RECORD]
