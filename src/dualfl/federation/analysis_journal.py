"""What silos have answered in an analysis, written down before it is used.

An analysis depends on the answers alone, so that whoever has them all can drive it again to where it was: that is how
an interrupted one goes on. Each entry has a digest of what was asked, and one that was asked differently ends it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dualfl.errors import InputError
from dualfl.federation.wire import decode, encode

Content = dict[str, Any]


class AnalysisJournal:
    """A file of answers, to which each exchange adds; without a file nothing outlives the process."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._known = [] if path is None or not path.exists() else self._read(path)

    @staticmethod
    def _read(path: Path) -> list[Content]:
        data, entries, place = path.read_bytes(), [], 0
        while place + 8 <= len(data):
            size = int.from_bytes(data[place : place + 8], "little")
            if place + 8 + size > len(data):
                break  # the last entry was cut off, so it was never used
            entries.append(decode(data[place + 8 : place + 8 + size]))
            place += 8 + size
        return entries

    def answers(self, number: int, asked: Content) -> Mapping[str, Content] | None:
        """What silos answered to this exchange; None if they have not been asked yet."""
        if number >= len(self._known):
            return None
        entry = self._known[number]
        if entry["asked"] != asked_digest(asked):
            raise InputError(
                "The answers that were kept belong to another analysis, or to another version; begin anew with --fresh."
            )
        found: Mapping[str, Content] = entry["answers"]
        return found

    def append(self, asked: Content, answers: Mapping[str, Content]) -> None:
        entry = {"asked": asked_digest(asked), "answers": dict(answers)}
        self._known.append(entry)
        if self.path is None:
            return
        data = encode(entry)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as file:
            file.write(len(data).to_bytes(8, "little") + data)
            file.flush()


def asked_digest(asked: Content) -> str:
    return hashlib.sha256(encode(asked)).hexdigest()
