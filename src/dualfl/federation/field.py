"""Whole numbers modulo p = 2^61 - 1, a prime: what silos add, mask and tag.

Masks cancel modulo any number. Tags (`tags`) need one modulo which every number but 0 has an inverse: modulo 2^64 a sum
that was shifted by 2^63 would often pass. Words lie between 0 and p - 1; those above p/2 stand for negative numbers.
All loops go over pieces that fit into a processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

EXPONENT = 61
P = 2**EXPONENT - 1
PIECE = 1 << 14  # words: 128 kB
_P, _EXPONENT, _SPARE = np.uint64(P), np.uint64(EXPONENT), np.uint64(64 - EXPONENT)
_SIGN = np.int64(63)
_LOW, _HALF = np.uint64(2**32 - 1), np.uint64(32)


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
    total = np.asarray(a + b)  # below 2^62
    np.subtract(total, _P, out=total, where=total >= _P)
    return total


def add_to(total: Words, stream: Words, negative: bool) -> None:
    """Add words of 64 random bits, cut to 61 of them, or take them off. What is p afterwards stands for 0."""
    for piece in pieces(total.size):
        more = stream[piece] >> _SPARE
        if negative:
            np.subtract(_P, more, out=more)
        more += total[piece]  # below 2^62
        np.bitwise_and(more, _P, out=total[piece])
        more >>= _EXPONENT
        total[piece] += more


def random_words(stream: Words) -> Words:
    """Numbers modulo p from words of 64 random bits; none is likelier than another by more than 2^-61."""
    return canonical(stream >> _SPARE)


def canonical(words: Words) -> Words:
    """p as 0; in place."""
    words[words == _P] = 0
    return words


def dot(a: Words, b: Words) -> int:
    """sum_i a_i b_i modulo p.

    Factors are cut at 32 bits: a = a_1 2^32 + a_0, where a_1 has 29 bits. No product of two halves, and no sum of the
    two mixed ones, is beyond 64 bits; each is added up in halves again.
    """
    high = mixed = low = 0
    for piece in pieces(a.size):
        a1, a0 = a[piece] >> _HALF, a[piece] & _LOW
        b1, b0 = b[piece] >> _HALF, b[piece] & _LOW
        high += _sum(a1 * b1)
        low += _sum(a0 * b0)
        a1 *= b0
        a0 *= b1
        a1 += a0
        mixed += _sum(a1)
    return int((high * 2**64 + mixed * 2**32 + low) % P)


def _sum(words: Words) -> int:
    """The sum as it is, beyond 64 bits."""
    return (int((words >> _HALF).sum()) << 32) + int((words & _LOW).sum())
