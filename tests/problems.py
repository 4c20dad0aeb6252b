"""Small federated problems with their exact minimisers, shared by the tests of engines and algorithms.

    QUAD     quadratics, every client with an eigenbasis of its own, all spectra reach from 1 to 100
    LOGIT    binary logistic loss, 40 rows a client, features and labels shifted from client to client, L = 1, mu = 0.01
    UNEQUAL  the same with 10 to 200 rows a client
    QSIM     quadratics that are much alike: |hess f_j - hess E| is about 4, L = 100
    BAND     quadratics with a common eigenbasis, curvatures between once and twice a base from 1/kappa to 1

All have N = 8 clients, and d = 20. `digits` is softmax regression on real images.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn.datasets import load_digits

from dualfl.engines import Problem
from dualfl.objectives import LinearModel, Logistic, Objective, Quadratic, Softmax
from dualfl.solvers import DampedNewton, GradientNorm, minimise
from dualfl.typing import Array

N, D = 8, 20


@dataclass(frozen=True)
class Instance:
    """A problem, its minimiser, E at the minimiser, and the Hessian there."""

    problem: Problem
    star: Array
    energy: float
    hessian: Array

    def error(self, theta: Array) -> float:
        """|theta - theta*|^2 in the norm of the Hessian, relative to that of the start at zero."""
        off = theta - self.star
        return float(off @ self.hessian @ off / (self.star @ self.hessian @ self.star))


def solved(problem: Problem) -> Instance:
    """The instance of a smooth problem, by Newton's method on the pooled cost."""
    E = problem.pooled
    star = minimise(E, solver=DampedNewton(), stop=GradientNorm(1e-13, cap=60)).x
    return Instance(problem, star, E.value(star), E.hessian(star))


def quadratics(hessians: list[Array], rng: np.random.Generator) -> Instance:
    clients: list[Objective] = [Quadratic((H + H.T) / 2, H @ rng.standard_normal(D)) for H in hessians]
    return solved(Problem(clients, solvers=DampedNewton()))


def basis(rng: np.random.Generator) -> Array:
    return np.linalg.qr(rng.standard_normal((D, D)))[0]


@cache
def quad() -> Instance:
    rng = np.random.default_rng(1)
    hessians = []
    for _ in range(N):
        Q, spectrum = basis(rng), 100 ** np.r_[0.0, 1.0, rng.uniform(0, 1, D - 2)]
        hessians.append(Q * spectrum @ Q.T)
    return quadratics(hessians, rng)


@cache
def qsim() -> Instance:
    rng = np.random.default_rng(2)
    Q = basis(rng)
    hessians = []
    for _ in range(N):
        own = rng.standard_normal((D, D))
        hessians.append(Q * np.geomspace(4, 96, D) @ Q.T + 3.9 * (own + own.T) / np.linalg.norm(own + own.T, 2))
    return quadratics(hessians, rng)


@cache
def band(kappa: float = 1e2) -> Instance:
    rng = np.random.default_rng(3)
    Q, base = basis(rng), np.geomspace(2 / kappa, 1, D) / 2
    return quadratics([Q * (base * rng.uniform(1, 2, D)) @ Q.T for _ in range(N)], rng)


def rows(rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Rows and labels of one client; no two clients draw from the same distribution."""
    X = rng.standard_normal((count, D)) + rng.standard_normal(D)
    y = np.where(X @ rng.standard_normal(D) + rng.standard_normal(count) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


def linear(counts: list[int], seed: int, mu: float = 0.01) -> Instance:
    """Logistic regression, features scaled so that the largest L_j is 1."""
    rng = np.random.default_rng(seed)
    data = [rows(rng, count) for count in counts]
    top = max(np.linalg.norm(X, 2) ** 2 / len(X) for X, _ in data)
    scale = np.sqrt((1 - mu) * 4 / top)
    clients: list[Objective] = [LinearModel(scale * X, y, Logistic(), ridge=mu) for X, y in data]
    return solved(Problem(clients, solvers=DampedNewton()))


@cache
def logit() -> Instance:
    return linear([40] * N, 4)


@cache
def unequal() -> Instance:
    return linear([10, 200, 35, 60, 120, 15, 80, 25], 5)


@cache
def digits(clients: int = 8, ridge: float = 1e-2, count: int = 800, every: int = 4) -> Instance:
    """Softmax regression on `count` images of handwritten digits, of which every so many pixels are used."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:count, ::every] / 16, y[:count]
    parts = np.array_split(np.arange(count), clients)
    models: list[Objective] = [LinearModel(X[i], y[i], Softmax(10), ridge=ridge, intercept=True) for i in parts]
    return solved(Problem(models))


SMOOTH = {"quad": quad, "logit": logit, "unequal": unequal, "qsim": qsim, "band": band}
