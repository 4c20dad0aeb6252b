"""Small families of problems on which the statements can be seen, their exact local solver and their solutions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dualfl.engines import Problem
from dualfl.errors import NotSupported
from dualfl.objectives import Absolute, Hinge, LinearModel, Logistic, Objective, Quadratic, Softmax, Tilted
from dualfl.solvers import SDCA, DampedNewton, GradientNorm, PrimalDualGap, Solution, Solver, StopRule, Watch
from dualfl.typing import Array


@dataclass(frozen=True)
class Direct(Solver):
    """Quadratics by an inverse that is computed once for each client, and one step of refinement."""

    inverses: dict[tuple[int, float], tuple[Array, Array]] = field(default_factory=dict, repr=False, compare=False)

    def check(self, f: Objective) -> None:
        if not isinstance(f.base if isinstance(f, Tilted) else f, Quadratic):
            raise NotSupported(f"Direct solves quadratics, and {f.name} is none.")

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        watch = Watch(f, stop)
        base, a, c = (f.base, float(f.a), f.c) if isinstance(f, Tilted) else (f, 0.0, np.zeros(f.d))
        assert isinstance(base, Quadratic) and isinstance(base.A, np.ndarray)
        A = base.A
        if (id(A), a) not in self.inverses:
            inverse = np.linalg.inv(A + a * np.eye(f.d))
            self.inverses[id(A), a] = np.asarray(inverse, dtype=np.float64), A  # A stays alive, and with it its id
        inverse = self.inverses[id(A), a][0]
        b = base.b + c
        x = inverse @ b
        x = x - inverse @ (A @ x + a * x - b)
        Ax = A @ x + a * x
        watch.iterations = 1
        return watch.solution(x, Ax - b, float(x @ Ax / 2 - b @ x) + base.constant)


@dataclass(frozen=True)
class Kinks(Solver):
    """|x - b|_1 + (m/2)|x|^2 - <c, x> in closed form: (c - 1)/m above b, (c + 1)/m below, b between."""

    def check(self, f: Objective) -> None:
        model = f.base if isinstance(f, Tilted) else f
        if not (isinstance(model, LinearModel) and isinstance(model.loss, Absolute)):
            raise NotSupported(f"Kinks solves the problems of `medians`, and {f.name} is none.")

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        model, c = (f.base, f.c) if isinstance(f, Tilted) else (f, np.zeros(f.d))
        b = kinks(model)
        x = np.maximum((c - 1) / f.mu, np.minimum((c + 1) / f.mu, b))
        watch = Watch(f, stop)
        watch.iterations = 1
        return watch.solution(x, np.zeros(f.d), float(np.abs(x - b).sum() + f.mu / 2 * (x @ x) - c @ x))


def kinks(f: Objective) -> Array:
    """The b of a client of `medians`."""
    model = f.base if isinstance(f, Tilted) else f
    assert isinstance(model, LinearModel)
    return model.y / model.d


def quadratics(N: int, kappa: float, *, d: int = 12, seed: int = 0) -> Problem:
    """mu = 1, L = kappa. One eigenbasis, curvatures that differ between clients by up to a factor of two.

    Both the clients and their mean are badly conditioned, and clients disagree about the steepest directions, which
    are DualFL's slow ones: the rates of the theorems can be seen.
    """
    rng = np.random.default_rng(seed)
    base = np.geomspace(1.0, kappa / 2, d)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    clients = []
    for _ in range(N):
        h = base * rng.uniform(1.0, 2.0, d)
        h[0], h[-1] = 1.0, rng.choice([kappa / 2, kappa])
        clients.append((h, rng.standard_normal(d) * np.sqrt(base)))
    clients[0][0][-1], clients[-1][0][-1] = kappa, kappa / 2
    costs = [Quadratic((Q * h) @ Q.T, Q @ b, mu=1.0, L=kappa) for h, b in clients]
    return Problem(costs, solvers=Direct())


def logistic(N: int, *, n: int = 30, d: int = 6, mu: float = 0.02, seed: int = 0) -> Problem:
    """Binary logistic regression, clients with shifted features and shares of labels."""
    rng = np.random.default_rng(seed)
    clients = []
    for _ in range(N):
        X = rng.standard_normal((n, d)) + 0.7 * rng.standard_normal(d)
        y = np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0, 1.0, -1.0)
        clients.append(LinearModel(X, y, Logistic(), ridge=mu))
    return Problem(clients, solvers=DampedNewton())


def softmax(N: int, *, n: int = 24, d: int = 4, mu: float = 0.05, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    clients = [
        LinearModel(rng.standard_normal((n, d)), rng.integers(0, 3, n).astype(float), Softmax(3), ridge=mu)
        for _ in range(N)
    ]
    return Problem(clients, solvers=DampedNewton())


def medians(N: int, *, d: int = 12, mu: float = 0.3, seed: int = 0) -> Problem:
    """f_j(x) = |x - b_j|_1 + (mu/2)|x|^2: as nonsmooth as can be, with local solves in closed form."""
    rng = np.random.default_rng(seed)
    centre = 1.5 * rng.standard_normal(d)
    clients = [
        LinearModel(d * np.eye(d), d * (centre + rng.standard_normal(d)), Absolute(), ridge=mu) for _ in range(N)
    ]
    return Problem(clients, solvers=Kinks())


def median_solution(problem: Problem) -> Array:
    """The minimiser of a `medians` problem: in each coordinate a kink, or a stationary point between two."""
    mu, w = problem.clients[0].mu, np.array(problem.weights)
    theta = np.empty(problem.d)
    for i, b in enumerate(np.array([kinks(f) for f in problem.clients]).T):
        slopes = np.r_[0.0, 2 * np.cumsum(w[np.argsort(b)])] - 1
        candidates = np.concatenate([b, -slopes / mu] if mu > 0 else [b])
        values = np.abs(candidates[:, None] - b) @ w + mu / 2 * candidates**2
        theta[i] = candidates[np.argmin(values)]
    return theta


def hinge(N: int, *, n: int = 40, d: int = 8, mu: float = 0.05, seed: int = 0) -> Problem:
    """Support vector machines on overlapping classes."""
    rng = np.random.default_rng(seed)
    clients = []
    for _ in range(N):
        y = rng.choice([-1.0, 1.0], n)
        X = rng.standard_normal((n, d)) + 0.5 * y[:, None] * np.r_[np.ones(2), np.zeros(d - 2)]
        clients.append(LinearModel(X + 0.5 * rng.standard_normal(d), y, Hinge(), ridge=mu))
    return Problem(clients, solvers=SDCA())


def pooled_rows(problem: Problem) -> LinearModel:
    """All rows of equal clients in one linear model."""
    parts = [f for f in problem.clients if isinstance(f, LinearModel)]
    assert len(parts) == problem.N, "all clients have rows"
    X = np.vstack([f.design.X for f in parts])
    return LinearModel(X, np.concatenate([f.y for f in parts]), parts[0].loss, ridge=parts[0].ridge)


def solution(problem: Problem) -> Array:
    """theta*, to rounding."""
    first = problem.clients[0]
    model = first.base if isinstance(first, Tilted) else first
    if isinstance(model, LinearModel) and isinstance(model.loss, Absolute):
        return median_solution(problem)
    if "dual" in first.offers:
        return SDCA().solve(pooled_rows(problem), None, PrimalDualGap(1e-15, cap=3000)).x
    return DampedNewton().solve(problem.pooled, None, GradientNorm(0.0)).x
