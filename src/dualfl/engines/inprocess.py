"""Runs an algorithm in this process, clients in threads.

The native kernels release the GIL, so threads are enough. Every client is worked on by one thread at a time, uploads
are added in client order, and randomness is keyed: the iterates do not depend on the number of threads.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from dualfl import kernels
from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.contract import Algorithm, Ask, Constants
from dualfl.algorithms.messages import BLOCK, floats, mean
from dualfl.engines.client import ClientMemory, Envelope, LocalCost, Reply, Work, answer, measured
from dualfl.engines.engine import Engine
from dualfl.engines.exchanges import Ahead, Gathered
from dualfl.engines.request import check_threads
from dualfl.engines.result import Account, Result
from dualfl.engines.room import SAMPLE, check_room
from dualfl.engines.suiting import bound, check_fit
from dualfl.engines.survey import untilted
from dualfl.objectives.average import common_ridge
from dualfl.objectives.base import Objective
from dualfl.objectives.linear import LinearModel
from dualfl.problem import Problem
from dualfl.typing import Array

__all__ = ["Account", "InProcess", "Result", "bind"]

WORTH_A_THREAD = 2e-3  # seconds that an exchange must take before threads pay
HELD = 1 << 23  # numbers in uploads that wait to be added up
ENTRIES = 1 << 15  # of a client's rows, times its outputs: with fewer the time goes to the interpreter, one at a time


class InProcess(Engine):
    """One run: an algorithm bound to the clients of a problem.

    Parameters
    ----------
    problem : Problem
        The clients and their penalty.
    algorithm : Algorithm
        What runs on them.
    seed : int, default 0
        The seed of all draws.
    threads : int, optional
        How many clients compute at once; None: as many as pay.
    codec : Codec, optional
        What compresses uploads.
    start : ndarray, optional
        The first model.
    constants : Constants, optional
        mu, L and others, if they are known already.
    settle : bool, default True
        Whether defaults from theory are filled in.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> dualfl.engines.InProcess(problem, dualfl.DualFL()).algorithm.name
    'dualfl'
    """

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
        settle: bool = True,
    ) -> None:
        """`settle=False`: whoever drives this engine lets it settle, by `settling`."""
        check_fit(problem.clients, problem.penalty, algorithm, codec)
        self.problem = problem
        check_threads(threads)
        self.threads = kernels.get_threads() if threads is None else threads
        super().__init__(
            algorithm, problem.clients[0], problem.penalty, problem.sizes, seed=seed, codec=codec, start=start
        )
        self.costs = [LocalCost(f, solver, self.origin) for f, solver in zip(bind(problem, algorithm), problem.solvers)]
        check_convexity(self.costs, algorithm)
        self._pace = 0.0  # seconds of the last exchange
        self._pool: ThreadPoolExecutor | None = None
        self._divisible = sum(work_of(f) for f in problem.clients) >= ENTRIES * problem.N
        if settle:
            self.settle(algorithm, constants)

    def gather(self, algorithm: Algorithm, asked: Ask, request: Envelope, clients: Sequence[int]) -> Gathered:
        costs, silos, weights, place = self.costs, self.silos, self.weights, self.place

        def one(j: int) -> tuple[Reply, ClientMemory]:
            silo = silos[j]
            with costs[j].until(self.deadline):
                return answer(algorithm, costs[j], silo, request, place, j, weights[j], silo.answered)

        began = time.perf_counter()
        running = self.running(asked, request, clients)
        wire: Mapping[str, Any] = {}
        works: list[Work] = []
        moved: list[ClientMemory] = []
        weight = 0
        # Uploads are added as they come, in THE order, and let go: only a few are held together.
        first, at_once = 0, 1
        while first < len(clients):
            some = clients[first : first + at_once]
            answers = self._each(one, some)
            for j, (reply, silo) in zip(some, answers):
                running.add(j, reply.wire)
                works.append(reply.work)
                weight += floats(reply.wire)
                moved.append(replace(silo, reply=None))  # nobody asks again here
            wire = wire or answers[0][0].wire
            first += len(some)
            if first - len(some) < SAMPLE <= first < len(clients):
                check_room(algorithm.name, [silo.state for silo in moved[:SAMPLE]], len(clients))
            at_once = self._at_once(floats(wire))
            del answers, reply, silo  # or they would be there while the next ones come
        self._pace = time.perf_counter() - began
        return Gathered(running.result(), wire, works, weight, self.moved(clients, moved))

    def _each(self, work: Callable[[int], Any], clients: Sequence[int]) -> list[Any]:
        few = self.threads == 1 or len(clients) == 1 or not self._divisible
        if few or self._pace < WORTH_A_THREAD:
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

    def _at_once(self, weight: int) -> int:
        """How many clients may answer before their uploads of so many numbers are added up."""
        return 1 if self.threads == 1 else int(np.clip(HELD // max(1, weight), self.threads, 8 * BLOCK * self.threads))

    def mean_value(self, theta: Array, ahead: Ahead | None) -> tuple[float, float]:
        values = self._each(
            lambda j: measured(self.costs[j].objective, theta, self.costs[j].remembers), range(self.place.N)
        )
        m = mean(values, range(self.place.N), self.sizes, self.mass)
        return float(m.E), float(m.off)

    @property
    def solvers(self) -> list[str]:
        return sorted({repr(cost.solver) for cost in self.costs})

    def fingerprint(self) -> str:
        return fingerprint(self.problem, self.sizes)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None


def work_of(f: Objective) -> float:
    """Multiply-adds of a pass over a client's rows; infinite for a cost of which that is not known."""
    base = untilted(f)
    return float(base.design.entries * base.k) if isinstance(base, LinearModel) else np.inf


def bind(problem: Problem, algorithm: Algorithm) -> list[Objective]:
    """The clients' objectives as this algorithm wants them."""
    unequal = algorithm.uniform and len(set(problem.sizes)) > 1
    ridge = common_ridge(problem.clients, problem.weights) if unequal else None
    return [bound(f, w, problem.N, algorithm, problem.penalty, ridge) for f, w in zip(problem.clients, problem.weights)]


def check_convexity(costs: list[LocalCost], algorithm: Algorithm) -> None:
    """Refuse costs without strong convexity, the penalty's included, where the algorithm asks for it."""
    if algorithm.strongly_convex:
        for cost in costs:
            cost.objective.require_strong_convexity(algorithm.name)


def fingerprint(problem: Problem, sizes: Sequence[float]) -> str:
    """The clients' values at a fixed point, to ten digits, and their sizes, as a digest."""
    x = np.cos(np.arange(problem.d)) / 10
    values = [f"{f.fresh().value(x):.10e} {m:.10e}" for f, m in zip(problem.clients, sizes)]
    return digest([v.encode() for v in values])


def digest(parts: list[bytes]) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
