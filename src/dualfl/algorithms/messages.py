"""What travels, what it weighs, and the one sum of the library.

    S = (1/M) sum over the clients asked of  m_j u_j,        M = sum of ALL sizes m_j.

The order of this sum is part of the contract: blocks of 32 consecutive clients, in client order inside a block, then
the blocks in order. An engine that keeps whole blocks together on a worker can add them there and get the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from dualfl.errors import InputError
from dualfl.typing import AnyArray, Array, sealed

BLOCK = 32
SCALARS = frozenset({float, int, bool})  # asked for first: most of what a small message holds


@dataclass(frozen=True)
class Sparse:
    """A vector of `size` numbers of which only those at `index` travel.

    `seeded` says that the receiver knows the index from a common stream, so that only values are counted.
    """

    value: Array
    index: npt.NDArray[np.intp]
    size: int
    seeded: bool = False

    @property
    def floats(self) -> int:
        return self.value.size if self.seeded else 2 * self.value.size

    def dense(self) -> Array:
        x = np.zeros(self.size)
        x[self.index] = self.value
        return x

    def add_to(self, total: Array, factor: float) -> None:
        np.add.at(total, self.index, factor * self.value)


@dataclass(frozen=True)
class LowRank:
    """A symmetric d x d matrix V diag(value) V' of rank R: R (d + 1) numbers."""

    value: Array
    vectors: Array

    @property
    def floats(self) -> int:
        return self.value.size + self.vectors.size

    def dense(self) -> Array:
        return (self.vectors * self.value) @ self.vectors.T

    def add_to(self, total: Array, factor: float) -> None:
        total += factor * self.dense()


@dataclass(frozen=True)
class Quantised:
    """Numbers rounded to few bits each, as multiples of `step`; they count as the floats that their bits fill."""

    value: AnyArray  # of whole numbers, in a type that may have more bits
    bits: int
    step: float = 1.0

    @property
    def floats(self) -> int:
        return 1 + -(-self.value.size * self.bits // 64)  # one float for the step

    def dense(self) -> Array:
        return self.value * self.step

    def add_to(self, total: Array, factor: float) -> None:
        total += factor * self.dense()


def canonical(value: Any) -> Any:
    """`value` as it is sent: arrays contiguous and read-only, scalars as Python numbers.

    Arrays that somebody could still write to are copied.
    """
    if type(value) in SCALARS:
        return value
    if isinstance(value, np.ndarray):
        if value.ndim == 0:
            return value.item()
        if value.flags.writeable or not value.flags.c_contiguous:
            value = np.array(value, order="C")
            value.flags.writeable = False
        return value
    if isinstance(value, tuple | list):
        return _each(canonical, value)
    return value.item() if isinstance(value, np.generic) else value


def as_remembered(state: Any) -> Any:
    """A state as it is remembered, so that memory and disk give the same bits.

    What has left a step is no longer worked on, so an array that owns its numbers is made read-only where it is.
    """
    if state is None:
        return None
    if not is_dataclass(state) or isinstance(state, type):
        raise InputError(
            f"A state of an algorithm must be a dataclass or None, but one is of type {type(state).__name__}; "
            "make it a frozen dataclass with one field for each thing to remember."
        )
    changed = {}
    for name, value in vars(state).items():
        kept = _kept(value)
        if kept is not value:
            changed[name] = kept
    return replace(state, **changed) if changed else state


def _each(treat: Callable[[Any], Any], values: Sequence[Any]) -> Any:
    """The same tuple with treated items; a list becomes a tuple, and what needs no treatment stays the same object."""
    treated = [treat(value) for value in values]
    if isinstance(values, list):
        return tuple(treated)
    if all(new is old for new, old in zip(treated, values)):
        return values
    return type(values)(*treated) if hasattr(values, "_fields") else tuple(treated)


def _kept(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return _each(_kept, value)
    if isinstance(value, np.ndarray) and value.ndim:
        flags = value.flags
        if flags.writeable and flags.owndata and flags.c_contiguous:
            flags.writeable = False
            return value
    return canonical(value)


def not_finite(value: Any) -> bool:
    """Whether there is NaN or infinity in something that travels."""
    if type(value) in SCALARS or isinstance(value, float | int):
        return not math.isfinite(value)
    if isinstance(value, tuple):
        return any(not_finite(v) for v in value)
    if isinstance(value, LowRank):
        return not_finite(value.value) or not_finite(value.vectors)
    if isinstance(value, Quantised):
        return not_finite(value.value) or not_finite(value.step)
    return not np.isfinite(getattr(value, "value", value)).all()


def floats(message: Mapping[str, Any]) -> int:
    """How many numbers a message weighs."""
    return sum(_floats(value) for value in message.values())


def _floats(value: Any) -> int:
    if type(value) in SCALARS:
        return 1
    if isinstance(value, np.ndarray):
        return value.size
    if isinstance(value, Sparse | LowRank | Quantised):
        return value.floats
    if isinstance(value, tuple | list):
        return sum(_floats(v) for v in value)
    return 1


def _shape(value: Any) -> tuple[int, ...]:
    if isinstance(value, Sparse):
        return (value.size,)
    if isinstance(value, LowRank):
        return (len(value.vectors), len(value.vectors))
    return np.shape(value.value if isinstance(value, Quantised) else value)


def _block(values: Sequence[Any], sizes: Sequence[float]) -> Any:
    if not _shape(values[0]):
        scalar = 0.0
        for value, size in zip(values, sizes):
            scalar += size * value
        return scalar
    total = np.zeros(_shape(values[0]))
    for value, size in zip(values, sizes):
        if isinstance(value, np.ndarray):
            total += value if size == 1.0 else size * value
        else:
            value.add_to(total, size)
    return total


class RunningTotal:
    """`total` of uploads that come one after the other, in client order: the same bits, and no upload is kept."""

    def __init__(self, alone: bool) -> None:
        self.alone = alone  # only one client was asked
        self.block: dict[str, Any] = {}  # of the block under way
        self._before: dict[str, Any] = {}
        self._number = -1

    def begins(self, client: int) -> bool:
        """Whether this one is the first of another block."""
        return client // BLOCK != self._number

    def add(self, client: int, upload: Mapping[str, Any], size: float) -> None:
        if self.begins(client):
            self._close()
            self._number = client // BLOCK
        if self.alone and size == 1.0 and all(plain(value) for value in upload.values()):
            self.block = dict(upload)
            return
        for field, value in upload.items():
            shape = _shape(value)
            if field not in self.block:
                self.block[field] = np.zeros(shape) if shape else 0.0
            if not shape:
                self.block[field] += size * value
            elif isinstance(value, np.ndarray):
                self.block[field] += value if size == 1.0 else size * value
            else:
                value.add_to(self.block[field], size)

    def _close(self) -> None:
        before, self.block, part = self._before, {}, self.block
        self._before = {name: before[name] + part[name] for name in part} if before else part

    def result(self) -> dict[str, Any]:
        self._close()
        return self._before


def total(uploads: Sequence[Mapping[str, Any]], clients: Sequence[int], sizes: Sequence[float]) -> dict[str, Any]:
    """sum_j m_j u_j of each field, in THE order. `clients` are the numbers of those who answered, ascending."""
    if len(clients) == 1 and sizes[clients[0]] == 1.0 and all(plain(value) for value in uploads[0].values()):
        return dict(uploads[0])
    blocks: dict[int, list[int]] = {}
    for place, client in enumerate(clients):
        blocks.setdefault(client // BLOCK, []).append(place)
    result: dict[str, Any] = {}
    for field in uploads[0]:
        parts = [
            _block([uploads[place][field] for place in places], [sizes[clients[place]] for place in places])
            for _, places in sorted(blocks.items())
        ]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole + part
        result[field] = whole
    return result


def plain(value: Any) -> bool:
    """Whether a sum of this alone is it itself."""
    return isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype == np.float64)


def averaged(summed: Mapping[str, Any], clients: Sequence[int], sizes: Sequence[float], mass: float) -> SimpleNamespace:
    """The mean that belongs to a sum; `.mass` is the weight of those who were asked."""
    if mass == 1.0:  # one client: nothing to divide
        fields = {k: sealed(v) if isinstance(v, np.ndarray) else v for k, v in summed.items()}
    else:
        fields = {k: sealed(v / mass) if isinstance(v, np.ndarray) else v / mass for k, v in summed.items()}
    return SimpleNamespace(**fields, mass=sum(sizes[j] for j in clients) / mass)


def mean(
    uploads: Sequence[Mapping[str, Any]], clients: Sequence[int], sizes: Sequence[float], mass: float
) -> SimpleNamespace:
    """The weighted mean over ALL clients, whether or not they were asked.

    `mass` is M, the sum of all sizes.
    """
    return averaged(total(uploads, clients, sizes) if uploads and uploads[0] else {}, clients, sizes, mass)


def largest(uploads: Sequence[Mapping[str, Any]]) -> SimpleNamespace:
    """The largest of each scalar, for what clients find out before they start."""
    return SimpleNamespace(**{field: max(float(u[field]) for u in uploads) for field in uploads[0]}, mass=1.0)
