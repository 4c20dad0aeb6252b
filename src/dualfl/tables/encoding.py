"""A silo's table as a matrix of numbers, by the schema that all silos agreed upon; and its scaling, from sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.tables.moments import corrected, two_sums
from dualfl.tables.reading import Table, check_odd, check_usable, is_numeric, missing
from dualfl.tables.refusals import IN_FILES, Unfit
from dualfl.tables.schema import MISSING, Feature, Schema
from dualfl.tables.terms import Factor, products
from dualfl.typing import AnyArray, Array

UNSEEN = ("error", "baseline")
REFERENCE = "count such rows as the reference level with --unseen baseline"
AS_MODEL = replace(IN_FILES, categorical="fit a model that takes {!r} as categories")


def features(table: Table, schema: Schema, unseen: str = "error") -> Any:
    """Rows by columns, dense or CSR; the intercept has none.

    A level that the model has not seen is an error, or, as "baseline", a row of zeros: the reference level, or no level
    at all where every level has a column.
    """
    if schema.width:
        return _unnamed(table, schema)
    lacking = [one.name for one in schema.features if one.name not in table.columns]
    if lacking:
        hint = nearest("column", lacking[0], table.columns).partition("; ")[2]
        raise InputError(
            f"{table.name} has no column {', '.join(map(repr, lacking[:4]))}, which the model needs; {hint}"
        )
    if schema.terms:
        return _terms(table, schema, unseen)
    parts = [_columns(table, feature, unseen) for feature in schema.features]
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def _terms(table: Table, schema: Schema, unseen: str) -> Array:
    """The products of a formula; gaps in numbers become means before anything is made of them."""
    by_name = {feature.name: feature for feature in schema.features}
    made: dict[tuple[Factor, bool], Array] = {}
    parts = []
    for term in schema.terms:
        blocks = []
        for factor, full in zip(term.factors, term.full):
            if (factor, full) not in made:
                feature = by_name[factor.column]
                whole = replace(feature, reference=None if full else feature.reference)
                columns = _columns(table, whole, unseen)
                made[factor, full] = columns if feature.kind == "categorical" else factor.values(columns[:, 0])
            blocks.append((schema.factor_names(factor, full), made[factor, full]))
        names, columns = products(blocks)
        parts.append(columns[:, [name not in schema.unused for name in names]])
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def _unnamed(table: Table, schema: Schema) -> Any:
    """Columns without names as they are; those that a sparse file does not show are zero."""
    if not schema.sparse:
        return np.ascontiguousarray(table.matrix, dtype=np.float64)
    X = table.matrix.copy()
    X.resize((table.rows, schema.width))
    return X


def _columns(table: Table, feature: Feature, unseen: str) -> Array:
    check_usable(table, feature.name)
    values = table.columns[feature.name]
    if feature.kind == "numeric":
        return _numbers(table, feature, values)
    text = levels(table, feature)
    if unseen == "error":
        _check_levels(table, feature, text)
    kept = [level for level in feature.levels if level != feature.reference]
    dummies: Array = (text[:, None] == np.array(kept, dtype=np.str_)).astype(np.float64)
    return dummies


def substituted(table: Table, schema: Schema) -> tuple[int, int]:
    """How many gaps in numbers became means, and how many levels are none of the model's."""
    gaps = unseen = 0
    for feature in schema.features:
        if feature.kind == "numeric":
            gaps += int(missing(table.columns[feature.name]).sum())
        else:
            unseen += int(np.count_nonzero(~np.isin(levels(table, feature), feature.levels)))
    return gaps, unseen


def levels(table: Table, feature: Feature) -> AnyArray:
    """The level of each row."""
    text = table.levels(feature.name)
    found: AnyArray = np.where(text == "", MISSING, text)
    return found


def _numbers(table: Table, feature: Feature, values: AnyArray) -> Array:
    gaps = missing(values)
    if not is_numeric(values):
        if not gaps.all():
            check_odd(table, feature.name, AS_MODEL)
            example = next(value for value in values if value)
            raise InputError(
                f"{table.name} has text such as {str(example)!r:.40} in column {feature.name!r}, and the model was "
                "fitted to numbers there; correct the file."
            )
        values = np.full(len(values), np.nan)
    both: Array = np.column_stack([np.where(gaps, feature.mean, values), gaps.astype(np.float64)])
    return both[:, int(feature.same) : 1 + feature.indicator]


def _check_levels(table: Table, feature: Feature, text: AnyArray) -> None:
    strange = np.flatnonzero(~np.isin(text, feature.levels))
    if not len(strange):
        return
    level, row = str(text[strange[0]]), strange[0] + 1
    what = "a gap" if level == MISSING else f"the level {level!r}"
    raise Unfit(
        f"{table.name} has {what} in column {feature.name!r}, row {row}, and the model knows only "
        f"{', '.join(feature.levels[:6])}{', ...' if len(feature.levels) > 6 else ''}; correct the file, "
        f"or {REFERENCE}.",
        f"its column {feature.name!r} has a level that the model does not know; {REFERENCE}",
    )


def targets(table: Table, schema: Schema) -> AnyArray:
    """Numbers of classes in the order of the schema, or real targets."""
    values = table.columns[schema.target]
    if not schema.classes:
        if not is_numeric(values):
            check_odd(table, schema.target, AS_MODEL)
            example = next((value for value in values if value), "")
            raise InputError(
                f"{table.name} has text such as {str(example)!r:.40} in column {schema.target!r}, the target, and the "
                "model predicts numbers; correct the file."
            )
        return values
    text = table.levels(schema.target)
    strange = [label for label in np.unique(text) if label not in schema.classes]
    if strange:
        raise InputError(
            f"{table.name} has the class {str(strange[0])!r} in column {schema.target!r}, the target, and the model "
            f"knows only {', '.join(schema.classes)}; correct the file, or fit a model with this class."
        )
    number = {label: k for k, label in enumerate(schema.classes)}
    return np.array([number[label] for label in text], dtype=np.intp)


# -- scaling ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scaling:
    """Columns are fitted as (x - mean)/spread, and coefficients reported for x."""

    mean: Array
    spread: Array

    @staticmethod
    def around(mean: Array, squares: Array, rows: float) -> Scaling:
        """From the mean of every column and the squares around it; only rounding is no spread, and a column without
        one keeps its unit."""
        spread = np.sqrt(squares / rows)
        rounding = np.sqrt(rows) * np.finfo(float).eps * np.abs(mean)
        return Scaling(mean, np.where(spread > rounding, spread, 1.0))

    @staticmethod
    def none(columns: int) -> Scaling:
        return Scaling(np.zeros(columns), np.ones(columns))

    @property
    def centred(self) -> Scaling:
        """The same means, and every column in its own unit."""
        return Scaling(self.mean, np.ones(len(self.mean)))

    def scaled(self, X: Array) -> Array:
        return (X - self.mean) / self.spread

    @property
    def back(self) -> Array:
        """The matrix that takes (w, b) for scaled columns to (w, b) for the columns themselves."""
        d = len(self.mean)
        T = np.diag(np.append(1 / self.spread, 1.0))
        T[d, :d] = -self.mean / self.spread
        return T


def scaling(matrices: Sequence[Array], standardise: bool) -> Scaling:
    """What the silos with these rows agree upon, by two sums as silos elsewhere add them up (`sums`)."""
    if not standardise:
        return Scaling.none(matrices[0].shape[1])
    rows = sum(len(X) for X in matrices)
    center = np.sum([X.sum(axis=0) for X in matrices], axis=0) / rows
    around = [two_sums(X, center) for X in matrices]
    deviations, squares = (np.sum([one[k] for one in around], axis=0) for k in (0, 1))
    return Scaling.around(*corrected(center, rows, deviations, squares), rows)
