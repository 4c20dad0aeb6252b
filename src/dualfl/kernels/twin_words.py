"""Words modulo p = 2^61 - 1 in NumPy: what `words.h` does in C, the same to the last bit."""

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

P = 2**61 - 1
_P, _EXPONENT, _SPARE = np.uint64(P), np.uint64(61), np.uint64(3)
_LOW, _HALF = np.uint64(2**32 - 1), np.uint64(32)


def add_words(total: Words, stream: Words, negative: bool) -> None:
    """Add 61 of the 64 random bits of each word of the stream, or take them off. What is p then stands for 0."""
    more = stream >> _SPARE
    if negative:
        np.subtract(_P, more, out=more)
    more += total  # below 2^62
    np.bitwise_and(more, _P, out=total)
    more >>= _EXPONENT
    total += more


def dot_words(stream: Words, words: Words) -> int:
    """The sum of (stream_i >> 3) words_i modulo p.

    Factors are cut at 32 bits: a = a_1 2^32 + a_0, where a_1 has 29 bits. No product of two halves, and no sum of the
    two mixed ones, is beyond 64 bits; each is added up in halves again.
    """
    a = stream >> _SPARE
    a1, a0, b1, b0 = a >> _HALF, a & _LOW, words >> _HALF, words & _LOW
    return (_sum(a1 * b1) * 2**64 + _sum(a1 * b0 + a0 * b1) * 2**32 + _sum(a0 * b0)) % P


def _sum(words: Words) -> int:
    """The sum as it is, beyond 64 bits."""
    return (int((words >> _HALF).sum()) << 32) + int((words & _LOW).sum())
