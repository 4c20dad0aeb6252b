"""Tables as people have them: CSV or Parquet, columns of numbers or of text, with gaps.

A column of numbers is an array of floats, with nan where an entry is missing; any other column is an array of text,
with "" where an entry is missing (`cells` says what is). Whether a column may be what it looks like is decided where it
is used, because a model may know better (`check_usable`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from dualfl.errors import InputError
from dualfl.tables.cells import (
    DECIMAL_COMMA,
    EXACT,
    USUAL,
    MixedPoints,
    Spelling,
    brief,
    decimal_commas,
    level_of,
    odd_entries,
    parsed,
    quoted,
    tidy,
    with_unit,
)
from dualfl.tables.dates import AmbiguousDates, days_between, is_date
from dualfl.tables.delimited import csv_rows, parquet_columns
from dualfl.tables.formats import format_of, named_format
from dualfl.tables.refusals import Remedies, Unfit
from dualfl.tables.rules import USUAL_RULES, Rules
from dualfl.typing import AnyArray

WANTED = "save the table as CSV or Parquet, with a name for each column"
LARGEST = 1e100  # squares of larger numbers, summed, are not numbers any more
LONGEST = 200  # characters of a level; more is a story


class Unclear(NamedTuple):
    """Why a column cannot be read: for whoever has the file, and for others."""

    sentence: str
    told: str
    kind: Literal["numbers", "dates"]  # what it was meant to be


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of one silo. `name` is what messages call it."""

    name: str
    columns: Mapping[str, AnyArray]
    matrix: Any = None  # columns without names, dense or CSR, beside the target
    exact: Mapping[str, AnyArray] = field(default_factory=dict)  # levels of numbers that floats do not tell apart
    unclear: Mapping[str, Unclear] = field(default_factory=dict)  # columns that cannot be read, and why
    ids: Mapping[str, AnyArray] = field(default_factory=dict)  # columns that name rows, as they are written
    left_out: tuple[str, ...] = ()  # columns of the file that nobody wants
    matched: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)  # rules that say something of each
    dates: frozenset[str] = frozenset()  # columns of numbers that were written as dates

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    @property
    def width(self) -> int:
        """How many columns have no names."""
        return 0 if self.matrix is None else int(self.matrix.shape[1])

    @property
    def sparse(self) -> bool:
        return hasattr(self.matrix, "indptr")

    def kept(self, which: AnyArray) -> Table:
        """These rows only."""
        columns = {name: values[which] for name, values in self.columns.items()}
        exact = {name: levels[which] for name, levels in self.exact.items()}
        matrix = self.matrix if self.matrix is None or which.all() else self.matrix[which]
        ids = {name: texts[which] for name, texts in self.ids.items()}
        return replace(self, columns=columns, matrix=matrix, exact=exact, ids=ids)

    def levels(self, name: str) -> AnyArray:
        """A column as levels: numbers by their names."""
        return self.exact.get(name, as_text(self.columns[name]))


def is_numeric(values: AnyArray) -> bool:
    return bool(values.dtype.kind == "f")


def missing(values: AnyArray) -> AnyArray:
    """Whether each entry is missing."""
    gaps: AnyArray = np.isnan(values) if is_numeric(values) else values == ""
    return gaps


def as_text(values: AnyArray) -> AnyArray:
    """Entries as names of levels: 1, 1.0 and 01 are the same number, so they are the same level.

    >>> as_text(np.array([1.0, 0.5, np.nan, 2.0**53])).tolist()
    ['1', '0.5', '', '9007199254740992']
    """
    if not is_numeric(values):
        return values
    known, place = np.unique(values, return_inverse=True)
    names = np.array(["" if np.isnan(value) else level_of(float(value)) for value in known], dtype=np.str_)
    found: AnyArray = names[place]
    return found


def check_usable(table: Table, name: str, remedy: str = "") -> None:
    """Refuse a column of dates, lists, infinite or huge numbers, or texts that are no levels; only those that are used
    are looked at."""
    values = table.columns[name]
    if name in table.unclear:
        raise Unfit(f"{table.name} has {table.unclear[name].sentence}{remedy}.", table.unclear[name].told)
    told = f"its data file has entries in column {name!r} that are neither finite numbers nor texts"
    if values.dtype.kind == "O":
        raise Unfit(
            f"{table.name} has entries of type {values[0]} in column {name!r}; make them numbers or text{remedy}.", told
        )
    huge: AnyArray = np.flatnonzero(np.abs(values) > LARGEST) if is_numeric(values) else np.empty(0)
    if len(huge):
        raise Unfit(
            f"{table.name} has {values[huge[0]]:g} in column {name!r}, row {huge[0] + 1}; "
            f"put a number between -{LARGEST:g} and {LARGEST:g} there, or nothing{remedy}.",
            told,
        )

    if values.dtype.kind == "U":
        _check_levels(table, name, remedy)


def _check_levels(table: Table, name: str, remedy: str) -> None:
    """Refuse texts that run over lines or are long: often they are rows that a quotation mark has swallowed."""
    values = table.columns[name]
    breaks = (np.char.find(values, "\n") >= 0) | (np.char.find(values, "\r") >= 0)
    wide = values.dtype.itemsize // np.dtype("U1").itemsize > LONGEST
    long = np.char.str_len(values) > LONGEST if wide else np.zeros(len(values), dtype=bool)
    found = np.flatnonzero(breaks | long)
    if len(found):
        what = "with a line break" if breaks[found[0]] else f"of more than {LONGEST} characters"
        begins = repr(str(values[found[0]])[:30])
        raise Unfit(
            f"{table.name} has a text {what} in column {name!r}, row {found[0] + 1}, that begins with {begins} and is "
            f"no category; look for a quotation mark that is too many{remedy}.",
            f"its data file has a text {what} in column {name!r}, which is no category",
        )


def has_points(table: Table) -> bool:
    """Whether some numbers of a table have decimal points, so that commas are decimal in single columns only."""
    numbers = (values[np.isfinite(values)] for values in table.columns.values() if is_numeric(values))
    return any(bool((values % 1 != 0).any()) for values in numbers)


def check_odd(table: Table, name: str, remedies: Remedies) -> None:
    """Refuse a column of text of which most entries are numbers: a typing error must not make categories of all."""
    values = table.columns[name]
    if values.dtype.kind != "U":
        return
    commas = decimal_commas(values)
    if commas:
        remedy = remedies.commas.format(name) if has_points(table) else remedies.decimal
        raise Unfit(
            f"{table.name} has commas in the numbers of column {name!r}, such as {quoted(commas, 1)}; if they are "
            f"decimal, {remedy}, otherwise take them out.",
            f"its data file has commas in the numbers of column {name!r}",
        )
    odd = odd_entries(values)
    if odd:
        there = int(np.count_nonzero(values != ""))
        numbers = there - sum(map(len, odd.values()))
        raise Unfit(
            f"{table.name} has {quoted(odd)} in column {name!r}, where {numbers:,} of {there:,} entries are numbers; "
            f"correct {'it' if len(odd) == 1 else 'them'}, or {remedies.missing(list(odd)[:3])}, or "
            f"{remedies.categorical.format(name)}.",
            f"its data file has entries in column {name!r} that are no numbers, and most entries there are numbers",
        )
    unit, entries = with_unit(values)
    if unit:
        raise Unfit(
            f"{table.name} has numbers with {unit!r} in column {name!r}, such as {quoted(entries, 1)}, and would make "
            f"categories of them; take {unit!r} out of the file, or {remedies.categorical.format(name)}.",
            f"its data file has numbers with a unit in column {name!r}",
        )


def read_table(path: Path, rules: Rules = USUAL_RULES, needed: Collection[str] = ()) -> Table:
    """The columns of a file, as the rules say; those that are needed are among them even if the rules do not say so."""
    if not path.exists():
        raise InputError(f"There is no file {path}.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the files in it, CSV or Parquet, one for each silo.")
    kind = format_of(path, rules.wide)
    if kind == "LIBSVM" and named_format(path) is None:
        kind = "CSV"  # text, of which the name says nothing
    if kind not in ("CSV", "Parquet"):
        named = f"is a {kind} file, whose columns have no names" if named_format(path) else "is neither CSV nor Parquet"
        raise InputError(f"{path} {named}; {WANTED}.")
    table = _from_csv(path, rules) if kind == "CSV" else _from_parquet(path, rules)
    return wanted(table, rules, needed)


def wanted(table: Table, rules: Rules, needed: Collection[str] = ()) -> Table:
    """The columns that are needed and the features that the rules name."""
    columns = {name: values for name, values in table.columns.items() if name in needed or rules.takes(name)}
    return replace(table, columns=columns, left_out=tuple(name for name in table.columns if name not in columns))


def read_tables(
    paths: Sequence[Path], rules: Rules | Sequence[Rules] = USUAL_RULES, needed: Collection[str] = ()
) -> list[Table]:
    """One table a file, all by the same rules or each by its own; no file twice, not even under another name."""
    each = [rules] * len(paths) if isinstance(rules, Rules) else rules
    check_given_once(paths)
    check_no_copies(paths)
    return [read_table(path, own, needed) for path, own in zip(paths, each)]


def check_given_once(paths: Sequence[Path]) -> None:
    """Refuse a file that is given twice, also under another name."""
    seen: set[Path] = set()
    for path in paths:
        real = Path(os.path.realpath(path))  # which does not fail where links point at each other
        if real in seen:
            raise InputError(f"{path} is given twice; each file is a silo, give each once.")
        seen.add(real)


def check_no_copies(paths: Sequence[Path]) -> None:
    """Rows that are given twice would count twice."""
    sizes = [path.stat().st_size if path.is_file() else -1 for path in paths]
    first: dict[bytes, Path] = {}
    for path, size in zip(paths, sizes):
        if size < 0 or sizes.count(size) == 1:
            continue
        other = first.setdefault(hashlib.sha256(path.read_bytes()).digest(), path)
        if other is not path:
            raise InputError(f"{path} holds the same as {other}; each file is a silo, give its rows once.")


Column = tuple[AnyArray, AnyArray | None]  # values, and the levels of numbers that floats do not tell apart


def _table(
    path: Path,
    found: Mapping[str, Column],
    unclear: Mapping[str, Unclear],
    ids: Mapping[str, AnyArray],
    matched: Mapping[str, frozenset[tuple[str, str]]],
) -> Table:
    exact = {name: levels for name, (_, levels) in found.items() if levels is not None}
    columns = {name: values for name, (values, _) in found.items()}
    return Table(str(path), columns, None, exact, unclear, ids, matched=matched)


def _from_csv(path: Path, rules: Rules) -> Table:
    names, rows = csv_rows(path, libsvm=WANTED, encoding=rules.encoding)
    found: dict[str, Column] = {}
    unclear: dict[str, Unclear] = {}
    ids, matched, dates = {}, {}, set()
    for name, cells in zip(names, zip(*rows)):
        spelling = rules.spelling(name)
        found[name] = _of_cells(name, cells, spelling, unclear)
        matched[name] = spelling.matched(cells)
        if _are_days(found[name], cells, spelling):
            dates.add(name)
        if name in rules.id:
            ids[name] = np.array([brief(cell.strip()) for cell in cells], dtype=np.str_)
    return replace(_table(path, found, unclear, ids, matched), dates=frozenset(dates))


def _are_days(column: Column, cells: Iterable[str], spelling: Spelling) -> bool:
    """Whether the numbers of a column were written as dates, all of them being so or none."""
    if spelling.since is None or not is_numeric(column[0]):
        return False
    texts = (spelling.meant(cell.strip()) for cell in cells)
    return is_date(next((text for text in texts if not spelling.is_gap(text)), ""))


def _of_cells(name: str, cells: Sequence[str], spelling: Spelling, unclear: dict[str, Unclear]) -> Column:
    """A column; as texts and with a reason, if nobody can tell what they mean."""
    try:
        return parsed(cells, spelling)
    except (MixedPoints, AmbiguousDates) as error:
        text = str(error)
        row = next(i for i, cell in enumerate(cells, start=1) if spelling.meant(cell.strip()) == text)
        where = f"{text!r} in column {name!r}, row {row:,}"
        if isinstance(error, MixedPoints):
            why = f"{where}, where commas are decimal; write it without a point"
            unclear[name] = Unclear(
                why, f"its data file has points and commas in the numbers of column {name!r}", "numbers"
            )
        else:
            why = f"{where}, and no row says whether the day or the month comes first; write dates like 2020-12-31"
            unclear[name] = Unclear(
                why, f"its data file has dates in column {name!r} that can be read in two ways", "dates"
            )
        return np.array([brief(cell.strip()) for cell in cells], dtype=np.str_), None


def _from_parquet(path: Path, rules: Rules) -> Table:
    found: dict[str, Column] = {}
    unclear: dict[str, Unclear] = {}
    ids: dict[str, AnyArray] = {}
    matched, dates = {}, set()
    for given, column in parquet_columns(path).items():
        name = tidy(given).strip()
        if name in found:
            raise InputError(f"{path} has more than one column {name!r}; give each a name of its own.")
        spelling = rules.spelling(name)
        found[name] = _of_arrow(name, column, spelling, unclear)
        matched[name] = _matched_in_arrow(column, spelling)
        if _are_days(found[name], map(str, column.drop_null()), spelling):
            dates.add(name)
        if name in rules.id:
            texts = ["" if value is None else brief(str(value).strip()) for value in column.to_pylist()]
            ids[name] = np.array(texts, dtype=np.str_)
    return replace(_table(path, found, unclear, ids, matched), dates=frozenset(dates))


def _of_arrow(name: str, column: Any, spelling: Spelling, unclear: dict[str, Unclear]) -> Column:
    """Numbers or text; of any other type, only its name. What is recoded or a date is read as if it were written."""
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        found = _of_numbers(column.to_pylist(), types.is_integer(kind), spelling)
        if not spelling.recode:
            return found
        return parsed((as_text(found[0]) if found[1] is None else found[1]).tolist(), replace(spelling, decimal="."))
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind):
        text = ["" if value is None else tidy(str(value)).strip() for value in column.to_pylist()]
        if spelling.recode or _written_otherwise(text, spelling):
            return _of_cells(name, text, spelling, unclear)
        known = {one: "" if spelling.is_gap(one) else spelling.level(one) for one in set(text)}
        return np.array([known[one] for one in text], dtype=np.str_), None
    if spelling.since is not None and (types.is_date(kind) or types.is_timestamp(kind)):
        moments = column.to_pylist()
        days = [np.nan if one is None else days_between(one, spelling.since) for one in moments]
        return np.array(days, dtype=np.float64), None
    return np.full(len(column), str(column.type), dtype=object), None


def _matched_in_arrow(column: Any, spelling: Spelling) -> frozenset[tuple[str, str]]:
    """As if the entries were written: numbers with a decimal point, whatever the texts have."""
    if spelling == USUAL:
        return frozenset()
    entries = [one for one in column.unique().to_pylist() if one is not None]
    numbers = [one for one in entries if isinstance(one, int | float | Decimal) and not isinstance(one, bool)]
    if numbers:
        return replace(spelling, decimal=".").matched([str(one) for one in numbers])
    return spelling.matched([tidy(str(one)) for one in entries])


def _written_otherwise(text: Sequence[str], spelling: Spelling) -> bool:
    """Whether texts are the dates, or the numbers with commas, that the rules make numbers of."""
    there = {one for one in text if not spelling.is_gap(one)}
    if spelling.decimal == "," and any(DECIMAL_COMMA.fullmatch(one) for one in there):
        return all(spelling.number(one) is not None for one in there)
    return spelling.since is not None and bool(there) and all(map(is_date, there))


def _of_numbers(numbers: Sequence[Any], whole: bool, spelling: Spelling) -> Column:
    values = np.array([np.nan if value is None else value for value in numbers], dtype=np.float64)
    for text in spelling.na:
        code = spelling.number(text)
        values = values if code is None else np.where(values == code, np.nan, values)
    if not whole or not (np.abs(values) >= EXACT).any():
        return values, None
    return values, np.array(["" if np.isnan(v) else str(n) for n, v in zip(numbers, values)], dtype=np.str_)
