"""Silos agree upon columns: names first, then counts, then spreads; three exchanges, and nobody shows a row.

Names of columns, levels and classes are every silo's own words (`tables.schema.drafted`). Counts and sums are added up
over all silos, so that nobody need show his own; what a silo shows of itself (`own`) travels with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualfl.analysis.forming import forming
from dualfl.errors import InputError
from dualfl.silos.questions import Conversation, Exchange, Query, Silos
from dualfl.silos.verbs import request_to_json
from dualfl.tables.encoding import Scaling
from dualfl.tables.schema import Draft, Request, Schema, drafted, listed_briefly, settled
from dualfl.tables.summaries import ColumnSummary, Summary
from dualfl.tables.sums import Totals, centre
from dualfl.tables.terms import Term
from dualfl.typing import Array


@dataclass(frozen=True, eq=False)
class Overview:
    """What all silos together have."""

    rows: int
    without_target: int  # rows that were left out
    with_gaps: int  # rows that were left out because of other gaps
    columns: Mapping[str, ColumnSummary]
    classes: Array  # rows of each class
    target_mean: float
    target_squares: float  # around the mean


@dataclass(frozen=True, eq=False)
class OwnCounts:
    """What one silo shows of itself."""

    rows: int
    without_target: int
    with_gaps: int
    classes: Array
    target: float = 0.0  # the sum of the targets
    target_squares: float = 0.0  # around the mean of all silos, but for rounding


@dataclass(frozen=True, eq=False)
class Agreed:
    """Columns, and what is in them. `note` tells silos to make rows of their tables; it travels with what is next."""

    schema: Schema
    scaling: Scaling
    overview: Overview
    own: tuple[OwnCounts | None, ...]  # None: withheld

    @property
    def note(self) -> Query:
        given = {"schema": self.schema.as_json(), "mean": self.scaling.mean, "spread": self.scaling.spread}
        return Query("encode", given, "none")


@dataclass(frozen=True)
class ColumnWishes:
    """What is asked of the tables."""

    request: Request
    coding: str = "reference"
    positive: str | None = None
    allow_empty: bool = False
    standardise: bool = True
    centre: bool = True  # columns that are not standardised; right where the intercept is free, and saves digits
    least: float | None = None  # of the targets, for models of counts
    first: str = ""  # the silo whose columns come first, in its order; "" is the first by name
    terms: tuple[Term, ...] = ()  # of a formula

    def taken(self, scaling: Scaling) -> Scaling:
        """What of means and spreads is used."""
        if self.standardise:
            return scaling
        return scaling.centred if self.centre else Scaling.none(len(scaling.mean))


def agreeing(silos: Silos, wishes: ColumnWishes) -> Conversation[Agreed]:
    """From the names that silos use to columns of numbers that mean the same everywhere."""
    request = wishes.request
    summaries = yield from told_names(silos, request, wishes.least)
    if request.numeric_target is None:
        request = replace(request, numeric_target=told_numbers(summaries))
    summaries.sort(key=lambda one: bool(wishes.first) and one.name != wishes.first)
    draft = drafted(summaries, request, positive=wishes.positive, allow_empty=wishes.allow_empty)
    content = draft.as_json()
    (sums,) = yield Exchange("columns and levels", (Query("count", {"draft": content}),))
    scaled = not draft.sparse and (wishes.standardise or wishes.centre or not draft.width)
    center = centre(sums) if scaled else np.zeros(0)
    mean = float(sums["target"]) / float(sums["size"]) if "target" in sums else 0.0
    deviate = Query("deviate", {"draft": content, "columns": scaled, "center": center, "target": mean})
    around, own = yield from with_own(silos, deviate, Query("own", {"draft": content, "target": mean}, "each"))
    schema, scaling, columns = settle(draft, sums, center, around, wishes)
    overview = make_overview(sums, around, columns, mean)
    if not draft.classes:
        check_target(overview, request, silos)
    if wishes.terms:
        schema, scaling = yield from forming(schema, columns, wishes.terms)
        scaling = wishes.taken(scaling)
    return Agreed(schema, scaling, overview, tuple(None if one is None else own_counts(one) for one in own))


def with_own(silos: Silos, summed: Query, shown: Query) -> Conversation[tuple[Any, Sequence[Any]]]:
    """A sum, and what silos show of themselves; if one alone withholds that, the others would give it away."""
    if len(silos.withheld) == 1:
        (found,) = yield Exchange("the scaling", (summed,))
        return found, [None] * len(silos.names)
    found, own = yield Exchange("the scaling", (summed, shown))
    return found, own


def told_names(silos: Silos, request: Request, least: float | None) -> Conversation[list[Summary]]:
    """What every silo calls its columns, levels and classes."""
    query = Query("describe", {"request": request_to_json(request), "least": least}, "each")
    (told,) = yield Exchange("columns and levels", (query,))
    return [Summary.named(name, one) for name, one in zip(silos.names, told)]


def check_counts(overview: Overview, used: int) -> None:
    """Every silo has committed itself to its number of rows; who uses another has said what is not true."""
    if used != overview.rows:
        raise InputError(
            f"The answers of silos contradict each other: {overview.rows:,} rows were counted and {used:,} are used. "
            "Some silo said what is not true, or its data changed; which one this does not tell."
        )


def told_numbers(summaries: Sequence[Summary]) -> bool:
    """Whether the target is a number, where every silo says itself what it is."""
    numbers = [one.name for one in summaries if not one.target.levels]
    classes = [one.name for one in summaries if one.target.levels]
    if numbers and classes:
        raise InputError(
            f"Silo {classes[0]!r} has a classification target and silo {numbers[0]!r} a regression target; say which "
            "it is by `task` in the project's project.json."
        )
    return not classes


def settle(
    draft: Draft, sums: Mapping[str, Any], center: Array, around: Mapping[str, Any], wishes: ColumnWishes
) -> tuple[Schema, Scaling, Mapping[str, ColumnSummary]]:
    """The schema, its scaling, and what was counted."""
    if not len(center) and not draft.levels:  # sparse columns, and those that are taken as they are
        schema = settled(draft, {}, wishes.request, wishes.coding)
        return schema, Scaling.none(len(schema.names)), {}
    totals = Totals(draft, sums, center, around)
    columns = {} if draft.width else totals.columns()
    schema = settled(draft, columns, wishes.request, wishes.coding)
    return schema, wishes.taken(totals.scaling(schema)), columns


def make_overview(
    sums: Mapping[str, Any], around: Mapping[str, Any], columns: Mapping[str, ColumnSummary], centre: float
) -> Overview:
    rows = float(sums["size"])
    shift = float(around["target"]) / rows
    squares = max(float(around["target_squares"]) - rows * shift**2, 0.0)
    counts = np.asarray(sums.get("classes", np.zeros(0))).round()
    without, gaps = round(float(sums["without_target"])), round(float(sums["with_gaps"]))
    return Overview(round(rows), without, gaps, columns, counts, centre + shift, squares)


def own_counts(told: Mapping[str, Any]) -> OwnCounts:
    rows, without, gaps = (int(told[name]) for name in ("size", "without_target", "with_gaps"))
    counts = np.asarray(told.get("classes", np.zeros(0)))
    return OwnCounts(rows, without, gaps, counts, float(told.get("target", 0.0)), float(told["target_squares"]))


def check_target(overview: Overview, request: Request, silos: Silos) -> None:
    """Numbers that are all the same explain nothing and need no explanation."""
    rounding = overview.rows * (np.finfo(float).eps * overview.target_mean) ** 2
    if overview.target_squares <= rounding:
        raise InputError(
            f"Column {request.target!r}, the target, is {overview.target_mean:g} in every row of "
            f"{listed(silos.names)}, so there is nothing to explain; give another --target."
        )


def listed(names: Sequence[str]) -> str:
    return listed_briefly(list(names))
