"""Runs an algorithm in this process, clients in threads.

The native kernels release the GIL, so threads are enough. Every client is worked on by one thread at a time, uploads
are added in client order, and randomness is keyed: the iterates do not depend on the number of threads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from dualfl import kernels
from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.contract import Algorithm, Ask, Constants, Place, bad_answer
from dualfl.algorithms.messages import floats, largest, mean, not_finite
from dualfl.engines.client import Envelope, LocalCost, Reply, Silo, answer
from dualfl.engines.driver import Driver
from dualfl.engines.history import History
from dualfl.engines.problem import Problem
from dualfl.engines.survey import Survey
from dualfl.errors import Diverged, InputError, NotSupported
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalised
from dualfl.typing import Array, frozen

WORTH_A_THREAD = 2e-3  # seconds that an exchange must take before threads pay


class Account(NamedTuple):
    """What a run has used up, kept by the engine and by nobody else."""

    exchanges: int = 0
    floats_up: int = 0
    floats_down: int = 0
    local_gradients: float = 0.0
    seconds: float = 0.0
    iterations: tuple[int, ...] = ()  # of the local solver of every client, in this round
    capped: int = 0  # local solves of this round that ended at their cap


@dataclass(frozen=True)
class Result:
    """What a run gives back.

    theta : the model with the lowest energy seen (the last one, if energies were not evaluated).
    certificate : proven bound of E(theta) - E*, or None; then `certificate_reason` says why.
    stopped : why the run ended: "tol" (also by `stop`), "rounds", "time", "interrupted" or "diverged".
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
        start = None if start is None else check_start(start, problem.d)
        self.origin = None if algorithm.warm else start
        self.sizes = [1.0] * problem.N if algorithm.uniform else problem.sizes
        self.mass = sum(self.sizes)
        self.weights = [size / self.mass for size in self.sizes]
        self.costs = [LocalCost(f, solver, self.origin) for f, solver in zip(bind(problem, algorithm), problem.solvers)]
        check_convexity(self.costs, algorithm)
        self.place = Place(
            int(seed),
            problem.N,
            problem.d,
            start=start if algorithm.warm else None,
            penalty=self._penalty() if algorithm.penalty == "server" and problem.penalty else None,
            codec=codec,
        )
        # What an exchange changes is replaced, never changed in place, so that a run can fall back to what it was.
        self.silos = [Silo() for _ in self.costs]
        self.account = Account(iterations=(0,) * problem.N)
        self.server_memory: dict[str, Array] = {}
        self._pace = 0.0  # seconds of the last exchange
        self._pool: ThreadPoolExecutor | None = None
        self.constants = self._survey(Survey(not algorithm.resolved)) if constants is None else constants
        self.algorithm = algorithm.resolve(self.constants)

    def _penalty(self) -> ServerPenalty:
        assert self.problem.penalty is not None
        return ServerPenalty(Penalised(self.problem.clients[0], self.problem.penalty), self.origin)

    def _survey(self, survey: Survey) -> Constants:
        before = self.silos, self.account
        driver = Driver(survey, self.place)
        asked = driver.ask()
        assert asked is not None
        driver.tell(self.exchange(survey, driver, asked))
        self.silos, self.account = before  # set-up is not a part of any round
        return survey.found(driver.state, self.place)

    # -- one exchange -----------------------------------------------------------------------------

    def exchange(self, algorithm: Algorithm, driver: Driver, asked: Ask) -> SimpleNamespace:
        """Carry one ask to the clients and their answers back. All clients move on, or none does."""
        clients = self._addressed(algorithm, asked)
        request = Envelope(driver.round, driver.exchange, asked.step, asked.message)
        costs, silos, weights, place = self.costs, self.silos, self.weights, self.place

        def one(j: int) -> tuple[Reply, Silo]:
            silo = silos[j]
            return answer(algorithm, costs[j], silo, request, place, j, weights[j], silo.answered)

        began = time.perf_counter()
        answers = self._each(one, clients)
        self._pace = time.perf_counter() - began
        replies = [reply for reply, _ in answers]
        means, memory = self._reduce(asked, request, clients, replies)
        self.account = self._booked(asked, clients, replies)
        self.server_memory = memory
        self.silos = moved = list(silos)
        for j, (_, silo) in zip(clients, answers):
            moved[j] = silo
        return means

    def _addressed(self, algorithm: Algorithm, asked: Ask) -> Sequence[int]:
        """The numbers of the clients that are asked, ascending."""
        if asked.to is None:
            return range(self.place.N)
        clients = sorted({int(j) for j in asked.to})
        if not clients or clients[0] < 0 or clients[-1] >= self.place.N:
            raise InputError(
                f"{algorithm.name} asks the clients {clients}; there are {self.place.N}, numbered from 0, "
                "and at least one must be asked."
            )
        if self.place.codec is not None and len(clients) < self.place.N:
            raise NotSupported(
                f"{algorithm.name} asks {len(clients)} of {self.place.N} clients, and compressed uploads are "
                "differences that everybody must send; run it without a codec."
            )
        return clients

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

    def _reduce(
        self, asked: Ask, request: Envelope, clients: Sequence[int], replies: list[Reply]
    ) -> tuple[SimpleNamespace, dict[str, Array]]:
        """What the round goes on with, and the server's memory of compressed uploads."""
        wires = [reply.wire for reply in replies]
        if asked.reduce == "max":
            if any(not_finite(value) for wire in wires for value in wire.values()):
                self._blame(request, clients, wires)
            return largest(wires), self.server_memory
        with np.errstate(over="ignore", invalid="ignore"):
            means = mean(wires, clients, self.sizes, self.mass)
        # Infinity and NaN survive any sum, so one look at the sum will do.
        if any(not_finite(value) for value in vars(means).values()):
            self._blame(request, clients, wires)
        if self.place.codec is None:
            return means, self.server_memory
        full, memory = self.place.codec.decode(vars(means), wires[0], self.server_memory)
        return SimpleNamespace(**full), memory

    def _blame(self, request: Envelope, clients: Sequence[int], wires: list[dict[str, Any]]) -> None:
        """One bad client must not poison the mean, and must be named."""
        for j, wire in zip(clients, wires):
            for name, value in wire.items():
                if not_finite(value):
                    at = self.place.of_client(request.round, request.exchange, j, self.weights[j], {})
                    raise InputError(bad_answer(at, name))
        raise Diverged(f"The sum of all answers overflows in round {request.round}; the iterates left every bound.")

    def _booked(self, asked: Ask, clients: Sequence[int], replies: list[Reply]) -> Account:
        """The account after this exchange."""
        before = self.account
        iterations = list(before.iterations)
        for j, reply in zip(clients, replies):
            iterations[j] += reply.work.iterations
        return before._replace(
            exchanges=before.exchanges + asked.answered,
            floats_up=before.floats_up + sum(floats(reply.wire) for reply in replies),
            floats_down=before.floats_down + len(clients) * floats(asked.message),
            local_gradients=before.local_gradients + sum(reply.work.gradients for reply in replies),
            iterations=tuple(iterations),
            capped=before.capped + sum(reply.work.capped for reply in replies),
        )

    # -- measuring --------------------------------------------------------------------------------

    def energy(self, theta: Array) -> float:
        """E(theta), added up as an upload would be."""
        values = self._each(lambda j: {"E": self.costs[j].objective.value(theta)}, range(self.place.N))
        means = mean(values, range(self.place.N), self.sizes, self.mass)
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
            f"{those(lambda a: a.penalty is not None)} take one."
        )
    if codec is not None and not algorithm.compresses:
        raise NotSupported(
            f"{algorithm.name} cannot carry a codec, because a client would have to keep what it released; "
            f"{those(lambda a: a.compresses)} can."
        )
    for j, f in enumerate(problem.clients):
        missing = [need for need in sorted(algorithm.needs - {"local"}) if need not in f.offers]
        if missing:
            raise NotSupported(
                f"{algorithm.name} is not compatible with client {j}'s {f.name}: it must offer a {missing[0]}; "
                f"{those(lambda a: a.penalty == 'client')} need none."
            )


def those(fit: Callable[[type[Algorithm]], bool]) -> str:
    """The names of the algorithms that would do, for a sentence."""
    from dualfl.algorithms.registry import ALGORITHMS

    names = [name for name, algorithm in ALGORITHMS.items() if fit(algorithm)]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def check_convexity(costs: list[LocalCost], algorithm: Algorithm) -> None:
    """Refuse costs without strong convexity, the penalty's included, where the algorithm asks for it."""
    if algorithm.strongly_convex:
        for cost in costs:
            cost.objective.require_strong_convexity(algorithm.name)


def check_start(start: Array, d: int) -> Array:
    if np.shape(start) != (d,):
        raise InputError(f"start must be a flat vector of {d} numbers, and its shape is {np.shape(start)}.")
    start = frozen(start)
    if not np.isfinite(start).all():
        raise InputError("start must be finite, and it contains NaN or infinity.")
    return start
