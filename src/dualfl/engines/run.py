"""`run`: an algorithm on a problem, measured every round, stopped by tolerance, rounds or time, and resumable."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.contract import Algorithm, Constants
from dualfl.engines import checkpoint as files
from dualfl.engines.driver import Driver
from dualfl.engines.history import History, Row
from dualfl.engines.inprocess import Counters, InProcess, Result
from dualfl.engines.problem import Problem
from dualfl.engines.progress import Bar
from dualfl.errors import InputError
from dualfl.typing import Array

BLOWN_UP = 1e10  # an energy so many times the first one is a divergence, not a result


@dataclass
class Best:
    """The best model and the best lower bound so far: both stay valid, so the certificate never grows."""

    energy: float = np.inf
    bound: float = -np.inf
    theta: Array = field(default_factory=lambda: np.zeros(0))

    def update(self, energy: float, bound: float, theta: Array) -> None:
        if energy < self.energy:
            self.energy, self.theta = energy, theta
        self.bound = max(self.bound, bound)

    @property
    def certificate(self) -> float | None:
        # Rounding can push the bound above the energy by an ulp.
        return max(self.energy - self.bound, 0.0) if self.bound > -np.inf else None


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
) -> Result:
    """Run `algorithm` on `problem` in this process.

    Parameters
    ----------
    rounds, seconds : limits; the run keeps everything up to there.
    tol : stop when the certificate proves E - E* <= tol |E|; needs an algorithm that has one.
    reference : E*, if it is known, to report relative errors.
    start : where to start instead of zero.
    checkpoint, checkpoint_every, resume : a file to write after every so many exchanges, and whether to go on from it.
    stop : called with each row and its model; True ends the run.
    measure : the problem whose energy is reported, if it is not the one that is solved; then nothing is certified.
    """
    check_limits(rounds, tol, seconds, checkpoint_every)
    engine = InProcess(problem, algorithm, seed=seed, threads=threads, codec=codec, start=start, constants=constants)
    path = None if checkpoint is None else Path(checkpoint)
    session = Session(engine, reference, evaluate, path, checkpoint_every, measure)
    if resume:
        session.restore()
    try:
        with Bar(engine.algorithm.name, rounds, progress) as bar:
            why = session.go(rounds, tol, seconds, stop, bar)
    finally:
        engine.close()
    return session.result(why)


def check_limits(rounds: int, tol: float | None, seconds: float | None, every: int) -> None:
    if rounds < 0:
        raise InputError(f"rounds must be >= 0, and it is {rounds}.")
    if tol is not None and not tol > 0:
        raise InputError(f"tol must be positive, and it is {tol}.")
    if seconds is not None and not seconds > 0:
        raise InputError(f"seconds must be positive, and it is {seconds}.")
    if every < 1:
        raise InputError(f"checkpoint_every must be at least 1 exchange, and it is {every}.")


class Session:
    """The state of a run that outlives an interruption."""

    def __init__(
        self,
        engine: InProcess,
        reference: float | None,
        evaluate: bool,
        path: Path | None,
        every: int,
        measure: Problem | None = None,
    ) -> None:
        self.measured = None if measure is None else measure.pooled
        self.engine, self.reference, self.evaluate = engine, reference, evaluate
        self.path, self.every = path, every
        self.driver = Driver(engine.algorithm, engine.place)
        self.history, self.best = History(), Best()
        self.first_energy: float | None = None
        self._saved_at = 0
        engine.new_round()

    # -- the loop ---------------------------------------------------------------------------------

    def go(
        self,
        rounds: int,
        tol: float | None,
        seconds: float | None,
        stop: Callable[[Row, Array], bool] | None,
        bar: Bar,
    ) -> str:
        """Run until something ends it, and say what."""
        try:
            while True:
                if self.driver.started and self.driver.between_rounds:
                    if len(self.history) <= self.driver.round:
                        bar.update(self.record())
                        self.save()
                    why = self.ended(rounds, tol, seconds, stop)
                    if why:
                        return why
                self.step()
        except KeyboardInterrupt:
            return "interrupted"
        finally:
            self.save(last=True)

    def step(self) -> None:
        """One exchange, or the start of an algorithm that needs none."""
        began = time.perf_counter()
        asked = self.driver.ask()
        if asked is not None:
            self.driver.tell(self.engine.exchange(self.engine.algorithm, self.driver, asked))
        self.engine.counters.seconds += time.perf_counter() - began
        if not self.driver.between_rounds:
            self.save()

    @property
    def theta(self) -> Array:
        """The model of the last finished round."""
        theta = self.engine.algorithm.model(self.driver.state)
        return theta if self.engine.origin is None else theta + self.engine.origin

    def record(self) -> Row:
        """The row of the round that has just ended."""
        engine, counters = self.engine, self.engine.counters
        state, theta = self.driver.state, self.theta
        energy = error = certificate = None
        if self.evaluate:
            energy = engine.energy(theta) if self.measured is None else self.measured.value(theta)
            bound = engine.algorithm.bound(state) if self.measured is None else -np.inf
            self.best.update(energy, bound, theta)
            certificate = self.best.certificate
            if self.reference is not None:
                error = (energy - self.reference) / abs(self.reference)
        else:
            self.best.theta = theta
        if self.first_energy is None:
            self.first_energy = energy
        row = Row(
            self.driver.round,
            counters.exchanges,
            counters.floats_up,
            counters.floats_down,
            counters.local_gradients,
            counters.seconds,
            energy,
            error,
            certificate,
            sum(engine.round_iterations),
            engine.round_capped,
        )
        self.history.rows.append(row)
        self.history.iterations.append(engine.round_iterations)
        engine.new_round()
        return row

    def ended(
        self, rounds: int, tol: float | None, seconds: float | None, stop: Callable[[Row, Array], bool] | None
    ) -> str | None:
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
        if row.energy is None:
            return False
        return not np.isfinite(row.energy) or row.energy > BLOWN_UP * (1 + abs(self.first_energy or 0.0))

    def result(self, why: str) -> Result:
        engine, certificate = self.engine, self.best.certificate
        return Result(
            theta=self.best.theta,
            shape=engine.problem.shape,
            energy=self.best.energy if np.isfinite(self.best.energy) else None,
            certificate=certificate,
            certificate_reason="" if certificate is not None else engine.algorithm.no_certificate,
            stopped=why,
            algorithm=engine.algorithm,
            constants=engine.constants,
            history=self.history,
            state=self.driver.state,
            silos=engine.silos,
        )

    # -- checkpoints ------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """What makes this run this run and no other, as JSON."""
        engine, problem = self.engine, self.engine.problem
        return json.dumps(
            {
                "algorithm": json.loads(engine.algorithm.to_json()),
                "number of clients": problem.N,
                "model size": problem.d,
                "seed": engine.place.seed,
                "codec": repr(engine.place.codec),
                "solver": repr([cost.solver for cost in engine.costs[:1]]),
                "start": digest([] if engine.origin is None else [engine.origin.tobytes()]),
                "data": self.fingerprint(),
            }
        )

    def fingerprint(self) -> str:
        """A digest of the clients' costs: their values at a fixed point, to ten digits, and their sizes."""
        if not hasattr(self, "_fingerprint"):
            x = np.cos(np.arange(self.engine.problem.d)) / 10
            values = [
                f"{f.fresh().value(x):.10e} {m:.10e}" for f, m in zip(self.engine.problem.clients, self.engine.sizes)
            ]
            self._fingerprint = digest([v.encode() for v in values])
        return self._fingerprint

    def save(self, last: bool = False) -> None:
        done = self.engine.counters.exchanges
        if self.path is None or (done - self._saved_at < self.every and not (last and done > self._saved_at)):
            return
        engine = self.engine
        files.save(
            self.path,
            {
                "key": self.key,
                "saved": self.driver.saved,
                "silos": [replace(silo, reply=None) for silo in engine.silos],  # nobody asks twice in-process
                "counters": engine.counters,
                "memory": engine.server_memory,
                "rows": [list(row) for row in self.history.rows],
                "iterations": self.history.iterations,
                "best": self.best,
                "first_energy": self.first_energy,
                "round_iterations": engine.round_iterations,
                "round_capped": engine.round_capped,
            },
        )
        self._saved_at = done

    def restore(self) -> None:
        """Go on where the checkpoint stands."""
        if self.path is None:
            raise InputError("resume needs a checkpoint file to resume from; give one.")
        engine = self.engine
        content = files.load(self.path, engine.algorithm, self.key, {"Best": Best, "Counters": Counters})
        engine.silos = content["silos"]
        engine.counters = content["counters"]
        engine.server_memory = content["memory"]
        engine.round_iterations, engine.round_capped = content["round_iterations"], content["round_capped"]
        self.history = History([Row(*row) for row in content["rows"]], content["iterations"])
        self.best, self.first_energy = content["best"], content["first_energy"]
        self.driver = Driver(engine.algorithm, engine.place, content["saved"])
        self._saved_at = engine.counters.exchanges


def digest(parts: list[bytes]) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
