"""The picture of the experiment with a neural network: three measures against rounds, one row a number of clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dualfl.colours import COLOURS, Style, styles
from dualfl.errors import InputError
from dualfl.report.comparison import GAP, GREY, spread, write_name
from dualfl.report.figure import LINES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = {"energy": "energy", "gradient": "length of the gradient", "accuracy": "accuracy on other rows"}


def network_figure(lines: Sequence[dict[str, Any]]) -> Figure:
    """Medians over the seeds, bands from the lowest to the highest; the best few by their last energy in colour."""
    good = [line for line in lines if line["status"] == "ok"]
    if not good:
        raise InputError("There is nothing to draw: no algorithm came to a result.")
    from matplotlib.figure import Figure

    counts = sorted({line["clients"] for line in good})
    figure = Figure(figsize=(11.0, 3.4 * len(counts)), layout="constrained")
    panels = np.atleast_2d(figure.subplots(len(counts), len(PANELS)))
    for row, clients in zip(panels, counts):
        own = {name: curves(good, clients, name) for name in dict.fromkeys(line["algorithm"] for line in good)}
        own = {name: found for name, found in own.items() if found}
        ranked = sorted(own, key=lambda name: float(np.median(own[name]["energy"][:, -1])))
        looks = dict(zip(ranked, styles(ranked[: len(COLOURS)])))
        for axes, (measure, label) in zip(row, PANELS.items()):
            for name in reversed(ranked):
                draw(axes, own[name][measure], looks.get(name))
            axes.set_xlabel("communication rounds", fontsize=9)
            axes.set_ylabel(label, fontsize=9)
            axes.tick_params(labelsize=8)
            axes.grid(True, which="major", color="0.93", linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
            if measure == "gradient":
                axes.set_yscale("log")
        row[0].set_title(f"{clients} clients", fontsize=10, loc="left")
        ends = [float(np.median(own[name]["accuracy"][:, -1])) for name in ranked[: len(COLOURS)]]
        low, high = row[-1].get_ylim()
        heights = spread([(end - low) / (high - low) for end in ends], 1.8 * GAP)
        for name, height in zip(looks, heights):
            write_name(row[-1], height, name, looks[name], end=1.11)
    rounds, seeds = max(line["round"] for line in good), len({line["seed"] for line in good})
    title = f"A network with one hidden layer, {rounds} rounds; medians and bands of {seeds} seeds"
    figure.suptitle(title, fontsize=10.5, x=0.01, ha="left")
    return figure


def curves(lines: Sequence[dict[str, Any]], clients: int, name: str) -> dict[str, np.ndarray]:
    """For each measure one row a seed and one column a round; rounds that some seed lacks are left out."""
    seeds: dict[int, list[dict[str, Any]]] = {}
    for line in lines:
        if line["clients"] == clients and line["algorithm"] == name:
            seeds.setdefault(line["seed"], []).append(line)
    if not seeds:
        return {}
    rounds = min(map(len, seeds.values()))
    return {m: np.array([[line[m] for line in own[:rounds]] for own in seeds.values()], dtype=float) for m in PANELS}


def draw(axes: Axes, values: np.ndarray, look: Style | None) -> None:
    x = np.arange(values.shape[1])
    colour = GREY if look is None else look.colour
    line = "-" if look is None else LINES[look.line]
    axes.plot(x, np.median(values, axis=0), color=colour, linestyle=line, linewidth=0.8 if look is None else 1.4)
    if look is not None and len(values) > 1:
        axes.fill_between(x, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, linewidth=0)
