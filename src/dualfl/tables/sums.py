"""What silos that keep secrets say about their columns: vectors that are added up over all silos, never one silo's own.

Two rounds of sums. First how many rows there are, how many numbers each column has and what they add up to, and how
many rows have each level; that gives a centre. Then deviations from this centre and their squares, which give mean and
spread without losing digits where means are large against spreads (the corrected two-pass algorithm: Chan, Golub and
LeVeque, 1983). Files on one machine are scaled by the same sums (`encoding.scaling`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dualfl.tables.encoding import Scaling
from dualfl.tables.moments import corrected, two_sums
from dualfl.tables.reading import Table, is_numeric
from dualfl.tables.schema import MISSING, Draft, Schema
from dualfl.tables.summaries import ColumnSummary
from dualfl.typing import Array

Sums = dict[str, Any]


def numbers(table: Table, draft: Draft) -> Array:
    """The columns of numbers side by side, nan where one is missing."""
    if draft.width:
        return np.asarray(table.matrix, dtype=np.float64)
    columns = [table.columns[name] for name in draft.numeric]
    if not columns:
        return np.empty((table.rows, 0))
    # A column without any entry may have been read as text.
    return np.stack([one if is_numeric(one) else np.full(len(one), np.nan) for one in columns], axis=1)


def counted(table: Table, draft: Draft) -> Sums:
    """What is added up first; sparse columns are taken as they are, so only the rows are counted."""
    sums: Sums = {"size": float(table.rows)}
    if draft.sparse:
        return sums
    X = numbers(table, draft)
    sums |= {"present": np.count_nonzero(~np.isnan(X), axis=0).astype(np.float64), "sums": np.nansum(X, axis=0)}
    if draft.levels:
        sums["levels"] = np.concatenate([_counts(table, name, levels) for name, levels in draft.levels.items()])
    return sums


def _counts(table: Table, name: str, levels: tuple[str, ...]) -> Array:
    """Rows with each level, and last those with none."""
    text = table.levels(name)
    found: Array = np.array([np.count_nonzero(text == level) for level in (*levels, "")], dtype=np.float64)
    return found


def centre(sums: Mapping[str, Any]) -> Array:
    """About the mean of every column of numbers, 0 where there is none."""
    present = np.asarray(sums["present"]).round()
    found: Array = np.asarray(sums["sums"]) / np.maximum(present, 1.0)
    return found


def deviations(table: Table, draft: Draft, center: Array) -> Sums:
    """What is added up then: how far numbers are from the centre, and the squares of that."""
    return dict(zip(("deviations", "squares"), two_sums(numbers(table, draft), center)))


class Totals:
    """What all silos together have in their columns."""

    def __init__(self, draft: Draft, sums: Mapping[str, Any], center: Array, around: Mapping[str, Any]) -> None:
        self.draft, self.rows = draft, float(sums["size"])
        present = np.asarray(sums["present"]).round()
        self.present = present
        found = corrected(center, present, np.asarray(around["deviations"]), np.asarray(around["squares"]))
        self.mean, self.squares = found
        self.levels = self._split(np.asarray(sums["levels"]).round()) if draft.levels else {}

    def _split(self, counts: Array) -> dict[str, ColumnSummary]:
        found, place = {}, 0
        for name, levels in self.draft.levels.items():
            *each, missing = map(int, counts[place : place + len(levels) + 1])
            place += len(levels) + 1
            found[name] = ColumnSummary("categorical", sum(each), missing, levels=dict(zip(levels, each)))
        return found

    def columns(self) -> dict[str, ColumnSummary]:
        """Of every column with a name, as if one silo had said it."""
        found = dict(self.levels)
        for name, n, mean, squares in zip(self.draft.numeric, self.present, self.mean, self.squares):
            found[name] = ColumnSummary("numeric", int(n), round(self.rows - n), float(mean), float(squares))
        return found

    def scaling(self, schema: Schema) -> Scaling:
        """Mean and spread of the columns that the schema makes."""
        if schema.width:
            return Scaling.around(self.mean, self.squares, self.rows)
        columns = self.columns()
        means, squares = [], []
        for feature in schema.features:
            column = columns[feature.name]
            if feature.kind == "numeric":
                pairs = [] if feature.same else [(column.mean, column.squares)]
                pairs += [self._share(column.missing)] if feature.indicator else []
            else:
                counts = {**column.levels, MISSING: column.missing}
                pairs = [self._share(counts[level]) for level in feature.levels if level != feature.reference]
            means += [mean for mean, _ in pairs]
            squares += [square for _, square in pairs]
        return Scaling.around(np.array(means), np.array(squares), self.rows)

    def _share(self, count: float) -> tuple[float, float]:
        """Mean and squares of a column of so many ones and zeros else."""
        return count / self.rows, count * (1 - count / self.rows)
