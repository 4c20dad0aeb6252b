"""The rows of a run that is being saved: appended to a file beside its checkpoint, and never written twice.

A checkpoint that held them would grow with the run, and saving after every exchange would cost the square of its
length. So the checkpoint holds a mark: how many rows there are, how many bytes they take, and their checksum. Rows are
on disk before the checkpoint that counts them. What lies behind the mark was written by a process that died before its
checkpoint was: it is cut off when the next row comes.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Mark(NamedTuple):
    """Where a journal ends, whatever else its file holds."""

    rows: int = 0
    size: int = 0  # bytes
    checksum: int = 0


def history_beside(checkpoint: str) -> str:
    """The name of the journal of a checkpoint of this name."""
    return f"{checkpoint}.rows"


class Journal:
    """One line of JSON a row."""

    def __init__(self, checkpoint: Path, mark: Mark | None = None) -> None:
        self.path = checkpoint.with_name(history_beside(checkpoint.name))
        self.mark = Mark() if mark is None else mark

    def append(self, rows: Sequence[Any]) -> None:
        """Put rows behind the mark, in place of anything that is there, and move the mark."""
        if not rows:
            return
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        count, size, checksum = self.mark
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "r+b" if size else "wb") as file:
            file.truncate(size)
            file.seek(size)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self.mark = Mark(count + len(rows), size + len(data), zlib.crc32(data, checksum))

    def read(self) -> list[Any]:
        """The rows up to the mark. ValueError if they are not those that were written."""
        if not self.mark.rows:
            return []
        with open(self.path, "rb") as file:
            data = file.read(self.mark.size)
        lines = data.decode(errors="replace").splitlines()
        if zlib.crc32(data) != self.mark.checksum or len(lines) != self.mark.rows:
            raise ValueError(f"{self.path.name} is not the history that belongs to it")
        return [json.loads(line) for line in lines]
