"""Keeps the parts of a service running: what ends is started again, what hangs is ended first, and both are said.

A part says how it is by `ask`: True if it did what it is there for. One that says nothing good for `limit` seconds
hangs. Parts that end at once are started again after a pause that grows, so that a fault that stays does not eat the
machine. Parts die with the supervisor (`federation.flower.lifeline`).
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dualfl.deploy.service import Record, Say
from dualfl.federation.flower import runtime

LIMIT = 45.0  # seconds without a good word after which a part counts as hanging
FIRST, LONGEST = 1.0, 15.0  # seconds before a part is started again
STEADY = 60.0  # seconds after which a part counts as started well
LARGEST, KEPT = 5 << 20, 5  # bytes of a log before it is rotated, and how many old ones are kept
MINUTE, DAY = 60.0, 86_400.0
GRACE = 15.0  # seconds that a part has for ending


@dataclass
class Part:
    """A program that a service keeps running.

    title : what people call it. command : made anew for every start. ready : waits until it can be used.
    ask : whether it is well; None: nobody can ask it. explain : why it ended, by its log from this byte on.
    """

    title: str
    command: Callable[[], Sequence[str]]
    log: Path
    env: Mapping[str, str]
    ask: Callable[[], bool] | None = None
    ready: Callable[[runtime.Process], None] = lambda process: None
    explain: Callable[[Path, int], str] | None = None
    limit: float = LIMIT
    restarts: int = 0
    process: runtime.Process | None = field(default=None, init=False)
    _began: float = field(default=0.0, init=False)
    _well: float = field(default=0.0, init=False)
    _pause: float = field(default=FIRST, init=False)
    _next: float = field(default=0.0, init=False)
    _from: int = field(default=0, init=False)


def why(part: Part) -> str:
    """Why it ended, by the system's word or its own."""
    assert part.process is not None
    code = part.process.popen.returncode
    if code < 0:
        memory = ", as the kernel does when memory runs out" if -code == signal.SIGKILL else ""
        return f"{part.title} was ended by {signal.Signals(-code).name}{memory}; see {part.log}."
    return f"{part.title} ended; see {part.log}." if part.explain is None else part.explain(part.log, part._from)


class Supervisor:
    """Starts parts in order, watches them, and ends them in the other order."""

    def __init__(self, parts: Mapping[str, Part], record: Record, say: Say) -> None:
        self.parts, self.record, self.say = dict(parts), record, say

    def start(self) -> None:
        for name in self.parts:
            self._start(name)

    def _start(self, name: str) -> None:
        part = self.parts[name]
        part._from = part.log.stat().st_size if part.log.exists() else 0
        part.process = runtime.Process(part.command(), part.log, part.env, tied=True)
        part._began = part._well = time.monotonic()
        self.record.part(name, part.process.popen.pid, part.restarts)
        part.ready(part.process)

    def look(self) -> None:
        """One look at every part."""
        self.record.keep()
        for name, part in self.parts.items():
            if part.process is None:
                if time.monotonic() >= part._next:
                    self._again(name)
            elif not part.process.running:
                self._ended(part)
            else:
                self._watch(part)
            rotate(part.log)

    def _watch(self, part: Part) -> None:
        now = time.monotonic()
        if part.ask is None or part.ask():
            part._well = now
            if now - part._began > STEADY:
                part._pause = FIRST
        elif now - part._well > part.limit:
            assert part.process is not None
            part.process.kill()
            part.process, part._next = None, now
            self.say(f"{part.title} gave no sign of life for {part.limit:.0f} s; it was ended and is started again.")

    def _ended(self, part: Part) -> None:
        assert part.process is not None
        part.process.kill()  # what it has left of its group
        self.say(f"{why(part)} It is started again in {part._pause:.0f} s.")
        part.process, part._next = None, time.monotonic() + part._pause
        part._pause = min(2 * part._pause, LONGEST)

    def _again(self, name: str) -> None:
        part = self.parts[name]
        part.restarts += 1
        try:
            self._start(name)
        except runtime.RunFailed as error:
            if part.process is not None:
                part.process.kill()
            part.process, part._next = None, time.monotonic() + part._pause
            part._pause = min(2 * part._pause, LONGEST)
            self.say(f"{error} It is tried again.")

    def renew(self, why: str) -> None:
        """Start all parts again, politely, one after the other."""
        self.say(why)
        for name, part in self.parts.items():
            if part.process is not None:
                part.process.stop(GRACE)
                part.process = None
            self._again(name)

    def stop(self) -> None:
        for part in reversed(self.parts.values()):
            if part.process is not None:
                part.process.stop(GRACE)
                part.process = None


class Warnings:
    """Sentences that are said when they become true, and once a day as long as they are."""

    def __init__(self, find: Callable[[], Mapping[str, str]]) -> None:
        """`find` : by what they are about; an empty one says nothing."""
        self.find, self.next = find, 0.0
        self.said: dict[str, float] = {}

    def look(self, say: Say) -> None:
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + MINUTE
        true = {about: sentence for about, sentence in self.find().items() if sentence}
        self.said = {about: when for about, when in self.said.items() if about in true}
        for about, sentence in true.items():
            if now - self.said.get(about, -DAY) >= DAY:
                self.said[about] = now
                say(sentence)


def rotate(log: Path, largest: int = LARGEST, kept: int = KEPT) -> None:
    """LOG.1 is the newest of the old ones. The part keeps writing to the same file, so it is copied and emptied."""
    try:
        if log.stat().st_size <= largest:
            return
        for number in range(kept - 1, 0, -1):
            old = log.with_name(f"{log.name}.{number}")
            if old.exists():
                old.replace(log.with_name(f"{log.name}.{number + 1}"))
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        with open(log, "r+b") as file:
            file.truncate(0)
    except OSError:
        pass  # a full disk: the log is kept as it is
