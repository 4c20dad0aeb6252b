"""What a comparison looks like: a table for the terminal, four panels for paper, two CSV files behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dualfl.colours import COLOURS
from dualfl.data.label_mix import Mix
from dualfl.errors import InputError
from dualfl.experiments.compare import LEVELS, Comparison, Entry
from dualfl.report.figure import CEILING, FLOOR, LINES, MARKERS, png
from dualfl.report.folder import environment, plain
from dualfl.report.results import PARTITION, REPORT, partition_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {
    "round": "communication rounds",
    "exchanges": "exchanges",
    "floats": "floats up and down, all clients",
    "local_gradients": "local gradients, all clients",
}
SUMMARY, HISTORY, PICTURE, RECORD = "summary.csv", "history.csv", "convergence.png", "comparison.json"
FILES = (SUMMARY, HISTORY, PICTURE, PARTITION, RECORD, REPORT)


def comparison_figure(comparison: Comparison, title: str = "") -> Figure:
    """Relative error against rounds, exchanges, floats and local gradients; one legend for all four."""
    drawn = [entry for entry in comparison if entry.status == "ok" and np.isfinite(entry.final_error)]
    if not drawn:
        raise InputError("There is nothing to draw: no algorithm came to a result.")
    from matplotlib.figure import Figure

    columns = 4 if len(drawn) > 8 else max(1, len(drawn))
    legend_rows = -(-len(drawn) // columns)
    figure = Figure(figsize=(9.0, 6.6 + 0.19 * legend_rows), layout="constrained")
    panels = figure.subplots(2, 2, sharey=True)
    for axes, (count, label) in zip(panels.flat, PANELS.items()):
        for number, entry in enumerate(drawn):
            x, error = curve(entry, count)
            axes.plot(
                x,
                np.clip(error, FLOOR, CEILING),
                label=entry.name,
                color=COLOURS[number % len(COLOURS)],
                linestyle=LINES[(number // len(COLOURS)) % len(LINES)],
                marker=MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
                markersize=3.5,
                markevery=max(1, len(x) // 8),
                linewidth=1.2,
            )
        axes.set_yscale("log")
        if count != "round":
            axes.set_xscale("symlog", linthresh=1.0)
            axes.set_xlim(left=max(1.0, min(first_positive(entry, count) for entry in drawn) / 2))
        axes.set_xlabel(label)
        axes.grid(True, which="major", color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[:, 0]:
        axes.set_ylabel("relative energy error")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=10.5, x=0.01, ha="left")
    return figure


def curve(entry: Entry, count: str) -> tuple[np.ndarray, np.ndarray]:
    history = entry.history
    if count == "floats":
        return history.column("floats_up") + history.column("floats_down"), history.column("relative_error")
    return history.column(count), history.column("relative_error")


def first_positive(entry: Entry, count: str) -> float:
    x = curve(entry, count)[0]
    return float(x[x > 0].min(initial=np.inf))


def table(comparison: Comparison) -> str:
    """Exchanges to each level and the final error, best first, 80 columns wide."""
    lines = [f"{'':<20}{'exchanges to relative error':^32}{'final':>10}{'local':>10}{'':>8}"]
    head = (
        f"{'algorithm':<20}" + "".join(f"{level:>8.0e}" for level in LEVELS) + f"{'error':>10}{'gradients':>10}{'s':>8}"
    )
    lines.append(head)
    lines += [line(entry) for entry in comparison.ranking()]
    return "\n".join(lines)


def line(entry: Entry) -> str:
    if entry.status != "ok":
        text = f"{entry.name:<20}{entry.status}"
        return text if len(text) <= 80 else text[:79] + "…"
    reached = [entry.reached(level, "exchanges") for level in LEVELS]
    counts = "".join(f"{'-' if r is None else int(r):>8}" for r in reached)
    last = entry.history[-1]
    return f"{entry.name:<20}{counts}{entry.final_error:>10.1e}{last.local_gradients:>10.3g}{last.seconds:>8.1f}"


def write(comparison: Comparison, folder: Path, title: str = "") -> list[str]:
    """The files of a comparison, into a folder that `dualfl.outputs.adding` makes."""
    (folder / SUMMARY).write_bytes(comparison.summary_csv().encode())
    (folder / HISTORY).write_bytes(comparison.history_csv().encode())
    written = [SUMMARY, HISTORY]
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
