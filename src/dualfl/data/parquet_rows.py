"""A Parquet file of numbers as rows on disk: copied once, some rows at a time, into a file that is read in blocks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.kernels import RowsOnDisk
from dualfl.typing import AnyArray

ROWS = 1 << 16  # of Parquet that are in memory at a time


def rows_from_parquet(
    path: Path | str, into: Path | str, columns: Sequence[str] | None = None, kind: str = "float32"
) -> RowsOnDisk:
    """The rows of a Parquet file, for models of more rows than memory holds.

    Parameters
    ----------
    path : str or Path
        The Parquet file; all columns that are taken must be numbers.
    into : str or Path
        The .npy file that is written: rows by columns, as large as the numbers are. It is there whole or not at all.
    columns : sequence of str, optional
        Which columns, in this order; None: all.
    kind : {'float32', 'float64', 'uint8'}, default 'float32'
        How numbers are stored.

    Returns
    -------
    RowsOnDisk
        What `LinearModel` takes as X.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> folder = tempfile.TemporaryDirectory()
    >>> pq.write_table(pa.table({"a": [1.0, 2.0], "b": [3, 4]}), folder.name + "/t.parquet")
    >>> rows_from_parquet(folder.name + "/t.parquet", folder.name + "/t.npy")[:].tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    >>> folder.cleanup()
    """
    if kind not in ("float32", "float64", "uint8"):
        raise InputError(f"kind must be float32, float64 or uint8, but it is {kind!r}.")
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError("Parquet needs pyarrow, which is not installed; pip install pyarrow.") from None
    path, into = Path(path), Path(into)
    half = into.with_name(into.name + ".part")
    try:
        with pq.ParquetFile(path) as table, open(half, "wb") as file:
            names = table.schema_arrow.names if columns is None else list(columns)
            unknown = [name for name in names if name not in table.schema_arrow.names]
            if unknown:
                raise InputError(f"{path} has no column {unknown[0]!r}; it has {', '.join(table.schema_arrow.names)}.")
            shape = (table.metadata.num_rows, len(names))
            head = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_2_0(file, head)
            for batch in table.iter_batches(ROWS, columns=names):
                file.write(np.stack([numbers(batch, name, path, kind) for name in names], axis=1).tobytes())
            file.flush()
            os.fsync(file.fileno())
        os.replace(half, into)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}.") from None
    finally:
        half.unlink(missing_ok=True)
    return RowsOnDisk(into)


def numbers(batch: Any, name: str, path: Path, kind: str) -> AnyArray:
    """One column of a batch."""
    column = batch.column(name)
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "biuf":
        raise InputError(
            f"Column {name!r} of {path} holds {column.type}; rows on disk are numbers, so encode it first."
        )
    if kind == "uint8" and not ((values >= 0) & (values <= 255) & (values == np.floor(values))).all():
        raise InputError(f"Column {name!r} of {path} holds numbers that are no bytes; take kind='float32'.")
    return np.asarray(values.astype(kind))
