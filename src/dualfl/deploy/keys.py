"""A silo's own key pairs, and the card by which it hands the public ones over."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

from dualfl.errors import InputError
from dualfl.federation.signatures import sign, signed
from dualfl.files import write_atomically


def write_secret(path: Path, data: bytes) -> None:
    """A file that only its owner may read, from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = os.umask(0o077)
    try:
        write_atomically(path, data)
    finally:
        os.umask(before)


def new_key_pair() -> tuple[bytes, str]:
    """(private key, public key), as OpenSSH writes them: ECDSA on P-384, which Flower takes."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return private, public.decode()


def check_public(text: str, whose: str) -> str:
    """A public key as it is registered, or a sentence."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    words = text.split()
    try:
        key: Any = load_ssh_public_key(" ".join(words[:2]).encode())
        assert isinstance(key, ec.EllipticCurvePublicKey)
    except Exception as error:
        raise InputError(
            f"The key of silo {whose!r} is not one that `dualfl deploy join` made; ask for its card.txt again."
        ) from error
    return " ".join(words[:2])


# -- a silo's card -----------------------------------------------------------------------------------------

CARD = "card of a silo"


def make_card(name: str, private: bytes, public: str, login: str) -> str:
    """One line: the name, the key that signs, the key that logs in to Flower, and that both are one silo's."""
    return f"{name} {public} {login} {sign(private, CARD, name.encode(), login.encode())}"


class Card(NamedTuple):
    name: str
    public: str  # signs; operators compare its fingerprint
    login: str


def read_card(text: str) -> Card:
    """A card, or a sentence. The fingerprint of the first key stands for both, since it has signed the other."""
    words = text.split()
    name = words[0] if words else ""
    if len(words) == 3:
        raise InputError(
            f"The card of silo {name!r} has one key, as dualfl made it before protocol 8; ask its operator to make a "
            "new folder by `dualfl deploy join` of this version, and for the card.txt in it."
        )
    if len(words) != 6:
        raise InputError("A card is one line with a name, two keys and a signature; ask for the silo's card.txt again.")
    public, login = check_public(" ".join(words[1:3]), name), check_public(" ".join(words[3:5]), name)
    if not signed(public, words[5], CARD, name.encode(), login.encode()):
        raise InputError(
            f"The card of {name!r} is not signed by its own key; it was changed on the way, so ask for it again."
        )
    return Card(name, public, login)


def pem(public: str) -> bytes:
    """A public key as Flower keeps it."""
    from cryptography.hazmat.primitives import serialization as form

    key: Any = form.load_ssh_public_key(public.encode())
    return bytes(key.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))


def fingerprint(public: str) -> str:
    """SHA256:..., as ssh-keygen -l shows it, for operators to compare over the telephone."""
    digest = hashlib.sha256(base64.b64decode(public.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
