"""Survival curves for people: lines on a screen, a CSV, a picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dualfl.analysis.survival_curves import Curves, enough
from dualfl.lines import entry, p_value, table

HEAD = ("arm", "time", "at_risk", "events", "survival", "std_error", "low", "high")


def curve_text(found: Curves, lines: int) -> str:
    """All that is said on the screen."""
    wishes, names = found.wishes, found.silos
    roles, places = wishes.request.roles, "1 silo" if len(names) == 1 else f"{len(names)} silos"
    text = [
        entry("data", f"{places}, {found.rows:,} rows; time {roles['time']}, event {wishes.request.target}"),
        entry(
            "curves",
            f"approximate: from sums on a grid of {wishes.intervals} times, {portions(wishes.small)}"
            f"bands at {100 * wishes.level:.12g}%",
        ),
    ]
    if found.begin:
        text.append(
            entry(
                "begin",
                f"{found.begin:.6g}: rows enter late, and before that fewer than {enough(wishes.small)} are at risk, "
                "or soon many more; curves are of those who live then",
            )
        )
    if found.with_gaps:
        columns = ", ".join([*roles.values(), wishes.request.target])
        text.append(entry("left out", f"{found.with_gaps:,} rows without an entry in one of {columns}"))
    if found.without_arm:
        text.append(entry("left out", f"{found.without_arm:,} rows without an entry in {wishes.by}"))
    for name, test in (("stratified by silo, exact", found.stratified), ("pooled, approximate", found.pooled)):
        if test is not None:
            p = p_value(test.p)
            text.append(entry("log-rank", f"{name}: chi-square {test.statistic:.5g} on {test.df} df, p {p}"))
    for arm, curve in zip(found.arms, found.curves):
        median = curve.median()
        said = f"{median:.6g}" if np.isfinite(median) else f"not before {curve.times[-1]:.6g}, where the curve ends"
        text.append(entry("median", f"{arm}: {said}" if arm else said))
    numbers = sum(one.numbers for one in found.spent)
    text.append(entry("exchanges", f"{sum(one.exchanges for one in found.spent)}; {numbers:,} numbers, no row"))
    rows = [row for k in range(len(found.arms)) for row in some_rows(found, k, lines)]
    shown = 1 if found.wishes.by is not None else 0
    head = ["arm", "time", "at risk", "events", "survival", "low", "high"][1 - shown :]
    return "\n".join([*text, "", *table(head, [row[1 - shown :] for row in rows], texts=shown or 1)])


def portions(small: int) -> str:
    if small <= 1:
        return ""
    return f"events in portions of {small} or more that are spread evenly, up to where {4 * small} are at risk; "


def some_rows(found: Curves, k: int, lines: int) -> Iterator[list[str]]:
    """Of one arm, evenly over time; events are those since the line before."""
    curve = found.curves[k]
    wanted = np.linspace(found.begin, curve.times[-1], lines + 1)[1:]
    places = np.unique(np.minimum(np.searchsorted(curve.times, wanted - 1e-12), len(curve.times) - 1))
    before = 0
    for i in places:
        events = curve.events[before : i + 1].sum()
        numbers = [f"{value:.4f}" for value in (curve.survival[i], curve.lower[i], curve.upper[i])]
        yield [found.arms[k], f"{curve.times[i]:.6g}", f"{curve.at_risk[i]:,.0f}", f"{events:,.0f}", *numbers]
        before = i + 1


def as_rows(found: Curves) -> tuple[tuple[str, ...], Iterator[list[Any]]]:
    """The head of a CSV, and its lines."""

    def lines() -> Iterator[list[Any]]:
        for arm, curve in zip(found.arms, found.curves):
            columns = (curve.times, curve.at_risk, curve.events, curve.survival, curve.error, curve.lower, curve.upper)
            for row in zip(*columns):
                yield [arm, *map(float, row)]

    return HEAD, lines()


def drawn(found: Curves) -> bytes:
    """A PNG: steps with their bands."""
    from matplotlib.figure import Figure

    from dualfl.report.figure import png

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for arm, curve in zip(found.arms, found.curves):
        times, survival = np.append(found.begin, curve.times), np.append(1.0, curve.survival)
        (line,) = axes.step(times, survival, where="post", label=arm or None)
        low, high = np.append(1.0, curve.lower), np.append(1.0, curve.upper)
        axes.fill_between(times, low, high, step="post", alpha=0.15, color=line.get_color(), linewidth=0)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.set_xlabel(found.wishes.request.roles["time"])
    axes.set_ylabel("survival")
    if found.wishes.by is not None:
        axes.legend(title=found.wishes.by, frameon=False)
    axes.set_title("Kaplan-Meier, from sums on a grid (approximate)", fontsize=10)
    return png(figure)
