"""Who is at risk when: the rows of survival data in the order in which their sums are taken.

Rows are sorted by stratum, then by time from late to early; of one time, censored rows come before events. An event
group g is a stratum and a time with at least one event. Its events are the rows end - deaths .. end - 1, and its risk
set R_g is

    without entry times   the rows start .. end - 1: all of the stratum that have come so far
    with entry times      those of them that had entered before that time

so that sums over risk sets are running sums, or, where rows also leave, sums over the nodes of a tree of times
(`Intervals`). Either way only positive numbers are added and nothing is ever taken off, which would leave rounding
errors of rows that are long gone.

Numbers of a group are kept relative to exp(shift_g), shift_g near the largest predictor of its risk set, so that no
predictor is too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .losses import Array

Index = npt.NDArray[np.int64]
ROOM = 300.0  # by so much a predictor may exceed a shift: exp(300) is far from overflow, also squared


@dataclass(frozen=True, eq=False)
class RiskSets:
    """The event groups of rows that are sorted as above."""

    n: int
    start: Index  # of each group: the first row of its stratum
    end: Index
    deaths: Index
    efron: bool  # whether ties are Efron's; Breslow's otherwise
    order: Index  # where the sorted rows were before
    times: Array  # of each group
    strata: Index  # of each group, from 0 on
    intervals: Intervals | None = None

    @property
    def groups(self) -> int:
        return len(self.end)

    @cached_property
    def fresh(self) -> npt.NDArray[np.bool_]:
        """Whether a group is the first of its stratum."""
        return np.append(True, self.start[1:] != self.start[:-1])[: self.groups]

    @cached_property
    def begin(self) -> Index:
        """Where the rows begin that come with a group."""
        return np.where(self.fresh, self.start, np.append(0, self.end[:-1])[: self.groups])

    @cached_property
    def dead(self) -> npt.NDArray[np.bool_]:
        """Whether a row is an event."""
        mask = np.zeros(self.n, dtype=bool)
        mask[self.dead_rows] = True
        return mask

    @cached_property
    def dead_rows(self) -> Index:
        within = np.arange(int(self.deaths.sum())) - np.repeat(np.cumsum(self.deaths) - self.deaths, self.deaths)
        return np.asarray(np.repeat(self.end - self.deaths, self.deaths) + within)

    @cached_property
    def dead_groups(self) -> Index:
        """The group of each event, in the order of `dead_rows`."""
        return np.repeat(np.arange(self.groups), self.deaths)

    @cached_property
    def tied_share(self) -> Array:
        """k/d for the k-th of d tied events; 0 for Breslow's ties."""
        before = np.repeat(np.cumsum(self.deaths) - self.deaths, self.deaths)
        k = np.arange(len(self.dead_groups)) - before
        return k / self.deaths[self.dead_groups] if self.efron else np.zeros(len(k))


def sorted_risk_sets(
    time: Array, event: npt.NDArray[np.bool_], strata: Index, entry: Array | None, efron: bool
) -> RiskSets:
    """The risk sets of rows in any order; strata are numbers from 0 on, without gaps."""
    order = np.lexsort((event, -time, strata))
    t, e, s = time[order], event[order], strata[order]
    n = len(t)
    last = np.append((t[1:] != t[:-1]) | (s[1:] != s[:-1]), True)
    ends = np.flatnonzero(last) + 1
    counted = np.append(0, np.cumsum(e))
    deaths = counted[ends] - counted[np.append(0, ends[:-1])]
    end, deaths = ends[deaths > 0], deaths[deaths > 0]
    group_stratum = s[end - 1]
    start = np.searchsorted(s, group_stratum)
    times = t[end - 1]
    intervals = None
    if entry is not None:
        intervals = Intervals.of(t, entry[order], s, times, group_stratum)
    start, end, deaths = (a.astype(np.int64) for a in (start, end, deaths))
    return RiskSets(n, start, end, deaths, efron, order, times, group_stratum, intervals)


class Weighed(Protocol):
    """Rows with weights s_l exp(z_l), and sums over risk sets relative to exp(shift_g)."""

    @property
    def shift(self) -> Array: ...

    def sums(self, v: Array | None) -> Array:
        """sum over R_g of s_l exp(z_l - shift_g) v_l, one row a group; v = 1 if it is None."""
        ...

    def spread(self, b: Array) -> Array:
        """The transpose: sum over the groups g with l in R_g of s_l exp(z_l - shift_g) b_g, one row a row."""
        ...


@dataclass(frozen=True, eq=False)
class Intervals:
    """The groups at which each row is at risk, as nodes of a binary tree over the groups."""

    n: int
    size: int  # leaves of the tree, a power of 2; node i has the children 2i and 2i + 1, leaf g is node size + g
    rows: Index  # row and node of each of the pieces that make up the rows' intervals, sorted by node
    nodes: Index
    groups: int

    @staticmethod
    def of(time: Array, entry: Array, strata: Index, group_time: Array, group_strata: Index) -> Intervals:
        groups, n = len(group_time), len(time)
        size = 1 << max(groups - 1, 0).bit_length()
        # Groups run from late to early: a row is at risk from the first that is not after it to the last after entry.
        low = _position(group_strata, -group_time, strata, -time)
        high = np.maximum(_position(group_strata, -group_time, strata, -entry), low)
        left, right = low + size, high + size
        rows, nodes = [], []
        everyone = np.arange(n)
        while (left < right).any():
            for odd, node in ((left & 1, left), (right & 1, right - 1)):
                taken = (left < right) & (odd == 1)
                rows.append(everyone[taken])
                nodes.append(node[taken])
            left, right = (left + (left & 1)) >> 1, (right - (right & 1)) >> 1
        all_nodes = np.concatenate(nodes) if nodes else np.zeros(0, np.int64)
        order = np.argsort(all_nodes, kind="stable")
        all_rows = np.concatenate(rows) if rows else np.zeros(0, np.int64)
        return Intervals(n, size, all_rows[order], all_nodes[order], groups)

    @cached_property
    def ancestors(self) -> Index:
        """Of each group, its leaf and all nodes above."""
        leaves = np.arange(self.groups) + self.size
        return np.stack([leaves >> j for j in range(self.size.bit_length())], axis=1)

    def weighed(self, z: Array, s: Array) -> WeighedIntervals:
        top = np.full(2 * self.size, -np.inf)
        np.maximum.at(top, self.nodes, z[self.rows])
        shift = top[self.ancestors].max(axis=1, initial=-np.inf)
        inner = sparse.csr_array(
            (s[self.rows] * np.exp(z[self.rows] - top[self.nodes]), (self.nodes, self.rows)),
            shape=(2 * self.size, self.n),
        )
        leaves = np.repeat(np.arange(self.groups), self.ancestors.shape[1])
        share = np.exp(top[self.ancestors] - shift[:, None])  # 0 for nodes without rows
        outer = sparse.csr_array((share.ravel(), (leaves, self.ancestors.ravel())), shape=(self.groups, 2 * self.size))
        return WeighedIntervals(shift, inner, outer)


def _position(key: Index, value: Array, key_at: Index, value_at: Array) -> Index:
    """Where (key_at, value_at) would stand among the sorted pairs (key, value), before equal ones."""
    both_key, both_value = np.concatenate([key_at, key]), np.concatenate([value_at, value])
    own = np.concatenate([np.zeros(len(key_at)), np.ones(len(key))])  # what is asked for comes before its equals
    order = np.lexsort((own, both_value, both_key))
    below = np.cumsum(order >= len(key_at))
    found = np.empty(len(order), dtype=np.int64)
    found[order] = below
    return found[: len(key_at)]


@dataclass(frozen=True, eq=False)
class WeighedIntervals:
    shift: Array
    inner: sparse.csr_array  # nodes by rows
    outer: sparse.csr_array  # groups by nodes

    def sums(self, v: Array | None) -> Array:
        v = np.ones(self.inner.shape[1]) if v is None else v
        return np.asarray(self.outer @ (self.inner @ v))

    def spread(self, b: Array) -> Array:
        return np.asarray(self.inner.T @ (self.outer.T @ b))
