"""Messages as bytes: a small JSON head, which says what everything is, and one body with all numbers.

Arrays lie in the body one behind the other, each as it is in memory, so a message weighs what its numbers weigh. An
array that occurs twice travels once. No pickle: whoever reads a message from outside runs nothing that is in it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dualfl.algorithms.contract import Algorithm
from dualfl.engines.checkpoint import Packer, Unpacker
from dualfl.errors import InputError
from dualfl.typing import AnyArray

ALIGN = 64  # bytes; every array begins at a multiple of it
HEAD_LIMIT = 1 << 26
BEGINNING = 64  # numbers by which arrays are told apart before they are compared


class Once(Packer):
    """Equal arrays are stored once, wherever they come from."""

    def __init__(self) -> None:
        super().__init__()
        self._alike: dict[tuple[str, tuple[int, ...], bytes], list[AnyArray]] = {}

    def _array(self, value: AnyArray) -> Any:
        return super()._array(self._once(np.asarray(value, order="C")))

    def _once(self, value: AnyArray) -> AnyArray:
        """The array of the same bytes that came before, or this one. Those that begin alike are compared."""
        begins = value.dtype.str, value.shape, value.ravel()[:BEGINNING].tobytes()
        alike = self._alike.setdefault(begins, [])
        for other in alike if value.size > BEGINNING else alike[:1]:
            if value.size <= BEGINNING or other is value or np.array_equal(as_bytes(other), as_bytes(value)):
                return other
        alike.append(value)
        return value


def as_bytes(array: AnyArray) -> AnyArray:
    return array.ravel().view(np.uint8)


def encode(content: Mapping[str, Any]) -> bytes:
    """A message."""
    packer = Once()
    tree = packer.pack(dict(content))
    shapes = [[name, array.dtype.str, list(array.shape)] for name, array in packer.arrays.items()]
    head = json.dumps({"tree": tree, "arrays": shapes}, separators=(",", ":")).encode()
    parts = [len(head).to_bytes(8, "little"), head, padding(8 + len(head))]
    for array in packer.arrays.values():
        parts += [array.tobytes(), padding(array.nbytes)]
    return b"".join(parts)


def decode(message: bytes, algorithm: Algorithm | None = None) -> dict[str, Any]:
    """What a message says; one sentence if it is not one. States are those of an algorithm, of our own disk alone."""
    body = memoryview(message)
    try:
        return _decoded(body, algorithm)
    except InputError:
        raise
    except Exception as error:  # what comes from outside can be wrong in any way
        raise InputError(f"a message cannot be read ({type(error).__name__}: {error})") from error


def _decoded(body: memoryview, algorithm: Algorithm | None) -> dict[str, Any]:
    length = int.from_bytes(body[:8], "little")
    if length > min(len(body) - 8, HEAD_LIMIT):
        raise InputError("a message cannot be read (it is cut off)")
    head = json.loads(bytes(body[8 : 8 + length]))
    place = 8 + length + len(padding(8 + length))
    arrays = {}
    for name, kind, shape in head["arrays"]:
        dtype = np.dtype(kind)
        if dtype.kind not in "biuf":
            raise InputError(f"a message cannot be read (it holds numbers of the type {kind})")
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or place + size > len(body):
            raise InputError("a message cannot be read (it is cut off)")
        arrays[name] = np.frombuffer(body[place : place + size], dtype=dtype).reshape(shape).copy()
        place += size + len(padding(size))
    content = Unpacker(arrays, algorithm, {}).unpack(head["tree"])
    if not isinstance(content, dict):
        raise InputError("a message cannot be read (it is not a record)")
    return content


def as_read(content: Any) -> Any:
    """What somebody else reads of it, once it has been sent: plain values, without the bytes between."""
    packer = Packer()
    tree = packer.pack(content)
    return Unpacker(packer.arrays, None, {}).unpack(tree)


def padding(size: int) -> bytes:
    return bytes(-size % ALIGN)


def tag(message: bytes) -> str:
    """A short name of a message: an answer carries the tag of what it answers."""
    return digest(message).hex()[:32]


_last = [(b"", hashlib.sha256().digest())]  # a message is named several times while it is answered


def digest(message: bytes) -> bytes:
    """SHA-256 of a message; that of the last one is known."""
    known, found = _last[0]
    if known is not message:
        found = hashlib.sha256(message).digest()
        _last[0] = message, found
    return found
