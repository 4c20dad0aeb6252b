"""Tables as people have them: CSV or Parquet, columns of numbers or of text, with gaps.

A column of numbers is an array of floats, with nan where an entry is missing; any other column is an array of text,
with "" where an entry is missing. Empty cells, NA, N/A, NaN and null, in capitals or not, are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.tables.delimited import brief, csv_rows, parquet_columns
from dualfl.tables.formats import format_of, named_format
from dualfl.tables.refusals import Unfit
from dualfl.typing import AnyArray

GAPS = frozenset({"", "na", "n/a", "nan", "null"})
WANTED = "save the table as CSV or Parquet, with a name for each column"
LARGEST = 1e100  # squares of larger numbers, summed, are not numbers any more


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of one silo. `name` is what messages call it."""

    name: str
    columns: Mapping[str, AnyArray]
    matrix: Any = None  # columns without names, dense or CSR, beside the target

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
        if self.matrix is None or which.all():
            return Table(self.name, columns, self.matrix)
        return Table(self.name, columns, self.matrix[which])


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
    return np.array(["" if np.isnan(value) else _level(float(value)) for value in values], dtype=np.str_)


def _level(value: float) -> str:
    """Whole numbers with all their digits, as labels have them; of others the digits that files agree on."""
    return f"{value:.0f}" if value.is_integer() and abs(value) < 2**63 else f"{value:.15g}"


def check_usable(table: Table, name: str, remedy: str = "") -> None:
    """Refuse a column of dates, lists, infinite or huge numbers; only those that are used are looked at."""
    values = table.columns[name]
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


def read_table(path: Path) -> Table:
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
    return Table(str(path), _from_csv(path) if kind == "CSV" else _from_parquet(path))


def read_tables(paths: Sequence[Path]) -> list[Table]:
    """One table a file; no file twice."""
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise InputError(f"{path} is given twice; each file is a silo, give each once.")
        seen.add(path.resolve())
    return [read_table(path) for path in paths]


def _from_csv(path: Path) -> dict[str, AnyArray]:
    names, rows = csv_rows(path, libsvm=WANTED)
    return {name: _parsed(cells) for name, cells in zip(names, zip(*rows))}


def _parsed(cells: Sequence[str]) -> AnyArray:
    """Numbers where every entry that is there is one."""
    text = ["" if cell.strip().lower() in GAPS else cell.strip() for cell in cells]
    try:
        return np.array([cell or "nan" for cell in text], dtype=np.float64)
    except ValueError:
        return np.array([brief(cell) for cell in text], dtype=np.str_)


def _from_parquet(path: Path) -> dict[str, AnyArray]:
    return {name: _of_arrow(column) for name, column in parquet_columns(path).items()}


def _of_arrow(column: Any) -> AnyArray:
    """Numbers or text; of any other type, only its name."""
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        return np.array([np.nan if value is None else value for value in column.to_pylist()], dtype=np.float64)
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind):
        text = ["" if value is None else str(value).strip() for value in column.to_pylist()]
        return np.array(["" if cell.lower() in GAPS else brief(cell) for cell in text], dtype=np.str_)
    return np.full(len(column), str(column.type), dtype=object)
