"""What goes through the coordinator's letterbox: a few words as JSON, and bytes behind them that nobody looks into."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

LENGTH = 4  # bytes before the words, which say how long they are
TALK, POST, COLLECT = "/v1/fleet/talk", "/v1/runtime/post", "/v1/runtime/collect"
PIECE = 4 << 20  # bytes of an answer in one request; the proxy lets four times as many through
HOLD = 20.0  # seconds for which a silo that has nothing to do waits for a letter; relays hang up after a minute or so


def pack(words: Mapping[str, Any], *bodies: bytes) -> bytes:
    """
    >>> unpack(pack({"node": 7}, b"ab", b"c"))
    ({'node': 7}, b'abc')
    """
    head = json.dumps(words, separators=(",", ":")).encode()
    return b"".join([len(head).to_bytes(LENGTH, "big"), head, *bodies])


def unpack(message: bytes) -> tuple[dict[str, Any], bytes]:
    """Words and bytes; a `ValueError` if it is nothing of the kind."""
    end = LENGTH + int.from_bytes(message[:LENGTH], "big")
    words = json.loads(message[LENGTH:end])
    if len(message) < end or not isinstance(words, dict):
        raise ValueError("it is cut off")
    return words, message[end:]
