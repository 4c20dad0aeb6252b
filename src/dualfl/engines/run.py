"""`run`: an algorithm on a problem, measured every round, stopped by tolerance, rounds or time, and resumable."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.contract import Algorithm, Ask, Constants
from dualfl.engines import checkpoint as files
from dualfl.engines.client import Silo
from dualfl.engines.decision import decide
from dualfl.engines.driver import Driver, Saved
from dualfl.engines.driver import digest as digest_of_ask
from dualfl.engines.engine import Account, Engine, OutOfTime, Result
from dualfl.engines.history import History, Row
from dualfl.engines.inprocess import digest
from dualfl.engines.problem import Problem
from dualfl.engines.progress import Bar
from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.typing import Array

BLOWN_UP = 1e10  # an energy so many times the first one is a divergence, not a result
HUGE = 1e100  # so is a broadcast with such an entry


@dataclass(frozen=True)
class Best:
    """The best model and the best lower bound so far: both stay valid, so the certificate never grows."""

    theta: Array
    energy: float = np.inf
    bound: float = -np.inf

    def updated(self, theta: Array, energy: float, bound: float) -> Best:
        better = energy < self.energy or not np.isfinite(self.energy)
        bound = max(self.bound, bound)
        return Best(theta, energy, bound) if better else Best(self.theta, self.energy, bound)

    @property
    def certificate(self) -> float | None:
        # Rounding can push the bound above the energy by an ulp.
        return max(self.energy - self.bound, 0.0) if np.isfinite(self.energy - self.bound) else None


class Standing(NamedTuple):
    """All that a run is, between two exchanges: what is saved, and what an interrupted run falls back to."""

    saved: Saved
    in_flight: Ask | None
    silos: list[Silo]
    account: Account
    memory: dict[str, Array]
    rows: int
    best: Best
    first_energy: float | None


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
    rounds, seconds : limits; the run keeps everything up to there.
    tol : stop when the certificate proves E - E* <= tol |E|; needs an algorithm that has one.
    reference : E*, if it is known, to report relative errors.
    start : where to start instead of zero.
    checkpoint, checkpoint_every, resume : a file to write after every so many exchanges, and whether to go on from it.
    stop : called with each row and its model; True ends the run.
    measure : the problem whose energy is reported, if it is not the one that is solved; then nothing is certified.
    engine : who carries the messages, "inprocess", "ray" or "flower-simulation"; the iterates are the same.
    say : hears, before it starts, what an algorithm that chooses (`auto`) picked and why.
    """
    check_limits(rounds, tol, seconds, checkpoint_every)
    if reference is not None and not np.isfinite(reference):
        raise InputError(f"reference must be a finite energy, and it is {reference}.")
    algorithm, choice = decide(problem, algorithm)
    if choice and say is not None:
        say(choice)
    if tol is not None:
        check_tol(algorithm, evaluate, measure)
    options = {"seed": seed, "threads": threads, "codec": codec, "start": start, "constants": constants}
    path = None if checkpoint is None else Path(checkpoint)
    limits = Limits(rounds, tol, seconds, stop)
    if engine == "flower-simulation":
        from dualfl.engines.flower.simulation import simulate

        saving = {"reference": reference, "evaluate": evaluate, "path": path, "every": checkpoint_every}
        return replace(simulate(problem, algorithm, options, limits, saving, measure, resume, progress), choice=choice)
    chosen = make_engine(engine, problem, algorithm, options)
    session = Session(chosen, reference, evaluate, path, checkpoint_every, measure)
    return replace(session.run(limits, resume, progress), choice=choice)


class Limits(NamedTuple):
    """What ends a run."""

    rounds: int = 100
    tol: float | None = None
    seconds: float | None = None
    stop: Callable[[Row, Array], bool] | None = None


ENGINES = ("inprocess", "ray", "flower-simulation")


def make_engine(name: str, problem: Problem, algorithm: Algorithm, options: dict[str, Any]) -> Engine:
    """The engine of that name, bound to the problem."""
    if name == "inprocess":
        from dualfl.engines.inprocess import InProcess

        return InProcess(problem, algorithm, **options)
    if name == "ray":
        from dualfl.engines.ray import OnRay

        return OnRay(problem, algorithm, **options)
    raise InputError(nearest("engine", name, ENGINES))


def check_limits(rounds: int, tol: float | None, seconds: float | None, every: int) -> None:
    if rounds < 0:
        raise InputError(f"rounds must be >= 0, and it is {rounds}.")
    if tol is not None and not tol > 0:
        raise InputError(f"tol must be positive, and it is {tol}.")
    if seconds is not None and not seconds > 0:
        raise InputError(f"seconds must be positive, and it is {seconds}.")
    if every < 1:
        raise InputError(f"checkpoint_every must be at least 1 exchange, and it is {every}.")


def check_tol(algorithm: Algorithm, evaluate: bool, measure: Problem | None) -> None:
    """A tolerance that can never be met would be ignored in silence."""
    if not algorithm.certifies:
        why = f"{algorithm.name} has none: {algorithm.no_certificate}"
    elif not evaluate:
        why = "evaluate=False leaves no energy to certify"
    elif measure is not None:
        why = "the energy that is measured is not the one that is minimised"
    else:
        return
    raise InputError(f"tol stops a run by its certificate, and {why}; stop by rounds, seconds or `stop` instead.")


class Session:
    """The state of a run that outlives an interruption."""

    def __init__(
        self,
        engine: Engine,
        reference: float | None,
        evaluate: bool,
        path: Path | None,
        every: int,
        measure: Problem | None = None,
        may_write: Callable[[], None] = lambda: None,
    ) -> None:
        self.measured = None if measure is None else measure.pooled
        self.engine, self.reference, self.evaluate = engine, reference, evaluate
        self.path, self.may_write = path, may_write
        self.every = 1 if engine.silos_remember else every
        self.driver = Driver(engine.algorithm, engine.place)
        self.history, self.best = History(), Best(np.zeros(0))
        self.first_energy: float | None = None
        self._steps = 0  # exchanges, and what is told, since the run began or was resumed
        self._saved = (0, 0)  # the steps and the rows of the last checkpoint
        self.mark()

    # -- the loop ---------------------------------------------------------------------------------

    def run(self, limits: Limits, resume: bool = False, progress: bool | Bar = False) -> Result:
        """From where it stands, or from its checkpoint, until a limit ends it."""
        if resume:
            self.restore()
        bar = Bar(self.engine.algorithm.name, limits.rounds, progress) if isinstance(progress, bool) else progress
        try:
            # Clients are the threads here: BLAS threads below them would fight for the same processors.
            with threadpool_limits(1, user_api="blas"), bar:
                why = self.go(limits, bar)
            return self.result(why)
        finally:
            self.engine.close()

    def go(self, limits: Limits, bar: Bar) -> str:
        """Run until something ends it, and say what."""
        try:
            while True:
                if self.driver.started and self.driver.between_rounds:
                    if len(self.history) <= self.driver.round:
                        bar.update(self.record(self.driver.round < limits.rounds))
                        self.mark()
                        self.save()
                    why = self.ended(limits)
                    if why:
                        return why
                if not self.step(limits.seconds):
                    return "diverged"
        except KeyboardInterrupt:
            self.fall_back(self.standing)
            return "interrupted"
        except OutOfTime:
            self.fall_back(self.standing)
            return "time"
        finally:
            self.save(last=True)

    def step(self, seconds: float | None = None) -> bool:
        """One exchange, or the start of an algorithm that needs none; False if the server's numbers left all bounds."""
        began = time.perf_counter()
        if seconds is not None and len(self.history):  # a run has at least a start
            self.engine.deadline = began + seconds - self.engine.account.seconds
        asked = self.driver.ask()
        if asked is not None:
            if any(huge(value) for value in asked.message.values()):
                return False
            self.driver.tell(self.engine.exchange(self.engine.algorithm, self.driver, asked))
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
        self.driver = Driver(engine.algorithm, engine.place, to.saved)
        self.standing = to

    @property
    def theta(self) -> Array:
        """The model of the last finished round."""
        theta = self.engine.algorithm.model(self.driver.state)
        return self.engine.feasible(theta if self.engine.origin is None else theta + self.engine.origin)

    def record(self, more: bool = True) -> Row:
        """The row of the round that has just ended; `more`: there may be another."""
        engine, account = self.engine, self.engine.account
        number, state, theta = self.driver.round, self.driver.state, self.theta
        energy = error = certificate = None
        if self.evaluate:
            energy = (
                engine.energy(theta, self.ahead if more else None)
                if self.measured is None
                else self.measured.value(theta)
            )
            bound = engine.algorithm.bound(state) if self.measured is None else -np.inf
            self.best = self.best.updated(theta, energy, bound)
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
        if tol is not None and row.certificate is not None and row.certificate <= tol * abs(self.best.energy):
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
        )

    def why_no_certificate(self) -> str:
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
        files.save(
            self.path,
            {
                "key": self.key,
                "saved": replace(now.saved, asked=asked),
                "silos": [replace(silo, reply=None) for silo in self.engine.stored(now.silos)],  # who stores, re-asks
                "account": now.account,
                "memory": now.memory,
                "rows": [list(row) for row in self.history.rows[: now.rows]],
                "iterations": self.history.iterations[: now.rows],
                "best": now.best,
                "first_energy": now.first_energy,
            },
        )
        self._saved = (self._steps, now.rows)

    def restore(self) -> None:
        """Go on where the checkpoint stands."""
        if self.path is None:
            raise InputError("resume needs a checkpoint file to resume from; give one.")
        content = files.load(self.path, self.engine.algorithm, self.key, {"Best": Best, "Account": Account})
        self.history = History([Row(*row) for row in content["rows"]], content["iterations"])
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
        self.mark()


def huge(value: Any) -> bool:
    """Whether a broadcast is beyond anything that a converging run sends; NaN is."""
    if not isinstance(value, np.ndarray | float):
        return False
    return not np.abs(value).max(initial=0.0) <= HUGE
