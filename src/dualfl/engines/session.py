"""A run: an algorithm on an engine, measured every round, stopped by tolerance, rounds or time, and resumable."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dualfl.algorithms.contract import Ask
from dualfl.engines.best import CONTRADICTION, SMALLEST, Best
from dualfl.engines.engine import Engine
from dualfl.engines.exchanges import Exchanges, drive
from dualfl.engines.history import Row
from dualfl.engines.progress import Bar
from dualfl.engines.request import (
    Limits,
    Recording,
)
from dualfl.engines.result import Energy, Result
from dualfl.engines.resumable import Resumable
from dualfl.errors import OutOfTime
from dualfl.kernels.blas_threads import one_blas_thread
from dualfl.typing import Array

BLOWN_UP = 1e10  # an energy so many times the first one is a divergence, not a result
HUGE = 1e100  # so is a broadcast with such an entry


class Session(Resumable):
    """One run on one engine, and all that is noted of it."""

    def __init__(
        self,
        engine: Engine,
        recording: Recording,
        may_write: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(engine, recording, may_write)
        self.measured = None if recording.measure is None else recording.measure.pooled
        self.reference, self.evaluate = recording.reference, recording.evaluate

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


def huge(value: Any) -> bool:
    """Whether a broadcast is beyond anything that a converging run sends; NaN is."""
    if not isinstance(value, np.ndarray | float):
        return False
    return not np.abs(value).max(initial=0.0) <= HUGE
