"""Random linear models with everything known about them, and the losses written out once more.

The formulas here are the textbook ones and share no line with the package.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from dualfl.objectives import (
    Absolute,
    CLogLog,
    EpsilonInsensitive,
    Gamma,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    Loss,
    NegativeBinomial,
    Poisson,
    Quantile,
    Softmax,
    Squared,
    SquaredHinge,
    Tweedie,
)

few = settings(max_examples=3, deadline=None, derandomize=True, database=None)
some = settings(max_examples=25, deadline=None, derandomize=True, database=None)

SMOOTH: list[Loss] = [
    Softmax(2),
    Softmax(4),
    Logistic(),
    Squared(),
    Huber(0.7),
    Poisson(),
    SquaredHinge(),
    Gamma(),
    Tweedie(1.4),
    NegativeBinomial(0.6),
    CLogLog(),
]
KINKED: list[Loss] = [Hinge(), Absolute(), Quantile(0.3), EpsilonInsensitive(0.2)]
LOSSES = SMOOTH + KINKED
BOUNDED = [loss for loss in SMOOTH if not isinstance(loss, (Poisson, Gamma, Tweedie, CLogLog))]

STORED = ["float64", "float32", "uint8", "F-ordered", "csr float64", "csr float32", "csr uint8", "csr_matrix"]


def formula(loss: Loss, Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """l(y_i, z_i) for every row."""
    if isinstance(loss, Softmax):
        return logsumexp(Z, axis=1) - Z[np.arange(len(y)), y.astype(int)]
    z = Z[:, 0]
    r = z - y
    if isinstance(loss, Logistic):
        return np.logaddexp(0.0, -y * z)
    if isinstance(loss, Squared):
        return r**2 / 2
    if isinstance(loss, Huber):
        return np.where(np.abs(r) <= loss.delta, r**2 / 2, loss.delta * np.abs(r) - loss.delta**2 / 2)
    if isinstance(loss, Poisson):
        return np.exp(z) - y * z
    if isinstance(loss, SquaredHinge):
        return np.maximum(0, 1 - y * z) ** 2
    if isinstance(loss, Gamma):
        return z + y / np.exp(z)
    if isinstance(loss, Tweedie):
        mean, p = np.exp(z), loss.power
        return y * mean ** (1 - p) / (p - 1) + mean ** (2 - p) / (2 - p)
    if isinstance(loss, NegativeBinomial):
        return (y + 1 / loss.dispersion) * np.log1p(loss.dispersion * np.exp(z)) - y * z
    if isinstance(loss, CLogLog):
        m = np.exp(z)
        return np.where(y > 0, np.where(m > 700, 0.0, -np.log(-np.expm1(-np.maximum(m, 1e-300)))), m)
    if isinstance(loss, Hinge):
        return np.maximum(0, 1 - y * z)
    if isinstance(loss, Absolute):
        return np.abs(r)
    if isinstance(loss, Quantile):
        return loss.tau * np.maximum(-r, 0) + (1 - loss.tau) * np.maximum(r, 0)
    assert isinstance(loss, EpsilonInsensitive)
    return np.maximum(0, np.abs(r) - loss.eps)


def distance_to_kink(loss: Loss, Z: np.ndarray, y: np.ndarray) -> float:
    """How far the predictors are from where l or l' is not differentiable."""
    z = Z[:, 0]
    if isinstance(loss, Huber):
        return float(np.abs(np.abs(z - y) - loss.delta).min())
    if isinstance(loss, (SquaredHinge, Hinge)):
        return float(np.abs(1 - y * z).min())
    if isinstance(loss, (Absolute, Quantile)):
        return float(np.abs(z - y).min())
    if isinstance(loss, EpsilonInsensitive):
        return float(np.abs(np.abs(z - y) - loss.eps).min())
    return np.inf


def random_targets(loss: Loss, n: int, rng: np.random.Generator) -> np.ndarray:
    if isinstance(loss, Softmax):
        return rng.integers(0, loss.classes, n)
    if isinstance(loss, (Logistic, SquaredHinge, Hinge, CLogLog)):
        return rng.choice([-1, 1], n)
    if isinstance(loss, (Poisson, NegativeBinomial, Tweedie)):
        return rng.poisson(2.0, n)
    if isinstance(loss, Gamma):
        return rng.gamma(2.0, 1.0, n)
    return rng.normal(0, 1.5, n)


def stored(kind: str, n: int, features: int, rng: np.random.Generator) -> tuple[Any, float]:
    """Features in one of the types that the models take, and a scale to go with them."""
    if "uint8" in kind:
        X: Any = rng.integers(0, 256, (n, features)).astype(np.uint8)
        scale = 1 / 255
    else:
        X = rng.normal(size=(n, features)).astype(np.float32 if "float32" in kind else np.float64)
        scale = float(rng.choice([1.0, -0.5, 2.0]))
    if kind == "F-ordered":
        return np.asfortranarray(X), scale
    if kind.startswith("csr"):
        X = np.where(rng.random(X.shape) < 0.5, X, 0).astype(X.dtype)
        return (sp.csr_matrix if kind == "csr_matrix" else sp.csr_array)(X), scale
    return X, scale


@dataclass
class Case:
    """A linear model f with a point, and the dense float64 matrix that it stands for."""

    f: LinearModel
    loss: Loss
    X: Any  # as it was given
    rows: np.ndarray  # scale * X, with the ones of an intercept
    y: np.ndarray
    s: np.ndarray
    ridge: float
    penalised: np.ndarray  # 0 where a coordinate is free
    x: np.ndarray
    rng: np.random.Generator = field(repr=False)

    def predictors(self, x: np.ndarray) -> np.ndarray:
        return self.rows @ x.reshape(self.rows.shape[1], -1)

    def value(self, x: np.ndarray) -> float:
        data = self.s @ formula(self.loss, self.predictors(x), self.y)
        return float(data + self.ridge / 2 * np.sum(self.penalised * x**2))

    def kink(self, x: np.ndarray) -> float:
        return distance_to_kink(self.loss, self.predictors(x), self.y)

    def direction(self) -> np.ndarray:
        return self.rng.normal(size=self.f.d)


def build(
    loss: Loss,
    kind: str = "float64",
    n: int = 7,
    features: int = 4,
    seed: int = 0,
    intercept: Any = False,
    weighted: bool = False,
    ridge: float = 0.3,
) -> Case:
    rng = np.random.default_rng(seed)
    X, scale = stored(kind, n, features, rng)
    y = random_targets(loss, n, rng)
    w = rng.random(n) + (rng.random(n) < 0.5) if weighted else None
    f = LinearModel(X, y, loss, ridge, weights=w, intercept=intercept, scale=scale)
    rows = scale * np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    if intercept:
        rows = np.hstack([rows, np.ones((n, 1))])
    D, k = rows.shape[1], loss.outputs
    penalised = np.ones((D, k))
    if intercept == "free":
        penalised[-1] = 0
    s = np.full(n, 1 / n) if w is None else w / w.sum()
    x = rng.normal(0, 0.5, D * k)
    return Case(f, loss, X, rows, np.asarray(y, float), s, ridge, penalised.ravel(), x, rng)


def cases(loss: Loss, kind: str) -> st.SearchStrategy[list[Case]]:
    """One model for each intercept, with and without weights in turn."""

    def trio(n: int, features: int, seed: int, weighted: bool, ridge: float) -> list[Case]:
        return [
            build(loss, kind, n, features, seed + i, intercept, weighted ^ (i == 1), ridge)
            for i, intercept in enumerate([False, True, "free"])
        ]

    return st.builds(
        trio,
        n=st.sampled_from([6, 1, 2, 12]),
        features=st.sampled_from([4, 1, 3, 5]),
        seed=st.integers(0, 10**6),
        weighted=st.booleans(),
        ridge=st.sampled_from([0.3, 0.0]),
    )


def differences(fun: Any, x: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """The gradient (or the transposed Jacobian) of fun by central differences."""
    return np.array([(fun(x + h * e) - fun(x - h * e)) / (2 * h) for e in np.eye(len(x))])


def names(items: list[Any]) -> list[str]:
    return [repr(item) for item in items]
