"""The rows that come in: features, their scale and their weights, checked, or a sentence that says what is wrong.

Apart from the model because data are checked by the same function where they are read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dualfl.arguments import check
from dualfl.errors import InputError
from dualfl.kernels import RowsOnDisk
from dualfl.typing import AnyArray, Array, frozen


def check_features(X: Any) -> Any:
    """X as the kernels take it, or a sentence. It is copied only if its type or order demands it, once."""
    sparse, stored = bool(sp.issparse(X)), isinstance(X, RowsOnDisk)
    X = X if sparse or stored else np.asarray(X)
    if X.ndim != 2:
        raise InputError(f"X must be a table of rows by features, but it has shape {X.shape}.")
    if X.shape[0] == 0:
        raise InputError("X has no rows: a client without data has nothing to minimise; leave it out.")
    if X.shape[1] == 0:
        raise InputError("X has no features; it must have at least one column.")
    if X.dtype.kind not in "biuf":
        raise InputError(f"X has dtype {X.dtype}, and features must be real numbers; encode the others first.")
    if sparse:
        X = X if X.format == "csr" else X.tocsr()
        if not X.has_canonical_format:  # entries that are given twice add up, in uint8 perhaps beyond 255
            X = X.astype(np.float64) if X.dtype == np.uint8 else X.copy()
            X.sum_duplicates()
        if X.indices.dtype != np.int32 and max(X.nnz, X.shape[1]) < 2**31:
            # the kernels read int32, and SciPy keeps both index arrays of one type
            X = type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    if X.dtype not in (np.float64, np.float32, np.uint8):
        X = X.astype(np.float64) if sparse else X.astype(np.float64, order="C")
    if stored:
        _check_blocks(X)
    elif X.dtype.kind == "f" and not _all_finite(X.data if sparse else X):
        row, column = _first_bad(X)
        raise InputError(
            f"X[{row}, {column}] is {X[row, column]}; features must be finite, so fill or drop what is missing."
        )
    return X


def _check_blocks(X: RowsOnDisk) -> None:
    """The same of rows on disk, by their extremes, which are asked for anyway."""
    if X.dtype.kind != "f" or not X.size or all(np.isfinite(extreme).all() for extreme in X.extremes):
        return
    for rows, part in X.blocks():
        if not _all_finite(part):
            row, column = _first_bad(part)
            raise InputError(
                f"Row {rows.start + row:,}, column {column} of {X.path} is {part[row, column]}; features must be "
                "finite, so fill or drop what is missing."
            )


def _all_finite(values: AnyArray) -> bool:
    """One NaN or infinity spoils a sum, so a finite sum is proof; a sum that is not may be an overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum(dtype=np.float64)
    return bool(np.isfinite(total)) or bool(np.isfinite(values).all())


def _first_bad(X: Any) -> tuple[int, int]:
    if bool(sp.issparse(X)):
        entries = X.tocoo()
        bad = int(np.argmin(np.isfinite(entries.data)))
        return int(entries.row[bad]), int(entries.col[bad])
    row, column = np.argwhere(~np.isfinite(X))[0]
    return int(row), int(column)


def check_scale(scale: float) -> float:
    check("scale", scale, float)
    if not (np.isfinite(float(scale)) and scale != 0):
        raise InputError(f"scale must be a finite number other than 0, but it is {scale}.")
    return float(scale)


def check_weights(weights: npt.ArrayLike | None, n: int) -> tuple[Array, float]:
    """Weights that sum to one, and what they summed to before."""
    if weights is None:
        return frozen(np.full(n, 1.0 / n)), float(n)
    w = np.asarray(weights)
    if w.dtype.kind not in "biuf":
        raise InputError(f"weights must be real numbers, but their dtype is {w.dtype}.")
    if w.shape != (n,):
        raise InputError(f"weights must be one number for each of the {n} rows, but their shape is {w.shape}.")
    wrong = ~((w >= 0) & np.isfinite(w))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(f"weights[{i}] is {w[i]}; weights must be finite and >= 0.")
    with np.errstate(over="ignore"):
        total = float(w.sum(dtype=np.float64))
    if not 0 < total < np.inf:
        raise InputError(f"The weights sum to {total}, and their sum must be finite and > 0.")
    return frozen(w / total), total


def check_offset(offset: npt.ArrayLike, n: int) -> Array:
    """One finite number a row."""
    o = np.asarray(offset)
    if o.dtype.kind not in "biuf" or o.shape != (n,):
        raise InputError(f"offset must be one number for each of the {n} rows, but its shape is {o.shape} ({o.dtype}).")
    o = o.astype(np.float64)
    wrong = ~np.isfinite(o)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(f"offset[{i}] is {o[i]}; offsets must be finite, so an exposure whose log one is must be > 0.")
    return o
