"""Tables as people have them: CSV or Parquet, columns of numbers or of text, with gaps.

A column of numbers is an array of floats, with nan where an entry is missing; any other column is an array of text,
with "" where an entry is missing (`cells` says what is). Whether a column may be what it looks like is decided where it
is used, because a model may know better (`check_usable`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.tables.cells import (
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
)
from dualfl.tables.delimited import csv_rows, parquet_columns
from dualfl.tables.formats import format_of, named_format
from dualfl.tables.refusals import Remedies, Unfit
from dualfl.typing import AnyArray

WANTED = "save the table as CSV or Parquet, with a name for each column"
LARGEST = 1e100  # squares of larger numbers, summed, are not numbers any more
LONGEST = 200  # characters of a level; more is a story


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of one silo. `name` is what messages call it."""

    name: str
    columns: Mapping[str, AnyArray]
    matrix: Any = None  # columns without names, dense or CSR, beside the target
    exact: Mapping[str, AnyArray] = field(default_factory=dict)  # levels of numbers that floats do not tell apart
    unclear: Mapping[str, str] = field(default_factory=dict)  # columns that cannot be read, and why

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
        return Table(self.name, columns, matrix, exact, self.unclear)

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
        raise Unfit(
            f"{table.name} has {table.unclear[name]}{remedy}.",
            f"its data file has points and commas in the numbers of column {name!r}",
        )
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


def check_odd(table: Table, name: str, remedies: Remedies) -> None:
    """Refuse a column of text of which most entries are numbers: a typing error must not make categories of all."""
    values = table.columns[name]
    if values.dtype.kind != "U":
        return
    commas = decimal_commas(values)
    if commas:
        raise Unfit(
            f"{table.name} has commas in the numbers of column {name!r}, such as {quoted(commas, 1)}; if they are "
            f"decimal, {remedies.decimal}, otherwise take them out.",
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


def read_table(path: Path, spelling: Spelling = USUAL) -> Table:
    """The columns of a file."""
    if not path.exists():
        raise InputError(f"There is no file {path}.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the files in it, CSV or Parquet, one for each silo.")
    kind = format_of(path)
    if kind == "LIBSVM" and named_format(path) is None:
        kind = "CSV"  # text, of which the name says nothing
    if kind not in ("CSV", "Parquet"):
        named = f"is a {kind} file, whose columns have no names" if named_format(path) else "is neither CSV nor Parquet"
        raise InputError(f"{path} {named}; {WANTED}.")
    return _from_csv(path, spelling) if kind == "CSV" else _from_parquet(path, spelling)


def read_tables(paths: Sequence[Path], spelling: Spelling = USUAL) -> list[Table]:
    """One table a file; no file twice, not even under another name."""
    seen: set[Path] = set()
    for path in paths:
        real = Path(os.path.realpath(path))  # which does not fail where links point at each other
        if real in seen:
            raise InputError(f"{path} is given twice; each file is a silo, give each once.")
        seen.add(real)
    check_no_copies(paths)
    return [read_table(path, spelling) for path in paths]


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


def _table(path: Path, found: Mapping[str, Column], unclear: Mapping[str, str]) -> Table:
    exact = {name: levels for name, (_, levels) in found.items() if levels is not None}
    return Table(str(path), {name: values for name, (values, _) in found.items()}, exact=exact, unclear=unclear)


def _from_csv(path: Path, spelling: Spelling) -> Table:
    names, rows = csv_rows(path, libsvm=WANTED)
    found: dict[str, Column] = {}
    unclear = {}
    for name, cells in zip(names, zip(*rows)):
        try:
            found[name] = parsed(cells, spelling)
        except MixedPoints as error:
            row = next(i for i, cell in enumerate(cells, start=1) if cell.strip() == str(error))
            where = f"{str(error)!r} in column {name!r}, row {row}"
            unclear[name] = f"{where}, where commas are decimal; write it without a point"
            found[name] = np.array([brief(cell) for cell in cells], dtype=np.str_), None
    return _table(path, found, unclear)


def _from_parquet(path: Path, spelling: Spelling) -> Table:
    found: dict[str, Column] = {}
    for given, column in parquet_columns(path).items():
        name = tidy(given).strip()
        if name in found:
            raise InputError(f"{path} has more than one column {name!r}; give each a name of its own.")
        found[name] = _of_arrow(column, spelling)
    return _table(path, found, {})


def _of_arrow(column: Any, spelling: Spelling) -> Column:
    """Numbers or text; of any other type, only its name."""
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        return _of_numbers(column.to_pylist(), types.is_integer(kind), spelling)
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind):
        text = ["" if value is None else tidy(str(value)).strip() for value in column.to_pylist()]
        known = {one: "" if spelling.is_gap(one) else spelling.level(one) for one in set(text)}
        return np.array([known[one] for one in text], dtype=np.str_), None
    return np.full(len(column), str(column.type), dtype=object), None


def _of_numbers(numbers: Sequence[Any], whole: bool, spelling: Spelling) -> Column:
    values = np.array([np.nan if value is None else value for value in numbers], dtype=np.float64)
    for text in spelling.na:
        code = spelling.number(text)
        values = values if code is None else np.where(values == code, np.nan, values)
    if not whole or not (np.abs(values) >= EXACT).any():
        return values, None
    return values, np.array(["" if np.isnan(v) else str(n) for n, v in zip(numbers, values)], dtype=np.str_)
