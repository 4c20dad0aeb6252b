"""LIBSVM text: `label index:value index:value ...`, indices from 1; sparse rows stay sparse."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dualfl.errors import InputError
from dualfl.typing import AnyArray


def read_libsvm(path: Path, features: int | None = None) -> tuple[Any, AnyArray]:
    """(CSR rows, targets) of a LIBSVM file, plain or gzipped."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(path), n_features=features, zero_based=False)
    except (ValueError, OverflowError, OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a LIBSVM file ({error}); get the file again.") from error
    if X.shape[0] == 0:
        raise InputError(f"{path} holds no rows; get the file again.")
    return sp.csr_array(X), y


def signs(y: AnyArray, path: Path) -> AnyArray:
    """The labels -1 and +1 as classes 0 and 1."""
    if not np.isin(y, (-1, 1)).all():
        raise InputError(f"{path} has the label {y[~np.isin(y, (-1, 1))][0]:g}, and it should have only -1 and +1.")
    return (y > 0).astype(np.intp)
