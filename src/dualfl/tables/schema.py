"""What the columns mean, agreed upon by silos that show each other no row.

Each silo says which columns it has, which of them are numbers and which text, and the levels of text (`summaries`).
`drafted` makes one `Draft` of that, or says which silo and column stands in the way. Then silos count: how many entries
are there, how many rows have each level, the mean and the spread of numbers; files on one machine say so each for
itself, silos that keep secrets only in sums over all of them (`sums`). With these `settled` makes the `Schema`.

Categories. A level has a column of zeros and ones. With the coding "reference" the most frequent level has none: the
coefficients of the others are differences to it, and without a penalty they are determined only so. With "full" every
level has a column, and a penalty treats all alike.

Columns without names (of NumPy and LIBSVM files) are numbers, are called x0, x1, ..., and are taken as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from itertools import product
from typing import Any, Literal

import numpy as np

from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.tables.cells import DECIMAL_COMMA, USUAL
from dualfl.tables.roles import EVENTS
from dualfl.tables.summaries import ColumnSummary, Request, Summary, order, summarise, used
from dualfl.tables.terms import Factor, Term

__all__ = ["Draft", "Feature", "Request", "Schema", "Summary", "agree", "drafted", "settled", "summarise", "used"]

MISSING = "(missing)"
MOST_LEVELS = 50  # a text with more is a name or a number in disguise
RULES = ("fill", "indicator", "drop")
INTERCEPT = "(intercept)"  # what its coefficient is called


def made_names(width: int) -> tuple[str, ...]:
    """Of columns without names."""
    return tuple(f"x{i}" for i in range(width))


@dataclass(frozen=True)
class Draft:
    """What silos agree upon before anybody counts: columns with their kinds, levels and classes."""

    columns: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]  # of the columns of text; the others are numbers
    classes: tuple[str, ...]  # empty for numbers
    width: int = 0  # columns without names
    sparse: bool = False

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns of numbers."""
        return tuple(name for name in self.columns if name not in self.levels) or made_names(self.width)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Draft:
        levels = {name: tuple(found) for name, found in content["levels"].items()}
        given = {"columns": tuple(content["columns"]), "levels": levels, "classes": tuple(content["classes"])}
        return Draft(**{**content, **given})


@dataclass(frozen=True)
class Feature:
    """A column of the files, and how it becomes columns of numbers."""

    name: str
    kind: Literal["numeric", "categorical"]
    mean: float = 0.0  # what a missing number becomes
    indicator: bool = False  # whether a column says which numbers were missing
    same: bool = False  # whether all numbers that are there are the same, so that only the indicator is kept
    levels: tuple[str, ...] = ()
    reference: str | None = None  # the level without a column; None: every level has one

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns of numbers."""
        if self.kind == "categorical":
            return tuple(f"{self.name}={level}" for level in self.levels if level != self.reference)
        names = (self.name, f"{self.name} is missing")
        return names[int(self.same) : 1 + self.indicator]

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Feature:
        """Levels that an older version called 01 or True have the names that they have now."""
        levels = tuple(map(USUAL.level, content["levels"]))
        reference = content["reference"]
        if len(set(levels)) < len(levels):
            raise InputError(f"column {content['name']!r} has two levels that are the same number")
        named = {"levels": levels, "reference": None if reference is None else USUAL.level(reference)}
        return Feature(**{**content, **named})


@dataclass(frozen=True)
class Schema:
    """What a model takes, and what it predicts."""

    target: str
    classes: tuple[str, ...]  # empty for numbers
    features: tuple[Feature, ...]
    constant: tuple[str, ...] = ()  # columns that say the same in every row of every silo, and are left out
    width: int = 0  # columns without names; then there are no others
    sparse: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)  # columns that are no features (`roles`)
    terms: tuple[Term, ...] = ()  # of a formula; without one, every feature is a term
    unused: tuple[str, ...] = ()  # columns of terms that say the same in every row, and are left out

    @property
    def names(self) -> tuple[str, ...]:
        if self.terms:
            return tuple(name for names in self.blocks.values() for name in names)
        return tuple(name for feature in self.features for name in feature.names) or made_names(self.width)

    def factor_names(self, factor: Factor, full: bool) -> tuple[str, ...]:
        """The columns that a factor makes: of levels all, or all but the reference."""
        feature = next(one for one in self.features if one.name == factor.column)
        if feature.kind == "numeric":
            return factor.names()
        return replace(feature, reference=None).names if full else feature.names

    @property
    def blocks(self) -> dict[str, tuple[str, ...]]:
        """The columns of numbers that belong together, by what they were made of."""
        if not self.terms:
            return {one.name: one.names for one in self.features} or {name: (name,) for name in self.names}
        found: dict[str, tuple[str, ...]] = {}
        for term in self.terms:
            parts = (self.factor_names(*one) for one in zip(term.factors, term.full))
            names = (":".join(name) for name in product(*parts))
            found[term.name] = (*found.get(term.name, ()), *(name for name in names if name not in self.unused))
        return {name: names for name, names in found.items() if names}

    def as_json(self) -> dict[str, Any]:
        content = asdict(self)
        for name in ("roles", "terms", "unused"):
            if not content[name]:
                del content[name]
        return content

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Schema:
        features = tuple(Feature.from_json(one) for one in content["features"])
        unnamed = {name: content[name] for name in ("width", "sparse", "roles") if name in content}
        unnamed["terms"] = tuple(Term.from_json(one) for one in content.get("terms", ()))
        unnamed["unused"] = tuple(content.get("unused", ()))
        classes = tuple(map(USUAL.level, content["classes"]))
        return Schema(content["target"], classes, features, tuple(content["constant"]), **unnamed)


def agree(
    silos: Sequence[Summary],
    request: Request,
    *,
    coding: str = "reference",
    positive: str | None = None,
    allow_empty: bool = False,
) -> Schema:
    """One schema for silos that count each for itself, or the sentence that says what hinders it."""
    draft = drafted(silos, request, positive=positive, allow_empty=allow_empty)
    total = {name: reduce(ColumnSummary.__add__, (silo.columns[name] for silo in silos)) for name in draft.columns}
    return settled(draft, total, request, coding)


# -- before anybody counts --------------------------------------------------------------------------------


def drafted(
    silos: Sequence[Summary], request: Request, *, positive: str | None = None, allow_empty: bool = False
) -> Draft:
    """What silos with these columns agree upon; their counts are not looked at."""
    check_same_layout(silos)
    check_same_columns(silos, request)
    check_same_kinds(silos, request)
    check_not_empty(silos, request, allow_empty)
    levels = {}
    for name in silos[0].columns:
        if any(silo.columns[name].kind == "categorical" for silo in silos):
            levels[name] = tuple(sorted({one for silo in silos for one in silo.columns[name].levels}, key=order))
    classes = () if request.numeric_target else class_names(silos, request, positive)
    width = max(silo.width for silo in silos)  # a LIBSVM file does not show columns that are zero everywhere in it
    return Draft(tuple(silos[0].columns), levels, classes, width, silos[0].sparse)


def check_same_layout(silos: Sequence[Summary]) -> None:
    """Columns without names are told apart by their places, so all silos have as many; sparse ones end early."""
    first = silos[0]
    for silo in silos:
        if silo.sparse != first.sparse:
            one, other = (silo, first) if silo.sparse else (first, silo)
            raise InputError(f"{one.name} has sparse rows and {other.name} has not; bring one kind of file.")
        if silo.width != first.width and not silo.sparse:
            raise InputError(
                f"{silo.name} has {silo.width} columns without names and {first.name} has {first.width}; "
                "all silos need the same ones in the same order."
            )


def check_same_columns(silos: Sequence[Summary], request: Request) -> None:
    """All files have the same columns, in any order."""
    everywhere = dict.fromkeys(name for silo in silos for name in silo.columns)
    for silo in silos:
        lacking = [name for name in everywhere if name not in silo.columns]
        if lacking:
            owner = next(other.name for other in silos if lacking[0] in other.columns)
            shown = ", ".join(map(repr, lacking[:4])) + (", ..." if len(lacking) > 4 else "")
            raise InputError(
                f"{silo.name} has no column {shown}, which {owner} has; add it, or "
                f"{request.remedies.everywhere(*lacking[:4])}."
            )


def check_same_kinds(silos: Sequence[Summary], request: Request) -> None:
    """A column has numbers in all files, or text in all."""
    for name in silos[0].columns:
        first: dict[str, Summary] = {}
        for silo in silos:
            first.setdefault(silo.columns[name].kind, silo)
        if "numeric" in first and "categorical" in first:
            text, numbers = first["categorical"], first["numeric"]
            commas = any(DECIMAL_COMMA.fullmatch(level) for level in text.columns[name].levels)
            remedy = request.remedies.decimal if commas else request.remedies.categorical.format(name)
            raise InputError(
                f"{text.name} has text such as {text.columns[name].example!r:.40} in column {name!r}, and "
                f"{numbers.name} has numbers there; correct the file, or {remedy}."
            )


def check_not_empty(silos: Sequence[Summary], request: Request, allow: bool) -> None:
    """Each file says something in each column; if allowed, some files may not."""
    for name in silos[0].columns:
        empty = [silo for silo in silos if silo.columns[name].kind == "empty"]
        if len(empty) == len(silos):
            raise InputError(f"No silo has an entry in column {name!r}; {request.remedies.everywhere(name)}.")
        if empty and not allow:
            raise InputError(
                f"{empty[0].name} has no entry at all in column {name!r}; {request.remedies.drop.format(name)}, "
                f"or {request.remedies.allow_empty}."
            )


def class_names(silos: Sequence[Summary], request: Request, positive: str | None) -> tuple[str, ...]:
    """The classes in order; that whose probability is asked for comes last."""
    if "time" in request.roles:
        return event_names(silos, request)
    names = sorted({label for silo in silos for label in silo.target.levels}, key=order)
    target, ordered = (
        f"column {request.target!r}, the target," if request.target else "the target",
        request.levels is not None,
    )
    check_target_kinds(silos, target, request)
    if len(names) < 2:
        rows = sum(silo.rows for silo in silos)
        raise InputError(
            f"{target[0].upper()}{target[1:]} is {names[0]!r} in all {f'{rows:,} ' if rows else ''}rows of "
            f"{listed_briefly([silo.name for silo in silos])}; "
            + (
                "an ordered target needs at least 2 levels."
                if ordered
                else "a classifier needs rows of at least 2 classes."
            )
        )
    if ordered:
        return in_order(names, request)
    if positive is None:
        return tuple(names)
    if positive not in names:
        raise InputError(f"--positive: {nearest(f'class in column {request.target!r},', positive, names)}")
    if len(names) > 2:
        raise InputError(
            f"--positive is for two classes, and column {request.target!r} has {len(names)}; leave it out."
        )
    return tuple(sorted(names, key=lambda name: name == positive))


def event_names(silos: Sequence[Summary], request: Request) -> tuple[str, ...]:
    """Events are 1 or 0 everywhere, and somebody has one; a silo need not."""
    for silo in silos:
        strange = [label for label in silo.target.levels if label not in EVENTS]
        if strange:
            raise InputError(
                f"{silo.name} has {strange[0]!r:.40} in column {request.target!r}, the event, which must be 1 (it "
                f"happened) or 0 (censored); correct it, or say what it means, as --recode {request.target}=yes:1,no:0."
            )
    if not any("1" in silo.target.levels for silo in silos):
        raise InputError(
            f"Column {request.target!r}, the event, is 0 in all rows of {listed_briefly([s.name for s in silos])}, so "
            "all are censored and nothing can be said of hazards."
        )
    return EVENTS


def in_order(names: Sequence[str], request: Request) -> tuple[str, ...]:
    """The levels of an ordered target from low to high: as was said, or by number."""
    if request.levels:
        wrong = sorted(set(names) ^ set(request.levels), key=order)
        if wrong:
            what = "no silo has" if wrong[0] in request.levels else "--levels does not name"
            raise InputError(
                f"--levels is {', '.join(request.levels)}, and {what} the level {wrong[0]!r} of column "
                f"{request.target!r}; name all levels that occur, from low to high."
            )
        return tuple(request.levels)
    if any(order(name)[0] for name in names):
        raise InputError(
            f"Column {request.target!r} has the levels {listed_briefly(names)}, and nobody knows their order; say it "
            "by --levels, from low to high."
        )
    return tuple(names)


def check_target_kinds(silos: Sequence[Summary], target: str, request: Request) -> None:
    """Classes called 0 and 1 in one file and no and yes in another are not the same classes."""

    def numbers(silo: Summary) -> bool:
        return all(order(label)[0] == 0 for label in silo.target.levels)

    plain = [silo for silo in silos if numbers(silo)]
    named = [silo for silo in silos if not numbers(silo)]
    if plain and named:
        raise InputError(
            f"{named[0].name} has the class {named[0].target.example!r:.40} in {target} and "
            f"{plain[0].name} has numbers there, such as {plain[0].target.example!r}; "
            f"call the classes alike in all files, {request.remedies.recode.format(request.target)}."
        )


def listed_briefly(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


# -- after all have counted -------------------------------------------------------------------------------


def settled(draft: Draft, total: Mapping[str, ColumnSummary], request: Request, coding: str) -> Schema:
    """The schema, from what all silos together have in each column."""
    if draft.width:
        return Schema(request.target, draft.classes, (), width=draft.width, sparse=draft.sparse)
    features, constant = [], []
    for name in draft.columns:
        column = total[name]
        if not column.present:
            raise InputError(f"No silo has an entry in column {name!r}; {request.remedies.everywhere(name)}.")
        if _is_constant(column) and not _says_by_gaps(column, request):
            constant.append(name)
        else:
            features.append(_feature(name, column, request, coding))
    if not features:
        besides = f" besides the target {request.target!r}" if request.target else ""
        if not constant:
            raise InputError(f"There is no column{besides} to learn from; add some, or name them by --columns.")
        raise InputError(
            f"Every column{besides} has one value in all rows of all files "
            f"({', '.join(constant[:5])}), so there is nothing to learn from; add columns that differ."
        )
    check_made_names(features)
    return Schema(request.target, draft.classes, tuple(features), tuple(constant), roles=dict(request.roles))


def check_made_names(features: Sequence[Feature]) -> None:
    """Refuse a column whose name is one that is made for a coefficient."""
    owner = {INTERCEPT: "the intercept"}
    for feature in features:
        for name in feature.names:
            if name in owner:
                raise InputError(
                    f"The coefficient of column {feature.name!r} would be called {name!r}, like that of {owner[name]}; "
                    f"rename the column {feature.name!r} in all files."
                )
            owner[name] = f"column {feature.name!r}"


def _is_constant(column: ColumnSummary) -> bool:
    if column.kind == "categorical":
        return len(column.levels) == 1 and not column.missing
    rounding = (column.present * np.finfo(float).eps * column.mean) ** 2
    return bool(column.squares <= rounding)  # with gaps too: they become the mean


def _says_by_gaps(column: ColumnSummary, request: Request) -> bool:
    """Whether a column of numbers tells something by what it lacks."""
    return column.kind == "numeric" and request.missing == "indicator" and column.missing > 0


def _feature(name: str, column: ColumnSummary, request: Request, coding: str) -> Feature:
    if column.kind == "numeric":
        return Feature(name, "numeric", column.mean, _says_by_gaps(column, request), same=_is_constant(column))
    counts = dict(sorted(column.levels.items(), key=lambda item: order(item[0])))
    if column.missing:
        if MISSING in counts:
            raise InputError(f"Column {name!r} has gaps and also the text {MISSING!r}; call one of them differently.")
        counts[MISSING] = column.missing
    if len(counts) > MOST_LEVELS:
        raise InputError(
            f"Column {name!r} has {len(counts):,} different texts, such as {column.example!r:.40}, and {MOST_LEVELS} "
            f"are the most a category may have; {request.remedies.everywhere(name)}, "
            "group its levels, or make it numbers."
        )
    reference = max(counts, key=lambda level: counts[level]) if coding == "reference" else None
    return Feature(name, "categorical", levels=tuple(counts), reference=reference)
