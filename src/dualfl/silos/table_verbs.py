"""Questions about tables as they are, for a description: counts, sums and histograms of groups of rows.

Group 0 is all rows; with `by` all that have an entry there, and the others are the rows of each of its levels.
A silo that has rules for small cells (`Chamber.least`) refuses where one of its own is smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.silos.chamber import Chamber, in_steps
from dualfl.silos.verbs import Wire, request_from_json, verb
from dualfl.tables.moments import two_sums
from dualfl.tables.outlines import Layout, outlined
from dualfl.tables.reading import Table, is_numeric
from dualfl.tables.refusals import Unfit
from dualfl.typing import AnyArray, Array

MOST_EDGES, MOST_ASKED = 129, 100_000  # of one histogram, and histograms


@verb
def outline(chamber: Chamber, request: Mapping[str, Any], small: int) -> Wire:
    """Names of columns and levels. `small`: no cell of fewer rows than twice that is cut further."""
    chamber.take(request_from_json(request, chamber.remedies))
    if small < chamber.least.level:
        what = (
            f"cells of {small} rows would be looked at, and this silo's policy wants {chamber.least.level} at least "
            f"('least_per_level'); take --least {chamber.least.level}"
        )
        raise Unfit(what, what)
    if chamber.used[0].width:
        raise InputError(f"silo {chamber.name} has columns without names, which cannot be described")
    return {"columns": outlined(chamber.used[0])}


def groups_of(table: Table, layout: Layout, by: str | None) -> list[AnyArray]:
    """Which rows are in each group."""
    if by is None:
        return [np.ones(table.rows, dtype=bool)]
    text = table.levels(by)
    return [text != "", *(text == level for level in layout.levels[by])]


@verb
def tally(chamber: Chamber, layout: Mapping[str, Any], by: str | None, crosses: Sequence[Sequence[str]]) -> Wire:
    """Of every group: rows, entries of each column, sums of numbers, rows of each level; and of all rows that are in no
    group how many there are, and cross tables."""
    agreed, table = Layout.from_json(layout), chamber.used[0]
    groups = groups_of(table, agreed, by)
    X = matrix(table, agreed)
    entries = np.stack([table.levels(name) != "" for name in agreed.columns], axis=1)
    counts = {name: level_counts(table, name, agreed.levels[name], groups) for name in agreed.levels}
    found: Wire = {
        "rows": np.array([group.sum() for group in groups], dtype=np.float64),
        "left_out": np.array([np.count_nonzero(~groups[0])], dtype=np.float64),
        "present": np.stack([entries[group].sum(axis=0) for group in groups]).astype(np.float64),
        "sums": np.stack([np.nansum(X[group], axis=0) for group in groups]),
    }
    for name in ("rows", "left_out"):  # sums with and without the latter would tell of them
        check_small(chamber, found[name], chamber.least.level, f"levels of column {by!r}, or gaps in it,")
    check_small(chamber, found["present"], chamber.least.level, "columns, or of a column within a group,")
    for name, own in counts.items():
        if by is not None:
            check_small(chamber, own, chamber.least.cell, f"columns {name!r} and {by!r} together")
        found[f"levels {name}"] = own
    for a, b in crosses:
        found[f"cross {a} {b}"] = crossed(table, agreed, a, b)
        check_small(chamber, found[f"cross {a} {b}"], chamber.least.cell, f"columns {a!r} and {b!r} together")
    return found


def matrix(table: Table, layout: Layout) -> Array:
    """The columns of numbers, nan where one is missing; a column without any entry may have been read as text."""
    columns = [table.columns[name] for name in layout.numeric]
    numbers = [one if is_numeric(one) else np.full(len(one), np.nan) for one in columns]
    return np.stack(numbers, axis=1) if numbers else np.empty((table.rows, 0))


def level_counts(table: Table, name: str, levels: Sequence[str], groups: Sequence[AnyArray]) -> Array:
    text = table.levels(name)
    return np.array([[np.count_nonzero(group & (text == level)) for level in levels] for group in groups], dtype=float)


def crossed(table: Table, layout: Layout, a: str, b: str) -> Array:
    one, other, columns = table.levels(a), table.levels(b), layout.levels[b]
    counts = [[np.count_nonzero((one == level) & (other == name)) for name in columns] for level in layout.levels[a]]
    return np.array(counts, dtype=np.float64)


def check_small(chamber: Chamber, counts: Array, least: int, what: str) -> None:
    """A count of a few rows tells of them; which count it is stays here."""
    if bool(((counts > 0) & (counts < least)).any()):
        raise Unfit(
            f"{chamber.name}: some {what} have fewer than {least} rows, and {int(counts[counts > 0].min())} is the "
            "least; leave the column out.",
            f"some {what} have fewer than {least} rows at this silo, which its policy does not show; leave out columns "
            "that few rows have an entry in, or that make small groups",
        )


@verb
def spreads(chamber: Chamber, layout: Mapping[str, Any], by: str | None, center: Array) -> Wire:
    """Of every group and column of numbers: how far they are from a centre, and the squares of that."""
    agreed, table = Layout.from_json(layout), chamber.used[0]
    X, groups = matrix(table, agreed), groups_of(table, agreed, by)
    center = np.asarray(center, dtype=np.float64)
    if center.shape != (len(groups), X.shape[1]) or not np.isfinite(center).all():
        raise InputError(f"'center' must be {len(groups)} x {X.shape[1]} finite numbers")
    both = [two_sums(X[group], own) for group, own in zip(groups, center)]
    return {"deviations": np.stack([one for one, _ in both]), "squares": np.stack([two for _, two in both])}


@verb
def cells(chamber: Chamber, layout: Mapping[str, Any], by: str | None, asked: Sequence[Mapping[str, Any]]) -> Wire:
    """For each histogram that is asked for, how many numbers are not above each of its edges, one behind the other.

    They are told in steps (`in_steps`), so that no edges, of this plan or of two, enclose a few.
    """
    agreed, table = Layout.from_json(layout), chamber.used[0]
    X, groups = matrix(table, agreed), groups_of(table, agreed, by)
    check_asked(asked, len(groups), agreed)
    sorted_: dict[tuple[int, str], Array] = {}
    found = [np.zeros(0)]
    for one in asked:
        key = int(one["group"]), str(one["column"])
        if key not in sorted_:
            values = X[groups[key[0]], agreed.numeric.index(key[1])]
            sorted_[key] = np.sort(values[~np.isnan(values)])
        below = np.searchsorted(sorted_[key], np.asarray(one["edges"]), side="right").astype(np.float64)
        found.append(in_steps(below, float(len(sorted_[key])), chamber.least.level))
    return {"below": np.concatenate(found)}


def check_asked(asked: Sequence[Mapping[str, Any]], groups: int, layout: Layout) -> None:
    """Histograms of columns and groups that there are, with finite edges in order."""
    if len(asked) > MOST_ASKED:
        raise InputError(f"{len(asked)} histograms are asked for, and {MOST_ASKED} are the most")
    for one in asked:
        edges = np.asarray(one["edges"])
        known = one["column"] in layout.numeric and 0 <= int(one["group"]) < groups
        good = edges.ndim == 1 and 2 <= len(edges) <= MOST_EDGES and bool(np.isfinite(edges).all())
        if not known or not good or bool((np.diff(edges) < 0).any()):
            raise InputError(f"a histogram has a known column and group and 2 to {MOST_EDGES} finite edges in order")


@verb
def term_sums(chamber: Chamber, center: Array | None) -> Wire:
    """Of every column of the encoded rows: how far numbers are from a centre, and the squares of that."""
    X = chamber.rows.X
    around = np.zeros(X.shape[1]) if center is None else np.asarray(center, dtype=np.float64)
    if around.shape != (X.shape[1],) or not np.isfinite(around).all():
        raise InputError(f"'center' must be {X.shape[1]} finite numbers")
    return dict(zip(("deviations", "squares"), two_sums(X, around)))


@verb
def own_cells(chamber: Chamber, layout: Mapping[str, Any], asked: Mapping[str, Sequence[Mapping[str, Any]]]) -> Wire:
    """The same of all rows, each silo by edges of its own."""
    return cells(chamber, layout, None, asked.get(chamber.name, ()))
