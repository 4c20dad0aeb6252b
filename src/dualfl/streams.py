"""Randomness that is keyed, not stateful: the same draw whoever asks, on any engine, after any resume.

A stream is Philox (Salmon et al. 2011) with the key (seed, tag) and the counter (client, round, exchange). Draws that
server and clients must agree on (coins, cohorts, masks) are made from its raw words only, because NumPy does not
promise that `Generator.choice` and its like give the same numbers in the next version.
"""

from __future__ import annotations

from functools import cached_property
from zlib import crc32

import numpy as np
import numpy.typing as npt

from dualfl.errors import InputError
from dualfl.typing import Array

_WORD = 2**64 - 1
RAREST = 1e-8  # of what is waited for: a round that takes 1/p local steps must end


class Stream:
    """Raw words of one Philox stream and the few draws the algorithms need, each from whole words."""

    def __init__(self, seed: int, tag: str, client: int, round: int, exchange: int) -> None:
        self.key = int(seed) & _WORD, crc32(tag.encode())
        self.counter = 0, exchange + 1, round + 1, client + 1

    @cached_property
    def _words(self) -> np.random.Philox:  # made when the first word is drawn: most streams never are
        return np.random.Philox(
            key=np.array(self.key, dtype=np.uint64), counter=np.array(self.counter, dtype=np.uint64)
        )

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        return self._words.random_raw(count)

    def uniforms(self, count: int) -> Array:
        """Numbers in [0, 1) of 53 bits."""
        return (self.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def uniform(self) -> float:
        return float(self.uniforms(1)[0])

    def coin(self, p: float) -> bool:
        return self.uniform() < p

    def geometric(self, p: float) -> int:
        """The number of trials until the first success: 1, 2, ... with mean 1/p."""
        if not p >= RAREST:
            raise InputError(f"A probability of {p} means some 1/p local steps a round; it must be {RAREST:g} or more.")
        if p >= 1:
            return 1
        count = 1
        while self.uniform() >= p:
            count += 1
        return count

    def permutation(self, size: int) -> npt.NDArray[np.intp]:
        return np.argsort(self.words(size), kind="stable")

    def subset(self, size: int, count: int) -> list[int]:
        """A sorted subset of `count` numbers below `size`."""
        if count >= size:
            return list(range(size))
        return sorted(int(i) for i in self.permutation(size)[:count])

    def signs(self, shape: tuple[int, ...]) -> Array:
        bits = (self.words(int(np.prod(shape))) & np.uint64(1)).astype(np.float64)
        return (2.0 * bits - 1.0).reshape(shape)

    def generator(self) -> np.random.Generator:
        """NumPy's own generator on this stream, for draws that nobody else has to repeat."""
        return np.random.Generator(self._words)
