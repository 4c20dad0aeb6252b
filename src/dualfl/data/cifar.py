"""CIFAR-10 as its home offers it: binary batches, or the batches that Python pickled.

Binary: a label byte, then 3,072 bytes of pixels (red, green, blue planes), row after row. Python: a pickled dictionary
with `data` and `labels`. A pickle can run any code when it is read, so this reader knows arrays and nothing else.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.files import beginning, contents
from dualfl.tables.formats import PICKLE
from dualfl.typing import AnyArray

PIXELS = 3 * 32 * 32


def read_batch(path: Path) -> AnyArray:
    """The rows of one binary batch, label first."""
    data = np.frombuffer(contents(path), dtype=np.uint8)
    if data.size == 0 or data.size % (1 + PIXELS):
        raise InputError(
            f"{path} is no CIFAR-10 batch: its {data.size:,} bytes are not a multiple of {1 + PIXELS}; get it again."
        )
    rows: AnyArray = data.reshape(-1, 1 + PIXELS)
    if rows[:, 0].max() > 9:
        raise InputError(f"{path} is no CIFAR-10 batch: it has the label {rows[:, 0].max()}, and labels go to 9.")
    return rows


def read_pickled(path: Path) -> tuple[AnyArray, AnyArray]:
    """(pixels, labels) of one batch that Python pickled."""
    try:
        batch = _Arrays(io.BytesIO(contents(path)), encoding="bytes").load()
        X, y = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"])
    except InputError:
        raise
    except Exception as error:  # a foreign pickle can raise anything
        raise InputError(f"{path} is no CIFAR-10 batch of Python ({type(error).__name__}: {error}).") from error
    if X.dtype != np.uint8 or X.ndim != 2 or X.shape[1] != PIXELS or y.shape != X.shape[:1] or y.dtype.kind != "i":
        raise InputError(
            f"{path} is no CIFAR-10 batch: its data are {X.dtype} of shape {X.shape} with {y.size} labels, not bytes "
            f"with {PIXELS} columns and a label a row."
        )
    if not ((y >= 0) & (y <= 9)).all():
        raise InputError(f"{path} is no CIFAR-10 batch: it has the label {y[(y < 0) | (y > 9)][0]}.")
    return X, y


class _Arrays(pickle.Unpickler):
    """Knows the three names that a pickled array consists of, and refuses every other."""

    def find_class(self, module: str, name: str) -> Any:
        known = {"_reconstruct": np.empty(0).__reduce__()[0], "ndarray": np.ndarray, "dtype": np.dtype}
        if module.split(".")[0] == "numpy" and name in known:
            return known[name]
        if (module, name) == ("_codecs", "encode"):  # how later protocols write bytes for old readers
            return lambda text, encoding: text.encode("latin1")
        raise InputError(
            f"The pickle asks for {module}.{name}, which has no place in a CIFAR-10 batch; it is not read."
        )


def read_any(path: Path) -> tuple[AnyArray, AnyArray]:
    """(pixels, labels) of a batch, binary or pickled."""
    binary = path.name.removesuffix(".gz").endswith(".bin")  # their first byte is a label
    if not binary and beginning(path, 1) == PICKLE:
        return read_pickled(path)
    rows = read_batch(path)
    return rows[:, 1:], rows[:, 0]


def read_cifar(paths: Sequence[Path], rows: int | None = None) -> tuple[AnyArray, AnyArray]:
    """(pixels, labels) of several batches; of the published ones it is known how many rows each has."""
    batches = [read_any(path) for path in paths]
    wrong = [f"{path} has {len(y):,}" for path, (_, y) in zip(paths, batches) if rows is not None and len(y) != rows]
    if wrong:
        raise InputError(
            f"A batch of CIFAR-10 has {rows:,} rows, and {', '.join(wrong)}; get "
            f"{'the file' if len(wrong) == 1 else 'the files'} again."
        )
    X = np.concatenate([pixels for pixels, _ in batches])
    y = np.concatenate([labels for _, labels in batches])
    return X, y.astype(np.intp)
