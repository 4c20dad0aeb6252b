"""Every silo's number of rows, fixed before the first sum and told to nobody.

With its hello a silo sends C = g^n h^r (Pedersen, Crypto 1991): n is its number of rows, r a random number, g and h
squares modulo a safe prime whose logarithms to each other nobody knows. C tells nothing of n, and nobody can find
another pair (n, r) with the same C. The product of all C's commits to the sums of the n's and the r's, and these two
sums are opened with the first exchange. So every silo can check that what was counted is what was committed to,
although it sees no silo's number.

It does not prove that a number is true: whoever commits to a false one and goes on with it is not found out. What n and
r were is in the silo's own audit log, so that a dispute can be settled later.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.federation.fixed_point import Part
from dualfl.typing import Array

OPENING = "#size"  # the field of the first sums
LIMB, LIMBS = 40, 7  # bits of a word, words of r: sums of thousands of silos are whole numbers below 2^53
# 2^2048 - 2^1984 - 1 + 2^64 (floor(2^1918 pi) + 124476): group 14 of RFC 3526
PRIME = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B"
    "302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5AE9F24117C4B1FE6"
    "49286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB9ED529077096966D"
    "670C354E4ABC9804F1746C08CA18217C32905E462E36CE3BE39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718"
    "3995497CEA956AE515D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFF",
    16,
)
G = 4
H = pow(int.from_bytes(hashlib.shake_256(b"dualfl: number of rows").digest(256), "big"), 2, PRIME)
OTHER = (
    "The answers of silos contradict each other: the rows that they counted are not those that they had committed "
    "themselves to when they said hello. Some silo said what is not true; which one this does not tell, but each can "
    "show by its audit log what it had committed itself to."
)


@dataclass(frozen=True)
class Commitment:
    """A silo's number of rows in one experiment, and the random number that hides it."""

    rows: int
    blind: int

    @staticmethod
    def of(rows: int, secret: bytes) -> Commitment:
        """`secret` is the silo's, of this experiment: the same whenever it is asked for."""
        return Commitment(rows, int.from_bytes(hmac.digest(secret, b"number of rows", "sha256"), "big"))

    @property
    def public(self) -> str:
        """What others hear, hexadecimal."""
        return f"{pow(G, self.rows, PRIME) * pow(H, self.blind, PRIME) % PRIME:x}"

    def opening(self) -> Part:
        """The two numbers as words that add up."""
        words = [self.rows, *(self.blind >> LIMB * i & (1 << LIMB) - 1 for i in range(LIMBS))]
        return Part(np.array(words, dtype=np.float64), 0)


def opened(total: Array, committed: Iterable[str]) -> int:
    """The rows of all silos, if they are those that were committed to."""
    rows, *limbs = (round(float(one)) for one in total)
    blind = sum(limb << LIMB * i for i, limb in enumerate(limbs))
    product = 1
    for one in committed:
        product = product * int(one, 16) % PRIME
    if rows < 0 or blind < 0 or product != pow(G, rows, PRIME) * pow(H, blind, PRIME) % PRIME:
        raise InputError(OTHER)
    return rows


def check_shape(name: str, hello: Mapping[str, Any]) -> None:
    """A commitment is a number of the group, or None where the analysis counts no rows."""
    given = hello["size"]
    try:
        good = given is None or (isinstance(given, str) and 0 < int(given, 16) < PRIME)
    except ValueError:
        good = False
    if not good:
        raise InputError(f"what silo {name!r} commits its number of rows with is no such number")
