"""NumPy's own files. `.npz`: the arrays X and y, or a sparse matrix of SciPy's with y; `.npy`: a matrix and its target
column, the last one unless another is named by its number. Pickled objects are refused."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dualfl.data.files import contents
from dualfl.errors import InputError
from dualfl.typing import AnyArray

FEATURES = ("X", "x", "data", "features")
TARGETS = ("y", "Y", "target", "labels", "label")
SPARSE = ("data", "indices", "indptr", "shape")  # how SciPy writes CSR; then only y is ours


def read_npz(path: Path, target: str | None) -> tuple[Any, AnyArray]:
    """(rows, targets)."""
    try:
        with np.load(io.BytesIO(contents(path)), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"{path} is not an .npz file of plain arrays ({error}).") from error
    if all(name in arrays for name in SPARSE):
        parts = [arrays.pop(name) for name in SPARSE]
        X: Any = sp.csr_array((parts[0], parts[1], parts[2]), shape=tuple(parts[3]))
    else:
        X = _first(arrays, FEATURES, path, "features")
    y = _first(arrays, TARGETS if target is None else (target,), path, "targets")
    return _checked(X, y, path)


def _first(arrays: dict[str, AnyArray], names: tuple[str, ...], path: Path, what: str) -> AnyArray:
    for name in names:
        if name in arrays:
            return arrays[name]
    held = ", ".join(arrays) or "nothing"
    raise InputError(f"{path} holds {held}, and the {what} must be called {' or '.join(names)}.")


def read_npy(path: Path, target: str | None) -> tuple[Any, AnyArray]:
    """(rows, targets)."""
    try:
        matrix = np.load(io.BytesIO(contents(path)), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} is not an .npy file of numbers ({error}).") from error
    if matrix.ndim != 2 or matrix.shape[1] < 2 or matrix.dtype.kind not in "biuf":
        raise InputError(f"{path} must hold a matrix of numbers, features and a target; it has shape {matrix.shape}.")
    if target is not None and not target.lstrip("-").isdigit():
        raise InputError(f"The target of {path} is the number of a column, and it is {target!r}.")
    column = matrix.shape[1] - 1 if target is None else int(target)
    if not 0 <= column < matrix.shape[1]:
        raise InputError(f"{path} has the columns 0 to {matrix.shape[1] - 1}, and the target is {column}.")
    return _checked(np.delete(matrix, column, axis=1), matrix[:, column], path)


def _checked(X: Any, y: AnyArray, path: Path) -> tuple[Any, AnyArray]:
    X = X.reshape(len(X), -1) if not sp.issparse(X) and X.ndim > 2 else X
    if X.ndim != 2 or y.ndim != 1 or y.shape[0] != X.shape[0] or y.size == 0:
        raise InputError(f"{path} has features of shape {X.shape} and targets of shape {y.shape}; they do not match.")
    return X, y
