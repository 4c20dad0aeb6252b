"""Numbers as whole numbers modulo p (`field`), so that masks cancel exactly and sums do not depend on their order.

A number travels in several words, each of which holds what the one before it has left (`LIMBS`). Of vectors, which a
silo of weight w sends as w x, two words are sent: the sum of all is the weighted mean to within N 2^-(BITS+1), up to
1e15. What a silo keeps is what it sent, divided by w: rounding that the silo did not know of would break the sums that
algorithms rely on. Scalars, and sums of raw columns, whose size nobody knows, take all words and lose nothing. Long
vectors of whose size something is known take one word a number (`scales`), and of numbers that are short anyway
several share a word (`packed_words`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.messages import Quantised, canonical
from dualfl.algorithms.packing import LONGER, largest
from dualfl.errors import InputError
from dualfl.federation import packed_words
from dualfl.federation.field import P, Words, pieces, signed_to_words, words_to_signed
from dualfl.streams import Stream
from dualfl.typing import Array

# Bits after the point. What is left of a number after one of them is at most half a step of it, so 2^47 steps of the
# next, which leaves room to add up those of 2^12 silos.
# The last one is for squares of small columns: 2^-153 is 1e-46, so a spread of 1e-16 keeps a dozen digits.
LIMBS = {"high": -39, "coarse": 9, "fine": 57, "finer": 105, "finest": 153}
ALL = tuple(LIMBS)
VECTOR = ("coarse", "fine")  # words of a number in a vector
BITS = LIMBS["fine"]  # the grid of vectors: 7e-18
WORD = 61  # bits
LONG = 4096  # numbers of a vector that may take one word each; two words are nothing beside the rest of a message
LARGEST = 2.0**59  # sums of whole numbers stay below it, so a quarter of p away from wrapping around


class Point(NamedTuple):
    """Where the point of a long vector stands: bits after it."""

    bits: int | None  # where each number has a word of its own; None: it needs two
    short: int  # where several share one
    slot: int  # what each of these has of it


@dataclass(frozen=True)
class FixedPoint(Codec):
    """Rounds uploads to the grid on which they will be added. It compresses nothing and remembers nothing."""

    weight: float
    points: Mapping[str, Point] = field(default_factory=dict)  # of fields of which something is known

    @property
    def step(self) -> float:
        """Of the coarsest grid, for what this silo sends, short numbers apart: nothing that is proven has these."""
        known = [point.bits for point in self.points.values() if point.bits is not None]
        return float(1 / (self.weight * 2.0 ** min(known, default=BITS)))

    def compress(self, x: Array, stream: Stream) -> Quantised:
        raise NotImplementedError  # `encode` is all there is

    def encode(
        self, fields: dict[str, Any], memory: dict[str, Array], stream: Stream
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Array]]:
        released = {name: self._on_grid(name, value) for name, value in fields.items()}
        return released, released, {}

    def _on_grid(self, name: str, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._on_grid(f"{name}.{i}", v) for i, v in enumerate(value))
        x = np.asarray(dense(value))
        if not x.shape:  # scalars travel in five words, and lose nothing
            return canonical(value)
        point = self.points.get(name) if x.size >= LONG else None
        if point is not None and is_short(value):
            return self._in_a_slot(name, x, point)
        if point is not None and point.bits is not None and carried(self.weight * x, point.bits):
            return canonical(np.rint(x * (self.weight * 2.0**point.bits)) / (self.weight * 2.0**point.bits))
        return canonical(self._in_two_words(name, x))

    def _in_two_words(self, name: str, x: Array) -> Array:
        sent = whole({limb: part.x for limb, part in limbs(name, self.weight * x, 1, VECTOR).items()})[name]
        return np.asarray(sent / self.weight)

    def _in_a_slot(self, name: str, x: Array, point: Point) -> Quantised:
        """Numbers that do not fit stay as they are, and are asked for again."""
        bits = point.slot + 1  # with its share of the bits that no slot has
        if not carried(self.weight * x, point.short, point.slot):
            return Quantised(self._in_two_words(name, x), bits)
        step = 1 / (self.weight * 2.0**point.short)
        return Quantised(np.rint(x / step).astype(np.int64), bits, step)


def is_short(value: Any) -> bool:
    """Whether numbers have few enough digits to share a word."""
    return isinstance(value, Quantised) and value.bits < LONGER


def dense(value: Any) -> Any:
    """What a mask covers has no holes: sparse and factored uploads are written out."""
    return value.dense() if hasattr(value, "dense") else value


def carried(x: Any, bits: int, slot: int = WORD) -> bool:
    """Whether a word, or a slot of it, with so many bits after the point carries each of these numbers."""
    return bool(largest(x) * 2.0**bits < limit(slot))


def limit(slot: int, silos: int = 1) -> float:
    """What the whole numbers of so many silos may add up to in a word, or in a slot of it."""
    return LARGEST if slot == WORD else packed_words.room(slot, silos)


class Part(NamedTuple):
    """Numbers that travel as words; `added` says how many silos add theirs."""

    x: Any
    bits: int
    added: int = 1
    slot: int = WORD  # what one of them has of a word

    @property
    def kind(self) -> tuple[int, ...]:
        """As it is told beside its name and shape."""
        return (self.bits,) if self.slot == WORD else (self.bits, self.slot)


def to_words(name: str, x: Any, bits: int, added: int = 1, slot: int = WORD) -> Words:
    """round(x 2^bits) modulo p, flat; refused where the sum could wrap around."""
    if type(x) is float:
        return np.array([_to_whole(name, x, bits, added) % P], dtype=np.uint64)
    x = np.asarray(x, dtype=np.float64).ravel()
    if slot != WORD:
        return signed_to_words(packed_words.packed(np.rint(x * 2.0**bits).astype(np.int64), slot))
    _check_size(name, largest(x), bits, added)
    words = np.empty(x.size, dtype=np.uint64)
    for piece in pieces(x.size):
        words[piece] = signed_to_words(np.rint(x[piece] * 2.0**bits).astype(np.int64))
    return words


def _check_size(name: str, largest: float, bits: int, added: int) -> None:
    if not math.isfinite(largest):
        raise InputError(f"{name!r} holds NaN or infinity")
    limit = LARGEST / 2.0**bits / added
    if largest >= limit:  # by how much stays here, since this sentence goes to the server
        raise InputError(
            f"{name!r} holds a number of {limit:.3g} or more, which secure sums do not carry; scale the columns "
            "in every silo"
        )


def _to_whole(name: str, x: float, bits: int, added: int) -> int:
    """The same of one number: an answer has dozens of them, and arrays of one number each would take longer."""
    _check_size(name, abs(x), bits, added)
    return round(x * 2.0**bits)


def number_from(word: int, bits: int) -> float:
    return (word - P if word > P >> 1 else word) / 2.0**bits


def count_of(size: int, slot: int = WORD) -> int:
    """How many words so many numbers take."""
    return size if slot == WORD else packed_words.words(size, slot)


def from_words(words: Words, bits: int, slot: int = WORD, size: int | None = None) -> Array:
    """The numbers that were added up; of several in a word, so many."""
    if slot != WORD:
        each = packed_words.BITS // slot
        numbers = packed_words.unpacked(words_to_signed(words), slot, each * words.size if size is None else size)
        return np.asarray(numbers / 2.0**bits)
    x = np.empty(words.size)
    for piece in pieces(words.size):
        x[piece] = words_to_signed(words[piece]) / 2.0**bits
    return x


# -- several words a number -----------------------------------------------------------------------------

FINEST = 2.0 ** -LIMBS["fine"]  # how far off two scalars of one silo may be together


def reach(silos: int) -> float:
    """What no number of any of so many silos may reach, for their sum to be carried."""
    return float(LARGEST / 2.0 ** LIMBS["high"] / silos)


def limbs(name: str, x: Any, silos: int, chosen: Sequence[str] = ALL) -> dict[str, Part]:
    """x, which so many silos add with no weight; all parts together lose nothing of a float64 below `reach`."""
    if not np.ndim(x):
        return _limbs_of_one(name, float(x), silos, chosen)
    rest, parts = np.asarray(x, dtype=np.float64), {}
    for limb in chosen:
        bits = LIMBS[limb]
        rounded = from_words(to_words(name, rest, bits, silos), bits).reshape(rest.shape)
        parts[f"{name}:{limb}"] = Part(rounded, bits, silos)
        rest = rest - rounded
    return parts


def _limbs_of_one(name: str, rest: float, silos: int, chosen: Sequence[str]) -> dict[str, Part]:
    parts = {}
    for limb in chosen:
        bits = LIMBS[limb]
        rounded = _to_whole(name, rest, bits, silos) / 2.0**bits
        parts[f"{name}:{limb}"] = Part(rounded, bits, silos)
        rest -= rounded
    return parts


def whole(sums: Mapping[str, Any]) -> dict[str, Any]:
    """The way back, after the parts were added up; what was sent in one part stays."""
    joined: dict[str, Any] = {}
    for name, value in sums.items():
        head, colon, limb = name.rpartition(":")
        if colon and limb in LIMBS:
            joined[head] = joined[head] + value if head in joined else value
        else:
            joined[name] = value
    return joined


# -- several named numbers as one row of words -------------------------------------------------------------


def flatten(wire: Mapping[str, Any]) -> dict[str, Any]:
    """Items of tuples as fields of their own."""
    flat: dict[str, Any] = {}
    for name, value in wire.items():
        if isinstance(value, tuple):
            flat |= flatten({f"{name}.{i}": v for i, v in enumerate(value)})
        else:
            flat[name] = value
    return flat
