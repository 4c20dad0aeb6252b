"""What the columns mean, agreed upon by silos that show each other no row.

Each silo answers a `Request` with a `Summary`: the names of its columns, and of each whether it has numbers or text,
how many entries are there and how many are missing, the mean and the spread of numbers, and how many rows have each
level of a text. `agree` makes one `Schema` of the summaries, or says which file and column stands in the way.

Missing values. Rows without a target are dropped, and counted. A missing number becomes the mean of all silos ("fill"),
with a column of its own that says so if asked for ("indicator"); a missing text is a level of its own, "(missing)". Or
all rows with a gap are dropped ("drop").

Categories. A level has a column of zeros and ones. With the coding "reference" the most frequent level has none: the
coefficients of the others are differences to it, and without a penalty they are determined only so. With "full" every
level has a column, and a penalty treats all alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Any, Literal

import numpy as np

from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.tables.reading import Table, as_text, check_usable, is_numeric, missing
from dualfl.typing import AnyArray

Kind = Literal["numeric", "categorical", "empty"]
MISSING = "(missing)"
MOST_LEVELS = 50  # a text with more is a name or a number in disguise
RULES = ("fill", "indicator", "drop")


@dataclass(frozen=True)
class Request:
    """What every silo is asked."""

    target: str
    numeric_target: bool = False
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    missing: str = "fill"


# -- what a silo says -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnSummary:
    """Of one column: counts, the moments of numbers, the counts of levels."""

    kind: Kind
    present: int
    missing: int
    mean: float = 0.0
    squares: float = 0.0  # around the mean
    least: float = 0.0
    levels: Mapping[str, int] = field(default_factory=dict)

    @property
    def example(self) -> str:
        """A level, of texts one that is no number: it shows what is wrong with the others."""
        return next((level for level in self.levels if _order(level)[0]), next(iter(self.levels), ""))

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        """Both silos together (Chan, Golub and LeVeque); an empty one adds nothing but its gaps."""
        n = self.present + other.present
        share = other.present / n if n else 0.0
        apart = other.mean - self.mean
        return ColumnSummary(
            other.kind if self.kind == "empty" else self.kind,
            n,
            self.missing + other.missing,
            self.mean + apart * share,
            self.squares + other.squares + apart**2 * self.present * share,
            min([one.least for one in (self, other) if one.present], default=0.0),
            dict(Counter(self.levels) + Counter(other.levels)),
        )


@dataclass(frozen=True)
class Summary:
    """All that a silo says about itself."""

    name: str
    rows: int  # that are used
    without_target: int
    with_gaps: int  # dropped because of other gaps
    columns: Mapping[str, ColumnSummary]
    target: ColumnSummary

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Summary:
        columns = {name: ColumnSummary(**column) for name, column in content["columns"].items()}
        return Summary(**{**content, "columns": columns, "target": ColumnSummary(**content["target"])})


def used(table: Table, request: Request) -> tuple[Table, int, int]:
    """The rows to be used, and how many lack the target, and how many another entry."""
    if request.target not in table.columns:
        hint = nearest("column", request.target, table.columns).partition("; ")[2]
        raise InputError(
            f"{table.name} has no column {request.target!r}, the target; {hint} "
            "Rename it in the file, or give another --target."
        )
    columns = {name: values for name, values in table.columns.items() if name not in request.drop}
    for name in columns:
        remedy = "" if name == request.target else f", or leave the column out with --drop {name!r}"
        check_usable(table, name, remedy)
    columns |= {name: as_text(columns[name]) for name in request.categorical if name in columns}
    table = Table(table.name, columns)
    there = ~missing(table.columns[request.target])
    if not there.any():
        raise InputError(
            f"{table.name} has no entry at all in column {request.target!r}, the target; fill it, "
            "or leave the file out."
        )
    whole = there
    if request.missing == "drop":
        whole = there & ~np.any([missing(values) for values in columns.values()], axis=0)
        if not whole.any():
            raise InputError(
                f"{table.name} has no row without a gap; take --missing fill, or leave out columns with gaps by --drop."
            )
    return table.kept(whole), int((~there).sum()), int((there & ~whole).sum())


def summarise(table: Table, request: Request) -> Summary:
    """A silo's answer."""
    kept, without, gaps = used(table, request)
    target = kept.columns[request.target]
    if request.numeric_target and not is_numeric(target):
        raise InputError(
            f"{table.name} has text such as {_first(target)!r:.40} in column {request.target!r}, the target, and this "
            "model needs numbers; correct the file, or take --model logistic or multinomial for classes."
        )
    columns = {name: _summary(values) for name, values in kept.columns.items() if name != request.target}
    if not columns:
        raise InputError(f"{table.name} has no column besides the target {request.target!r}, so there are no features.")
    labels = target if request.numeric_target else as_text(target)
    return Summary(table.name, kept.rows, without, gaps, columns, _summary(labels))


def _summary(values: AnyArray) -> ColumnSummary:
    gaps = missing(values)
    there = values[~gaps]
    n, lost = len(there), int(gaps.sum())
    if not n:
        return ColumnSummary("empty", 0, lost)
    if not is_numeric(values):
        names, counts = np.unique(there, return_counts=True)
        return ColumnSummary("categorical", n, lost, levels=dict(zip(names.tolist(), counts.tolist())))
    mean = float(there.mean())
    return ColumnSummary("numeric", n, lost, mean, float(((there - mean) ** 2).sum()), float(there.min()))


def _first(values: AnyArray) -> str:
    return str(next(value for value in values if value != ""))


# -- what they agree upon ---------------------------------------------------------------------------------


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


@dataclass(frozen=True)
class Schema:
    """What a model takes, and what it predicts."""

    target: str
    classes: tuple[str, ...]  # empty for numbers
    features: tuple[Feature, ...]
    constant: tuple[str, ...] = ()  # columns that say the same in every row of every silo, and are left out

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for feature in self.features for name in feature.names)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Schema:
        features = tuple(Feature(**{**one, "levels": tuple(one["levels"])}) for one in content["features"])
        return Schema(content["target"], tuple(content["classes"]), features, tuple(content["constant"]))


def agree(
    silos: Sequence[Summary],
    request: Request,
    *,
    coding: str = "reference",
    positive: str | None = None,
    allow_empty: bool = False,
) -> Schema:
    """One schema for all silos, or the sentence that says what hinders it."""
    check_same_columns(silos)
    check_same_kinds(silos, request)
    check_not_empty(silos, allow_empty)
    total = {name: reduce(lambda a, b: a + b, (silo.columns[name] for silo in silos)) for name in silos[0].columns}
    features, constant = [], []
    for name, column in total.items():
        if _is_constant(column) and not _says_by_gaps(column, request):
            constant.append(name)
        else:
            features.append(_feature(name, column, request, coding))
    if not features:
        raise InputError(
            f"Every column besides the target {request.target!r} says the same in all rows of all files "
            f"({', '.join(constant[:5])}), so there is nothing to learn from; add columns that differ."
        )
    classes = () if request.numeric_target else class_names(silos, request, positive)
    return Schema(request.target, classes, tuple(features), tuple(constant))


def check_same_columns(silos: Sequence[Summary]) -> None:
    """All files have the same columns, in any order."""
    everywhere = dict.fromkeys(name for silo in silos for name in silo.columns)
    for silo in silos:
        lacking = [name for name in everywhere if name not in silo.columns]
        if lacking:
            owner = next(other.name for other in silos if lacking[0] in other.columns)
            drop = " ".join(f"--drop {name!r}" for name in lacking[:4])
            raise InputError(
                f"{silo.name} has no column {', '.join(map(repr, lacking[:4]))}{', ...' if len(lacking) > 4 else ''}, "
                f"which {owner} has; add it, or leave it out everywhere with {drop}."
            )


def check_same_kinds(silos: Sequence[Summary], request: Request) -> None:
    """A column has numbers in all files, or text in all."""
    for name in silos[0].columns:
        first: dict[str, Summary] = {}
        for silo in silos:
            first.setdefault(silo.columns[name].kind, silo)
        if "numeric" in first and "categorical" in first:
            text, numbers = first["categorical"], first["numeric"]
            raise InputError(
                f"{text.name} has text such as {text.columns[name].example!r:.40} in column {name!r}, and "
                f"{numbers.name} has numbers there; correct the file, or take them as categories "
                f"with --categorical {name!r}."
            )


def check_not_empty(silos: Sequence[Summary], allow: bool) -> None:
    """Each file says something in each column; if allowed, some files may not."""
    for name in silos[0].columns:
        empty = [silo for silo in silos if silo.columns[name].kind == "empty"]
        if len(empty) == len(silos):
            raise InputError(
                f"No file has an entry in column {name!r} ({empty[0].name} has {empty[0].rows:,} gaps); "
                f"leave it out with --drop {name!r}."
            )
        if empty and not allow:
            raise InputError(
                f"{empty[0].name} has no entry at all in column {name!r}; leave the column out with --drop {name!r}, "
                "or let the rule for missing values fill it with --allow-empty."
            )


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
    counts = dict(sorted(column.levels.items(), key=lambda item: _order(item[0])))
    if column.missing:
        if MISSING in counts:
            raise InputError(f"Column {name!r} has gaps and also the text {MISSING!r}; call one of them differently.")
        counts[MISSING] = column.missing
    if len(counts) > MOST_LEVELS:
        raise InputError(
            f"Column {name!r} has {len(counts):,} different texts, such as {column.example!r:.40}, and {MOST_LEVELS} "
            f"are the most a category may have; leave it out with --drop {name!r}, "
            "group its levels, or make it numbers."
        )
    reference = max(counts, key=lambda level: counts[level]) if coding == "reference" else None
    return Feature(name, "categorical", levels=tuple(counts), reference=reference)


def _order(text: str) -> tuple[int, float, str]:
    """Numbers by size, then texts by alphabet."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def class_names(silos: Sequence[Summary], request: Request, positive: str | None) -> tuple[str, ...]:
    """The classes in order; that whose probability is asked for comes last."""
    names = sorted({label for silo in silos for label in silo.target.levels}, key=_order)
    check_target_kinds(silos, request.target)
    if len(names) < 2:
        raise InputError(
            f"Column {request.target!r}, the target, is {names[0]!r} in all {sum(silo.rows for silo in silos):,} rows "
            f"of {_listed([silo.name for silo in silos])}; a classifier needs rows of at least 2 classes."
        )
    if positive is None:
        return tuple(names)
    if positive not in names:
        raise InputError(f"--positive: {nearest(f'class in column {request.target!r},', positive, names)}")
    if len(names) > 2:
        raise InputError(
            f"--positive is for two classes, and column {request.target!r} has {len(names)}; leave it out."
        )
    return tuple(sorted(names, key=lambda name: name == positive))


def check_target_kinds(silos: Sequence[Summary], target: str) -> None:
    """Classes called 0 and 1 in one file and no and yes in another are not the same classes."""

    def numbers(silo: Summary) -> bool:
        return all(_order(label)[0] == 0 for label in silo.target.levels)

    plain = [silo for silo in silos if numbers(silo)]
    named = [silo for silo in silos if not numbers(silo)]
    if plain and named:
        raise InputError(
            f"{named[0].name} has the class {named[0].target.example!r:.40} in column {target!r}, the target, and "
            f"{plain[0].name} has numbers there, such as {plain[0].target.example!r}; "
            "call the classes alike in all files."
        )


def _listed(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
