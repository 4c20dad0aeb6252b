"""A digest of everything that was said in an experiment so far, in its order.

Masks and tags are labelled with it, so that no two of them are ever the same: another request, or the same request
after another past, has another label. Two sides that have the same label have heard the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from dualfl.federation.wire import digest


@dataclass(frozen=True)
class Chain:
    """Where a conversation stands. `digest` is hexadecimal; `length` counts what was said.

    >>> Chain.of("experiment").said(b"a").said(b"bc") == Chain.of("experiment").said(b"ab").said(b"c")
    False
    """

    digest: str
    length: int = 0

    @staticmethod
    def of(experiment: str) -> Chain:
        return Chain(hashlib.sha256(b"dualfl experiment\0" + experiment.encode()).hexdigest())

    def said(self, words: bytes) -> Chain:
        link = bytes.fromhex(self.digest) + self.length.to_bytes(8, "little") + digest(words)
        return Chain(hashlib.sha256(link).hexdigest(), self.length + 1)
