"""A silo's rows as its policy lets others hear of them.

Some columns stay out, and rare levels of texts are joined. Numbers stay what they are, so that a fit of silos is the
fit of their files; a plan that would tell of few rows by them is refused (`policy`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dualfl.federation.policy import RARE, Policy
from dualfl.federation.rows import SiloRows
from dualfl.tables.reading import Table, missing
from dualfl.typing import AnyArray


def guarded(rows: SiloRows, policy: Policy, untold: Sequence[str] = ()) -> SiloRows:
    """The rows without forbidden columns and rare levels; the target and what nobody is told stay as they are."""
    table, target, least = rows.table, rows.target, policy.least_per_level
    counts = ~missing(table.columns[target])
    columns: dict[str, AnyArray] = {}
    for name, values in table.columns.items():
        if name != target and not may_be_used(name, policy):
            continue
        told = name not in (target, *untold) and (values.dtype.kind != "f" or name in rows.categorical)
        columns[name] = joined(table.levels(name), least, counts) if told and least else values
    exact = {name: texts for name, texts in table.exact.items() if columns.get(name) is table.columns[name]}
    return replace(rows, table=replace(table, columns=columns, exact=exact))


def may_be_used(name: str, policy: Policy) -> bool:
    return (policy.columns is None or name in policy.columns) and name not in policy.forbidden_columns


def joined(texts: AnyArray, least: int, counted: AnyArray | None = None) -> AnyArray:
    """Texts with levels that have fewer rows than `least` as one; gaps stay gaps.

    If even that has fewer, the next larger level joins them, and so on: as gaps they would be a level of few again.
    `counted`: the rows that count.
    """
    levels, places = np.unique(texts, return_inverse=True)
    counts = np.bincount(places if counted is None else places[counted], minlength=len(levels))
    rare = (counts < least) & (levels != "")
    if not rare.any():
        return texts
    for next_larger in np.argsort(counts, kind="stable"):
        if counts[rare].sum() >= least:
            break
        rare[next_larger] |= levels[next_larger] != ""
    named = np.where(rare, RARE, levels.astype(f"<U{max(levels.dtype.itemsize // 4, len(RARE))}"))
    return np.asarray(named[places])


def with_indicator(analysis: Mapping[str, Any], used: Table) -> list[str]:
    """The columns of which a plan makes another that says where they have gaps."""
    if (analysis.get("request") or {}).get("missing") == "indicator":
        return list(used.columns)
    features = (analysis.get("schema") or {}).get("features", ())
    return [str(feature["name"]) for feature in features if feature.get("indicator")]


def rarest_level(table: Table, target: str, classes: bool, untold: Sequence[str] = ()) -> tuple[str, int]:
    """The column of texts, or the target if it is one of classes, with the rarest level; and how many rows have it."""
    found: dict[str, int] = {}
    for name, values in table.columns.items():
        if name not in untold and (values.dtype.kind != "f" or (classes and name == target)):
            levels, counts = np.unique(table.levels(name), return_counts=True)
            found[name] = int(counts[levels != ""].min(initial=table.rows))
    name = min(found, key=lambda one: found[one], default="")
    return name, found.get(name, 0)


def rarest_gaps(table: Table, columns: Sequence[str]) -> tuple[str, int]:
    """Which of these columns of numbers has the fewest gaps, of those that have any; and how many."""
    gaps = {name: int(np.isnan(values).sum()) for name, values in table.columns.items() if values.dtype.kind == "f"}
    some = [name for name in columns if gaps.get(name)]
    name = min(some, key=lambda one: gaps[one], default="")
    return name, gaps.get(name, 0)


def rarest_number(table: Table, but: Sequence[str] = ()) -> tuple[str, int]:
    """The column with two different numbers, or one and gaps, of which one is rarest; and in how many rows it is."""
    found: dict[str, int] = {}
    for name, values in table.columns.items():
        if name not in but and values.dtype.kind == "f":
            counts = np.unique(values, return_counts=True)[1]
            found |= {name: int(counts.min())} if len(counts) == 2 else {}
    if table.matrix is not None:
        found |= {f"x{j}": count for j, count in enumerate(rarer_of_two(table.matrix).tolist()) if count}
    name = min(found, key=lambda one: found[one], default="")
    return name, found.get(name, 0)


def rarer_of_two(X: Any) -> AnyArray:
    """Of each column without a name: in how many rows the rarer of its two numbers is; 0 if it has not just two."""
    rows = X.shape[0]
    if isinstance(X, np.ndarray):
        low, high = X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)
        lows, highs = (X == low).sum(axis=0), (X == high).sum(axis=0)
        return np.where((lows + highs == rows) & (low < high), np.minimum(lows, highs), 0)
    columns, data = X.indices[X.data != 0], X.data[X.data != 0]
    filled = np.bincount(columns, minlength=X.shape[1])
    low, high = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    np.minimum.at(low, columns, data)
    np.maximum.at(high, columns, data)
    return np.where((low == high) & (filled < rows), np.minimum(filled, rows - filled), 0)


def rarest_cell(table: Table, untold: Sequence[str] = ()) -> int:
    """Rows of the rarest two levels of two texts, classes among them, that occur together; 0 if there are no two.

    A column of two numbers, such as 0 and 1, is one of two levels; gaps in a text are a level, also by themselves.
    """
    texts = [values for name, values in table.columns.items() if name not in untold and has_levels(values)]
    codes = [np.unique(values, return_inverse=True) for values in texts]
    gaps = [int(np.count_nonzero(values == "")) for values in texts if values.dtype.kind != "f"]
    least = min((one for one in gaps if one), default=0)
    for i, (_, a) in enumerate(codes):
        for levels, b in codes[:i]:
            counts = np.bincount(a * len(levels) + b)
            found = int(counts[counts > 0].min())
            least = found if least == 0 else min(least, found)
    return least


def has_levels(values: AnyArray) -> bool:
    return values.dtype.kind != "f" or len(np.unique(values)) == 2
