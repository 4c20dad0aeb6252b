"""Cox's partial likelihood as a function of the predictors, in NumPy; the C kernels do the same without entry times.

With weights s, relative risks r_l = s_l exp(z_l), the sums S = sum of r over the risk set of a group, T = sum of r over
its d events, a_k = k/d (0 for Breslow's ties) and the mean weight w of its events,

    value     sum over groups of  sum_k w log(S - a_k T)  -  sum over events of s_l z_l
    slope     r_l (sum over the groups of l of  sum_k w c_kl/(S - a_k T))  -  s_l [l is an event]

where c_kl = 1 - a_k for the events of the group itself and 1 for the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from .losses import Array
from .risk_sets import ROOM, RiskSets, Weighed

BLOCK_NUMBERS = 1 << 20


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Sums over risk sets that only grow: running sums, relative to a shift that is raised when it must be."""

    sets: RiskSets
    shift: Array
    factor: Array  # of what was summed before, at each group; 0 at the first of a stratum
    e: Array  # s_l exp(z_l - shift of the group that l comes with)

    @staticmethod
    def of(sets: RiskSets, z: Array, s: Array) -> Prefixes:
        top = _by_group(sets, z, np.maximum)
        tops = [top[i:j] for i, j in _runs(sets.fresh)]
        shift = np.concatenate([_shifts(part) for part in tops]) if tops else np.zeros(0)
        before = np.where(sets.fresh, -np.inf, np.append(0.0, shift[:-1])[: len(shift)])
        factor = np.exp(before - shift)
        e = np.zeros(sets.n)
        counts = sets.end - sets.begin
        rows = _rows(sets)
        e[rows] = s[rows] * np.exp(z[rows] - np.repeat(shift, counts))
        return Prefixes(sets, shift, factor, e)

    def sums(self, v: Array | None) -> Array:
        weighed = self.e if v is None else (self.e * v.T).T
        return _running(_by_group(self.sets, weighed), self.factor)

    def spread(self, b: Array) -> Array:
        """From the last group back: a row is at risk in its own group and in all that follow in its stratum."""
        factor = np.append(self.factor[1:], 0.0)[::-1]  # from a group to the one before it
        total = _running(b[::-1], factor)[::-1]
        out = np.zeros((self.sets.n, *b.shape[1:]))
        rows = _rows(self.sets)
        out[rows] = np.repeat(total, self.sets.end - self.sets.begin, axis=0)
        return np.asarray((self.e * out.T).T)


def _rows(sets: RiskSets) -> Any:
    """The rows that are ever at risk, group by group."""
    counts = sets.end - sets.begin
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(sets.begin, counts) + within


def _by_group(sets: RiskSets, v: Array, how: np.ufunc = np.add) -> Array:
    """Sums, or maxima, over the rows that come with each group."""
    if not sets.groups:
        return np.zeros((0, *v.shape[1:]))
    # reduceat sums up to the next index: an index after each group keeps out rows that are never at risk
    at = np.stack([sets.begin, sets.end], axis=1).ravel()
    padded = np.concatenate([v, np.zeros((1, *v.shape[1:]))])
    return np.asarray(how.reduceat(padded, at, axis=0)[::2])


def _runs(fresh: Any) -> list[tuple[int, int]]:
    starts = np.flatnonzero(fresh)
    return list(zip(starts.tolist(), np.append(starts[1:], len(fresh)).tolist()))


def _shifts(top: Array) -> Array:
    """A shift for each group of a stratum: raised to the largest predictor when that is beyond its room."""
    if np.ptp(top) <= ROOM:
        return np.full(len(top), top[0])
    shift, now = np.empty(len(top)), top[0]
    for g, highest in enumerate(top):
        now = highest if highest - now > ROOM else now
        shift[g] = now
    return shift


def _running(v: Array, factor: Array) -> Array:
    """y_g = factor_g y_(g-1) + v_g; most factors are 1."""
    out = np.empty_like(v)
    breaks = [0, *np.flatnonzero(factor[1:] != 1.0) + 1, len(v)]
    carried: Any = 0.0
    for i, j in pairwise(breaks):
        if i < j:
            out[i:j] = np.cumsum(v[i:j], axis=0) + factor[i] * carried
            carried = out[j - 1]
    return out


class Partial:
    """The partial likelihood at predictors z, and what follows from it."""

    def __init__(self, sets: RiskSets, z: Array, s: Array) -> None:
        self.sets, self.z, self.s = sets, z, s
        self.risk: Weighed = Prefixes.of(sets, z, s) if sets.intervals is None else sets.intervals.weighed(z, s)
        rows, group = sets.dead_rows, sets.dead_groups
        self.e = s[rows] * np.exp(z[rows] - self.risk.shift[group])  # of the events
        self.S, self.T = self.risk.sums(None), self._of_events(self.e)
        self.w = (self._of_events(s[rows]) / sets.deaths)[group]  # of each term, one an event
        self.rest = self.S[group] - sets.tied_share * self.T[group]

    def _of_events(self, v: Array) -> Array:
        """Sums over the events of each group."""
        starts = np.cumsum(self.sets.deaths) - self.sets.deaths
        return np.asarray(np.add.reduceat(v, starts, axis=0)) if self.sets.groups else np.zeros((0, *v.shape[1:]))

    @cached_property
    def value(self) -> float:
        rows, shift = self.sets.dead_rows, self.risk.shift[self.sets.dead_groups]
        return float(self.w @ np.log(self.rest) + self.s[rows] @ (shift - self.z[rows]))

    @cached_property
    def expected(self) -> Array:
        """r_l times the cumulative hazard of l: the events that are expected of a row, weighted."""
        return self._spread(self.w / self.rest)

    def _spread(self, b: Array) -> Array:
        """What terms b, one an event, of all groups give the rows at risk: 1 - a_k of it the group's own events."""
        out = self.risk.spread(self._of_events(b))
        own = self._of_events(self.sets.tied_share * b)[self.sets.dead_groups]
        out[self.sets.dead_rows] -= self.e * own
        return out

    @cached_property
    def residual(self) -> Array:
        R = self.expected.copy()
        R[self.sets.dead_rows] -= self.s[self.sets.dead_rows]
        return R

    def curvature_times(self, p: Array) -> Array:
        group, rows = self.sets.dead_groups, self.sets.dead_rows
        Sp, Tp = self.risk.sums(p), self._of_events(self.e * p[rows])
        mean = (Sp[group] - self.sets.tied_share * Tp[group]) / self.rest
        return self.expected * p - self._spread(self.w * mean / self.rest)

    def means(self, X: Any) -> Array:
        """Rows m with sum m m' = sum over terms of w (mean of x)(mean of x)'; two a group are enough."""
        starts = np.cumsum(self.sets.deaths) - self.sets.deaths
        a, weight = self.sets.tied_share, self.w / self.rest**2
        C0, C1, C2 = (np.add.reduceat(weight * a**j, starts) if self.sets.groups else np.zeros(0) for j in range(3))
        first = np.sqrt(C0)
        second = np.sqrt(np.maximum(C2 - C1 * (C1 / C0), 0.0))
        out = np.empty((2 * self.sets.groups, X.shape[1]))
        step = max(1, BLOCK_NUMBERS // max(self.sets.n, 1))
        for c in range(0, X.shape[1], step):
            block = X[:, c : c + step]
            block = np.asarray(block.toarray() if hasattr(block, "toarray") else block, dtype=np.float64)
            S1 = self.risk.sums(block)
            T1 = self._of_events(self.e[:, None] * block[self.sets.dead_rows])
            out[: self.sets.groups, c : c + step] = first[:, None] * S1 - (C1 / first)[:, None] * T1
            out[self.sets.groups :, c : c + step] = second[:, None] * T1
        return out


def cox_residual(sets: RiskSets, z: Array, s: Array) -> tuple[float, Array, Array]:
    """The value, its slopes in z, and the expected events of each row."""
    at = Partial(sets, z, s)
    return at.value, at.residual, at.expected


def cox_curvature_times(sets: RiskSets, z: Array, s: Array, p: Array) -> Array:
    """The second derivative in z, applied to p."""
    return Partial(sets, z, s).curvature_times(p)


def cox_means(sets: RiskSets, z: Array, s: Array, X: Any) -> Array:
    """M with X' diag(expected) X - M'M the second derivative in theta, z = X theta."""
    return Partial(sets, z, s).means(X)
