"""Tables with named columns: CSV by Python's own reader, Parquet by pyarrow, if it is there.

Columns of numbers are features. Columns of text are not, but rows can be split by them (`column:NAME`).
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.data.files import contents
from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.typing import AnyArray

TARGETS = ("target", "label", "class", "y")  # what a target is called where nobody says it
CLASSES = 20  # whole numbers with at most so many values are classes
LONGEST = 2**31 - 1  # characters of a cell, the most that Python's reader can be told
QUOTED = r'(?:\A|(?<=[,;\t]))"(?:[^"]|"")*"'  # a cell in quotes, in which separators and line ends are text
HEADER = re.compile(rf"(?:{QUOTED}|[^\n])*")
WHOLE = 1000  # characters of a text that is kept as it is
INDEX = re.compile(r"__index_level_\d+__")  # what pandas calls an index without a name


@dataclass(frozen=True, eq=False)
class Columns:
    """Features, a target and what else the rows say."""

    X: Any
    y: AnyArray
    names: tuple[str, ...]
    others: Mapping[str, AnyArray]


def read_csv(path: Path) -> dict[str, AnyArray]:
    """The columns of a CSV file with a header; separated by commas, or by semicolons or tabs if the header is."""
    names, table = csv_rows(path)
    return {name: _column(path, name, values) for name, values in zip(names, zip(*table))}


def csv_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and every row as the text of its entries."""
    try:
        text = contents(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not a CSV file: it is not text ({error.reason} at byte {error.start}); save it as CSV in UTF-8."
        ) from error
    text = io.StringIO(text, newline=None).read()  # a lone CR ends a line too, as old spreadsheets write it
    if not text.strip():
        raise InputError(f"{path} is empty; it needs a first line with the names of the columns, and rows below it.")
    head = HEADER.match(text)[0]  # type: ignore[index]  # matches always
    lines = _cells(path, text, delimiter=max(",;\t", key=re.sub(QUOTED, "", head).count))
    names = [name.strip() for name in lines[0][1]]
    if not names or len(set(names)) < len(names) or not all(names):
        raise InputError(f"{path} needs a first line with a different name for each column, and it is {head!r:.80}.")
    table = []
    for number, row in lines[1:]:
        if len(row) not in (0, len(names)):
            raise InputError(f"{path}, line {number} has {len(row)} entries, and the first line {len(names)}.")
        if row:
            table.append(row)
    if not table:
        raise InputError(f"{path} holds no rows below its header.")
    return names, table


def _cells(path: Path, text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    """The cells of each line, and the line's number in the file."""
    before = csv.field_size_limit(LONGEST)
    rows = csv.reader(io.StringIO(text), delimiter=delimiter)
    try:
        return [(rows.line_num, row) for row in rows]
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num} is not CSV ({error}); correct it.") from error
    finally:
        csv.field_size_limit(before)  # it is the whole process's, not ours


def _column(path: Path, name: str, values: tuple[str, ...]) -> AnyArray:
    """Numbers where all are; text otherwise. Gaps in numbers are an error, not a class."""
    try:
        return np.array(values, dtype=np.float64)
    except ValueError:
        pass
    gaps = [i for i, value in enumerate(values) if not value.strip()]
    if gaps and all(_is_number(value) for value in values if value.strip()):
        raise InputError(f"{path} has no number in column {name!r}, row {gaps[0] + 1}; fill or drop such rows.")
    return np.array([brief(value.strip()) for value in values])


def brief(text: str) -> str:
    """The text, or if it is a long one its beginning and a hash: arrays of text are as wide as their longest entry."""
    if len(text) <= WHOLE:
        return text
    return f"{text[:100]}... {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _is_number(text: str) -> bool:
    try:
        float(text)
        return True
    except ValueError:
        return False


def parquet_columns(path: Path) -> dict[str, Any]:
    """The columns of a Parquet file as pyarrow has them, without an index that pandas has numbered."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise InputError(f"{path} is a Parquet file, which needs pyarrow: pip install 'dualfl[data]'.") from error
    try:
        schema = parquet.read_schema(path)
        twice = next((name for name, count in Counter(schema.names).items() if count > 1), None)
        if twice is not None:
            raise InputError(f"{path} has more than one column {twice!r}; give each a name of its own.")
        index = [name for name in (schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(name, str)]
        table = parquet.read_table(path)
    except (ArrowException, OSError) as error:
        raise InputError(f"{path} is not a Parquet file ({str(error).splitlines()[0]}); write it again.") from error
    if table.num_rows == 0:
        raise InputError(f"{path} holds no rows.")
    named = zip(table.column_names, table.columns)
    return {name: column for name, column in named if not (name in index and INDEX.fullmatch(name))}


def read_parquet(path: Path) -> dict[str, AnyArray]:
    """The columns of a Parquet file."""
    columns = {}
    for name, column in parquet_columns(path).items():
        if column.null_count:
            raise InputError(f"{path} has {column.null_count} empty entries in column {name!r}; fill or drop them.")
        values = column.to_numpy()
        columns[name] = values.astype(np.float64) if values.dtype.kind in "biuf" else values.astype(np.str_)
    return columns


def split_target(columns: dict[str, AnyArray], target: str | None, path: Path) -> Columns:
    """Features and target. Without a name, the target is the one column called target, label, class or y."""
    usual = [name for name in columns if name.lower() in TARGETS]
    if target is None and len(usual) != 1:
        some = ", ".join(list(columns)[:8]) + (", ..." if len(columns) > 8 else "")
        raise InputError(f"{path} has the columns {some}; say which is the target, by target=NAME or --target NAME.")
    chosen = usual[0] if target is None else target
    if chosen not in columns:
        raise InputError(f"{path}: " + nearest("column", chosen, columns))
    names = tuple(name for name, values in columns.items() if name != chosen and values.dtype.kind == "f")
    others = {name: values for name, values in columns.items() if name != chosen and values.dtype.kind != "f"}
    if not names:
        raise InputError(f"{path} has no column of numbers besides its target {chosen!r}, so there are no features.")
    return Columns(np.stack([columns[name] for name in names], axis=1), columns[chosen], names, others)


def targets(y: AnyArray, task: str | None, path: Path) -> tuple[AnyArray, tuple[str, ...]]:
    """(class numbers, class names), or (real targets, ()): text and few whole numbers are classes unless told."""
    numbers = y.dtype.kind in "biuf"
    if numbers and not np.isfinite(y.astype(np.float64)).all():
        raise InputError(f"{path} has the target {y[~np.isfinite(y)][0]}; targets must be finite.")
    known = np.unique(y)
    whole = numbers and bool((np.floor(known.astype(np.float64)) == known).all())
    if task is None:
        task = "classification" if not numbers or (whole and len(known) <= CLASSES) else "regression"
    if task == "regression":
        if not numbers:
            raise InputError(f"{path} has targets such as {y[0]!r:.40}, and regression needs numbers.")
        return y.astype(np.float64), ()
    if len(known) < 2:
        raise InputError(f"{path} has the one class {known[0]!r:.40}; classification needs two at least.")
    names = tuple(f"{k:.15g}" if numbers else str(k) for k in known)
    return np.searchsorted(known, y).astype(np.intp), names
