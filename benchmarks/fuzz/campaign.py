"""Runs cases in a process of their own, which is ended when one takes too long, and keeps what came of each."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.fuzz import api, artefacts, commands, files, processes
from benchmarks.fuzz.ground import Ground, prepare
from benchmarks.fuzz.judging import FAULTS, Verdict, told
from benchmarks.fuzz.patience import LIMIT, Patience
from benchmarks.fuzz.traps import TRAPS

Attack = Callable[[Ground, Path, random.Random], tuple[Verdict, str]]
FAMILIES: dict[str, tuple[Attack, float]] = {  # and how large a part of a campaign each is
    "commands": (commands.attack, 0.26),
    "files": (files.attack, 0.27),
    "artefacts": (artefacts.attack, 0.15),
    "api": (api.attack, 0.31),
    "processes": (processes.attack, 0.01),
}
LIMITS = {"processes": 4 * LIMIT}  # seconds of a processor: three commands, each of which imports everything
STARTING = 600.0  # seconds of the clock until a worker is ready


class Outcome(NamedTuple):
    family: str
    number: int
    kind: str
    detail: str
    what: str
    seconds: float

    @property
    def fault(self) -> bool:
        return self.kind in FAULTS


def family_of(seed: int, number: int) -> str:
    rng = random.Random(f"family {seed} {number}")
    return rng.choices(list(FAMILIES), [share for _, share in FAMILIES.values()])[0]


def one(ground: Ground, seed: int, number: int) -> Outcome:
    """The case of this number, here and now."""
    family, rng = family_of(seed, number), random.Random(f"{seed} {number}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dualfl-fuzz-") as temporary, contextlib.chdir(temporary):
        try:
            verdict, what = FAMILIES[family][0](ground, Path(temporary) / "x" / "y" / "case", rng)
        except Exception as error:  # a fault of the attack itself is to be seen, not hidden
            verdict, what = Verdict("traceback", f"in the attack: {told(error)}"), family
    return Outcome(family, number, verdict.kind, verdict.detail, what, time.monotonic() - began)


def spring(ground: Ground, number: int) -> Outcome:
    """A trap of the table."""
    trap, began = TRAPS[number], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dualfl-fuzz-") as temporary, contextlib.chdir(temporary):
        folder = Path(temporary) / "case"
        folder.mkdir()
        try:
            fault = trap.act(ground, folder)
        except Exception as error:
            fault = told(error)
    kind = "wrong" if fault else "accepted"
    return Outcome("traps", number, kind, fault, trap.name, time.monotonic() - began)


def _work(link: Connection, ground_folder: Path, seed: int) -> None:
    import faulthandler

    faulthandler.enable()
    ground = prepare(ground_folder)
    link.send("ready")
    while True:
        family, number = link.recv()
        link.send(spring(ground, number) if family == "traps" else one(ground, seed, number))


class Worker:
    """A process that does one case after the other, and another one after a hang."""

    def __init__(self, ground: Path, seed: int) -> None:
        self.ground, self.seed = ground, seed
        self.context = multiprocessing.get_context("spawn")
        self.process: Any = None

    def start(self) -> None:
        self.link, theirs = self.context.Pipe()
        self.process = self.context.Process(target=_work, args=(theirs, self.ground, self.seed), daemon=True)
        self.process.start()
        theirs.close()
        if not self.link.poll(STARTING) or self.link.recv() != "ready":
            raise RuntimeError("The cases could not be prepared.")

    def do(self, family: str, number: int) -> Outcome:
        if self.process is None:
            self.start()
        began = time.monotonic()
        self.link.send((family, number))
        patience = Patience(self.process.pid, LIMITS.get(family, LIMIT))
        try:
            while not (detail := patience.over()):
                if self.link.poll(0.5):
                    found: Outcome = self.link.recv()
                    return found
            kind = "hang"
        except EOFError:
            kind, detail = "traceback", "the process died"
        self.stop()
        return Outcome(family, number, kind, detail, "run it alone to see", time.monotonic() - began)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def campaign(
    seed: int, cases: Iterable[int], ground: Path, *, traps: bool = True, kept: Path | None = None
) -> Iterator[Outcome]:
    """Every case that `kept`, a file of outcomes, does not have yet; those that it has come first."""
    done = list(read(kept)) if kept is not None else []
    yield from done
    known = {(outcome.family == "traps", outcome.number) for outcome in done}
    wanted = [("traps", number) for number in range(len(TRAPS)) if traps and (True, number) not in known]
    numbered = [(family_of(seed, number), number) for number in cases if (False, number) not in known]
    wanted += sorted(numbered, key=lambda one: one[0] == "processes")  # these take a thousand times as long: last
    worker = Worker(ground, seed)
    if kept is not None:  # without the half of a line at which it was interrupted
        kept.write_text("".join(json.dumps(outcome) + "\n" for outcome in done))
    try:
        for family, number in wanted:
            outcome = worker.do(family, number)
            if kept is not None:
                with open(kept, "a") as file:
                    file.write(json.dumps(outcome) + "\n")
            yield outcome
    finally:
        worker.stop()


def read(path: Path) -> Iterator[Outcome]:
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                yield Outcome(*json.loads(line))
            except (ValueError, TypeError):  # half a line: the campaign was interrupted there
                continue
