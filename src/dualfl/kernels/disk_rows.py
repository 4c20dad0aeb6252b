"""Rows that stay in a file, because they are more than memory holds: every pass reads them block by block.

`RowsOnDisk` looks like an array of which only rows can be taken; `BlockedRows` are the kernels for it, which hand block
after block to those in memory. Sums of blocks differ from those of all rows by rounding. A file is read, not mapped:
one that becomes shorter meanwhile is an error with a sentence, where a mapped one would end the process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dualfl.errors import InputError

from .contract import RowKernels
from .losses import Array, Loss

BLOCK = 1 << 26  # bytes that are read at a time
KINDS = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.uint8))


class RowsOnDisk:
    """The rows of a .npy file, dense and C-ordered, of float64, float32 or uint8.

    Parameters
    ----------
    path : str or Path
        The file, as `numpy.save` or `numpy.lib.format.open_memmap` writes it.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(folder.name + "/rows.npy", np.arange(6.0).reshape(3, 2))
    >>> X = RowsOnDisk(folder.name + "/rows.npy")
    >>> X.shape, X[1:3].tolist()
    ((3, 2), [[2.0, 3.0], [4.0, 5.0]])
    >>> folder.cleanup()
    """

    ndim = 2

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        try:
            with open(self.path, "rb") as file:  # only its head: to map the file would reserve memory of its size
                version = np.lib.format.read_magic(file)
                head = np.lib.format
                shape, other_order, kind = (
                    head.read_array_header_1_0(file) if version == (1, 0) else head.read_array_header_2_0(file)
                )
                self._head = file.tell()
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{self.path} is not a .npy file with rows of numbers: {error}.") from None
        if len(shape) != 2 or other_order or kind not in KINDS:
            raise InputError(
                f"{self.path} must hold one table in C order, of float64, float32 or uint8; it holds "
                f"{kind} of shape {tuple(shape)}."
            )
        self.dtype: Any = kind
        self.shape: tuple[int, int] = (shape[0], shape[1])

    @property
    def size(self) -> int:
        """The numbers in it."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """The bytes of the rows."""
        return self.size * int(self.dtype.itemsize)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return (row for _, part in self.blocks() for row in part)

    def __getitem__(self, rows: slice | npt.NDArray[Any]) -> npt.NDArray[Any]:
        """These rows, in memory."""
        if isinstance(rows, slice) and rows.step in (None, 1):
            first, last, _ = rows.indices(len(self))
            return self._read([(first, max(0, last - first))])
        index = np.arange(len(self))[rows]
        return self._read([(int(i), 1) for i in index])

    def _read(self, pieces: list[tuple[int, int]]) -> npt.NDArray[Any]:
        out = np.empty((sum(count for _, count in pieces), self.shape[1]), dtype=self.dtype)
        width, place = self.shape[1] * self.dtype.itemsize, 0
        into = out.reshape(-1).view(np.uint8)
        try:
            with open(self.path, "rb", buffering=0) as file:
                for first, count in pieces:
                    file.seek(self._head + first * width)
                    end = place + count * width
                    while place < end:
                        got = file.readinto(into[place:end].data)
                        if not got:
                            raise InputError(
                                f"{self.path} has become shorter while it was read: row {first:,} of {len(self):,} is "
                                "no longer there; write it anew and start again."
                            )
                        place += got
        except OSError as error:
            raise InputError(f"{self.path} can no longer be read: {os.strerror(error.errno or 0)}.") from None
        return out

    def astype(self, kind: Any) -> npt.NDArray[Any]:
        """All rows in memory; only for a few."""
        return self[:].astype(kind)

    def blocks(self) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
        """All rows, some at a time."""
        rows = max(1, BLOCK // max(1, self.shape[1] * self.dtype.itemsize))
        for first in range(0, len(self), rows):
            where = slice(first, min(first + rows, len(self)))
            yield where, self[where]

    @cached_property
    def extremes(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The smallest and the largest number of every column, in one pass; NaN where one is NaN."""
        parts = [(part.min(axis=0), part.max(axis=0)) for _, part in self.blocks()]
        return np.min([low for low, _ in parts], axis=0), np.max([high for _, high in parts], axis=0)

    def min(self, axis: int) -> npt.NDArray[Any]:
        """The smallest number of every column."""
        return self.extremes[0]

    def max(self, axis: int) -> npt.NDArray[Any]:
        """The largest one."""
        return self.extremes[1]


class BlockedRows:
    """The kernels of rows on disk. Methods that walk from row to row at random refuse."""

    def __init__(self, X: RowsOnDisk, rows: Callable[[Any], RowKernels]) -> None:
        self.X, self.rows = X, rows

    def _each(self) -> Iterator[tuple[slice, RowKernels]]:
        for where, part in self.X.blocks():
            yield where, self.rows(part)

    def forward(self, W: Array) -> Array:
        Z = np.empty((len(self.X), W.shape[1]))  # filled block by block: pieces put together would be there twice
        for where, kernel in self._each():
            Z[where] = kernel.forward(W)
        return Z

    def backward(self, R: Array) -> Array:
        return added(kernel.backward(R[where]) for where, kernel in self._each())

    def value_gradient(self, W: Array, loss: Loss, y: Array, s: Array) -> tuple[float, Array, Array]:
        value, gradient, Z = 0.0, np.zeros_like(W), np.empty((len(self.X), W.shape[1]))
        for where, kernel in self._each():
            E, G, Z[where] = kernel.value_gradient(W, loss, y[where], s[where])
            value, gradient = value + E, gradient + G
        return value, gradient, Z

    def hessian_times(self, V: Array, loss: Loss, Z: Array, y: Array, s: Array) -> Array:
        return added(kernel.hessian_times(V, loss, Z[w], y[w], s[w]) for w, kernel in self._each())

    def gram(self, w: Array) -> Array:
        return added(kernel.gram(w[where]) for where, kernel in self._each())

    def grams(self, V: Array, columns: Any = None) -> Array:
        return added(kernel.grams(V[where], columns) for where, kernel in self._each())

    def block(self, w: Array, columns: npt.NDArray[np.int64]) -> Array:
        return added(kernel.block(w[where], columns) for where, kernel in self._each())

    def row_norms2(self) -> Array:
        return np.concatenate([kernel.row_norms2() for _, kernel in self._each()])

    def sample_gradient(self, index: npt.NDArray[np.int64], W: Array, loss: Loss, y: Array, s: Array) -> Array:
        return self.rows(self.X[index]).sample_gradient(np.arange(len(index)), W, loss, y[index], s[index])

    def _at_random(self, *_: Any) -> None:
        raise InputError(
            f"{self.X.path} stays on disk, and this solver walks over its rows one by one at random; take one with "
            "whole gradients, such as LBFGS, or rows in memory."
        )

    sdca_epoch = svrg_epoch = saga_epoch = _at_random


def added(parts: Any) -> Array:
    """Their sum, in order."""
    total = None
    for part in parts:
        total = np.array(part) if total is None else total + part
    assert total is not None, "a design has rows"
    return total
