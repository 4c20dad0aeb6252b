"""Columns that are neither the target nor features: what a row's time, weight, offset or cluster is.

    time        when the event came or the row was last seen, > 0 (then the target is the event, 1 or 0)
    entry       when the row came under observation, before its time
    strata      only rows of one label are compared
    offset      added to the predictor
    exposure    > 0; its logarithm is added to the predictor
    weights     how often the row counts, >= 0
    cluster     rows of one label are not independent; the same label in two silos is two clusters

Rows that lack one of them are left out, as rows without a target are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.tables.findings import Finding
from dualfl.tables.reading import Table, check_odd, check_usable, is_numeric, missing
from dualfl.tables.refusals import Remedies, Unfit
from dualfl.typing import AnyArray, Array

ROLES = ("time", "entry", "strata", "offset", "exposure", "weights", "cluster")
ADDED = ("offset", "exposure")  # to the predictor
LABELS = ("strata", "cluster")  # the others are numbers
EVENTS = ("0", "1")  # what the target of a survival model may be

Ok = Callable[[Array], AnyArray]
RIGHT: Mapping[str, tuple[Ok, str]] = {
    "time": (lambda v: v > 0, "greater than 0"),
    "exposure": (lambda v: v > 0, "greater than 0"),
    "weights": (lambda v: v >= 0, "0 or more"),
    "entry": (np.isfinite, "finite"),
    "offset": (np.isfinite, "finite"),
}


def check_roles(table: Table, target: str, roles: Mapping[str, str], remedies: Remedies) -> None:
    """That every column with a role is there and has entries that suit it, or a sentence."""
    for role, name in roles.items():
        if role not in ROLES:
            raise InputError(nearest("role of a column", role, ROLES))
        if name == target:
            raise InputError(f"Column {name!r} is the target, so it cannot be the {role} too; name another column.")
        if name not in table.columns:
            hint = nearest("column", name, {*table.columns, *table.left_out}).partition("; ")[2]
            raise Unfit(
                f"{table.name} has no column {name!r}, the {role}; {hint}", f"it has no column {name!r}, the {role}"
            )
        check_usable(table, name)
        if role not in LABELS:
            check_odd(table, name, remedies)
            check_numbers(table, role, name)
    if {"time", "entry"} <= set(roles):
        check_order(table, roles)


def check_numbers(table: Table, role: str, name: str) -> None:
    values = table.columns[name]
    there = np.flatnonzero(~missing(values))
    if not len(there):
        raise InputError(f"{table.name} has no entry at all in column {name!r}, the {role}; fill it.")
    if not is_numeric(values):
        raise Unfit(
            f"{table.name} has text such as {str(values[there[0]])!r:.40} in column {name!r}, the {role}, which must "
            "be numbers; correct the file.",
            f"its column {name!r}, the {role}, holds texts and must be numbers",
        )
    right, words = RIGHT[role]
    wrong = there[~right(np.asarray(values[there], dtype=np.float64))]
    if len(wrong):
        more = f" and {len(wrong) - 1:,} more such rows" if len(wrong) > 1 else ""
        raise Unfit(
            f"{table.name} has {values[wrong[0]]:g} in column {name!r}, the {role}, row {wrong[0] + 1}{more}; it must "
            f"be {words}; correct the file, or leave the rows out.",
            f"its column {name!r}, the {role}, has numbers that are not {words}",
        )


def check_order(table: Table, roles: Mapping[str, str]) -> None:
    """Rows enter before their time."""
    entry, time = (np.asarray(table.columns[roles[role]], dtype=np.float64) for role in ("entry", "time"))
    late = np.flatnonzero(entry >= time)  # gaps compare as no
    if len(late):
        i = late[0]
        raise Unfit(
            f"{table.name} has the entry {entry[i]:g} and the time {time[i]:g} in row {i + 1}; a row must enter before "
            "its time; correct the file.",
            "some of its rows enter at or after their time",
        )


def shared_clusters(tables: Sequence[Table], roles: Mapping[str, str]) -> list[Finding]:
    """Labels of clusters that several files have: scores are added up within files, so each counts more than once."""
    name = roles.get("cluster")
    if name is None or not all(name in table.columns for table in tables):  # which a fit refuses
        return []
    having = Counter(label for table in tables for label in set(table.levels(name)[~missing(table.columns[name])]))
    shared = sorted(label for label, count in having.items() if count > 1)
    if not shared:
        return []
    files = tuple(table.name for table in tables if not set(shared).isdisjoint(table.levels(name)))
    example = f"such as {str(shared[0])!r:.40}"
    if len(shared) > 1:
        what = f"{len(shared):,} labels {example} are in several files, and count as a cluster of their own in each"
    else:
        what = f"1 label {example} is in several files, and counts as a cluster of its own in each"
    return [Finding("clusters", name, files, what, advice="put all rows of a cluster into one file")]


def present(table: Table, roles: Mapping[str, str]) -> AnyArray:
    """Which rows have all of them."""
    gaps = [missing(table.columns[name]) for name in roles.values()]
    return ~np.any(gaps, axis=0) if gaps else np.ones(table.rows, dtype=bool)


def parts(table: Table, roles: Mapping[str, str]) -> dict[str, Any]:
    """Of every row what the roles say: `weights`, `offset`, and under `more` the others."""
    found: dict[str, Any] = {"weights": None, "offset": None, "more": {}}
    for role, name in roles.items():
        if role in LABELS:
            found["more"][role] = table.levels(name)
            continue
        values = np.asarray(table.columns[name], dtype=np.float64)
        if role in ADDED:
            added = values if role == "offset" else np.log(values)
            found["offset"] = added if found["offset"] is None else found["offset"] + added
        elif role == "weights":
            found["weights"] = values
        else:
            found["more"][role] = values
    return found
