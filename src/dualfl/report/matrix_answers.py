"""Three pictures of the matrix, one a question: how good is DualFL, when, and what should one use instead.

profile    the share of all problems that a method solves within so many exchanges (Dolan and More's profile)
problems   problem by problem the exchanges of DualFL, of `auto`, and of the best of all others
fastest    network by network, on how many problems which method is the fastest
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from dualfl.colours import COLOURS, style_of
from dualfl.experiments.matrix import FAMILY, LEVELS, MOST
from dualfl.experiments.matrix_auto import NETWORKS, Runs, regrets
from dualfl.experiments.matrix_scores import MatrixTable
from dualfl.report.comparison import GREY, spread, write_name
from dualfl.report.figure import LINES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVEL = min(LEVELS)
NAMED = ("dualfl", "auto")  # always in colour
NEVER = 1.6 * MOST  # where what is not reached is drawn
SHOWN = 3  # methods named for a network


def exchanges(found: MatrixTable, name: str) -> np.ndarray:
    """To 1e-6, row by row; infinite where it does not get there or does not apply."""
    values = np.array([found.scores[row][name][LEVEL].exchanges for row in found.rows])
    return np.where(np.isfinite(values), values, np.inf)


def best_first(found: MatrixTable) -> list[str]:
    """Methods by the area under their profile over log exchanges, the largest first."""
    area = {name: float(np.log(np.minimum(exchanges(found, name), MOST)).sum()) for name in found.used}
    return sorted(area, key=lambda name: area[name])


def profile_figure(found: MatrixTable, about: str) -> Figure:
    from matplotlib.figure import Figure

    named = [name for name in NAMED if name in found.used]
    others = [name for name in best_first(found) if name not in (*named, *FAMILY)]
    coloured = named + others[: len(COLOURS) - len(named)]
    figure = Figure(figsize=(8.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    for name in reversed([*coloured, *(name for name in found.used if name not in coloured)]):
        look = style_of(name) if name in coloured else None
        width = 0.8 if look is None else 2.6 if name in NAMED else 1.6
        x = np.sort(exchanges(found, name))
        x = x[np.isfinite(x)]
        share = np.arange(len(x) + 1) / len(found.rows)
        axes.step(
            np.append(np.append(1, x), MOST),
            np.append(share, share[-1]),
            where="post",
            color=GREY if look is None else look.colour,
            linestyle="-" if look is None else LINES[look.line],
            linewidth=width,
        )
    order = best_first(found)  # where curves end together, the better one's name is the higher one
    axes.set_xscale("log")
    axes.set_xlim(1, MOST)
    axes.set_ylim(-0.01, 1.02)
    axes.set_xlabel(f"exchanges to a relative error of {LEVEL:.0e}")
    axes.set_ylabel("share of the problems that are solved")
    _plain(axes)
    low, high = axes.get_ylim()
    ends = [float(np.isfinite(exchanges(found, name)).mean()) - 1e-6 * order.index(name) for name in coloured]
    heights = spread([(end - low) / (high - low) for end in ends], 0.05)
    for name, height in zip(coloured, heights):
        write_name(axes, height, name, style_of(name), 2.6 if name in NAMED else 1.6)
    figure.suptitle(
        f"How good is DualFL? {len(found.rows)} problems, {about};\n{len(found.used)} methods, the best in colour",
        fontsize=10.5,
        x=0.01,
        ha="left",
    )
    return figure


def problems_figure(found: MatrixTable, about: str) -> Figure:
    from matplotlib.figure import Figure

    others = [name for name in found.used if name not in (*NAMED, *FAMILY)]
    figure = Figure(figsize=(8.6, 1.6 + 0.24 * len(found.rows)), layout="constrained")
    axes = figure.add_subplot()
    y = np.arange(len(found.rows))[::-1]
    best = np.min([exchanges(found, name) for name in others], axis=0) if others else np.full(len(y), np.inf)
    ours = [(name, exchanges(found, name), style_of(name).colour) for name in NAMED if name in found.used]
    for label, values, colour in [*ours, ("the best of the others", best, COLOURS[2])]:
        there = np.isfinite(values)
        axes.plot(values[there], y[there], "o", color=colour, label=label, markersize=6)
        axes.plot(np.full((~there).sum(), NEVER), y[~there], "x", color=colour, markersize=5)
    for i, height in zip(np.flatnonzero(np.isfinite(best)), y[np.isfinite(best)]):
        winner = min(others, key=lambda name: exchanges(found, name)[i])
        axes.annotate(winner, (best[i], height), xytext=(5, 4), textcoords="offset points", fontsize=6, color="0.35")
    axes.axvline(1.15 * MOST, color="0.8", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlim(0.8, 2.2 * MOST)
    axes.set_yticks(y, [row.title for row in found.rows], fontsize=7.5)
    axes.set_xlabel(f"exchanges to a relative error of {LEVEL:.0e}; a cross: not within {MOST}")
    _plain(axes)
    figure.legend(loc="outside upper right", ncols=3, frameon=False, fontsize=8.5)
    figure.suptitle(f"When is DualFL good? {about[0].upper()}{about[1:]}", fontsize=10.5, x=0.01, ha="left")
    return figure


def fastest_figure(runs: Runs, about: str) -> Figure:
    from matplotlib.figure import Figure

    latencies = sorted({network.latency for network in NETWORKS})
    bandwidths = sorted({network.bandwidth for network in NETWORKS})
    figure = Figure(figsize=(8.6, 4.4), layout="constrained")
    axes = figure.add_subplot()
    shares = np.zeros((len(latencies), len(bandwidths)))
    for network in NETWORKS:
        i, j = latencies.index(network.latency), bandwidths.index(network.bandwidth)
        found = Counter("auto" if regret.fastest in FAMILY else regret.fastest for regret in regrets(runs, network))
        total = max(found.total(), 1)
        shares[i, j] = found["auto"] / total
        lines = [f"{name}: {count}" for name, count in found.most_common(SHOWN)]
        rest = found.total() - sum(count for _, count in found.most_common(SHOWN))
        text = "\n".join([*lines, *([f"others: {rest}"] if rest else [])])
        axes.text(j, i, text, ha="center", va="center", fontsize=8, color="white" if shares[i, j] > 0.6 else "black")
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(bandwidths)), [line_speed(bandwidth) for bandwidth in bandwidths])
    axes.set_yticks(range(len(latencies)), [f"{t:g} s" if t >= 1 else f"{1e3 * t:g} ms" for t in latencies])
    axes.set_xlabel("bandwidth of a client's line")
    axes.set_ylabel("a round trip")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    title = (
        "What should one use? The method that is fastest to 1e-6, and on how many problems\n"
        f"(auto stands for all that it chooses from; the darker, the more often); {about}"
    )
    figure.suptitle(title, fontsize=10.5, x=0.01, ha="left")
    return figure


def line_speed(bandwidth: float) -> str:
    return f"{bandwidth / 1000:g} Gbit/s" if bandwidth >= 1000 else f"{bandwidth:g} Mbit/s"


def _plain(axes: Axes) -> None:
    axes.grid(True, which="major", color="0.93", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
