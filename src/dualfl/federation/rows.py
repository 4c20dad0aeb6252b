"""A silo's own data file: read once, harmonised once, kept beside it for all later messages.

What silos must agree on (columns, levels of text columns, class labels, centre and spread) is a `Schema`; it is made
from what each tells of its file (`describe`), without any row. Gaps are treated as by `dualfl fit`: rows without a
target are left out, a missing number becomes the mean over all silos, a missing text the level "(missing)".
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.typing import AnyArray, Array

LEVELS = 50  # a text column with more different texts is no category
CLASSES = 20  # whole numbers with at most so many values are classes


class Unfit(InputError):
    """A silo's own data are not what they must be. The sentence is for its operator; the coordinator gets `told`,
    which names no file and quotes no cell."""

    def __init__(self, sentence: str, told: str) -> None:
        super().__init__(sentence)
        self.told = told


def no_file(path: Path) -> Unfit:
    return Unfit(
        f"There is no data file {path}; name it in the silo's silo.json.",
        "There is no data file where the silo's silo.json says",
    )


@dataclass(frozen=True, eq=False)
class Rows:
    """A file as it was read: numbers, nan where one is missing, texts by column, and the target.

    Columns of NPZ and LIBSVM have no names.
    """

    X: Any
    names: tuple[str, ...]
    texts: Mapping[str, AnyArray]
    y: AnyArray

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def width(self) -> int:
        return int(self.X.shape[1])


def read_rows(path: Path, target: str | None, ignore: Sequence[str] = ()) -> Rows:
    """The rows of a CSV, Parquet, NPZ or LIBSVM file."""
    if not path.is_file():
        raise no_file(path)
    try:
        return _read(path, target, ignore)
    except Unfit:
        raise
    except InputError as error:  # whoever reads files may quote them
        raise Unfit(str(error), "its data file cannot be read") from error


def _read(path: Path, target: str | None, ignore: Sequence[str]) -> Rows:
    from dualfl.tables.arrays import read_npz
    from dualfl.tables.formats import format_of
    from dualfl.tables.libsvm import read_libsvm

    kind = format_of(path)
    if kind in ("CSV", "Parquet"):
        return read_named(path, target, ignore)
    if kind not in ("npz", "LIBSVM"):
        raise InputError(f"{path} is a {kind} file, and a silo reads CSV, Parquet, NPZ and LIBSVM.")
    X, y = read_npz(path, target) if kind == "npz" else read_libsvm(path)
    numbers = X.data if hasattr(X, "indptr") else X
    if not np.isfinite(np.asarray(numbers, dtype=np.float64)).all():
        raise InputError(f"{path} holds NaN or infinity; fill or drop such rows.")
    return Rows(X, (), {}, y)


def read_named(path: Path, target: str | None, ignore: Sequence[str]) -> Rows:
    """The rows of a table that have a target."""
    from dualfl.tables.delimited import split_target
    from dualfl.tables.reading import check_usable, missing, read_table
    from dualfl.tables.schema import MISSING

    table = read_table(path)
    columns = {name: values for name, values in table.columns.items() if name not in ignore}
    for name in columns:
        try:
            check_usable(table, name, ", or put it under 'ignore' in silo.json")
        except InputError as error:
            told = f"its data file has entries in column {name!r} that are neither finite numbers nor texts"
            raise Unfit(str(error), told) from error
    parts = split_target(columns, target, path)
    there = ~missing(parts.y)
    if not there.any():
        raise InputError(f"{path} has no row with a target; look at its target column.")
    texts = {name: np.where(values[there] == "", MISSING, values[there]) for name, values in parts.others.items()}
    return Rows(parts.X[there], parts.names, texts, parts.y[there])


def digest_of(path: Path) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


# -- what silos agree on -----------------------------------------------------------------------------------


def describe(rows: Rows, task: str | None) -> dict[str, Any]:
    """What a silo tells of its file before anything is agreed: names and labels, no row and no number of a row."""
    numeric = rows.y.dtype.kind in "biuf"
    known = np.unique(rows.y)
    whole = numeric and bool((np.floor(known.astype(np.float64)) == known).all())
    if task is None:
        task = "classification" if not numeric or (whole and len(known) <= CLASSES) else "regression"
    if task == "regression" and not numeric:
        raise InputError("the target holds texts, and regression needs numbers")
    levels = {}
    for name, values in rows.texts.items():
        found = np.unique(values)
        if len(found) > LEVELS:
            raise InputError(
                f"column {name!r} holds {len(found)} different texts, and a category has at most {LEVELS}; "
                "put it under 'ignore' in silo.json"
            )
        levels[name] = tuple(str(v) for v in found)
    labels = tuple(label(v) for v in known) if task == "classification" else ()
    return {
        "columns": rows.names,
        "width": rows.width,
        "levels": levels,
        "task": task,
        "labels": labels,
        "sparse": hasattr(rows.X, "indptr"),
        "gaps": not hasattr(rows.X, "indptr") and bool(np.isnan(rows.X).any()),
    }


def label(value: Any) -> str:
    """The name of a class: all digits of a number, so that no two classes become one.

    >>> [label(v) for v in (195967001.0, np.int64(2), 0.5, True, "yes")]
    ['195967001', '2', '0.5', '1', 'yes']
    """
    if not isinstance(value, float | int | np.number | np.bool_):
        return str(value)
    number = value.item() if isinstance(value, np.generic) else value
    return str(int(number)) if isinstance(number, int) or number.is_integer() else repr(float(number))


@dataclass(frozen=True)
class Schema:
    """What all silos make of their files. Levels and labels are the union over silos, in order."""

    columns: tuple[str, ...]  # of numbers; none if they have no names
    width: int
    levels: Mapping[str, tuple[str, ...]]
    task: str
    labels: tuple[str, ...]
    sparse: bool
    gaps: bool = False  # whether a number is missing somewhere

    @property
    def features(self) -> tuple[str, ...]:
        """One name a coefficient: numbers as they are, categories with one indicator a level but the first."""
        indicators = [f"{name}={level}" for name, levels in self.levels.items() for level in levels[1:]]
        return (*(self.columns or (f"x{i}" for i in range(self.width))), *indicators)


def agree(told: Mapping[str, Mapping[str, Any]]) -> Schema:
    """The schema of silos that told this, by name; a sentence that names the odd one otherwise."""
    silos = sorted(told)
    first = told[silos[0]]
    sparse, columns = bool(first["sparse"]), tuple(first["columns"])
    # A LIBSVM file does not show columns that are zero everywhere in it.
    width = max(int(told[silo]["width"]) for silo in silos) if sparse else int(first["width"])
    for silo in silos:
        mine = told[silo]
        if bool(mine["sparse"]) != sparse:
            raise InputError(f"Silo {silo!r} has sparse rows and silo {silos[0]!r} has not; bring one kind of file.")
        if mine["task"] != first["task"]:
            raise InputError(
                f"Silo {silo!r} has a {mine['task']} target and silo {silos[0]!r} a {first['task']} target; "
                "say which it is by `task` in the project's project.json."
            )
        check_columns(silo, mine, silos[0], first)
        if not columns and not sparse and int(mine["width"]) != width:
            raise InputError(
                f"Silo {silo!r} has {mine['width']} columns and silo {silos[0]!r} has {width}; they have no names to "
                "go by, so all silos need the same ones in the same order."
            )
    names = sorted(first["levels"])
    levels = {name: in_order({v for silo in silos for v in told[silo]["levels"][name]}) for name in names}
    labels = union_of_labels([told[silo]["labels"] for silo in silos])
    if first["task"] == "classification" and len(labels) < 2:
        raise InputError(f"All silos together have the one class {labels[0]!r}; classification needs two at least.")
    gaps = any(bool(told[silo]["gaps"]) for silo in silos)
    return Schema(tuple(sorted(columns)), width, levels, first["task"], labels, sparse, gaps)


def in_order(levels: Iterable[str]) -> tuple[str, ...]:
    """The level of gaps comes last: the first one has no coefficient of its own."""
    from dualfl.tables.schema import MISSING

    return tuple(sorted(levels, key=lambda level: (level == MISSING, level)))


def check_columns(silo: str, mine: Mapping[str, Any], other: str, theirs: Mapping[str, Any]) -> None:
    """Refuse column names that are not the same in both, numbers or texts."""
    for what, field in (("column", "columns"), ("text column", "levels")):
        missing, extra = sorted(set(theirs[field]) - set(mine[field])), sorted(set(mine[field]) - set(theirs[field]))
        if missing or extra:
            says = [f"lacks {', '.join(map(repr, missing[:5]))}"] if missing else []
            says += [f"has {', '.join(map(repr, extra[:5]))} besides"] if extra else []
            raise InputError(
                f"Silo {silo!r} {' and '.join(says)}, compared with the {what}s of silo {other!r}; all silos need the "
                "same columns (a silo can leave one out by 'ignore' in its silo.json)."
            )


def union_of_labels(each: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """All labels, numbers in their own order."""
    labels = {label for one in each for label in one}
    try:
        return tuple(sorted(labels, key=lambda label: (float(label), label)))  # beyond 2^53 floats are alike
    except ValueError:
        return tuple(sorted(labels))


def harmonised(rows: Rows, schema: Schema) -> tuple[Any, AnyArray]:
    """(features, targets) as the schema wants them, gaps still in them: class numbers, or real targets."""
    if schema.sparse:
        X = rows.X.copy()
        X.resize((rows.n, schema.width))
    elif not schema.columns:
        X = np.ascontiguousarray(rows.X, dtype=np.float64)
    else:
        places = [rows.names.index(name) for name in schema.columns]
        parts = [np.asarray(rows.X, dtype=np.float64)[:, places]]
        for name, levels in schema.levels.items():
            parts += [(rows.texts[name] == level).astype(np.float64)[:, None] for level in levels[1:]]
        X = np.ascontiguousarray(np.concatenate(parts, axis=1))
    if schema.task == "regression":
        return X, rows.y.astype(np.float64)
    place = {name: i for i, name in enumerate(schema.labels)}
    return X, np.array([place[label(v)] for v in rows.y.tolist()], dtype=np.intp)


def standardised(X: Any, center: Array | None, spread: Array | None, fill: Array | None) -> Any:
    """(X - center) / spread with gaps filled; sparse rows stay where they are."""
    if fill is not None:
        X = np.where(np.isnan(X), fill, X)
    if center is None or spread is None:
        return X
    return (X - center) / spread


# -- the cache ---------------------------------------------------------------------------------------------


def pack_rows(X: Any, y: AnyArray) -> bytes:
    arrays = (
        {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
        if hasattr(X, "indptr")
        else {"X": X}
    )
    buffer = io.BytesIO()
    np.savez(buffer, y=y, **arrays)
    return buffer.getvalue()


def unpack_rows(path: Path) -> tuple[Any, AnyArray]:
    with np.load(path, allow_pickle=False) as file:
        if "X" in file.files:
            return file["X"], file["y"]
        import scipy.sparse as sp

        return sp.csr_array((file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"])), file["y"]
