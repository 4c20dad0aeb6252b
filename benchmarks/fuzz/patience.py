"""When something hangs: judged by what it does, not by the clock, which runs on while a busy machine serves others.

A case hangs if it and the processes that it has started use more of a processor than they may, or if all of them wait,
none asking for a processor, for longer than anything here has to wait for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

LIMIT = 20.0  # seconds of a processor for one case
IDLE = 120.0  # seconds of the clock in which nobody asks for a processor: it waits for ever
TICKS = os.sysconf("SC_CLK_TCK")
WANTED = "RD"  # states of a thread that runs, would run, or waits for a disk


class Patience:
    """With a process and all that it starts, from now on; `limit` are seconds of a processor."""

    def __init__(self, pid: int, limit: float = LIMIT, idle: float = IDLE) -> None:
        self.pid, self.limit, self.idle = pid, limit, idle
        self.before, _ = looked_at(pid)
        self.used, self.last = 0.0, time.monotonic()

    def over(self) -> str:
        """Why it is called a hang; empty while it is none."""
        used, wanted = looked_at(self.pid)
        used, now = used - self.before, time.monotonic()
        if wanted or used > self.used:
            self.last = now
        self.used = max(self.used, used)
        if self.used > self.limit:
            return f"it used more than {self.limit:.0f} s of a processor"
        if now - self.last > self.idle:
            return f"it waited for {self.idle:.0f} s without asking for a processor"
        return ""


def looked_at(pid: int) -> tuple[float, bool]:
    """Seconds of a processor that a process and its descendants have used, and whether one of them wants more."""
    used, wanted = 0.0, False
    for one in family(pid):
        try:
            fields = stat(Path(f"/proc/{one}/stat"))
            used += sum(map(int, fields[11:15])) / TICKS  # its own, and that of children it has waited for
            wanted = wanted or any(stat(path)[0] in WANTED for path in Path(f"/proc/{one}/task").glob("*/stat"))
        except OSError:
            continue  # it has ended meanwhile
    return used, wanted


def stat(path: Path) -> list[str]:
    return path.read_text().rpartition(")")[2].split()


def family(pid: int) -> Iterator[int]:
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = path.read_text().split()
        except OSError:
            continue
        for child in found:
            yield from family(int(child))
