"""LIBSVM text: `label index:value index:value ...`, indices from 1; sparse rows stay sparse."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dualfl.errors import InputError
from dualfl.typing import AnyArray

LARGEST = 10**8  # index: a model has a coefficient for each, and needs room for several such vectors
OPENED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}  # what that reader unpacks


def read_libsvm(path: Path, features: int | None = None) -> tuple[Any, AnyArray]:
    """(CSR rows, targets) of a LIBSVM file, plain or gzipped."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(path), n_features=features, zero_based=False)
    except (ValueError, OverflowError) as error:
        fault = _first_fault(path, features) or f"{path} is not a LIBSVM file ({error}); get the file again."
        raise InputError(fault) from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a LIBSVM file ({error}); get the file again.") from error
    if X.shape[0] == 0:
        raise InputError(f"{path} holds no rows; get the file again.")
    if X.shape[1] > LARGEST and (beyond := _first_fault(path, features)):
        raise InputError(beyond)
    _check_end(path)
    return sp.csr_array(X), y


def _check_end(path: Path) -> None:
    """A file that was cut inside a number still reads well: 2:0.37 becomes 2:0.3. Only its end can tell."""
    with OPENED.get(path.suffix, open)(path, "rb") as file:
        if path.suffix in OPENED:  # whose own checksum says that it is whole
            return
        file.seek(-1, 2)
        if file.read(1) not in b"\n\r":
            raise InputError(
                f"{path} ends in the middle of a line, as if it had been cut; get the file again, or end its last "
                "line if it is whole."
            )


def _first_fault(path: Path, features: int | None) -> str | None:
    """A sentence about the first line that is not right; the reader itself does not say where it was."""
    with OPENED.get(path.suffix, open)(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if fault := _fault(line, features or LARGEST):
                cut = number > 1 and not line.endswith(b"\n")
                remedy = ", and the file ends there, as if it had been cut; get" if cut else "; correct it, or get"
                return f"{path}, line {number:,} is not LIBSVM text: {fault}{remedy} the file again."
    return None


def _fault(line: bytes, features: int) -> str | None:
    """What is wrong in a line; None if nothing is."""
    label, *entries = line.split(b"#")[0].split() or [b"0"]
    if not _is(float, label):
        return f"it begins with {_shown(label)}, and should with a label, which is a number"
    before = 0
    for entry in entries[1:] if entries and entries[0].startswith(b"qid:") else entries:
        index, colon, value = entry.partition(b":")
        if not colon:
            return f"{_shown(entry)} has no colon, and should be index:value"
        if not _is(int, index):
            return f"{_shown(entry)} has {_shown(index)} as its index, and that should be a whole number"
        if not _is(float, value):
            return f"{_shown(entry)} has {_shown(value)} as its value, and that should be a number"
        if not 1 <= int(index) <= features:
            return f"{_shown(entry)} has an index that is not from 1 to {features:,}"
        if int(index) <= before:
            return f"{_shown(entry)} comes after the index {before:,}, and indices should rise"
        before = int(index)
    return None


def _is(kind: type[int] | type[float], text: bytes) -> bool:
    try:
        kind(text)
        return True
    except ValueError:
        return False


def _shown(text: bytes) -> str:
    word = text.decode("utf-8", "replace")
    return repr(word if len(word) <= 40 else f"{word[:37]}...") if word else "nothing"


def signs(y: AnyArray, path: Path) -> AnyArray:
    """The labels -1 and +1 as classes 0 and 1."""
    if not np.isin(y, (-1, 1)).all():
        raise InputError(f"{path} has the label {y[~np.isin(y, (-1, 1))][0]:g}, and it should have only -1 and +1.")
    return (y > 0).astype(np.intp)
