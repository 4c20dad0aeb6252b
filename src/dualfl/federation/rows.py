"""A silo's own data file: what is read of it, what is said of it, and where its encoded rows are kept.

What silos agree on and how columns become numbers is `dualfl.tables`, the same as for files on one machine. Here is
what only a silo has: sentences about its file stay with its operator (`Unfit`), and the rows are parsed once.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.tables.cells import EXACT, parsed, tidy
from dualfl.tables.delimited import is_class_target, target_name
from dualfl.tables.reading import Table, read_table, wanted
from dualfl.tables.refusals import IN_SILOS, Unfit
from dualfl.tables.rules import USUAL_RULES, Rules
from dualfl.tables.schema import MOST_LEVELS, Draft, Request, Summary, drafted, summarise, used
from dualfl.tables.summaries import ColumnSummary
from dualfl.typing import AnyArray

UNNAMED = ("npz", "LIBSVM")
TARGET = "y"  # what the target of such a file is called


def no_file(path: Path) -> Unfit:
    return Unfit(
        f"There is no data file {path}; name it in the silo's silo.json.",
        "There is no data file where the silo's silo.json says",
    )


@contextlib.contextmanager
def not_quoted(told: str) -> Iterator[None]:
    """Whoever looks at cells may quote them: the coordinator hears this instead."""
    try:
        yield
    except Unfit:
        raise
    except InputError as error:
        raise Unfit(str(error), told) from error


@dataclass(frozen=True, eq=False)
class SiloRows:
    """A file as it was read, without the columns that are ignored, and which column is the target.

    Which numbers are names of categories (`categorical`) only the silo's operator says: levels are told to others.
    """

    table: Table
    target: str
    categorical: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[int, int]:
        """How many columns of numbers there are beside the target, and how many of text."""
        kinds = [values.dtype.kind for name, values in self.table.columns.items() if name != self.target]
        return self.table.width + kinds.count("f"), len(kinds) - kinds.count("f")

    def request(self, numeric_target: bool) -> Request:
        return Request(self.target, numeric_target, categorical=self.categorical, remedies=IN_SILOS)

    def used(self) -> Table:
        """The rows that have a target."""
        with not_quoted("its data file has entries that cannot be used"):
            return used(self.table, self.request(False))[0]


def read_rows(path: Path, target: str | None, rules: Rules = USUAL_RULES) -> SiloRows:
    """The rows of a CSV, Parquet, NPZ or LIBSVM file, as the silo's operator says that they are to be read."""
    if not path.is_file():
        raise no_file(path)
    with not_quoted("its data file cannot be read"):
        table = _read(path, target, replace(rules, columns=()))  # without a target's name, one of them may be it
        chosen = TARGET if table.width else target_name(table.columns, target, path)
    return SiloRows(table if table.width else wanted(table, rules, (chosen,)), chosen, rules.categorical)


def _read(path: Path, target: str | None, rules: Rules) -> Table:
    from dualfl.tables.arrays import read_npz
    from dualfl.tables.formats import format_of
    from dualfl.tables.libsvm import read_libsvm

    kind = format_of(path, rules.wide)
    if kind in ("CSV", "Parquet"):
        return read_table(path, rules)
    if kind not in UNNAMED:
        raise InputError(f"{path} is a {kind} file, and a silo reads CSV, Parquet, NPZ and LIBSVM.")
    X, y = read_npz(path, target) if kind == "npz" else read_libsvm(path)
    numbers = X.data if hasattr(X, "indptr") else X
    if not np.isfinite(np.asarray(numbers, dtype=np.float64)).all():
        raise InputError(f"{path} holds NaN or infinity; fill or drop such rows.")
    if y.dtype.kind not in "biuf":
        return Table(str(path), {TARGET: parsed([tidy(str(label)) for label in y])[0]}, X)
    large = y.dtype.kind in "iu" and bool((np.abs(y.astype(np.float64)) >= EXACT).any())
    return Table(str(path), {TARGET: y.astype(np.float64)}, X, {TARGET: y.astype(np.str_)} if large else {})


def digest_of(path: Path) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


# -- what a silo says before anything is agreed ------------------------------------------------------------


def describe(rows: SiloRows, task: str | None, allow_empty: bool) -> dict[str, Any]:
    """Names of columns, levels of text and classes; no row, no number of a row, no count."""
    with not_quoted("its data file has entries that cannot be used"):
        kept = rows.used()
        if task is None:
            task = "classification" if is_class_target(kept.columns[rows.target]) else "regression"
        if task == "regression" and kept.columns[rows.target].dtype.kind != "f":
            raise Unfit(
                f"{rows.table.name} has text in column {rows.target!r}, the target, and regression needs numbers; "
                "correct the file.",
                "the target holds texts, and regression needs numbers",
            )
        told = summarise(kept, rows.request(task == "regression"))
    columns: dict[str, tuple[str, ...] | None] = {}
    empty = []
    for name in sorted(told.columns):
        column = told.columns[name]
        check_levels(rows.table.name, name, column)
        if column.kind == "empty":
            check_empty(rows.table.name, name, allow_empty)
            empty.append(name)
        else:
            columns[name] = tuple(column.levels) if column.kind == "categorical" else None
    return {
        "columns": columns,
        "empty": tuple(empty),
        "width": told.width,
        "sparse": told.sparse,
        "task": task,
        "classes": tuple(told.target.levels) if task == "classification" else (),
    }


def check_levels(file: str, name: str, column: ColumnSummary) -> None:
    """So many names are not levels, and may be people's: they do not leave."""
    if len(column.levels) > MOST_LEVELS:
        what = f"{len(column.levels)} different texts, and a category has at most {MOST_LEVELS}"
        remedy = IN_SILOS.drop.format(name)
        raise Unfit(
            f"{file} has in column {name!r} {what}, such as {column.example!r:.40}; {remedy}.",
            f"column {name!r} of its data file holds {what}; {remedy}",
        )


def check_empty(file: str, name: str, allow: bool) -> None:
    if not allow:
        remedy = f"{IN_SILOS.drop.format(name)} of every silo, or {IN_SILOS.allow_empty}"
        raise Unfit(
            f"{file} has no entry at all in column {name!r}; {remedy}.",
            f"its data file has no entry at all in column {name!r}; {remedy}",
        )


def agree(told: Mapping[str, Mapping[str, Any]]) -> Draft:
    """What silos that told this, by name, agree upon; a sentence that names the odd one otherwise."""
    silos = sorted(told)
    task = told[silos[0]]["task"]
    for silo in silos:
        if told[silo]["task"] != task:
            raise InputError(
                f"Silo {silo!r} has a {told[silo]['task']} target and silo {silos[0]!r} a {task} target; "
                "say which it is by `task` in the project's project.json."
            )
    request = Request("", task == "regression", remedies=IN_SILOS)
    try:
        return drafted([_summary(silo, told[silo]) for silo in silos], request, allow_empty=True)
    except InputError as error:
        sentence = str(error)
        raise InputError(sentence[:1].upper() + sentence[1:]) from error


def _summary(silo: str, told: Mapping[str, Any]) -> Summary:
    """What a silo said, as if it had counted nothing."""
    columns = {name: ColumnSummary.named(levels) for name, levels in told["columns"].items()}
    columns |= {name: ColumnSummary("empty", 0, 0) for name in told["empty"]}
    ordered = {name: columns[name] for name in sorted(columns)}
    target = ColumnSummary.named(told["classes"] or None)
    return Summary(f"silo {silo!r}", 0, 0, 0, ordered, target, int(told["width"]), bool(told["sparse"]))


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
