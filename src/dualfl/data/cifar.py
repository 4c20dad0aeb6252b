"""CIFAR-10 in its binary version: a label byte, then 3,072 bytes of pixels (red, green, blue planes), row after row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dualfl.data.files import contents, locate
from dualfl.errors import InputError
from dualfl.typing import AnyArray

PIXELS = 3 * 32 * 32


def read_batch(path: Path) -> AnyArray:
    """The rows of one batch, label first."""
    data = np.frombuffer(contents(path), dtype=np.uint8)
    if data.size == 0 or data.size % (1 + PIXELS):
        raise InputError(
            f"{path} is no CIFAR-10 batch: its {data.size:,} bytes are not a multiple of {1 + PIXELS}; get it again."
        )
    rows: AnyArray = data.reshape(-1, 1 + PIXELS)
    if rows[:, 0].max() > 9:
        raise InputError(f"{path} is no CIFAR-10 batch: it has the label {rows[:, 0].max()}, and labels go to 9.")
    return rows


def read_cifar(files: Sequence[str]) -> tuple[AnyArray, AnyArray, Path]:
    """(pixels, labels, where the first batch lies)."""
    paths = [locate(file, "cifar10") for file in files]
    batches = [read_batch(path) for path in paths]
    X = np.concatenate([rows[:, 1:] for rows in batches])
    y = np.concatenate([rows[:, 0] for rows in batches])
    return X, y.astype(np.intp), paths[0]
