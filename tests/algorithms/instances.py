"""Small federated problems with everything known about them, and a way to walk an algorithm round by round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dualfl.algorithms import Algorithm, Codec
from dualfl.engines import InProcess, Problem, run
from dualfl.engines.driver import Driver
from dualfl.objectives import LinearModel, Logistic, Objective, Quadratic
from dualfl.solvers import DampedNewton, GradientNorm, Solver, minimise
from dualfl.typing import Array


@dataclass(frozen=True, eq=False)
class Case:
    """A problem with its minimiser theta*, found by Newton's method on the pooled cost, and the Hessian there."""

    problem: Problem
    star: Array
    H: Array
    best: float  # E*
    first: float  # E(0)

    def error(self, theta: Array) -> float:
        """|theta - theta*|^2 in the Hessian's norm, relative to the start."""
        e = theta - self.star
        return float(e @ self.H @ e / (self.star @ self.H @ self.star))

    def energy_error(self, theta: Array) -> float:
        return (self.problem.value(theta) - self.best) / (self.first - self.best)

    def gradients(self) -> Array:
        """f_j'(theta*) of every client; their weighted mean is zero."""
        return np.stack([f.fresh().gradient(self.star) for f in self.problem.clients])

    @property
    def mu(self) -> float:
        return min(f.mu for f in self.problem.clients)

    @property
    def L(self) -> float:
        return max(f.L for f in self.problem.clients)


def case(clients: list[Objective], solver: Solver | None = None) -> Case:
    """Local problems are solved to rounding by Newton's method unless somebody asks for another solver."""
    problem = Problem(clients, solvers=DampedNewton() if solver is None else solver)
    E = problem.pooled
    star = minimise(E, solver=DampedNewton(), stop=GradientNorm(1e-13, cap=50)).x
    return Case(problem, star, E.hessian(star), E.value(star), E.value(np.zeros(E.d)))


def random_basis(rng: np.random.Generator, d: int) -> Array:
    return np.linalg.qr(rng.standard_normal((d, d)))[0]


@cache
def quad(N: int = 8, d: int = 20, kappa: float = 100.0) -> Case:
    """Quadratics, every one with its own eigenvectors and its own minimiser; both ends of [1, kappa] attained."""
    rng = np.random.default_rng(1)
    clients: list[Objective] = []
    for _ in range(N):
        Q, spectrum = random_basis(rng, d), np.exp(rng.uniform(0, np.log(kappa), d))
        spectrum[0], spectrum[-1] = 1.0, kappa
        A = (Q * spectrum) @ Q.T
        clients.append(Quadratic((A + A.T) / 2, A @ rng.standard_normal(d)))
    return case(clients)


@cache
def similar() -> Case:
    """Quadratics with nearly the same Hessian, kappa about 100."""
    rng = np.random.default_rng(2)
    N, d = 8, 20
    Q, spectrum = random_basis(rng, d), np.exp(np.linspace(np.log(3.0), np.log(96.0), d))
    clients: list[Objective] = []
    for _ in range(N):
        S = random_basis(rng, d)
        A = (Q * spectrum) @ Q.T + (S * rng.uniform(-2.0, 4.0, d)) @ S.T
        clients.append(Quadratic((A + A.T) / 2, A @ rng.standard_normal(d)))
    return case(clients)


@cache
def band(kappa: float) -> Case:
    """Quadratics with common eigenvectors: the pooled problem is as badly conditioned as the clients'."""
    rng = np.random.default_rng(3)
    N, d = 8, 20
    base = np.exp(np.linspace(0, np.log(kappa / 2), d))
    clients: list[Objective] = [
        Quadratic(np.diag(a := base * rng.uniform(1, 2, d)), a * rng.standard_normal(d)) for _ in range(N)
    ]
    return case(clients)


def logistic_clients(rows: list[int], d: int, mu: float, seed: int) -> list[Objective]:
    """Every client has its own mean of the features and its own direction of the labels; the largest L is 1."""
    rng = np.random.default_rng(seed)
    common, data = rng.standard_normal(d), []
    for n in rows:
        X = rng.standard_normal((n, d)) + rng.standard_normal(d)
        y = np.where(X @ (common + rng.standard_normal(d)) + rng.standard_normal(n) > 0, 1.0, -1.0)
        data.append((X, y))
    top = max(np.linalg.eigvalsh(X.T @ X / (4 * len(X)))[-1] for X, _ in data)
    scale = np.sqrt((1 - mu) / top)
    return [LinearModel(scale * X, y, Logistic(), ridge=mu) for X, y in data]


@cache
def logit() -> Case:
    return case(logistic_clients([40] * 8, 20, 0.01, seed=4))


@cache
def unequal() -> Case:
    return case(logistic_clients([10, 20, 30, 40, 60, 90, 140, 200], 20, 0.01, seed=5))


@cache
def tiny(N: int = 3, d: int = 3) -> Case:
    """Few enough clients and coordinates to run over all coins, subsets and permutations."""
    return quad(N, d, 10.0)


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
