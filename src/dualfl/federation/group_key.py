"""A key that all silos of an experiment have, and the coordinator, who carries everything, has not.

Every silo contributes a share. It sends each other silo the share in a box: encrypted and authenticated with the secret
that the two have in common, and bound to who sends it to whom and to the plan's digest. The key is a digest of all
shares. So nobody who is not a silo knows it, no single silo chooses it, and shares of another plan do not open.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from dualfl.errors import InputError
from dualfl.federation.masks import Masks

Boxes = dict[str, str]  # by silo, hexadecimal


def boxes(masks: Masks, plan: str) -> Boxes:
    """This silo's share for each of the others, the same whenever it is asked for."""
    share = own_share(masks, plan)
    return {other: _cipher(masks, plan, masks.silo, other, share) for other in sorted(masks.shared)}


def own_share(masks: Masks, plan: str) -> bytes:
    return derived(masks.secret, "share of the group key", plan)


def group_key(masks: Masks, plan: str, sent: Mapping[str, Mapping[str, str]]) -> bytes:
    """The key, from the boxes that all have sent, by sender; refused where one of them is not what it should be."""
    shares = {masks.silo: own_share(masks, plan)}
    for other in masks.shared:
        try:
            shares[other] = _opened(masks, plan, other, bytes.fromhex(sent[other][masks.silo]))
        except Exception as error:  # what comes from outside can be wrong in any way
            raise InputError(
                f"the share of the group key that is said to be of silo {other!r} was not made by it for this plan; "
                "somebody may be in the middle, so start a new experiment"
            ) from error
    names = sorted(shares)
    return derived(b"".join(shares[name] for name in names), "group key", plan, *names)


def _box_key(masks: Masks, plan: str, sender: str, receiver: str) -> bytes:
    other = receiver if sender == masks.silo else sender
    return derived(masks.shared[other], "box of a share", masks.experiment, plan, sender, receiver)


def _cipher(masks: Masks, plan: str, sender: str, receiver: str, share: bytes) -> str:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    key = _box_key(masks, plan, sender, receiver)  # used once, so the nonce may be 0
    return str(ChaCha20Poly1305(key).encrypt(bytes(12), share, plan.encode()).hex())


def _opened(masks: Masks, plan: str, sender: str, box: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    share: bytes = ChaCha20Poly1305(_box_key(masks, plan, sender, masks.silo)).decrypt(bytes(12), box, plan.encode())
    if len(share) != 32:
        raise ValueError("a share has 32 bytes")
    return share


def derived(secret: bytes, purpose: str, *about: str) -> bytes:
    """32 bytes from a secret, for one purpose and these words."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    words = b"".join(len(word.encode()).to_bytes(8, "little") + word.encode() for word in (purpose, *about))
    return bytes(HKDF(SHA256(), 32, None, hashlib.sha256(words).digest()).derive(secret))
