"""Small federated problems with everything known about them, and a way to walk an algorithm round by round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Any

import numpy as np

import problems
from dualfl.algorithms import Algorithm, Codec
from dualfl.engines import InProcess, Problem, run
from dualfl.engines.driver import Driver
from dualfl.objectives import Objective, Quadratic
from dualfl.solvers import DampedNewton
from dualfl.typing import Array
from problems import Instance


class Case(Instance):
    """An instance and what rates are stated in."""

    @cached_property
    def first(self) -> float:
        return self.problem.value(np.zeros(self.problem.d))

    def energy_error(self, theta: Array) -> float:
        """E(theta) - E*, relative to the start at zero."""
        return (self.problem.value(theta) - self.energy) / (self.first - self.energy)

    def gradients(self) -> Array:
        """f_j'(theta*) of every client; their weighted mean is zero."""
        return np.stack([f.fresh().gradient(self.star) for f in self.problem.clients])

    @property
    def mu(self) -> float:
        return min(f.mu for f in self.problem.clients)

    @property
    def L(self) -> float:
        return max(f.L for f in self.problem.clients)


def case(known: Instance) -> Case:
    return Case(known.problem, known.star, known.energy, known.hessian)


@cache
def quad() -> Case:
    return case(problems.quad())


@cache
def qsim() -> Case:
    return case(problems.qsim())


@cache
def band(kappa: float) -> Case:
    return case(problems.band(kappa))


@cache
def logit() -> Case:
    return case(problems.logit())


@cache
def unequal() -> Case:
    return case(problems.unequal())


@cache
def mild() -> Case:
    """Unequal clients with kappa = 10, for methods that are slow or costly beyond."""
    return case(problems.linear([10, 60, 25, 15], seed=5, mu=0.1))


@cache
def tiny(N: int = 3, d: int = 3) -> Case:
    """Quadratics, few enough clients and coordinates to run over all coins, subsets and permutations."""
    rng = np.random.default_rng(6)
    clients: list[Objective] = []
    for _ in range(N):
        Q, spectrum = np.linalg.qr(rng.standard_normal((d, d)))[0], np.r_[1.0, 10.0, rng.uniform(1, 10, d - 2)]
        A = Q * spectrum @ Q.T
        clients.append(Quadratic((A + A.T) / 2, A @ rng.standard_normal(d)))
    return case(problems.solved(Problem(clients, solvers=DampedNewton())))


class Walk:
    """A run, one round at a time, with the states of server and clients in the open."""

    def __init__(
        self,
        problem: Problem,
        algorithm: Algorithm,
        *,
        seed: int = 0,
        codec: Codec | None = None,
        start: Array | None = None,
    ) -> None:
        self.engine = InProcess(problem, algorithm, seed=seed, codec=codec, start=start, threads=1)
        self.algorithm = self.engine.algorithm
        self.driver = Driver(self.algorithm, self.engine.place)
        while not self.driver.started:
            self.exchange()

    def exchange(self) -> None:
        asked = self.driver.ask()
        if asked is not None:
            self.driver.tell(self.engine.exchange(self.algorithm, self.driver, asked))

    def round(self) -> Any:
        """One more round; the server's state after it."""
        before = self.driver.round
        while self.driver.round == before:
            self.exchange()
        return self.driver.state

    def states(self, rounds: int) -> Iterator[Any]:
        for _ in range(rounds):
            yield self.round()

    @property
    def server(self) -> Any:
        return self.driver.state

    @property
    def locals(self) -> list[Any]:
        return [silo.state for silo in self.engine.silos]

    @property
    def model(self) -> Array:
        theta, origin = self.algorithm.model(self.driver.state), self.engine.origin
        return theta if origin is None else theta + origin

    def stacked(self, field: str) -> Array:
        """One field of all clients, a row each."""
        return np.stack([getattr(local, field) for local in self.locals])

    def mean(self, rows: Array) -> Array:
        """The weighted mean over clients, as the engine weighs them for this algorithm."""
        return np.asarray(self.engine.weights) @ rows


def models(problem: Problem, algorithm: Algorithm, rounds: int, **options: Any) -> Array:
    """theta^(1), ..., theta^(rounds), a row each."""
    walk = Walk(problem, algorithm, **options)
    return np.stack([walk.model for _ in walk.states(rounds)])


def rounds_to(
    target: float,
    here: Case,
    algorithm: Algorithm,
    budget: int,
    error: Callable[[Array], float] | None = None,
    **how: Any,
) -> float:
    """The first round whose error is at most `target`; inf if there is none within the budget."""
    measured = here.error if error is None else error
    found = run(
        here.problem,
        algorithm,
        rounds=budget,
        evaluate=False,
        threads=1,
        stop=lambda row, theta: measured(theta) <= target,
        **how,
    )
    return found.rounds if found.stopped == "tol" else np.inf


def close(a: Array, b: Array, tolerance: float = 1e-8, scale: Array | None = None) -> None:
    """Equal up to `tolerance`, relative to the largest number in b, or in `scale`."""
    size = max(float(np.abs(b if scale is None else scale).max()), 1e-300)
    assert float(np.abs(a - b).max()) <= tolerance * size
