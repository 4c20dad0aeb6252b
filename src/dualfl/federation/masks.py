"""Pairwise masks: the server learns the sum of what silos send, and nothing of any one of them.

Silos i < j share a secret, by X25519 from keys that are made anew for every experiment and signed with the key under
which each silo is registered; every silo checks the signatures against the roster that the operators exchanged, so
nobody in the middle can put keys of his own there. From the secret and the tag of a request HKDF makes a key, and
AES in counter mode a row of words, which i adds and j subtracts, modulo p (`field`). All masks cancel in the sum.

The tag is a digest of the whole request, so another request has another mask, and the same request the same answer.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from dualfl.errors import InputError
from dualfl.federation import field, signatures
from dualfl.federation.field import Words
from dualfl.kernels import add_words

PURPOSE = "key for secure sums"


class Offer(NamedTuple):
    """A silo's key for one experiment, and its signature with the key under which it is registered."""

    key: str  # X25519, hex
    signature: str  # hex


def new_secret() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return bytes(X25519PrivateKey.generate().private_bytes_raw())


def public_part(secret: bytes) -> str:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return bytes(X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()).hex()


def sign(private: bytes, experiment: str, silo: str, secret: bytes, content: bytes = b"") -> Offer:
    """The offer of a silo; `private` is its registered key in OpenSSH's format. `content`: what else it stands for."""
    offered = public_part(secret)
    parts = experiment.encode(), silo.encode(), bytes.fromhex(offered), content
    return Offer(offered, signatures.sign(private, PURPOSE, *parts))


def check(public: str, experiment: str, silo: str, offer: Offer, content: bytes = b"") -> None:
    """Refuse an offer that the registered silo did not sign."""
    try:
        parts = experiment.encode(), silo.encode(), bytes.fromhex(offer.key), content
        good = signatures.signed(public, offer.signature, PURPOSE, *parts)
    except (TypeError, ValueError):
        good = False
    if not good:
        raise InputError(
            f"the key that is said to be of silo {silo!r} is not signed by it; somebody may be in the middle, so "
            "compare the roster with that silo's operator"
        )


class Masks:
    """The masks of one silo among those who take part in one experiment."""

    def __init__(self, silo: str, secret: bytes, keys: Mapping[str, str], experiment: str) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

        mine = X25519PrivateKey.from_private_bytes(secret)
        self.silo, self.secret, self.experiment = silo, secret, experiment
        self.shared = {
            other: mine.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(key)))
            for other, key in keys.items()
            if other != silo
        }

    def cover(self, words: Words, tag: str, among: list[str]) -> Words:
        """`words` under the masks that this silo shares with those who answer this request."""
        return self.streams(tag, among).cover(words)

    def streams(self, tag: str, among: list[str]) -> PairStreams:
        """The masks of one exchange: what is covered second is covered with what comes behind in them."""
        others = [other for other in among if other != self.silo]
        return PairStreams([(Keystream(self._pairs[other], tag), self.silo > other) for other in others])

    def noise(self, tag: str, size: int) -> Words:
        """Words that nobody else knows, the same whenever the same request comes."""
        return Keystream(extracted(self.secret, b"own noise"), tag).random_words(size)

    @cached_property
    def _pairs(self) -> dict[str, bytes]:
        """What the keys of masks are made of: the same in all exchanges, so it is found once."""
        names = {other: "\0".join([self.experiment, *sorted([self.silo, other])]) for other in self.shared}
        return {
            other: extracted(self.shared[other], hashlib.sha256(pair.encode()).digest())
            for other, pair in names.items()
        }


class PairStreams:
    """What one silo shares with each other in one exchange, and whether it subtracts it; nothing is used twice."""

    def __init__(self, streams: list[tuple[Keystream, bool]]) -> None:
        self._streams = streams

    def cover(self, words: Words) -> Words:
        covered = words.copy()
        for piece in field.pieces(words.size):
            for stream, negative in self._streams:
                add_words(covered[piece], stream.next(piece.stop - piece.start), negative)
        return field.canonical(covered)


def extracted(secret: bytes, salt: bytes) -> bytes:
    """The first half of HKDF (RFC 5869) with SHA-256."""
    return hmac.digest(salt, secret, "sha256")


def expanded(extract: bytes, tag: str) -> bytes:
    """The second: 32 bytes, of which one block is enough; an exchange needs one for each stream."""
    return hmac.digest(extract, tag.encode() + b"\x01", "sha256")


def counting_cipher(key: bytes) -> Any:
    """AES in counter mode, from 0."""
    Cipher, AES, CTR = ciphers()
    return Cipher(AES(key), CTR).encryptor()


@cache
def ciphers() -> tuple[Any, Any, Any]:
    """Found once: an exchange makes two ciphers for every other silo."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    return Cipher, AES, CTR(bytes(16))


class Keystream:
    """Words of 64 random bits; another tag gives another key, so each is used once and the counter may begin at 0."""

    def __init__(self, extract: bytes, tag: str) -> None:
        self._cipher = counting_cipher(expanded(extract, tag))

    def next(self, size: int) -> Words:
        """The next words, which stay until the next call of anybody; at most a piece at a time."""
        self._cipher.update_into(ZEROS[: 8 * size], ROOM.bytes)
        return ROOM.words[:size]

    def random_words(self, size: int) -> Words:
        """Numbers modulo p of one's own."""
        found = np.empty(size, dtype=np.uint64)
        for piece in field.pieces(size):
            found[piece] = self.next(piece.stop - piece.start)
        return field.random_words(found)


class Room(threading.local):
    """Where random words lie while they are used; each thread has its own, which stays in its processor's cache."""

    def __init__(self) -> None:
        self.bytes = memoryview(bytearray(8 * field.PIECE + 16))  # ciphers want a block more than they fill
        self.words = np.frombuffer(self.bytes, dtype="<u8")


ROOM, ZEROS = Room(), memoryview(bytes(8 * field.PIECE))
