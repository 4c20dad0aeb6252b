"""A key that all silos of an experiment have, and the coordinator, who carries everything, has not.

Every silo contributes a share, new in every experiment. Its hello has the share in a box for each other silo of its
roster, so no exchange is needed for it: encrypted and authenticated with the secret that the registered keys of the two
have in common (Diffie and Hellman on P-384), and bound to the experiment, to who sends it to whom, and to the key for
masks that the sender offers. The common key is a digest of all shares, of the plan and of who takes part. So nobody who
is not a silo knows it, no single silo chooses it, and silos that were told different plans have different keys.

The common key authenticates sums while an experiment goes on, and hides nothing. Who steals a silo's registered key
later can open its boxes, and gains nothing by it: masks come from keys that are made for one experiment (`masks`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dualfl.errors import InputError
from dualfl.federation.masks import public_part

Boxes = dict[str, str]  # by silo, hexadecimal


@dataclass(frozen=True)
class Share:
    """What one silo puts into the common key of one experiment."""

    silo: str
    experiment: str
    secret: bytes = field(repr=False)  # of this experiment
    private: bytes = field(repr=False)  # the registered key
    roster: Mapping[str, str]

    def boxes(self) -> Boxes:
        """The share for each other silo of the roster, the same whenever it is asked for."""
        mine = public_part(self.secret)
        others = sorted(set(self.roster) - {self.silo})
        return {
            other: self._cipher(self.silo, other, mine).encrypt(bytes(12), self._own, None).hex() for other in others
        }

    def key(self, plan: str, names: Sequence[str], hellos: Mapping[str, Mapping[str, Any]]) -> bytes:
        """The common key, from the hellos of all; refused where one of them holds no share for this silo."""
        shares = {self.silo: self._own}
        for other in names:
            if other == self.silo:
                continue
            try:
                box = bytes.fromhex(hellos[other]["boxes"][self.silo])
                shares[other] = self._cipher(other, self.silo, str(hellos[other]["offer"][0])).decrypt(
                    bytes(12), box, None
                )
                if len(shares[other]) != 32:
                    raise ValueError("a share has 32 bytes")
            except Exception as error:  # what comes from outside can be wrong in any way
                raise InputError(
                    f"the hello of silo {other!r} has no share of the common key that it made for this silo and this "
                    "experiment; see that both have the same roster (`dualfl deploy trust`), and start a new experiment"
                ) from error
        return derived(b"".join(shares[name] for name in sorted(shares)), "group key", plan, *sorted(shares))

    @property
    def _own(self) -> bytes:
        return derived(self.secret, "share of the group key", self.experiment)

    @cached_property
    def _registered(self) -> Any:
        from cryptography.hazmat.primitives.serialization import load_ssh_private_key

        return load_ssh_private_key(self.private, None)

    def _cipher(self, sender: str, receiver: str, offered: str) -> Any:
        """What the two have in common for this; it encrypts one share only, so the nonce may be 0."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDH
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        from cryptography.hazmat.primitives.serialization import load_ssh_public_key

        other: Any = load_ssh_public_key(self.roster[receiver if sender == self.silo else sender].encode())
        common = bytes(self._registered.exchange(ECDH(), other))
        return ChaCha20Poly1305(derived(common, "box of a share", self.experiment, sender, receiver, offered))


def derived(secret: bytes, purpose: str, *about: str) -> bytes:
    """32 bytes from a secret, for one purpose and these words."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    words = b"".join(len(word.encode()).to_bytes(8, "little") + word.encode() for word in (purpose, *about))
    return bytes(HKDF(SHA256(), 32, None, hashlib.sha256(words).digest()).derive(secret))
