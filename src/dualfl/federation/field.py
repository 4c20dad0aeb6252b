"""Whole numbers modulo p = 2^61 - 1, a prime: what silos add, mask and tag.

Masks cancel modulo any number. Tags (`tags`) need one modulo which every number but 0 has an inverse: modulo 2^64 a sum
that was shifted by 2^63 would often pass. Words lie between 0 and p - 1; those above p/2 stand for negative numbers.
Random words are made and used piece by piece, so that they stay in a processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from dualfl.kernels.twin_words import P as P
from dualfl.kernels.twin_words import Words as Words

EXPONENT = 61
PIECE = 1 << 14  # words: 128 kB
_P, _EXPONENT, _SPARE = np.uint64(P), np.uint64(EXPONENT), np.uint64(64 - EXPONENT)
_SIGN = np.int64(63)


def pieces(size: int) -> Iterator[slice]:
    for begin in range(0, size, PIECE):
        yield slice(begin, min(begin + PIECE, size))


def reduced(words: Words) -> Words:
    """Any words of 64 bits modulo p, since 2^61 is 1."""
    found = (words & _P) + (words >> _EXPONENT)
    return np.where(found >= _P, found - _P, found)


def signed_to_words(numbers: npt.NDArray[np.int64]) -> Words:
    """Whole numbers between -p/2 and p/2."""
    words = (numbers >> _SIGN).view(np.uint64)  # all bits of those below 0
    words &= _P
    words += numbers.view(np.uint64)  # modulo 2^64, which here is p - |number|
    return words


def words_to_signed(words: Words) -> npt.NDArray[np.int64]:
    above = ((_P >> np.uint64(1)) - words).view(np.int64) >> _SIGN  # all bits of those above p/2
    return (words - (above.view(np.uint64) & _P)).view(np.int64)


def add(a: Words, b: Words) -> Words:
    found = np.asarray(a + b)  # below 2^62
    found -= _P * (found >= _P)
    return found


def total(rows: Sequence[Words]) -> Words:
    """The sum of several rows of words. Seven have room in 64 bits, so not every sum is divided."""
    found = np.empty_like(rows[0])
    for piece in pieces(found.size):
        held = rows[0][piece].copy()
        for number, row in enumerate(rows[1:], 1):
            held += row[piece]
            if number % 6 == 0:
                held = reduced(held)
        found[piece] = reduced(held)
    return found


def random_words(stream: Words) -> Words:
    """Numbers modulo p from words of 64 random bits; none is likelier than another by more than 2^-61."""
    return canonical(stream >> _SPARE)


def canonical(words: Words) -> Words:
    """p as 0; in place."""
    words[words == _P] = 0
    return words
