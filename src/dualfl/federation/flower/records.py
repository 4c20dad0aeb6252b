"""Our bytes in Flower's messages: one array of bytes, which Flower cuts into pieces where it is large."""

from __future__ import annotations

from typing import Any

from flwr.app import Array, ArrayRecord, RecordDict

NAME = "dualfl"


def to_content(message: bytes) -> Any:
    return RecordDict({NAME: ArrayRecord({NAME: Array("uint8", (len(message),), "bytes", message)})})


def from_content(content: Any) -> bytes:
    data = content[NAME][NAME].data
    return data if isinstance(data, bytes) else bytes(data)
