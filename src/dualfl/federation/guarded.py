"""A silo's rows as its policy lets others hear of them: some columns stay out, and rare levels are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dualfl.federation.policy import RARE, Policy
from dualfl.federation.rows import SiloRows
from dualfl.tables.reading import Table
from dualfl.typing import AnyArray


def guarded(rows: SiloRows, policy: Policy, untold: Sequence[str] = ()) -> SiloRows:
    """The rows without forbidden columns and rare levels; the target and what nobody is told stay as they are."""
    table, target = rows.table, rows.target
    columns: dict[str, AnyArray] = {}
    for name, values in table.columns.items():
        if name != target and not may_be_used(name, policy):
            continue
        texts = name not in (target, *untold) and values.dtype.kind != "f"
        columns[name] = joined(values, policy.least_per_level) if texts else values
    return replace(rows, table=replace(table, columns=columns))


def may_be_used(name: str, policy: Policy) -> bool:
    return (policy.columns is None or name in policy.columns) and name not in policy.forbidden_columns


def joined(texts: AnyArray, least: int) -> AnyArray:
    """Texts with levels that have fewer rows than `least` as one; if even that has fewer, these entries are gaps."""
    levels, places, counts = np.unique(texts, return_inverse=True, return_counts=True)
    rare = (counts < least) & (levels != "")
    if not rare.any():
        return texts
    name = RARE if counts[rare].sum() >= least else ""
    named = np.where(rare, name, levels.astype(f"<U{max(levels.dtype.itemsize // 4, len(RARE))}"))
    return np.asarray(named[places])


def rarest_cell(table: Table, untold: Sequence[str] = ()) -> int:
    """Rows of the rarest two levels of two texts, classes among them, that occur together; 0 if there are no two."""
    texts = [values for name, values in table.columns.items() if values.dtype.kind != "f" and name not in untold]
    codes = [np.unique(values, return_inverse=True) for values in texts]
    least = 0
    for i, (_, a) in enumerate(codes):
        for levels, b in codes[:i]:
            counts = np.bincount(a * len(levels) + b)
            found = int(counts[counts > 0].min())
            least = found if least == 0 else min(least, found)
    return least
