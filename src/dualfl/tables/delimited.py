"""Tables with named columns: CSV by Python's own reader, Parquet by pyarrow, if it is there.

Columns of numbers are features. Columns of text are not, but rows can be split by them (`column:NAME`).
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.errors import InputError, WrongEncoding
from dualfl.files import contents
from dualfl.names import nearest
from dualfl.tables.cells import BOOLEAN, EXACT, GAPS, USUAL, brief, decimal_commas, level_of, quoted, tidy
from dualfl.tables.formats import UTF16
from dualfl.typing import AnyArray

UTF8 = "utf-8"
TARGETS = ("target", "label", "class", "y")  # what a target is called where nobody says it
CLASSES = 20  # whole numbers with at most so many values are classes
LONGEST = 2**31 - 1  # characters of a cell, the most that Python's reader can be told
QUOTED = r'(?:\A|(?<=[,;\t]))"(?:[^"]|"")*"'  # a cell in quotes, in which separators and line ends are text
HEADER = re.compile(rf"(?:{QUOTED}|[^\n])*")
NUMBER = r"[-+]?[\d.]+(?:[eE][-+]?\d+)?"
LIBSVM = re.compile(rf"\s*{NUMBER}(?:[ \t]+(?:\d+|qid):{NUMBER})+\s*(?:#.*)?")  # label index:value index:value
ELSEWHERE = " (dualfl fit handles gaps)"
COMMAS = " (dualfl fit reads them with --decimal ',')"
INDEX = re.compile(r"__index_level_\d+__")  # what pandas calls an index without a name


@dataclass(frozen=True, eq=False)
class Columns:
    """Features, a target and what else the rows say."""

    X: Any
    y: AnyArray
    names: tuple[str, ...]
    others: Mapping[str, AnyArray]


def read_csv(path: Path, target: str | None = None) -> dict[str, AnyArray]:
    """The columns of a CSV file with a header; separated by commas, or by semicolons or tabs if the header is."""
    names, table = csv_rows(path)
    chosen = target_name(names, target, path)
    columns = {name: _column(path, name, values) for name, values in zip(names, zip(*table))}
    return columns | {chosen: _apart(columns[chosen], [row[names.index(chosen)] for row in table])}


def _apart(values: AnyArray, texts: Sequence[str]) -> AnyArray:
    """Targets; as text where they are classes that floats do not tell apart."""
    if values.dtype.kind != "f" or not (np.abs(values) >= EXACT).any():
        return values
    levels = np.array([USUAL.level(text.strip()) for text in texts])
    return levels if len(np.unique(levels)) > len(np.unique(values)) else values


def csv_rows(path: Path, libsvm: str | None = None, encoding: str | None = None) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and every row as the text of its entries; `libsvm` is what to do if it is that, and
    `encoding` is for whoever can name another one than UTF-8."""
    text = tidy(
        io.StringIO(decoded(path, encoding), newline=None).read()
    )  # a lone CR ends a line too, as old spreadsheets write it
    if not text.strip():
        raise InputError(f"{path} is empty; it needs a first line with the names of the columns, and rows below it.")
    first = HEADER.match(text)
    assert first is not None, "it matches any text"
    head = first[0]
    if LIBSVM.fullmatch(head):
        raise InputError(
            f"{path} does not look like CSV but like LIBSVM text: its first line is {_short(head)!r}; "
            f"{libsvm or f'rename it to {_renamed(path)}'}."
        )
    delimiter = max(",;\t", key=re.sub(QUOTED, "", head).count)
    records, lines = _records(path, text, delimiter)
    names = [name.strip() for name in records[0]]
    if not names or len(set(names)) < len(names) or not all(names):
        raise InputError(f"{path} needs a first line with a different name for each column, but it is {head!r:.80}.")
    if lines > len(records) or not {len(record) for record in records} <= {0, len(names)}:
        _check_records(path, text, delimiter, names)
    table = [record for record in records[1:] if record]
    if not table:
        raise InputError(f"{path} holds no rows below its header.")
    return names, table


def decoded(path: Path, encoding: str | None) -> str:
    """The text of a file. One that begins with UTF-8's mark is UTF-8, whatever was said."""
    data = contents(path)
    name = "utf-8-sig" if encoding in (None, UTF8) or data.startswith(codecs.BOM_UTF8) else str(encoding)
    try:
        return data.decode(name)
    except UnicodeError as error:
        named = "" if encoding in (None, UTF8) else f" in {encoding}"
        where = f"{error.reason} at byte {error.start:,}" if isinstance(error, UnicodeDecodeError) else str(error)
        remedy = "save it as CSV in UTF-8"
        if encoding is not None:
            remedy += f", or name its encoding, which may be {likely_encoding(data)} (--encoding, or in silo.json)"
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = f"line {data.count(bytes([10]), 0, start) + 1:,}"
        raise WrongEncoding(f"{path} is not a CSV file: it is not text{named} ({where}); {remedy}.", line) from error


def likely_encoding(data: bytes) -> str:
    """What text that is not UTF-8 is most often: what its first bytes say, or what Windows writes in western Europe."""
    if data.startswith(UTF16):
        return "utf-16"
    try:
        data.decode("cp1252")
        return "cp1252"
    except UnicodeDecodeError:
        return "latin-1"


def _records(path: Path, text: str, delimiter: str) -> tuple[list[list[str]], int]:
    """The cells of each record, and how many lines they take."""
    before = csv.field_size_limit(LONGEST)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    try:
        return list(reader), reader.line_num
    except csv.Error as error:
        if "end of data" not in str(error):
            raise InputError(f"{path}, line {reader.line_num} is not CSV ({error}); correct it.") from error
        raise InputError(
            f"{path}, line {_last_line(text, delimiter) + 1} is not CSV (a quotation mark opens a cell and none closes "
            "it); correct it."
        ) from error
    finally:
        csv.field_size_limit(before)  # it is the whole process's, not ours


def _last_line(text: str, delimiter: str) -> int:
    """Where the last record ends that can be read."""
    reader, line = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True), 0
    with contextlib.suppress(csv.Error):
        for _ in reader:
            line = reader.line_num
    return line


def _check_records(path: Path, text: str, delimiter: str, names: Sequence[str]) -> None:
    """Every record has an entry for each column, and none has swallowed others.

    A quotation mark too many makes one cell of all text up to the next one. If m line ends are in it and no cell is
    lost, the m rows that are gone have left their m (columns - 1) separators in it.
    """
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    next(reader)
    for row in reader:
        if len(row) not in (0, len(names)):
            raise InputError(f"{path}, line {reader.line_num} has {len(row)} entries, and the first line {len(names)}.")
        breaks = [cell.count("\n") for cell in row]
        if any(breaks) and sum(cell.count(delimiter) for cell in row) == sum(breaks) * (len(names) - 1):
            name, first = names[int(np.argmax(breaks))], reader.line_num - sum(breaks)
            raise InputError(
                f"{path} has a cell in column {name!r} that begins in line {first:,} and ends in line "
                f"{reader.line_num:,}, as if {sum(breaks):,} rows were in it; take out the quotation mark that is too "
                "many, or write no line breaks into cells."
            )


def _short(line: str) -> str:
    return line.strip() if len(line.strip()) <= 40 else f"{line.strip()[:36]} ..."


def _renamed(path: Path) -> str:
    """The name under which LIBSVM text is read as such."""
    plain = path.name.removesuffix(".gz")
    return Path(plain).with_suffix(".libsvm").name + path.name[len(plain) :]


def _column(path: Path, name: str, values: tuple[str, ...]) -> AnyArray:
    """Numbers where all are; text otherwise. A gap is an error: it must not become a class, or end a feature."""
    numbers = [USUAL.number(value) for value in values]
    if None not in numbers:
        return np.array(numbers, dtype=np.float64)
    texts = [value.strip() for value in values]
    _check_numbers(path, name, texts)
    _check_whole(path, name, [not text for text in texts])
    return np.array([text.lower() if text.lower() in BOOLEAN else brief(text) for text in texts])


def _check_numbers(path: Path, name: str, texts: Sequence[str]) -> None:
    """Most entries of a column are numbers only if all are meant to be."""
    others = [i for i, text in enumerate(texts) if USUAL.number(text) is None]
    if commas := decimal_commas(np.array([brief(text) for text in texts])):
        raise InputError(
            f"{path} has decimal commas in column {name!r}, such as {quoted(commas, 1)}; write them as points{COMMAS}."
        )
    words = sum(texts[i].lower() not in GAPS for i in others)
    if len(texts) - len(others) <= words:
        return
    found = texts[others[0]]
    if not found:
        raise InputError(
            f"{path} has no number in column {name!r}, row {others[0] + 1}; fill or drop such rows{ELSEWHERE}."
        )
    raise InputError(
        f"{path} has {found!r:.40} in column {name!r}, row {others[0] + 1}, and most entries there are numbers; put a "
        f"number there, or text in every row{ELSEWHERE}."
    )


def _check_whole(path: Path, name: str, empty: Sequence[bool] | AnyArray) -> None:
    """Rows without an entry are no class and no client of their own."""
    rows = np.flatnonzero(empty)
    if len(rows):
        raise InputError(
            f"{path} has {len(rows):,} empty entries in column {name!r}, the first in row {rows[0] + 1}; fill or drop "
            f"such rows{ELSEWHERE}."
        )


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
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a Parquet file ({str(error).splitlines()[0]}); write it again.") from error
    if table.num_rows == 0:
        raise InputError(f"{path} holds no rows.")
    named = zip(table.column_names, table.columns)
    return {name: column for name, column in named if not (name in index and INDEX.fullmatch(name))}


def read_parquet(path: Path, target: str | None = None) -> dict[str, AnyArray]:
    """The columns of a Parquet file."""
    found = parquet_columns(path)
    chosen = target_name(found, target, path)
    columns = {name: _of_arrow(path, name, column) for name, column in found.items()}
    return columns | {chosen: _apart(columns[chosen], [str(value) for value in found[chosen].to_pylist()])}


def _of_arrow(path: Path, name: str, column: Any) -> AnyArray:
    """Numbers, or text that is nowhere empty."""
    from pyarrow import ArrowException

    _check_whole(path, name, column.is_null().to_numpy())
    try:
        values: AnyArray = _flat(column).to_numpy()
        values = values.astype(np.float64) if values.dtype.kind in "biuf" else values.astype(np.str_)
    except (ArrowException, ValueError, TypeError) as error:
        raise InputError(
            f"{path} has the column {name!r} of type {column.type}, which is neither numbers nor text; drop it, or "
            "write it as one of these."
        ) from error
    if values.dtype.kind == "U":
        _check_whole(path, name, [not text.strip() for text in values])
    return values


def _flat(column: Any) -> Any:
    """Decimals as numbers, and bytes as the text that old writers mean by them; lists and records are refused."""
    from pyarrow import types

    kind = column.type
    if types.is_nested(kind):
        raise TypeError(f"{kind} holds more than one entry a row")
    if types.is_decimal(kind):
        return column.cast("float64")
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return column.cast("string")
    return column


def target_name(columns: Iterable[str], target: str | None, path: Path) -> str:
    """The target's column. Without a name, it is the one column called target, label, class or y."""
    names = list(columns)
    usual = [name for name in names if name.lower() in TARGETS]
    if target is None and len(usual) != 1:
        some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise InputError(f"{path} has the columns {some}; say which is the target, by target=NAME or --target NAME.")
    chosen = usual[0] if target is None else target
    if chosen not in names:
        raise InputError(f"{path}: " + nearest("column", chosen, names))
    return chosen


def split_target(columns: dict[str, AnyArray], target: str | None, path: Path) -> Columns:
    """Features and target."""
    chosen = target_name(columns, target, path)
    names = tuple(name for name, values in columns.items() if name != chosen and values.dtype.kind == "f")
    others = {name: values for name, values in columns.items() if name != chosen and values.dtype.kind != "f"}
    if not names:
        raise InputError(f"{path} has no column of numbers besides its target {chosen!r}, so there are no features.")
    return Columns(np.stack([columns[name] for name in names], axis=1), columns[chosen], names, others)


def is_class_target(y: AnyArray) -> bool:
    """Whether targets look like classes: texts, or a few whole numbers."""
    if y.dtype.kind not in "biuf":
        return True
    known = np.unique(y)
    return len(known) <= CLASSES and bool((np.floor(known.astype(np.float64)) == known).all())


def targets(y: AnyArray, task: str | None, path: Path) -> tuple[AnyArray, tuple[str, ...]]:
    """(class numbers, class names), or (real targets, ()): text and few whole numbers are classes unless told."""
    numbers = y.dtype.kind in "biuf"
    if numbers and not np.isfinite(y.astype(np.float64)).all():
        row = int(np.argmin(np.isfinite(y)))
        raise InputError(f"{path}, row {row + 1} has the target {y[row]}; targets must be finite.")
    known = np.unique(y)
    if task is None:
        task = "classification" if is_class_target(y) else "regression"
    if task == "regression":
        if not numbers:
            raise InputError(f"{path} has targets such as {y[0]!r:.40}, and regression needs numbers.")
        return y.astype(np.float64), ()
    if len(known) < 2:
        raise InputError(f"{path} has the one class {known[0]!r:.40}; classification needs two at least.")
    names = tuple(level_of(float(k)) if numbers else str(k) for k in known)
    return np.searchsorted(known, y).astype(np.intp), names
