"""What a silo was asked, what it answered and why it refused: a log that only grows, each line bound to all before it.

A line is a record in JSON with its number, the time, and a digest of the line before it. Whoever changes, drops or
adds a line in the middle breaks the digests after it; `verified` says where. Of lines that are cut off at the end no
log can tell; keep copies elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dualfl.errors import InputError
from dualfl.files import locked

NAME = "audit.log"
PRIVATE = 0o600
TAIL = 1 << 16  # bytes in which the last line is looked for
FIRST = "0" * 64


class AuditLog:
    """The log of one silo's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / NAME

    def note(self, what: str, **about: Any) -> None:
        """Add a line; it is in the file when this returns."""
        with locked(self.folder / "audit", PRIVATE):
            number, before = self._last()
            record = {"number": number + 1, "time": stamp(), "what": what, **about, "before": before}
            text = json.dumps(record, ensure_ascii=True, separators=(",", ":")) + "\n"
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE)
            try:
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)

    def _last(self) -> tuple[int, str]:
        """Number and digest of the last line. A log whose end is damaged is put aside whole, and a new one begun."""
        if not self.path.exists():
            return 0, FIRST
        with open(self.path, "rb") as file:
            file.seek(max(0, self.path.stat().st_size - TAIL))
            tail = file.read()
        if not tail:
            return 0, FIRST
        try:
            if not tail.endswith(b"\n"):
                raise ValueError("the last line is cut off")
            line = tail.splitlines()[-1]
            return int(json.loads(line)["number"]), digest(line)
        except (ValueError, KeyError, TypeError, IndexError):
            kept = self.path.with_name(f"audit-damaged-{time.time_ns()}.log")
            os.replace(self.path, kept)
            return 0, digest(kept.read_bytes())

    def verified(self) -> Iterator[dict[str, Any]]:
        """Every record, oldest first; an error in place of the first line that does not fit."""
        if not self.path.exists():
            return
        before: str | None = None
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                line = line.rstrip(b"\n")
                try:
                    record: dict[str, Any] = json.loads(line)
                    good = record["number"] == number and (before is None or record["before"] == before)
                except (ValueError, KeyError, TypeError):
                    good = False
                if not good:
                    raise InputError(
                        f"Line {number} of {self.path} does not follow from the line before it: the log was changed or "
                        "damaged there. Nothing was deleted; keep a copy, and ask who has access to this folder."
                    )
                before = digest(line)
                yield record


def digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def stamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
