"""What the ServerApp runs: a job folder goes in, a result comes out, and a sentence if there is none.

    job.pkl        what to run                  rows.jsonl     one line a round, as it happens
    setup.pkl      what silos agreed on         result.pkl     the result
    checkpoint.npz where the run stands         outcome.json   how it ended: {"stopped": ...} or {"error": ...}
    traffic.json   what went over the wire, up to the last row, of all sessions
    waiting.json   who has not answered yet

All of it is written and read by one user on one machine; nothing that silos send is ever unpickled. A server app may
outlive its SuperLink for a while; `submission` says whose turn it is, and one whose turn is over writes nothing more.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from dualfl.algorithms.contract import Algorithm, Constants
from dualfl.algorithms.few_exchanges.auto import Auto
from dualfl.algorithms.few_exchanges.time_model import Network
from dualfl.engines.decision import decide
from dualfl.engines.history import Row
from dualfl.engines.progress import Bar
from dualfl.engines.request import Limits, Recording
from dualfl.engines.result import Result
from dualfl.engines.session import Session
from dualfl.errors import DualflError
from dualfl.federation.courier import Came, Courier, Traffic, Transport
from dualfl.federation.flower.analysis_job import Analysed, AnalysisJob, carry_out_analysis
from dualfl.federation.line_speed import measured
from dualfl.federation.remote import Federation, Remote, Setup, Terms
from dualfl.federation.silos_afar import SilosAfar
from dualfl.files import write_atomically
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalty

TRAFFIC, WAITING = "traffic.json", "waiting.json"
PAUSE = 1.0  # seconds between two notes of who is waited for


@dataclass(frozen=True)
class Job:
    """All that decides what a run computes, and how patient it is. `template` is given where silos hold objectives."""

    terms: Terms
    limits: Limits
    template: Objective | None = None
    penalty: Penalty | None = None
    constants: Constants | None = None
    recording: Recording = field(default_factory=Recording)
    resume: bool = False
    patience: float = 3600.0
    poll: float = 0.5
    authenticated: bool = False
    solvers: tuple[str, ...] = ("default",)


@dataclass(frozen=True)
class SpeedJob:
    """Measures the network, on which nothing depends yet: see `line_speed`."""

    names: tuple[str, ...]
    patience: float
    authenticated: bool


class JobOutcome(NamedTuple):
    """What setup.pkl keeps: what silos agreed on, and which algorithm runs and why."""

    setup: Setup
    constants: Constants
    decided: tuple[Algorithm, str]


class TurnIsOver(DualflError):
    """The job was submitted again, so this server app is a leftover."""


class Turn:
    """Whether this app is still the one that was submitted last."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "submission"
        self.mine = self._now()

    def _now(self) -> str:
        return self.path.read_text() if self.path.exists() else ""

    def check(self) -> None:
        if self._now() != self.mine:
            raise TurnIsOver("This run was submitted again, and goes on there.")


class Lines(Bar):
    """Progress as lines of a file, for whoever waits for the run."""

    def __init__(self, folder: Path, turn: Turn, traffic: Traffic) -> None:
        super().__init__("", 0, False)
        self.folder, self.turn, self.traffic = folder, turn, traffic
        self.missing: list[str] = []
        self.told = 0.0

    def update(self, row: Row) -> None:
        self._write(row)
        write_atomically(self.folder / TRAFFIC, json.dumps(vars(self.traffic)).encode())

    def say(self, sentence: str) -> None:
        self._write({"say": sentence})

    def at(self, number: int, purpose: str) -> None:
        """Where an analysis is."""
        self._write({"exchange": number, "for": purpose})
        write_atomically(self.folder / TRAFFIC, json.dumps(vars(self.traffic)).encode())

    def waits(self, names: list[str]) -> None:
        """For `dualfl deploy status`: who is missing, written when that changes, and no oftener than it can be read."""
        if names != self.missing and time.monotonic() - self.told > PAUSE:
            self.missing, self.told = names, time.monotonic()
            content = json.dumps({"silos": names, "time": time.time()})
            with contextlib.suppress(OSError):
                (self.folder / WAITING).write_text(content)

    def _write(self, line: Any) -> None:
        self.turn.check()
        with open(self.folder / "rows.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")


class InTurn:
    """A transport that stops when the turn is over: before every look, so before every checkpoint too."""

    def __init__(self, transport: Transport, turn: Turn) -> None:
        self.transport, self.turn = transport, turn

    def nodes(self) -> Iterable[int]:
        self.turn.check()
        return self.transport.nodes()

    def push(self, messages: Mapping[int, bytes]) -> dict[int, str]:
        return self.transport.push(messages)

    def pull(self, ids: Sequence[str], seconds: float) -> list[Came]:
        came = self.transport.pull(ids, seconds)
        self.turn.check()
        return came


def perform(folder: Path, transport: Transport) -> None:
    """Run the job, and leave an outcome whatever happens."""
    turn = Turn(folder)
    try:
        job: Job | AnalysisJob | SpeedJob = pickle.loads((folder / "job.pkl").read_bytes())
        result: Result | Analysed | Speed
        if isinstance(job, SpeedJob):
            result, traffic = speed(job, folder, InTurn(transport, turn), turn)
        elif isinstance(job, AnalysisJob):
            result, traffic = analyse(job, folder, InTurn(transport, turn), turn)
        else:
            result, traffic = carry_out(job, folder, InTurn(transport, turn), turn)
        if result.stopped == "interrupted":
            raise KeyboardInterrupt
        turn.check()
    except TurnIsOver:
        raise
    except BaseException as error:
        turn.check()
        told = str(error) if isinstance(error, DualflError) else f"{type(error).__name__}: {error}"
        if was_cut_off(error):
            told = f"The server app lost its SuperLink ({told.rstrip(': ')})."
        note(folder, {"error": told or "the run was ended", "lost": was_cut_off(error)})
        raise
    write_atomically(folder / "result.pkl", pickle.dumps(result))
    note(folder, {"stopped": result.stopped, "traffic": vars(traffic)})


def was_cut_off(error: BaseException) -> bool:
    """Whether the SuperLink went away, and Flower's processes with it; what was reached is on the disk."""
    network = type(error).__module__.split(".")[0] in ("httpx", "httpcore", "grpc")
    return network or isinstance(error, KeyboardInterrupt | SystemExit | ConnectionError)


class Speed(NamedTuple):
    """What came of a `SpeedJob`."""

    network: Network
    stopped: str = "done"


def speed(job: SpeedJob, folder: Path, transport: Transport, turn: Turn) -> tuple[Speed, Traffic]:
    lines = Lines(folder, turn, Traffic())
    post = Courier(transport, job.patience, fixed=job.authenticated, say=lines.say, waits=lines.waits)
    federation = Federation(post, Terms("network", job.names, Auto()))
    return Speed(measured(federation.ask)), post.traffic


def analyse(job: AnalysisJob, folder: Path, transport: Transport, turn: Turn) -> tuple[Analysed, Traffic]:
    """An analysis, with a line for every exchange."""
    traffic = read_traffic(folder / TRAFFIC)
    lines = Lines(folder, turn, traffic)

    return carry_out_analysis(job, folder, transport, traffic, lines), traffic


def read_traffic(path: Path) -> Traffic:
    return Traffic(**json.loads(path.read_text())) if path.exists() else Traffic()


def note(folder: Path, outcome: dict[str, Any]) -> None:
    write_atomically(folder / "outcome.json", json.dumps(outcome | {"time": time.time()}).encode())


def carry_out(job: Job, folder: Path, transport: Transport, turn: Turn) -> tuple[Result, Traffic]:
    path = job.recording.checkpoint
    resume = job.resume and path is not None and path.exists()
    traffic = read_traffic(folder / TRAFFIC) if resume else Traffic()
    lines = Lines(folder, turn, traffic)
    post = Courier(
        transport, job.patience, job.poll, fixed=job.authenticated, say=lines.say, waits=lines.waits, traffic=traffic
    )
    federation = Federation(post, job.terms)
    kept = folder / "setup.pkl"
    known: JobOutcome | None = pickle.loads(kept.read_bytes()) if kept.exists() else None
    setup = federation.meet(None if known is None else known.setup)
    template, penalty = job.template, job.penalty
    if template is None:
        from dualfl.federation.model import template as empty

        assert setup.schema is not None
        template, penalty = empty(setup.schema, job.terms.problem)
    constants, decided = (job.constants, None) if known is None else (known.constants, known.decided)
    if decided is None:
        decided = decide(job.terms.algorithm, SilosAfar(federation, setup, template, penalty))
    algorithm, choice = decided
    engine = Remote(federation, setup, template, penalty, algorithm, constants, job.solvers)
    if choice:
        lines.say(choice)
    write_atomically(kept, pickle.dumps(JobOutcome(setup, engine.constants, decided)))
    session = Session(engine, job.recording, turn.check)
    return replace(session.run(job.limits, resume, lines), choice=choice), post.traffic
