"""Runs an algorithm in this process, clients in threads.

The native kernels release the GIL, so threads are enough. Every client is worked on by one thread at a time, uploads
are added in client order, and randomness is keyed: the iterates do not depend on the number of threads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from dualfl import kernels
from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.contract import Algorithm, Ask, Constants, Place
from dualfl.algorithms.messages import floats, largest, mean
from dualfl.engines.client import Envelope, LocalCost, Reply, Silo, answer
from dualfl.engines.driver import Driver
from dualfl.engines.history import History
from dualfl.engines.problem import Problem
from dualfl.engines.survey import Survey
from dualfl.errors import InputError, NotSupported
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalised
from dualfl.typing import Array, frozen

WORTH_A_THREAD = 2e-3  # seconds that an exchange must take before threads pay


@dataclass
class Counters:
    """The account of a run, kept by the engine and by nobody else."""

    exchanges: int = 0
    floats_up: int = 0
    floats_down: int = 0
    local_gradients: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Result:
    """What a run gives back.

    theta : the model with the lowest energy seen (the last one, if energies were not evaluated).
    certificate : proven bound of E(theta) - E*, or None; then `certificate_reason` says why.
    stopped : why the run ended: "tol", "rounds", "time" or "interrupted".
    """

    theta: Array
    shape: tuple[int, ...]
    energy: float | None
    certificate: float | None
    certificate_reason: str
    stopped: str
    algorithm: Algorithm
    constants: Constants | None
    history: History
    state: Any
    silos: list[Silo] = field(repr=False)

    @property
    def model(self) -> Array:
        """theta in the shape of the model: one row a feature, one column a class."""
        return self.theta.reshape(self.shape)

    @property
    def rounds(self) -> int:
        return self.history[-1].round if len(self.history) else 0

    @property
    def capped(self) -> int:
        """How many local solves ended at their cap instead of their rule."""
        return sum(row.capped for row in self.history)


class InProcess:
    """One run: an algorithm bound to the clients of a problem."""

    def __init__(
        self,
        problem: Problem,
        algorithm: Algorithm,
        *,
        seed: int = 0,
        threads: int | None = None,
        codec: Codec | None = None,
        start: Array | None = None,
        constants: Constants | None = None,
    ) -> None:
        check_fit(problem, algorithm, codec)
        self.problem = problem
        self.threads = (os.cpu_count() or 1) if threads is None else threads
        if self.threads < 1:
            raise InputError(f"threads must be at least 1, and it is {threads}.")
        origin = None if start is None or algorithm.warm else frozen(start)
        if start is not None and np.shape(start) != (problem.d,):
            raise InputError(f"start must be a flat vector of {problem.d} numbers, and its shape is {np.shape(start)}.")
        self.origin = origin
        self.sizes = [1.0] * problem.N if algorithm.uniform else problem.sizes
        self.mass = sum(self.sizes)
        self.costs = [LocalCost(f, solver, origin) for f, solver in zip(bind(problem, algorithm), problem.solvers)]
        self.place = Place(
            seed,
            problem.N,
            problem.d,
            start=frozen(start) if algorithm.warm and start is not None else None,
            penalty=self._penalty() if algorithm.penalty == "server" and problem.penalty else None,
            codec=codec,
        )
        self.silos = [Silo() for _ in self.costs]
        self.counters = Counters()
        self.new_round()
        self.server_memory: dict[str, Array] = {}
        self._pace = 0.0  # seconds of the last exchange
        self._pool: ThreadPoolExecutor | None = None
        self.constants = constants
        if constants is None and not algorithm.resolved:
            self.constants = self._survey()
        self.algorithm = algorithm.resolve(self.constants or Constants(np.nan, np.nan, problem.N, problem.d))

    def _penalty(self) -> ServerPenalty:
        assert self.problem.penalty is not None
        return ServerPenalty(Penalised(self.problem.clients[0], self.problem.penalty), self.origin)

    def _survey(self) -> Constants:
        survey = Survey()
        driver = Driver(survey, self.place)
        silos, self.silos = self.silos, [Silo() for _ in self.costs]
        asked = driver.ask()
        assert asked is not None
        driver.tell(self.exchange(survey, driver, asked))
        self.silos, self.counters = silos, Counters()  # set-up is not a part of any round
        return survey.found(driver.state, self.place)

    def new_round(self) -> None:
        self.round_iterations = [0] * self.place.N  # M_n of every client
        self.round_capped = 0

    # -- one exchange -----------------------------------------------------------------------------

    def exchange(self, algorithm: Algorithm, driver: Driver, asked: Ask) -> SimpleNamespace:
        """Carry one ask to the clients and their answers back. All clients move on, or none does."""
        clients = list(range(self.place.N)) if asked.to is None else sorted(asked.to)
        request = Envelope(driver.round, driver.exchange, asked.step, asked.message)
        at = replace(self.place, round=driver.round, exchange=driver.exchange)

        def one(j: int) -> tuple[Reply, Silo]:
            here = replace(at, j=j, weight=self.sizes[j] / self.mass)
            return answer(algorithm, self.costs[j], self.silos[j], request, here, self.silos[j].answered)

        began = time.perf_counter()
        answers = self._each(one, clients)
        self._pace = time.perf_counter() - began
        for j, (_, silo) in zip(clients, answers):
            self.silos[j] = silo
        return self._gather(asked, clients, [reply for reply, _ in answers])

    def _each(self, work: Callable[[int], Any], clients: Sequence[int]) -> list[Any]:
        if self.threads == 1 or len(clients) == 1 or self._pace < WORTH_A_THREAD:
            return [work(j) for j in clients]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads)
        # A few pieces for each thread: few enough to cost nothing, many enough to even out.
        size = max(1, len(clients) // (8 * self.threads))
        pieces = [clients[i : i + size] for i in range(0, len(clients), size)]

        def several(piece: Sequence[int]) -> list[Any]:
            with kernels.threads(1):
                return [work(j) for j in piece]

        return [result for part in self._pool.map(several, pieces) for result in part]

    def _gather(self, asked: Ask, clients: list[int], replies: list[Reply]) -> SimpleNamespace:
        counters = self.counters
        counters.floats_down += len(clients) * floats(asked.message)
        counters.local_gradients += sum(reply.work.gradients for reply in replies)
        for j, reply in zip(clients, replies):
            self.round_iterations[j] += reply.work.iterations
        self.round_capped += sum(reply.work.capped for reply in replies)
        if not asked.answered:
            return SimpleNamespace(mass=1.0)
        counters.exchanges += 1
        counters.floats_up += sum(floats(reply.wire) for reply in replies)
        wires = [reply.wire for reply in replies]
        if asked.reduce == "max":
            return largest(wires)
        means = mean(wires, clients, self.sizes, self.mass)
        if self.place.codec is not None:
            full, self.server_memory = self.place.codec.decode(vars(means), self.server_memory)
            means = SimpleNamespace(**full)
        return means

    # -- measuring --------------------------------------------------------------------------------

    def energy(self, theta: Array) -> float:
        """E(theta), added up as an upload would be."""
        values = self._each(lambda j: {"E": self.costs[j].objective.value(theta)}, range(self.place.N))
        means = mean(values, list(range(self.place.N)), self.sizes, self.mass)
        penalty = self.problem.penalty
        if penalty is None or self.algorithm.penalty == "client":
            return float(means.E)
        return float(means.E) + Penalised(self.problem.clients[0], penalty).penalty_value(theta)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None


class ServerPenalty:
    """The common penalty as the server applies it, in coordinates around the origin."""

    def __init__(self, penalised: Penalised, origin: Array | None) -> None:
        self.penalised, self.origin = penalised, np.zeros(penalised.d) if origin is None else origin

    def prox(self, step: float, v: Array) -> Array:
        return self.penalised.prox(step, v + self.origin) - self.origin

    def value(self, x: Array) -> float:
        return self.penalised.penalty_value(x + self.origin)


def bind(problem: Problem, algorithm: Algorithm) -> list[Objective]:
    """The clients' objectives as this algorithm wants them, each with an account of its own."""
    bound = []
    for f, w in zip(problem.clients, problem.weights):
        mine = f.scaled(problem.N * w) if algorithm.uniform and problem.N * w != 1.0 else f.fresh()
        if problem.penalty is not None and algorithm.penalty == "client":
            mine = Penalised(mine, problem.penalty)
        bound.append(mine)
    return bound


def check_fit(problem: Problem, algorithm: Algorithm, codec: Codec | None) -> None:
    """Refuse, in one sentence, an algorithm that cannot solve this problem."""
    if problem.penalty is not None and algorithm.penalty is None:
        raise NotSupported(
            f"{algorithm.name} is for smooth problems, and this one has the penalty {problem.penalty}; "
            "dualfl handles it."
        )
    if codec is not None and not algorithm.compresses:
        raise NotSupported(
            f"{algorithm.name} cannot carry a codec: its clients do not keep what they released; dualfl can."
        )
    for j, f in enumerate(problem.clients):
        missing = [need for need in sorted(algorithm.needs - {"local"}) if need not in f.offers]
        if missing:
            raise NotSupported(
                f"{algorithm.name} is not compatible with client {j}'s {f.name}: it must offer a {missing[0]}; "
                "dualfl needs none."
            )
        if algorithm.strongly_convex:
            f.require_strong_convexity(algorithm.name)
