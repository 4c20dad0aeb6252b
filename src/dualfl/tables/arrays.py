"""NumPy's own files. `.npz`: the arrays X and y, or a sparse matrix of SciPy's with y; `.npy`: a matrix and its target
column, the last one unless another is named by its number. Pickled objects are refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dualfl.errors import InputError
from dualfl.files import contents
from dualfl.typing import AnyArray

FEATURES = ("X", "x", "data", "features")
TARGETS = ("y", "Y", "target", "labels", "label")
CSR = ("data", "indices", "indptr", "shape")  # what a CSR array consists of; then only y is ours
SAVED = ("format", "shape", "data")  # what SciPy's save_npz writes of every layout, besides its indices


def read_npz(path: Path, target: str | None) -> tuple[Any, AnyArray]:
    """(rows, targets)."""
    return read_npz_images(path, target)[:2]


def read_npz_images(path: Path, target: str | None) -> tuple[Any, AnyArray, bool]:
    """(rows, targets, whether the rows are images of bytes) of an .npz file."""
    data = contents(path)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except Exception as error:  # a damaged archive can raise anything
        raise InputError(f"{path} is not an .npz file of plain arrays ({_told(error)}).") from error
    if all(name in arrays for name in SAVED) or all(name in arrays for name in CSR):
        X = _sparse(data, arrays, path)
        arrays = {name: array for name, array in arrays.items() if name not in (*SAVED, *CSR)}
    else:
        X = _first(arrays, FEATURES, path, "features")
    y = _first(arrays, TARGETS if target is None else (target,), path, "targets")
    return _checked(X, y, path)


def _sparse(data: bytes, arrays: dict[str, AnyArray], path: Path) -> Any:
    """The sparse matrix of a file as CSR: in the layout that the file names, and CSR where it names none."""
    try:
        if "format" in arrays:
            X = sp.load_npz(io.BytesIO(data))
        else:
            X = sp.csr_array(tuple(arrays[name] for name in CSR[:3]), shape=tuple(arrays["shape"]))
        if hasattr(X, "check_format"):  # the kernels and the conversion trust the indices
            X.check_format(full_check=True)
        return sp.csr_array(X)
    except Exception as error:  # parts that do not match can raise anything
        raise InputError(
            f"{path} holds the parts of a sparse matrix that do not fit together ({_told(error)}); write it again."
        ) from error


def _told(error: Exception) -> str:
    """What an error of others says, in one line."""
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__


def _first(arrays: dict[str, AnyArray], names: tuple[str, ...], path: Path, what: str) -> AnyArray:
    for name in names:
        if name in arrays:
            return arrays[name]
    held = ", ".join(arrays) or "nothing"
    raise InputError(f"{path} holds {held}, and the {what} must be called {' or '.join(names)}.")


def read_npy(path: Path, target: str | None) -> tuple[Any, AnyArray]:
    """(rows, targets)."""
    data = contents(path)
    try:
        matrix = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception as error:  # a damaged header can raise anything
        raise InputError(f"{path} is not an .npy file of numbers ({_told(error)}).") from error
    if matrix.ndim != 2 or matrix.shape[1] < 2 or matrix.dtype.kind not in "biuf":
        raise InputError(f"{path} must hold a matrix of numbers, features and a target; it has shape {matrix.shape}.")
    if target is not None and not target.lstrip("-").isdigit():
        raise InputError(f"The target of {path} is the number of a column, and it is {target!r}.")
    column = matrix.shape[1] - 1 if target is None else int(target)
    if not 0 <= column < matrix.shape[1]:
        raise InputError(f"{path} has the columns 0 to {matrix.shape[1] - 1}, and the target is {column}.")
    return _checked(np.delete(matrix, column, axis=1), matrix[:, column], path)[:2]


def _checked(X: Any, y: AnyArray, path: Path) -> tuple[Any, AnyArray, bool]:
    images = not sp.issparse(X) and X.ndim > 2 and X.dtype == np.uint8  # bytes in a flat table may count anything
    X = X.reshape(len(X), -1) if not sp.issparse(X) and X.ndim > 2 else X
    if X.ndim != 2 or y.ndim != 1 or y.shape[0] != X.shape[0] or y.size == 0:
        raise InputError(f"{path} has features of shape {X.shape} and targets of shape {y.shape}; they do not match.")
    if X.dtype.kind not in "biuf":
        raise InputError(f"{path} has features of type {X.dtype}, and they must be real numbers; encode them first.")
    return X, y, images
