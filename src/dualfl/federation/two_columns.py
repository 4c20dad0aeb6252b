"""Two columns that an operator allows for one role, and that differ in a few rows.

Time to relapse and time to death, say, which are the same but for those who had one. A plan with either is harmless;
both together would tell of the rows in which they differ, if these are few.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np

from dualfl.tables.reading import Table, missing
from dualfl.tables.refusals import Unfit
from dualfl.tables.roles import LABELS
from dualfl.typing import AnyArray, Array

CLOCK = ("time", "entry")
SAME = 1e-12  # of the largest: what rounding makes of one number


def check_alternatives(
    table: Table, taken: Mapping[str, str], allowed: Mapping[str, Sequence[str]], least: int
) -> None:
    """`taken`: the column of each role of this plan; `allowed`: those that another plan may take."""
    for role, column in taken.items():
        for other in allowed.get(role, ()):
            if other == column or other not in table.columns:
                continue
            few = different(role, table, taken, other)
            if 0 < few < least:
                raise Unfit(
                    f"Columns {column!r} and {other!r} may both be the {role} of rows ('roles' of silo.json), and they "
                    f"differ in {few} rows: allow one of them.",
                    f"column {column!r} and another that may be the {role} of rows at this silo differ in few rows "
                    "('least_per_level'), and a plan with each would tell of them; its operator allows one of them",
                )


def different(role: str, table: Table, taken: Mapping[str, str], other: str) -> int:
    """In how many rows another column of a role says something else; rows with a gap are other rows."""
    one = taken[role]
    there = ~(missing(table.columns[one]) | missing(table.columns[other]))
    if role in LABELS:
        return regrouped(table.levels(one)[there], table.levels(other)[there])
    if role in CLOCK:  # the order of times and entries is all that counts
        return reordered(*(clock(table, there, roles) for roles in (taken, {**taken, role: other})))
    a, b = (np.asarray(table.columns[name][there], dtype=np.float64) for name in (one, other))
    if role in ("weights", "exposure"):  # so many times as much for all is the same
        with np.errstate(divide="ignore", invalid="ignore"):
            return moved(np.where(a == b, 0.0, np.log(b) - np.log(a)))
    return moved(b - a)


def clock(table: Table, there: AnyArray, roles: Mapping[str, str]) -> Array:
    """Times and entries of these rows, one behind the other."""
    columns = [table.columns[roles[role]][there] for role in CLOCK if role in roles]
    return np.concatenate(columns).astype(np.float64)


def moved(by: Array) -> int:
    """How many differ from most."""
    usual = float(np.median(by)) if len(by) else 0.0
    scale = max(1.0, float(np.abs(by[np.isfinite(by)]).max(initial=0.0)))
    with np.errstate(invalid="ignore"):
        return int(np.count_nonzero(~(np.abs(by - usual) <= SAME * scale)))


def regrouped(a: AnyArray, b: AnyArray) -> int:
    """How many rows are not where most of their group are."""
    codes = [np.unique(labels, return_inverse=True)[1].ravel() for labels in (a, b)]
    if not len(a):
        return 0
    pairs, counts = np.unique(np.stack(codes), axis=1, return_counts=True)
    kept = []
    for side in pairs:
        largest = np.zeros(side.max() + 1, dtype=np.intp)
        np.maximum.at(largest, side, counts)
        kept.append(int(largest.sum()))
    return len(a) - min(kept)


def reordered(a: Array, b: Array) -> int:
    """How many rows must go for both columns to have the others in one order: all but the longest rising chain.

    Rows that are the same in both are one point, which counts as often; a chain rises in both, or stays in both.
    """
    ranks = [np.unique(values, return_inverse=True)[1].ravel() for values in (a, b)]
    if not len(a):
        return 0
    points, counts = np.unique(np.stack(ranks, axis=1), axis=0, return_counts=True)
    order = np.lexsort((-points[:, 1], points[:, 0]))  # of those that tie in one, only one is in a chain
    tops: list[int] = []  # where the best chains of rising weight end, lowest ends first
    weights: list[int] = []
    for (_, end), count in zip(points[order].tolist(), counts[order].tolist()):
        place = bisect_left(tops, end)
        weight = count + (weights[place - 1] if place else 0)
        stop = place
        while stop < len(tops) and weights[stop] <= weight:
            stop += 1
        if place < len(tops) and tops[place] == end and weights[place] > weight:
            continue
        tops[place:stop], weights[place:stop] = [end], [weight]
    return len(a) - max(weights)
