"""What a silo says about its table when it is asked: names and counts and moments, never a row.

Missing values. Rows without a target are dropped, and counted. A missing number becomes the mean of all silos ("fill"),
with a column of its own that says so if asked for ("indicator"); a missing text is a level of its own, "(missing)". Or
all rows with a gap are dropped ("drop").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.tables.reading import Table, check_odd, check_usable, is_numeric, missing
from dualfl.tables.refusals import IN_FILES, Remedies, Unfit
from dualfl.tables.roles import check_roles, present
from dualfl.typing import AnyArray

Kind = Literal["numeric", "categorical", "empty"]


@dataclass(frozen=True)
class Request:
    """What every silo is asked. `remedies` are those that whoever has the table can take. Without a target all rows
    count."""

    target: str
    numeric_target: bool | None = False  # None: whoever has the table knows
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    missing: str = "fill"
    remedies: Remedies = IN_FILES
    columns: tuple[str, ...] = ()  # the features to take; () is all
    roles: Mapping[str, str] = field(default_factory=dict)  # what other columns are for (`roles`)
    levels: tuple[str, ...] | None = None  # of an ordered target, from low to high; () orders numbers; None: no order

    @property
    def apart(self) -> tuple[str, ...]:
        """The columns that are no features."""
        return (self.target, *self.roles.values())


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
        return next((level for level in self.levels if order(level)[0]), next(iter(self.levels), ""))

    @staticmethod
    def named(levels: tuple[str, ...] | None) -> ColumnSummary:
        """Of a column of which only the kind is known, and the names of its levels."""
        if levels is None:
            return ColumnSummary("numeric", 0, 0)
        return ColumnSummary("categorical", 0, 0, levels=dict.fromkeys(levels, 0))

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
    """All that a silo says about itself. Columns without names, of which there are `width`, say nothing more."""

    name: str
    rows: int  # that are used
    without_target: int
    with_gaps: int  # dropped because of other gaps
    columns: Mapping[str, ColumnSummary]
    target: ColumnSummary
    width: int = 0
    sparse: bool = False

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Summary:
        columns = {name: ColumnSummary(**column) for name, column in content["columns"].items()}
        return Summary(**{**content, "columns": columns, "target": ColumnSummary(**content["target"])})

    def names(self) -> dict[str, Any]:
        """What may be told before anybody has agreed to be counted: names of columns, levels and classes."""
        levels = {name: None if one.kind == "numeric" else tuple(one.levels) for name, one in self.columns.items()}
        classes = tuple(self.target.levels)
        return {"columns": levels, "classes": classes, "width": self.width, "sparse": self.sparse}

    @staticmethod
    def named(silo: str, told: Mapping[str, Any]) -> Summary:
        """The way back, as if nobody had counted anything. A column of text without a level has no entry at all."""
        columns = {
            name: ColumnSummary("empty", 0, 0) if levels == () else ColumnSummary.named(levels)
            for name, levels in told["columns"].items()
        }
        target = ColumnSummary.named(told["classes"] or None)
        return Summary(silo, 0, 0, 0, columns, target, int(told["width"]), bool(told["sparse"]))


def order(text: str) -> tuple[int, float, str]:
    """Numbers by size, then texts by alphabet."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def check_target(table: Table, target: str) -> None:
    if target not in table.columns:
        hint = nearest("column", target, {*table.columns, *table.left_out}).partition("; ")[2]
        raise Unfit(
            f"{table.name} has no column {target!r}, the target; {hint} Rename it in the file, or name another target.",
            f"it has no column {target!r}, the target",
        )


def used(table: Table, request: Request) -> tuple[Table, int, int]:
    """The rows to be used, and how many lack the target, and how many another entry."""
    table, there, whole = counting(table, request)
    return table.kept(whole), int((~there).sum()), int((there & ~whole).sum())


def counting(table: Table, request: Request) -> tuple[Table, AnyArray, AnyArray]:
    """The columns that are asked for; which rows have all that a row must have, and which of these count."""
    if request.target:
        check_target(table, request.target)
    lacking = [name for name in request.columns if name not in table.columns]
    if lacking:
        sentence = f"{table.name}: {nearest('column', lacking[0], table.columns)}"
        raise Unfit(sentence, f"it has no column {lacking[0]!r}")
    check_roles(table, request.target, request.roles, request.remedies)
    taken = ({request.target, *(request.columns or table.columns)} - set(request.drop)) | set(request.roles.values())
    columns = {name: values for name, values in table.columns.items() if name in taken}
    for name in columns:
        remedy = "" if name in request.apart else f", or {request.remedies.drop.format(name)}"
        check_usable(table, name, remedy)
        if name not in (*request.categorical, *request.roles.values()):
            check_odd(table, name, request.remedies)
    named = [name for name in request.categorical if name in columns and name not in request.roles.values()]
    columns |= {name: table.levels(name) for name in named}
    table = replace(table, columns=columns)
    there = ~missing(table.columns[request.target]) if request.target else np.ones(table.rows, dtype=bool)
    there &= present(table, request.roles)
    if not there.any():
        raise InputError(
            f"{table.name} has no entry at all in column {request.target!r}, the target; fill it, "
            "or leave the file out."
        )
    whole = there
    if request.missing == "drop":
        whole = there & ~np.any([missing(values) for values in columns.values()], axis=0)
        if not whole.any():
            raise InputError(f"{table.name} has no row without a gap; {request.remedies.drop_gaps}.")
    return table, there, whole


def summarise(table: Table, request: Request) -> Summary:
    """A silo's answer."""
    check_target(table, request.target)
    kept, without, gaps = used(table, request)
    target = kept.columns[request.target]
    if request.numeric_target and not is_numeric(target):
        raise InputError(
            f"{table.name} has text such as {_first(target)!r:.40} in column {request.target!r}, the target, and this "
            "model needs numbers; correct the file, or take --model logistic or multinomial for classes."
        )
    columns = {name: _summary(values) for name, values in kept.columns.items() if name not in request.apart}
    if not columns and not table.width and "time" not in request.roles:  # curves need no features
        raise InputError(f"{table.name} has no column besides the target {request.target!r}, so there are no features.")
    labels = target if request.numeric_target else kept.levels(request.target)
    found = _summary(labels)
    return Summary(table.name, kept.rows, without, gaps, columns, found, table.width, table.sparse)


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
