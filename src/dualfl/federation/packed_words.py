"""Several short numbers in one word, for sums that need few digits.

A slot of w bits holds the sum of all silos' whole numbers, which must stay below 2^(w-1), whatever its sign: then no
slot runs over into the next, and all of them together stay below 2^60, where words are still numbers modulo p. The more
silos add, the fewer digits each of them has in a slot, so the wider it must be.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BITS = 60  # of a word, for all slots; p/2 is just above
FEW = 16  # silos that may share slots of 20 bits; each is left 13 or more, which steps need
Whole = npt.NDArray[np.int64]


def width(silos: int) -> int:
    """Of a slot, for the sums of so many silos."""
    return 20 if silos <= FEW else 30


def room(slot: int, silos: int) -> float:
    """What the numbers of all silos may add up to before they are rounded."""
    return 2.0 ** (slot - 1) - silos / 2 - 1


def words(size: int, slot: int) -> int:
    """How many words so many numbers take."""
    return -(-size // (BITS // slot))


def packed(numbers: Whole, slot: int) -> Whole:
    """The numbers, flat and none too large for its slot, as signed words."""
    each = BITS // slot
    found = np.zeros(words(numbers.size, slot) * each, dtype=np.int64)
    found[: numbers.size] = numbers
    shifts = np.int64(slot) * np.arange(each)
    return np.asarray((found.reshape(-1, each) << shifts).sum(axis=1))


def unpacked(sums: Whole, slot: int, size: int) -> Whole:
    """The way back, for sums of such words: the lowest slot first, so that what it borrowed is given back."""
    each, rest = BITS // slot, sums.copy()
    found = np.empty((len(sums), each), dtype=np.int64)
    half, mask = np.int64(1) << np.int64(slot - 1), (np.int64(1) << np.int64(slot)) - np.int64(1)
    for place in range(each):
        found[:, place] = ((rest + half) & mask) - half
        rest = (rest - found[:, place]) >> np.int64(slot)
    return found.ravel()[:size]
