"""Kaplan-Meier curves and log-rank tests, as questions to silos: three exchanges, and no time of an event leaves one.

Names first; then numbers at risk on a coarse grid that is always the same, 1, 2, 5, 10, ..., which tells how far curves
go; then those on an even grid up to there, and the sums of the log-rank test. Curves are approximate: events count as
if they came at the ends of the intervals, and small cells are joined to portions, which are spread evenly over the
time since the one before. The log-rank test that is stratified by silo is exact.

Where rows enter late, a curve tells nothing of the time before enough of them are at risk: one death among few would
lower all that comes after. It then begins at that time, with those who live, as `start.time` of R's survfit does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dualfl.analysis.agreeing import told_names
from dualfl.errors import InputError
from dualfl.silos.chamber import Chamber
from dualfl.silos.here import SilosHere
from dualfl.silos.ledger import Spent
from dualfl.silos.questions import Conversation, Exchange, Query, Silos, drive
from dualfl.silos.survival_sums import GridCounts, LogRankSums, delayed, evened
from dualfl.silos.survival_tests import ChiSquare, Curve, kaplan_meier, log_rank, log_rank_on_grid
from dualfl.silos.verbs import whole
from dualfl.tables.reading import Table
from dualfl.tables.schema import Request, drafted
from dualfl.typing import Array

COARSE = np.array([m * 10.0**k for k in range(-6, 10) for m in (1, 2, 5)])
BEYOND = 0.01  # of the rows may be at risk where curves end
SMALL, INTERVALS = 5, 100
GROWTH = 0.25  # of those at risk may come within the first interval
FEWEST = 20  # at risk where a curve begins, however small the cells may be
DIGITS = 6  # of counts: silos may spread portions over time, and masks round


@dataclass(frozen=True)
class CurveWishes:
    """What is to be drawn. The request has the event as target, and the time among its roles."""

    request: Request
    by: str | None = None
    until: float | None = None
    intervals: int = INTERVALS
    small: int = SMALL
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.until is not None and not 0 < self.until < np.inf:
            raise InputError(f"--until must be a time greater than 0, but it is {self.until:g}.")
        if not 0 < self.level < 1:
            raise InputError(f"--level must be between 0 and 1, but it is {self.level:g}.")
        if not 2 <= self.intervals <= 500:
            raise InputError(f"--intervals must be from 2 to 500, but it is {self.intervals}.")


@dataclass(frozen=True, eq=False)
class Curves:
    """One curve an arm, in the order of `arms`; "" is the only arm where there are none."""

    wishes: CurveWishes
    silos: tuple[str, ...]
    arms: tuple[str, ...]
    curves: tuple[Curve, ...]
    rows: int
    without_arm: int
    with_gaps: int  # rows without a time, an event or an entry
    stratified: ChiSquare | None
    pooled: ChiSquare | None
    begin: float = 0.0  # curves are of those who live then
    spent: tuple[Spent, ...] = ()


def curves_of_tables(tables: Sequence[Table], wishes: CurveWishes) -> Curves:
    """Of silos on this machine."""
    silos = SilosHere([Chamber(table) for table in tables])
    return replace(drive(drawing(silos, wishes), silos), spent=silos.ledger.entries)


def drawing(silos: Silos, wishes: CurveWishes) -> Conversation[Curves]:
    """The whole of it, wherever the silos are."""
    summaries = yield from told_names(silos, wishes.request, None)
    draft = drafted(summaries, wishes.request, allow_empty=True)
    arms = arms_of(draft.levels, wishes)
    about = {"by": wishes.by, "arms": list(arms) if wishes.by is not None else []}
    until = wishes.until
    if until is None:
        (coarse,) = yield Exchange("how far curves go", (Query("survival_counts", {**about, "grid": COARSE}),))
        until = end_of(coarse)
    grid = until * np.arange(1, wishes.intervals + 1) / wishes.intervals
    asked = [Query("survival_counts", {**about, "grid": grid})]
    asked += [Query("log_rank", about)] if len(arms) > 1 else []
    sums, *tests = yield Exchange("curves", tuple(asked))
    counts = GridCounts(*(np.asarray(sums[name]).round(DIGITS) for name in ("at_risk", "events", "left")))
    if not counts.events.sum():
        raise InputError(f"No event comes before {until:g}, where the curves would end; give a later --until.")
    first = first_of(counts, wishes.small) if "entry" in wishes.request.roles else 0
    found = tuple(drawn(counts, grid, k, wishes, first) for k in range(len(arms)))
    return Curves(
        wishes,
        silos.names,
        arms,
        found,
        round(float(sums["rows"])),
        round(float(sums["without_arm"])),
        round(float(sums["with_gaps"])),
        stratified(tests[0]) if tests else None,
        log_rank_on_grid(counts) if tests else None,
        float(grid[first - 1]) if first else 0.0,
    )


def arms_of(levels: object, wishes: CurveWishes) -> tuple[str, ...]:
    if wishes.by is None:
        return ("",)
    known = levels.get(wishes.by) if isinstance(levels, dict) else None
    if not known:
        raise InputError(
            f"--by {wishes.by!r} must be a column of levels, and it has numbers; take --categorical {wishes.by!r}, or "
            "group it first."
        )
    return tuple(known)


def end_of(coarse: dict[str, Array]) -> float:
    """The first time of the coarse grid that nearly nobody is followed beyond."""
    gone = np.cumsum(np.asarray(coarse["events"]).sum(axis=1) + np.asarray(coarse["left"]).sum(axis=1))
    enough = gone >= (1 - BEYOND) * float(coarse["rows"])
    return float(COARSE[int(np.argmax(enough))] if enough.any() else COARSE[-1])


def stratified(sums: dict[str, Array]) -> ChiSquare:
    V = whole(np.asarray(sums["V"]))
    return log_rank(
        LogRankSums(np.asarray(sums["observed"]), np.asarray(sums["expected"]), V, np.asarray(sums["rows"]))
    )


def enough(small: int) -> int:
    """So many at risk that the curve may begin there."""
    return max(4 * small, FEWEST)


def first_of(counts: GridCounts, small: int) -> int:
    """The first interval at whose start every arm has enough at risk that ever has; 0 if none has.

    And not many more at its end, for these would be missed.
    """
    told = delayed(counts, small)
    begins = (told.at_risk >= enough(small)) & (coming(told) <= GROWTH * told.at_risk)
    return int(begins[:, begins.any(axis=0)].all(axis=1).argmax())


def coming(counts: GridCounts) -> Array:
    """Who enters within each interval, and is counted from the next one on."""
    after = counts.at_risk - counts.events - counts.left
    return np.maximum(np.append(counts.at_risk[1:], after[-1:], axis=0) - after, 0.0)


def drawn(counts: GridCounts, grid: Array, arm: int, wishes: CurveWishes, first: int = 0) -> Curve:
    """The curve of an arm from the first interval on, and how many are at risk and die, in portions, which it spreads.

    It goes on up to where so many are at risk that a portion of events would not be most of them.
    """
    told, spread = (
        GridCounts(*(part[first:, arm : arm + 1] for part in vars(one(counts, wishes.small)).values()))
        for one in (delayed, evened)
    )
    curve = kaplan_meier(spread, grid[first:], level=wishes.level)
    curve = replace(curve, at_risk=told.at_risk[:, 0], events=told.events[:, 0])
    last = int(np.flatnonzero(curve.at_risk >= max(4 * wishes.small, 1)).max(initial=0)) + 1
    return Curve(*(part[:last] for part in vars(curve).values()))
