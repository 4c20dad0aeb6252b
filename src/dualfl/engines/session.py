"""`run`: an algorithm on a problem, measured every round, stopped by tolerance, rounds or time, and resumable."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.contract import Algorithm, Ask, Constants
from dualfl.arguments import checked
from dualfl.engines import checkpoint as checkpoint_file
from dualfl.engines.best import CONTRADICTION, SMALLEST, Best
from dualfl.engines.client import ClientMemory
from dualfl.engines.decision import ClientsHere, decide, with_what_it_took
from dualfl.engines.driver import Driver, Saved
from dualfl.engines.driver import digest as digest_of_ask
from dualfl.engines.engine import Account, Energy, Engine, Result
from dualfl.engines.exchanges import Exchanges, drive
from dualfl.engines.history import History, Row
from dualfl.engines.inprocess import InProcess, digest
from dualfl.engines.journal import Journal, Mark
from dualfl.engines.progress import Bar
from dualfl.engines.ray import OnRay
from dualfl.engines.request import (
    EngineOptions,
    Limits,
    Recording,
    RunRequest,
    check_limits,
    check_recording,
    check_tol,
)
from dualfl.errors import DualflError, InputError, OutOfTime
from dualfl.kernels.blas_threads import one_blas_thread
from dualfl.names import nearest
from dualfl.outputs import alone
from dualfl.problem import Problem
from dualfl.typing import Array

HERE = ("inprocess", "ray")  # engines of this room; others are found by an entry point
BLOWN_UP = 1e10  # an energy so many times the first one is a divergence, not a result
HUGE = 1e100  # so is a broadcast with such an entry


class Standing(NamedTuple):
    """All that a run is, between two exchanges: what is saved, and what an interrupted run falls back to."""

    saved: Saved
    in_flight: Ask | None
    silos: list[ClientMemory]
    account: Account
    memory: dict[str, Array]
    rows: int
    best: Best
    first_energy: float | None


@checked
def run(
    problem: Problem,
    algorithm: Algorithm,
    *,
    rounds: int = 100,
    tol: float | None = None,
    seconds: float | None = None,
    reference: float | None = None,
    start: Array | None = None,
    seed: int = 0,
    threads: int | None = None,
    codec: Codec | None = None,
    constants: Constants | None = None,
    evaluate: bool = True,
    progress: bool = False,
    checkpoint: Path | str | None = None,
    checkpoint_every: int = 1,
    resume: bool = False,
    stop: Callable[[Row, Array], bool] | None = None,
    measure: Problem | None = None,
    engine: str = "inprocess",
    say: Callable[[str], None] | None = None,
) -> Result:
    """Run `algorithm` on `problem`.

    Parameters
    ----------
    rounds, seconds : limits of the run; everything up to them is kept.
    tol : stop when the certificate proves E - E* <= tol |E|; needs an algorithm that has one.
    reference : E*, if it is known, to report relative errors.
    start : the first model; the default is zero.
    checkpoint, checkpoint_every, resume : a file, every how many exchanges it is written, whether to continue.
    stop : called with each row and its model; True ends the run.
    measure : report the energy of this problem instead of the solved one; then there is no certificate.
    engine : where clients run, "inprocess", "ray" or "flower-simulation"; the iterates are the same.
    say : called before the start with the sentence on what `auto` picked, and why.
    """
    limits = Limits(rounds, tol, seconds, stop)
    path = None if checkpoint is None else Path(checkpoint)
    recording = Recording(reference, evaluate, path, checkpoint_every, measure)
    check_limits(limits)
    check_recording(recording)
    given = algorithm
    algorithm, choice = decide(given, ClientsHere(problem))
    if choice and say is not None:
        say(choice)
    if tol is not None:
        check_tol(algorithm, recording)
    options = EngineOptions(seed, threads, codec, start, constants)
    request = RunRequest(problem, algorithm, options, limits, recording, resume, progress)
    result = carry_out(request, engine)
    return replace(result, choice=with_what_it_took(choice, given, result.history, problem.N))


# What a checkpoint holds.
KINDS: dict[str, Any] = {
    "saved": Saved,
    "silos": list,
    "account": Account,
    "memory": dict,
    "best": Best,
    "first_energy": (float, type(None)),
}


def carry_out(request: RunRequest, engine: str) -> Result:
    """The run by the engine of that name."""
    if engine not in HERE:
        return elsewhere(engine)(request)
    session = Session(make_engine(engine, request.problem, request.algorithm, request.options), request.recording)
    path = request.recording.checkpoint
    with nullcontext() if path is None else alone(path):
        return session.run(request.limits, request.resume, request.progress)


def elsewhere(name: str) -> Callable[[RunRequest], Result]:
    """An engine that carries a whole run to another place; see `request` for what it must do."""
    points = {point.name: point for point in entry_points(group="dualfl.engines")}
    if name not in points:
        raise InputError(nearest("engine", name, (*HERE, *points)))
    engine: Callable[[RunRequest], Result] = points[name].load()
    return engine


def make_engine(
    name: str, problem: Problem, algorithm: Algorithm, options: EngineOptions, settle: bool = True
) -> Engine:
    """The engine of that name, bound to the problem; `settle=False`: it has not asked for its constants yet."""
    kind: type[InProcess | OnRay] = OnRay if name == "ray" else InProcess
    return kind(
        problem,
        algorithm,
        seed=options.seed,
        threads=options.threads,
        codec=options.codec,
        start=options.start,
        constants=options.constants,
        settle=settle,
    )


class Session:
    """The state of a run that outlives an interruption."""

    def __init__(
        self,
        engine: Engine,
        recording: Recording,
        may_write: Callable[[], None] = lambda: None,
    ) -> None:
        self.measured = None if recording.measure is None else recording.measure.pooled
        self.engine, self.reference, self.evaluate = engine, recording.reference, recording.evaluate
        self.path, self.may_write = recording.checkpoint, may_write
        self.every = 1 if engine.silos_remember else recording.checkpoint_every
        self.driver = Driver(engine.algorithm, engine.place)
        self.history, self.best = History(), Best(np.zeros(0))
        self.first_energy: float | None = None
        self._steps = 0  # exchanges, and what is told, since the run began or was resumed
        self._saved = (0, 0)  # the steps and the rows of the last checkpoint
        self._journal: Journal | None = None
        self.mark()

    # -- the loop ---------------------------------------------------------------------------------

    def run(self, limits: Limits, resume: bool = False, progress: bool | Bar = False) -> Result:
        """From where it stands, or from its checkpoint, until a limit ends it."""
        bar = Bar(self.engine.algorithm.name, limits.rounds, progress) if isinstance(progress, bool) else progress
        with one_blas_thread(), bar:
            return drive(self.exchanges(limits, resume, bar))

    def exchanges(self, limits: Limits, resume: bool = False, bar: Bar | None = None) -> Exchanges[Result]:
        """The whole run as a generator: it yields requests, is sent their answers, and calls no client itself.

        An interruption, or `OutOfTime`, that is thrown into it ends the run where it last stood.
        """
        try:
            if resume:
                self.restore()
            why = yield from self.go(limits, bar)
            return self.result(why)
        finally:
            self.engine.close()

    def go(self, limits: Limits, bar: Bar | None) -> Exchanges[str]:
        """Run until something ends it, and say what."""
        try:
            while True:
                if self.driver.started and self.driver.between_rounds:
                    if len(self.history) <= self.driver.round:
                        self.limit(limits.seconds)
                        row = yield from self.record(self.driver.round < limits.rounds)
                        if bar is not None:
                            bar.update(row)
                        self.mark()
                        self.save()
                    why = self.ended(limits)
                    if why:
                        return why
                self.limit(limits.seconds)
                if not (yield from self.step()):
                    return "diverged"
        except KeyboardInterrupt:
            self.fall_back(self.standing)
            return "interrupted"
        except OutOfTime:
            self.fall_back(self.standing)
            return "time"
        finally:
            self.save(last=True)

    def limit(self, seconds: float | None) -> None:
        """Tell the engine when the time of the run ends. A run has at least a start."""
        if seconds is not None and len(self.history):
            self.engine.deadline = time.perf_counter() + seconds - self.engine.account.seconds

    def step(self) -> Exchanges[bool]:
        """One exchange, or the start of an algorithm that needs none; False if the server's numbers left all bounds."""
        began = time.perf_counter()
        asked = self.driver.ask()
        if asked is not None:
            if any(huge(value) for value in asked.message.values()):
                return False
            self.driver.tell((yield from self.engine.exchanging(self.engine.algorithm, self.driver, asked)))
            self._steps += 1
        account = self.engine.account
        self.engine.account = account._replace(seconds=account.seconds + time.perf_counter() - began)
        self.mark()
        # The row of a round may ask silos for more. They keep their own state, and one exchange is all that it and the
        # checkpoint may differ by.
        if not self.driver.between_rounds or self.engine.silos_remember:
            self.save()
        return True

    # -- between two exchanges --------------------------------------------------------------------

    def mark(self) -> None:
        """Note where the run stands. One assignment, so no interruption falls into it."""
        engine, driver = self.engine, self.driver
        self.standing = Standing(
            driver.saved,
            driver.in_flight,
            engine.silos,
            engine.account,
            engine.server_memory,
            len(self.history),
            self.best,
            self.first_energy,
        )

    def fall_back(self, to: Standing) -> None:
        """Make the run what it was."""
        engine = self.engine
        engine.silos, engine.account, engine.server_memory = to.silos, to.account, to.memory
        self.history = History(self.history.rows[: to.rows], self.history.iterations[: to.rows])
        self.best, self.first_energy = to.best, to.first_energy
        engine.early = None
        self.driver = Driver(engine.algorithm, engine.place, to.saved)
        self.standing = to

    @property
    def theta(self) -> Array:
        """The model of the last finished round."""
        theta = self.engine.algorithm.model(self.driver.state)
        return self.engine.feasible(theta if self.engine.origin is None else theta + self.engine.origin)

    def record(self, more: bool = True) -> Exchanges[Row]:
        """The row of the round that has just ended; `more`: there may be another."""
        engine, account = self.engine, self.engine.account
        number, state, theta = self.driver.round, self.driver.state, self.theta
        energy = error = certificate = None
        if self.evaluate:
            found = (
                (yield from engine.measuring(theta, self.ahead if more else None))
                if self.measured is None
                else Energy(self.measured.value(theta), 0.0)
            )
            energy = found.value
            bound = engine.algorithm.bound(state) if self.measured is None else -np.inf
            self.best = self.best.updated(theta, found, bound)
            certificate = self.best.certificate
            if self.reference is not None:
                error = (energy - self.reference) / (abs(self.reference) or 1.0)
        else:
            self.best = Best(theta)
        if self.first_energy is None and energy is not None and np.isfinite(energy):
            self.first_energy = energy
        row = Row(
            number,
            account.exchanges,
            account.floats_up,
            account.floats_down,
            account.local_gradients,
            account.seconds,
            energy,
            error,
            certificate,
            sum(account.iterations),
            account.capped,
            account.contacts,
            account.payload,
        )
        self.history.rows.append(row)
        self.history.iterations.append(list(account.iterations))
        engine.account = account._replace(iterations=(0,) * engine.place.N, capped=0)
        return row

    def ahead(self) -> tuple[int, Ask] | None:
        """The next round and what it will ask for first; None if that is nothing to be sent."""
        asked = self.driver.ask()
        if asked is None or any(huge(value) for value in asked.message.values()):
            return None
        return self.driver.round, asked

    def ended(self, limits: Limits) -> str | None:
        rounds, tol, seconds, stop = limits
        row = self.history[-1]
        if self.blown_up(row):
            return "diverged"
        if self.best.contradicted:
            return "contradiction"
        if (
            tol is not None
            and row.certificate is not None
            and row.certificate <= max(tol * abs(self.best.energy), SMALLEST)
        ):
            return "tol"
        if stop is not None and stop(row, self.theta):
            return "tol"
        if row.round >= rounds:
            return "rounds"
        if seconds is not None and row.seconds >= seconds:
            return "time"
        return None

    def blown_up(self, row: Row) -> bool:
        if row.energy is None or row.energy == np.inf:  # infinity is a point outside a constraint, not a divergence
            return False
        if self.engine.algorithm.tries:  # the next round sees how high a trial is, and takes it back
            return False
        return not row.energy <= BLOWN_UP * (1 + abs(self.first_energy or 0.0))

    def result(self, why: str) -> Result:
        engine, certificate = self.engine, self.best.certificate
        return Result(
            theta=self.best.theta,
            shape=engine.shape,
            energy=self.best.energy if np.isfinite(self.best.energy) else None,
            certificate=certificate,
            certificate_reason="" if certificate is not None else self.why_no_certificate(),
            stopped=why,
            algorithm=engine.algorithm,
            constants=engine.constants,
            history=self.history,
            state=self.driver.state,
            silos=engine.stored(engine.silos),
            rounding=self.best.rounding if np.isfinite(self.best.energy) and self.measured is None else None,
        )

    def why_no_certificate(self) -> str:
        if self.best.contradicted:
            return CONTRADICTION.format(bound=self.best.bound, least=self.best.least)
        if not self.engine.template.convex:
            return "the costs are not convex; the length of the gradient says how near a stationary point is"
        if not self.engine.algorithm.certifies:
            return self.engine.algorithm.no_certificate
        if not self.evaluate:
            return "energies were not evaluated"
        if self.measured is not None:
            return "the energy that is measured is not the one that is minimised"
        if not np.isfinite(self.best.energy):
            return "no model so far has a finite energy"
        if self.driver.round > 0:
            return self.engine.algorithm.no_certificate
        return "a lower bound of E* comes with the first round"

    # -- checkpoints ------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """What makes this run this run and no other, as JSON."""
        engine = self.engine
        start = engine.place.start if engine.origin is None else engine.origin
        return json.dumps(
            {
                "algorithm": json.loads(engine.algorithm.to_json()),
                "number of clients": engine.place.N,
                "model size": engine.place.d,
                "seed": engine.place.seed,
                "penalty": repr(engine.penalty),
                "codec": repr(engine.place.codec),
                "solvers": engine.solvers,
                "start": "zero" if start is None else digest([start.tobytes()]),
                "data": self.fingerprint(),
            }
        )

    @property
    def journal(self) -> Journal:
        """Where the rows go; empty until something is saved, or restored."""
        assert self.path is not None
        if self._journal is None:
            self._journal = Journal(self.path)
        return self._journal

    def fingerprint(self) -> str:
        if not hasattr(self, "_fingerprint"):
            self._fingerprint = self.engine.fingerprint()
        return self._fingerprint

    def save(self, last: bool = False) -> None:
        """Write a checkpoint if one is due; `last`: if anything has happened since the one before."""
        now, (steps, rows) = self.standing, self._saved
        since = self._steps - steps
        enough = since >= (1 if last else self.every) or (self.engine.silos_remember and now.rows > rows)
        if self.path is None or not enough:
            return
        self.may_write()
        asked = digest_of_ask(now.in_flight) if now.saved.means else None
        journal = self.journal
        fresh = slice(journal.mark.rows, now.rows)
        journal.append(list(zip(self.history.rows[fresh], self.history.iterations[fresh])))
        checkpoint_file.save(
            self.path,
            {
                "key": self.key,
                "saved": replace(now.saved, asked=asked),
                "silos": [replace(silo, reply=None) for silo in self.engine.stored(now.silos)],  # who stores, re-asks
                "account": now.account,
                "memory": now.memory,
                "journal": journal.mark,
                "best": now.best,
                "first_energy": now.first_energy,
            },
        )
        self._saved = (self._steps, now.rows)

    def restore(self) -> None:
        """Go on where the checkpoint stands."""
        if self.path is None:
            raise InputError("resume needs a checkpoint file to resume from; give one.")
        try:
            content = checkpoint_file.load(
                self.path, self.engine.algorithm, self.key, {"Best": Best, "Account": Account}
            )
            for name, kind in KINDS.items():
                if not isinstance(content[name], kind):
                    raise TypeError(f"{name} is a {type(content[name]).__name__}")
            if [type(silo) for silo in content["silos"]] != [ClientMemory] * self.engine.place.N:
                raise TypeError("silos are not those of this run")
            self.history = self.remembered(content)
            self.fall_back(
                Standing(
                    content["saved"],
                    None,
                    self.engine.restored(content["silos"]),
                    content["account"],
                    content["memory"],
                    len(self.history),
                    content["best"],
                    content["first_energy"],
                )
            )
        except DualflError:
            raise
        except Exception as error:  # what a file holds that is not as it was written can fail in any way
            what = f"{type(error).__name__}: {error}"
            raise InputError(
                f"{self.path} does not fit this run ({what}); delete it and start the run again."
            ) from error
        self.mark()

    def remembered(self, content: dict[str, Any]) -> History:
        """The rows that belong to a checkpoint: beside it, or in it if dualfl 0.1.0 wrote it."""
        assert self.path is not None
        if "journal" not in content:
            return History([Row(*row) for row in content["rows"]], content["iterations"])
        self._journal = Journal(self.path, Mark(*content["journal"]))
        rows = self._journal.read()
        return History([Row(*row) for row, _ in rows], [iterations for _, iterations in rows])


def huge(value: Any) -> bool:
    """Whether a broadcast is beyond anything that a converging run sends; NaN is."""
    if not isinstance(value, np.ndarray | float):
        return False
    return not np.abs(value).max(initial=0.0) <= HUGE
