"""Signatures with a silo's registered key: ECDSA on P-384, keys as OpenSSH writes them.

What is signed is a list of parts, each with its length in front, so that no two lists are the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def statement(purpose: str, parts: Sequence[bytes]) -> bytes:
    """What is signed: what for, and the parts."""
    all_of_it = [b"dualfl", purpose.encode(), *parts]
    return b"".join(len(part).to_bytes(8, "little") + part for part in all_of_it)


def sign(private: bytes, purpose: str, *parts: bytes) -> str:
    """The signature, as hexadecimal digits."""
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    key: Any = load_ssh_private_key(private, None)
    return str(key.sign(statement(purpose, parts), ECDSA(SHA256())).hex())


def signed(public: str, signature: str, purpose: str, *parts: bytes) -> bool:
    """Whether the owner of this key signed this."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    key: Any = load_ssh_public_key(public.encode())
    try:
        key.verify(bytes.fromhex(signature), statement(purpose, parts), ECDSA(SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True
