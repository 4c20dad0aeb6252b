"""What silos send of survival data beyond a fit: sums from which tests, curves and concordance are exact.

    log-rank            observed - expected events of each arm and their covariance, within silos
    proportionality     the score of theta that changes with time, and its information (R's cox.zph)
    concordance         numbers of pairs within a silo, in order and not
    curves              numbers at risk and events on a grid of times that all share
    robust errors       products of score residuals, summed by row or by cluster

A sum of any of them over silos is the sum of a stratified analysis, a stratum a silo. Nothing of a single row leaves,
but for small cells, which whoever sends joins (`joined`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from dualfl.errors import InputError
from dualfl.kernels import sorted_risk_sets
from dualfl.kernels.twin_survival import Partial
from dualfl.objectives.cox import CoxPartialLikelihood, check_entries, check_events, check_strata, check_times
from dualfl.silos.chamber import in_steps
from dualfl.typing import Array

LITTLE = 1e-6  # rows: sums of portions are rounded
BLOCK = 1024  # rows that are compared with each other at once


class Sums:
    """Numbers and arrays of one name each that are added up, silo by silo."""

    def __add__(self, other: Any) -> Any:
        return type(self)(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    @classmethod
    def of(cls, parts: Any) -> Any:
        return reduce(lambda a, b: a + b, parts)


# -- log-rank -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LogRankSums(Sums):
    """By arm; V is the covariance of observed - expected."""

    observed: Array
    expected: Array
    V: Array
    rows: Array


def log_rank_sums(
    time: npt.ArrayLike, event: npt.ArrayLike, arm: Array, arms: int, *, entry: Any = None, strata: Any = None
) -> LogRankSums:
    """One silo's; `arm` has numbers from 0 on, of which there are `arms` in all silos together."""
    n = len(np.asarray(arm))
    t, e = check_times("time", time, n), check_events(event, n)
    labels = np.zeros(n, dtype=np.int64) if strata is None else check_strata(strata, n)
    sets = sorted_risk_sets(t, e, labels, None if entry is None else check_entries(entry, t), True)
    one_hot = np.eye(arms)[np.asarray(arm, dtype=np.intp)[sets.order]]
    at = Partial(sets, np.zeros(n), np.ones(n))
    at_risk, dead = at.risk.sums(one_hot), at._of_events(one_hot[sets.dead_rows])
    n_g, d_g = at_risk.sum(axis=1), dead.sum(axis=1)
    share = at_risk / n_g[:, None]
    spread = d_g * (n_g - d_g) / np.maximum(n_g - 1, 1)
    V = np.diag(spread @ share) - share.T @ (spread[:, None] * share)
    return LogRankSums(dead.sum(axis=0), d_g @ share, V, one_hot.sum(axis=0))


# -- proportional hazards -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ProportionalitySums(Sums):
    """The score of coefficients that grow with g(t), and the information of both."""

    score: Array
    information: Array  # of theta and of its growth: 2d by 2d
    events: float


def proportionality_sums(f: CoxPartialLikelihood, theta: Array, transform: str, centre: float) -> ProportionalitySums:
    """One silo's, for g(t) = t or log t, less a common centre."""
    at, sets, m = partial_at(f, theta), f.sets, f.mass
    g = transformed(sets.times, transform) - centre
    X = _dense(f)
    rows, group = sets.dead_rows, sets.dead_groups
    score = m * ((f.s[rows] * g[group]) @ X[rows] - (at.w * g[group]) @ mean_rows(at, X))
    blocks = [m * information(at, X, g**j) for j in range(3)]
    whole = np.block([[blocks[0], blocks[1]], [blocks[1], blocks[2]]])
    return ProportionalitySums(score, whole, float(sets.deaths.sum()))


def transformed(times: Array, transform: str) -> Array:
    if transform not in ("identity", "log"):
        raise InputError(f'transform must be "identity" or "log", but it is {transform!r}.')
    return times if transform == "identity" else np.log(times)


def information(at: Partial, X: Array, q: Array) -> Array:
    """sum over terms of q times the variance of x over the risk set, weighted."""
    weights = at.w * q[at.sets.dead_groups]
    expected = at._spread(weights / at.rest)
    means = mean_rows(at, X)
    return np.asarray(X.T @ (expected[:, None] * X) - means.T @ (weights[:, None] * means))


def mean_rows(at: Partial, X: Array) -> Array:
    """The mean of x over the risk set of each term, one an event."""
    group = at.sets.dead_groups
    S1, T1 = at.risk.sums(X), at._of_events(at.e[:, None] * X[at.sets.dead_rows])
    return np.asarray((S1[group] - at.sets.tied_share[:, None] * T1[group]) / at.rest[:, None])


def partial_at(f: CoxPartialLikelihood, theta: Array) -> Partial:
    return Partial(f.sets, f.cox_point(theta).predictors, f.s)


def _dense(f: CoxPartialLikelihood) -> Array:
    X: Any = f.design.X
    return np.asarray(X if isinstance(X, np.ndarray) else X.toarray() - f.centres[f.labels])


# -- robust errors ------------------------------------------------------------------------------------------


def score_residuals(f: CoxPartialLikelihood, theta: Array) -> Array:
    """One row for each row that was given, in its order: what it adds to the score of the log-likelihood, weighted.

    They stay in the silo; `meat` makes the sums of them that leave it.
    """
    at, X = partial_at(f, theta), _dense(f)
    sets, rows = f.sets, f.sets.dead_rows
    means = mean_rows(at, X)
    own = at._of_events(means)[sets.dead_groups] / sets.deaths[sets.dead_groups][:, None]
    drawn = np.stack([at._spread(at.w * mean / at.rest) for mean in means.T], axis=1)
    U = drawn - at.expected[:, None] * X
    U[rows] += f.s[rows, None] * (X[rows] - own)
    out = np.zeros((int(f.order.max(initial=-1)) + 1, f.d))
    out[f.order] = f.mass * U
    return out


def meat(scores: Array, cluster: npt.ArrayLike | None = None) -> Array:
    """sum over clusters of (sum of scores)(sum of scores)'; without clusters every row is one."""
    if cluster is not None:
        number = np.unique(np.asarray(cluster)[: len(scores)], return_inverse=True)[1]
        sums = np.zeros((int(number.max(initial=-1)) + 1, scores.shape[1]))
        np.add.at(sums, number, scores)
        scores = sums
    return np.asarray(scores.T @ scores)


# -- concordance --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairCounts(Sums):
    """Pairs of which it is known who died first: whether the higher risk was that one's."""

    concordant: float
    discordant: float
    tied_risk: float

    @property
    def index(self) -> float:
        total = self.concordant + self.discordant + self.tied_risk
        return (self.concordant + self.tied_risk / 2) / total if total else float("nan")


def pair_counts(time: Array, event: npt.NDArray[np.bool_], risk: Array) -> PairCounts:
    """Of one silo. The one who died is compared with all who lived longer, or were censored at that time."""
    order = np.lexsort((event, -time))  # from late to early; of one time, those who died come last
    t, e, r = time[order], event[order], risk[order]
    # Those who died are compared with all before them that did not die at the same time.
    first_dead = np.searchsorted(-t, -t, side="left") + _censored_of_time(t, e)
    lower = equal = compared = 0
    kept: Array = np.zeros(0)
    for start in range(0, len(t), BLOCK):
        block = slice(start, min(start + BLOCK, len(t)))
        rows = np.arange(block.start, block.stop)[e[block]]
        outside = np.minimum(first_dead[rows], start)
        whole = outside == start
        lower += int(np.searchsorted(kept, r[rows[whole]], "left").sum())
        equal += int((np.searchsorted(kept, r[rows[whole]], "right") - np.searchsorted(kept, r[rows[whole]])).sum())
        for i in rows[~whole]:  # ties that reach back over blocks
            lower += int((r[: first_dead[i]] < r[i]).sum())
            equal += int((r[: first_dead[i]] == r[i]).sum())
        inside = np.arange(block.start, block.stop)[None, :] < first_dead[rows[whole]][:, None]
        lower += int((inside & (r[block][None, :] < r[rows[whole]][:, None])).sum())
        equal += int((inside & (r[block][None, :] == r[rows[whole]][:, None])).sum())
        compared += int(first_dead[rows].sum())
        kept = np.sort(np.concatenate([kept, r[block]]))
    return PairCounts(float(lower), float(compared - lower - equal), float(equal))


def _censored_of_time(t: Array, e: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """How many of the same time were censored."""
    _, number = np.unique(-t, return_inverse=True)
    return np.bincount(number, weights=~e).astype(np.int64)[number]


# -- curves on a grid ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GridCounts(Sums):
    """By interval (from, to] of a common grid, and by arm: rows at risk at its start, events, and rows that leave."""

    at_risk: Array
    events: Array
    left: Array


def grid_counts(
    time: npt.ArrayLike,
    event: npt.ArrayLike,
    grid: Array,
    arm: Any = None,
    arms: int = 1,
    entry: Any = None,
    everybody: bool = False,
) -> GridCounts:
    """Of one silo: intervals by arms. Who enters within an interval is at risk from the next one on.

    `everybody`: also who enters and is gone within one interval, and is never seen at risk.
    """
    n = len(np.asarray(time))
    t, e = check_times("time", time, n), check_events(event, n)
    grid = np.asarray(grid, dtype=np.float64)
    if grid.ndim != 1 or not len(grid) or not (np.diff(grid) > 0).all() or not grid[0] > 0:
        raise InputError("The grid must be times > 0 that rise, the ends of the intervals.")
    which = np.zeros(n, dtype=np.intp) if arm is None else np.asarray(arm, dtype=np.intp)
    # an interval is (grid[k-1], grid[k]]; rows beyond the last are at risk throughout
    k = np.searchsorted(grid, t, side="left")
    enters = (
        np.zeros(n, dtype=np.intp)
        if entry is None
        else np.searchsorted(grid, check_entries(entry, t), "left") + (check_entries(entry, t) > 0)
    )
    shape = (len(grid) + 2, arms)
    events, left, steps = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    counted = (enters <= k) | everybody
    np.add.at(events, (k[e & counted], which[e & counted]), 1)
    np.add.at(left, (k[~e & counted], which[~e & counted]), 1)
    np.add.at(steps, (enters[counted], which[counted]), 1)
    np.add.at(steps, (k[counted] + 1, which[counted]), -1)
    inside = slice(0, len(grid))
    return GridCounts(np.cumsum(steps, axis=0)[inside], events[inside], left[inside])


def joined(counts: GridCounts, grid: Array, least: int) -> tuple[GridCounts, Array]:
    """Neighbouring intervals joined until no arm of an interval has from 1 to least - 1 events or leavers."""
    ends: list[int] = []
    cells = np.concatenate([counts.events, counts.left], axis=1)
    running = np.zeros(cells.shape[1])
    for k in range(len(grid)):
        running = running + cells[k]
        if not _small(running, least):
            ends.append(k)
            running = np.zeros(cells.shape[1])
    if (running > 0).any():  # what is left over joins the intervals before
        while ends and _small(cells[ends[-1] + 1 :].sum(axis=0), least):
            ends.pop()
        ends.append(len(grid) - 1)
    last = np.array(ends, dtype=np.intp)
    starts = np.append(0, last[:-1] + 1)
    sums = [np.add.reduceat(part, starts, axis=0) for part in (counts.events, counts.left)]
    return GridCounts(counts.at_risk[starts], *sums), np.asarray(grid[last])


def delayed(counts: GridCounts, least: int) -> GridCounts:
    """Of one silo: events, leavers and who enters told only once there are enough of them, so no cell but the last is
    small.

    Nobody is lost, and nobody but the last few is told of early; who is told of late counts as at risk until then.
    Portions do not depend on the grid (`in_steps`), so that two grids tell no more than one.
    """
    if least <= 1:
        return counts
    moved = [_in_portions(part, least) for part in (counts.events, counts.left)]
    entered = counts.at_risk + _before(np.cumsum(counts.events + counts.left, axis=0))
    enters = np.diff(entered, axis=0, prepend=0.0)
    if np.abs(enters[1:]).max(initial=0.0) > LITTLE:  # otherwise all have been there from the beginning
        entered = np.cumsum(_in_portions(enters, least), axis=0)
    gone: Array = moved[0] + moved[1]
    return GridCounts(np.maximum(entered - _before(np.cumsum(gone, axis=0)), gone), *moved)


def told_counts(
    time: npt.ArrayLike, event: npt.ArrayLike, grid: Array, arm: Any, arms: int, entry: Any, least: int
) -> GridCounts:
    """Of one silo, what it tells: portions of all its rows, also of those whose time is beyond the grid.

    Where a grid ends, and how fine it is, therefore changes nothing in what is told of a time: two grids of which one
    ends a little later would otherwise tell who died in between.
    """
    if least <= 1:
        seen, all_rows = (grid_counts(time, event, grid, arm, arms, entry, everybody=who) for who in (False, True))
        unseen = all_rows.events + all_rows.left - seen.events - seen.left  # never at risk, but gone like others
        return GridCounts(seen.at_risk, seen.events, seen.left + unseen)
    return spread_out(portions(time, event, grid, arm, arms, entry, least))


def portions(
    time: npt.ArrayLike, event: npt.ArrayLike, grid: Array, arm: Any, arms: int, entry: Any, least: int
) -> GridCounts:
    """Those that are told before the grid ends."""
    last = max(float(np.max(time, initial=0.0)), 2 * float(grid[-1]))  # who is not there yet at its start is after it
    counts = grid_counts(time, event, np.append(grid, [last, np.inf]), arm, arms, entry, everybody=True)
    found = delayed(counts, least)
    return GridCounts(*(part[: len(grid)] for part in (found.at_risk, found.events, found.left)))


def _before(sums: Array) -> Array:
    """What it was at the start of each interval."""
    return np.vstack([np.zeros((1, sums.shape[1])), sums[:-1]])


def evened(counts: GridCounts, least: int) -> GridCounts:
    """`delayed`, with every portion spread evenly over the intervals since the one before.

    When a portion is told, as many have come as were told; until then more have, so that curves made of portions
    lag behind. This is made of the portions alone, and so tells no more than they do.
    """
    return counts if least <= 1 else spread_out(delayed(counts, least))


def spread_out(counts: GridCounts) -> GridCounts:
    """Portions, spread evenly; over those at risk where rows enter later, for few may be there at the beginning."""
    told: Array = np.cumsum(counts.events + counts.left, axis=0)
    entered = counts.at_risk + _before(told)
    later = np.diff(entered, axis=0).max(initial=0.0) > LITTLE
    at_risk = counts.at_risk if later else np.ones(counts.at_risk.shape)
    spread = [_evenly(part, at_risk) for part in (counts.events, counts.left)]
    return GridCounts(counts.at_risk + _before(told - np.cumsum(spread[0] + spread[1], axis=0)), *spread)


def _evenly(cells: Array, at_risk: Array) -> Array:
    """Column by column, every cell shared out among itself and the empty ones before it, by who is at risk there."""
    found = np.zeros(cells.shape)
    for column, places, shares in zip(cells.T, np.cumsum(at_risk, axis=0).T - 1, found.T):
        ends = np.flatnonzero(column)
        reached = np.interp(places, np.append(-1, places[ends]), np.append(0.0, np.cumsum(column[ends])))
        shares[:] = np.diff(reached, prepend=0.0)
    return found


def _in_portions(cells: Array, least: int) -> Array:
    """The same total; every cell is 0 or at least `least`, if the total is. Those of a smaller total are the last."""
    total: Array = cells.sum(axis=0)
    below: Array = np.where(total < least, 0.0, in_steps(np.cumsum(cells, axis=0), total, least))
    below[-1] = total
    return np.diff(below, axis=0, prepend=0.0)


def _small(cells: Array, least: int) -> bool:
    return bool(((cells > 0) & (cells < least)).any())


# -- baseline hazards ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StepFunction:
    """A function that is constant between its times: y[k] from x[k] on, `before` before x[0]."""

    x: Array
    y: Array
    before: float

    def __call__(self, at: Any) -> Array:
        k = np.searchsorted(self.x, np.asarray(at, dtype=np.float64), side="right")
        return np.append(self.before, self.y)[k]


def baseline(f: CoxPartialLikelihood, theta: Array) -> dict[Any, StepFunction]:
    """By stratum, the cumulative hazard of a row of zeros. It tells the times of events, so a silo may keep it."""
    at = partial_at(f, theta)
    shifts = at.risk.shift + (0.0 if not f.centred else (f.centres @ theta)[f.sets.strata])
    with np.errstate(over="ignore"):
        jumps = at._of_events(at.w / at.rest) * np.exp(-shifts)
    found = {}
    for number in np.unique(f.sets.strata):
        inside = np.flatnonzero(f.sets.strata == number)[::-1]  # from early to late
        found[f.stratum_names[number]] = StepFunction(f.sets.times[inside], np.cumsum(jumps[inside]), 0.0)
    return found
