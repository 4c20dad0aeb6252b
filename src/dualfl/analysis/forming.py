"""The terms of a formula become columns: what they must know of all rows comes from sums over silos.

Means and deviations are known from the counts of all columns; knots of splines are quantiles, by the search of
`quantiles`; then the columns that the terms make are added up once, for their scaling. A column that says the same in
every row, such as two levels that never meet, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dualfl.analysis.quantiles import Search
from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.silos.questions import Conversation, Exchange, Query
from dualfl.tables.encoding import Scaling
from dualfl.tables.moments import corrected
from dualfl.tables.outlines import Layout
from dualfl.tables.schema import Schema
from dualfl.tables.summaries import ColumnSummary
from dualfl.tables.terms import Factor, Term, coded

CLOSE = 0.01  # deviations; knots that are closer are one
CUT = 5  # no cell of fewer rows than twice that is cut to find a knot


def forming(
    schema: Schema, columns: Mapping[str, ColumnSummary], terms: Sequence[Term]
) -> Conversation[tuple[Schema, Scaling]]:
    """The schema with its terms, and the scaling of their columns."""
    check_columns(schema, terms)
    wanted = {factor for term in terms for factor in term.factors}
    knots = yield from searching_knots(columns, sorted(wanted, key=lambda one: one.name))
    known = {factor: with_state(factor, columns, knots) for factor in wanted}
    whole = [replace(term, factors=tuple(known[one] for one in term.factors)) for term in terms]
    levels = [one.name for one in schema.features if one.kind == "categorical"]
    schema = replace(schema, terms=coded(whole, levels))
    return (yield from scaling(schema, next(iter(columns.values()))))


def check_columns(schema: Schema, terms: Sequence[Term]) -> None:
    kinds = {one.name: one.kind for one in schema.features}
    for factor in (factor for term in terms for factor in term.factors):
        if factor.column in schema.constant:
            raise InputError(
                f"--formula: column {factor.column!r} says the same in every row of all silos; leave {factor.name} out."
            )
        if factor.column not in kinds:
            raise InputError(f"--formula: {nearest('column', factor.column, kinds)}")
        if factor.function and kinds[factor.column] == "categorical":
            raise InputError(
                f"--formula: {factor.name} is for numbers, and column {factor.column!r} has levels; take the column "
                "itself."
            )


def with_state(
    factor: Factor, columns: Mapping[str, ColumnSummary], knots: Mapping[Factor, tuple[float, ...]]
) -> Factor:
    if factor in knots:
        return replace(factor, state=knots[factor])
    if not factor.needs_moments:
        return factor
    column = columns[factor.column]
    return replace(factor, state=(column.mean, float(np.sqrt(column.squares / column.present))))


def searching_knots(
    columns: Mapping[str, ColumnSummary], factors: Sequence[Factor]
) -> Conversation[dict[Factor, tuple[float, ...]]]:
    """Quantiles over all silos, all splines side by side."""
    splines = [one for one in factors if one.shares]
    searches = {}
    for one in splines:
        column = columns[one.column]
        spread = float(np.sqrt(column.squares / max(column.present, 1)))
        searches[one] = Search(column.present, column.mean, spread, CUT, one.shares)
    names = tuple(dict.fromkeys(one.column for one in splines))
    layout = Layout(names, {}, {}).as_json()
    while True:
        wanted = [(one, search, search.edges()) for one, search in searches.items()]
        asked: list[dict[str, Any]] = [
            {"group": 0, "column": one.column, "edges": edges} for one, _, several in wanted for edges in several
        ]
        if not asked:
            break
        (answer,) = yield Exchange("knots", (Query("cells", {"layout": layout, "by": None, "asked": asked}),))
        counts = np.split(np.asarray(answer["below"]).round(), np.cumsum([len(one["edges"]) for one in asked])[:-1])
        for _, search, edges in wanted:
            if edges:
                search.told(edges, [counts.pop(0) for _ in edges])
    return {one: checked_knots(one, search) for one, search in searches.items()}


def checked_knots(factor: Factor, search: Search) -> tuple[float, ...]:
    found = search.found()
    values = () if found is None else found.values
    if not values or bool((np.diff(values) <= CLOSE * search.spread).any()):
        raise InputError(
            f"--formula: {factor.name} has knots that coincide, because column {factor.column!r} has few different "
            "numbers or few rows; take fewer knots, or the column itself."
        )
    return tuple(float(f"{value:.9g}") for value in values)


def scaling(schema: Schema, any_column: ColumnSummary) -> Conversation[tuple[Schema, Scaling]]:
    """Sums of the columns that the terms make, and of their squares around the means."""
    rows = float(any_column.present + any_column.missing)
    plain = Scaling.none(len(schema.names))
    note = Query("encode", {"schema": schema.as_json(), "mean": plain.mean, "spread": plain.spread}, "none")
    _, first = yield Exchange("terms", (note, Query("term_sums", {"center": None})))
    center = np.asarray(first["deviations"]) / rows
    (second,) = yield Exchange("terms", (Query("term_sums", {"center": center}),))
    mean, squares = corrected(center, rows, np.asarray(second["deviations"]), np.asarray(second["squares"]))
    same = np.asarray(squares <= (rows * np.finfo(float).eps * mean) ** 2)
    names = schema.names
    if bool(same.all()):
        raise InputError("--formula: every term says the same in all rows of all silos; take other terms.")
    schema = replace(schema, unused=tuple(name for name, out in zip(names, same) if out))
    return schema, Scaling.around(mean[~same], squares[~same], rows)
