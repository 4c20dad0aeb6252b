"""Tags: a sum that was not the sum of what silos sent is found out.

With its words x a silo sends one more, r_1 x_1 + ... + r_n x_n modulo p, where r is random, drawn from the group key
and the label of the exchange, and used once. The first silo adds a random s. Under masks the coordinator sees none of
this; what it opens is X, the sum of all words, and T = <r, X> + s. It must hand (X, T) on, and every silo checks it.

Whoever does not know r and s and hands on another X has to guess <r, X' - X>, which is uniform: p is prime, so the
chance is 1/p. Without s a multiple of (X, T) would pass.
"""

from __future__ import annotations

import numpy as np

from dualfl.errors import InputError
from dualfl.federation import field
from dualfl.federation.field import Words
from dualfl.federation.masks import Keystream, extracted
from dualfl.kernels import dot_words

FALSE = (
    "the sum that the coordinator hands on is not the sum of what silos sent: the coordinator or some silo said what "
    "is not true, and nothing tells which; this experiment is over"
)


class FalseSum(InputError):
    """It ends the experiment."""


def _tag(words: Words, group: bytes, label: str, first: bool = True) -> int:
    """<r, words>, and s where it is to be added."""
    stream = Keystream(extracted(group, b"tags"), label)
    s = int(stream.next(2)[0] >> np.uint64(3))  # two words are a block of the cipher
    found = s if first else 0
    for piece in field.pieces(words.size):
        found += dot_words(stream.next(piece.stop - piece.start), words[piece])
    return found % field.P


def tagged(words: Words, group: bytes, label: str, first: bool) -> Words:
    """The words of one silo, and behind them its part of the tag. `first`: whether it is the one that adds s."""
    return np.append(words, np.uint64(_tag(words, group, label, first)))


def check(opened: Words, group: bytes, label: str, size: int) -> Words:
    """The sum of the words, if it is true. `size` is how many words this silo sent, without the tag."""
    if not isinstance(opened, np.ndarray) or opened.dtype != np.uint64 or opened.shape != (size + 1,):
        raise FalseSum(FALSE)
    if int(opened.max(initial=0)) >= field.P:
        raise FalseSum(FALSE)
    if _tag(opened[:-1], group, label) != int(opened[-1]):
        raise FalseSum(FALSE)
    return opened[:-1]
