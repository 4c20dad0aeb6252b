"""What a run is asked to do, in frozen objects: on what, how, until when, and what is kept of it.

An engine that carries whole runs to another place comes from another room or package. It is a function

    def engine(request: RunRequest) -> Result

that an entry point of the group `dualfl.engines` names; `run(..., engine="the name")` finds it there. When it is called
the limits have been checked and the algorithm has been decided: it never is one that chooses another. It must give the
iterates that `inprocess` gives, count exchanges, floats and work as `Engine` does, and refuse in one sentence
(InputError) whatever part of the request it cannot honour. `run` adds the sentence of the choice to its result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np

from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.contract import Algorithm, Constants
from dualfl.engines.history import Row
from dualfl.errors import InputError
from dualfl.problem import Problem
from dualfl.typing import Array

MOST_THREADS = 4_096  # more than any machine has processors


@dataclass(frozen=True)
class EngineOptions:
    """How an engine computes."""

    seed: int = 0
    threads: int | None = None  # or processors; None: as many as there are
    codec: Codec | None = None
    start: Array | None = None  # None: zero
    constants: Constants | None = None  # None: the clients are asked

    def __post_init__(self) -> None:
        check_threads(self.threads)


def check_threads(threads: int | None) -> None:
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise InputError(f"threads must be from 1 to {MOST_THREADS:,}, but it is {threads}.")


class Limits(NamedTuple):
    """What ends a run."""

    rounds: int = 100
    tol: float | None = None
    seconds: float | None = None
    stop: Callable[[Row, Array], bool] | None = None


@dataclass(frozen=True)
class Recording:
    """What is measured after every round, and what is kept."""

    reference: float | None = None  # E*, for relative errors
    evaluate: bool = True
    checkpoint: Path | None = None
    checkpoint_every: int = 1  # exchanges
    measure: Problem | None = None  # whose energy is reported, if not that of the problem that is solved


@dataclass(frozen=True)
class RunRequest:
    """One whole run. `resume`: go on from the checkpoint; `progress`: show a bar."""

    problem: Problem
    algorithm: Algorithm
    options: EngineOptions = field(default_factory=EngineOptions)
    limits: Limits = field(default_factory=Limits)
    recording: Recording = field(default_factory=Recording)
    resume: bool = False
    progress: bool = False


class RunKeywords(TypedDict, total=False):
    """What a caller of `run` may hand through as it is; `run` makes a `RunRequest` of it."""

    tol: float | None
    seconds: float | None
    reference: float | None
    seed: int
    threads: int | None
    codec: Codec | None
    evaluate: bool
    progress: bool
    engine: str
    say: Callable[[str], None] | None


def check_limits(limits: Limits) -> None:
    rounds, tol, seconds, _ = limits
    if rounds < 0:
        raise InputError(f"rounds must be >= 0, but it is {rounds}.")
    if tol is not None and not tol > 0:
        raise InputError(f"tol must be positive, but it is {tol}.")
    if seconds is not None and not seconds > 0:
        raise InputError(f"seconds must be positive, but it is {seconds}.")


def check_recording(recording: Recording) -> None:
    if recording.checkpoint_every < 1:
        raise InputError(f"checkpoint_every must be at least 1 exchange, but it is {recording.checkpoint_every}.")
    if recording.checkpoint is not None and not recording.checkpoint.name:
        raise InputError(f"checkpoint must be a file, such as run.npz, but it is {recording.checkpoint}.")
    if recording.reference is not None and not np.isfinite(recording.reference):
        raise InputError(f"reference must be a finite energy, but it is {recording.reference}.")


def check_tol(algorithm: Algorithm, recording: Recording) -> None:
    """A tolerance that can never be met would be ignored in silence."""
    if not algorithm.certifies:
        why = f"{algorithm.name} has none: {algorithm.no_certificate}"
    elif not recording.evaluate:
        why = "evaluate=False leaves no energy to certify"
    elif recording.measure is not None:
        why = "the energy that is measured is not the one that is minimised"
    else:
        return
    raise InputError(f"tol stops a run by its certificate, and {why}; stop by rounds, seconds or `stop` instead.")
