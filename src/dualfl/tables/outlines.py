"""What the columns of a table are, before anybody counts: numbers, levels, or texts that are no levels.

Unlike a fit, a description takes every column: one with too many texts is named, and no text of it leaves its silo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.tables.dates import is_date
from dualfl.tables.reading import Table, is_numeric, missing
from dualfl.tables.schema import MOST_LEVELS, Request, Summary, check_same_columns, check_same_kinds
from dualfl.tables.summaries import order

TEXTS, DATES = "texts", "dates"  # what a column is called whose entries are no levels
Kind = tuple[str, ...] | str | None  # levels; TEXTS or DATES; None: numbers


def outlined(table: Table) -> dict[str, Kind]:
    """The kind of every column; one without any entry has no levels."""
    return {name: _kind(values) for name, values in table.columns.items()}


def _kind(values: Any) -> Kind:
    there = values[~missing(values)]
    if not len(there):
        return ()
    if is_numeric(values):
        return None
    levels = np.unique(there)
    if len(levels) <= MOST_LEVELS:
        return tuple(levels.tolist())
    return DATES if all(map(is_date, levels.tolist())) else TEXTS


@dataclass(frozen=True)
class Layout:
    """The columns that all silos have, each in one of four kinds."""

    columns: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]  # of the columns of levels; () where nobody has an entry
    others: Mapping[str, str]  # TEXTS or DATES

    @property
    def numeric(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name not in self.levels and name not in self.others)

    def as_json(self) -> dict[str, Any]:
        return {"columns": self.columns, "levels": dict(self.levels), "others": dict(self.others)}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Layout:
        levels = {name: tuple(found) for name, found in content["levels"].items()}
        return Layout(tuple(content["columns"]), levels, dict(content["others"]))

    def check_levels(self, name: str, option: str) -> None:
        """Refuse to group by a column that has no levels."""
        if name not in self.columns:
            raise InputError(f"{option}: {nearest('column', name, self.columns)}")
        if not self.levels.get(name):
            what = "numbers" if name in self.numeric else self.others.get(name, "gaps only")
            remedy = f"; make levels of them with --categorical {name!r}" if name in self.numeric else ""
            raise InputError(f"{option} takes a column of levels, and {name!r} is {what}{remedy or '; take another'}.")


def agreed_layout(silos: Sequence[str], told: Sequence[Mapping[str, Kind]], request: Request) -> Layout:
    """One layout for all, or the sentence that says which silo and column is in the way."""
    check_alike(silos, told, request)
    levels: dict[str, tuple[str, ...]] = {}
    others: dict[str, str] = {}
    for name in told[0]:
        kinds = [own[name] for own in told]
        words = [kind for kind in kinds if isinstance(kind, str)]
        union = {level for kind in kinds if isinstance(kind, tuple | list) for level in kind}
        if words or len(union) > MOST_LEVELS:
            others[name] = DATES if words and set(words) == {DATES} and not union else TEXTS
        elif all(kind is not None for kind in kinds):
            levels[name] = tuple(sorted(union, key=order))
    return Layout(tuple(told[0]), levels, others)


def check_alike(silos: Sequence[str], told: Sequence[Mapping[str, Kind]], request: Request) -> None:
    """All silos have the same columns, and no column is numbers here and texts there."""
    summaries = []
    for silo, own in zip(silos, told):
        columns = {name: (kind,) if isinstance(kind, str) else kind for name, kind in own.items()}
        summaries.append(Summary.named(silo, {"columns": columns, "classes": (), "width": 0, "sparse": False}))
    check_same_columns(summaries, request)
    check_same_kinds(summaries, request)
