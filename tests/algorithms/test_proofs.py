"""Certificates are proofs also where floating point has few digits left: each of these once was 0, false or useless."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from dualfl.algorithms.cuts import Cut, penalised, proven
from dualfl.algorithms.dual.simplex import minimise_on_simplex
from dualfl.algorithms.few_exchanges import Auto
from dualfl.algorithms.registry import make
from dualfl.algorithms.server.gd import GradientDescent
from dualfl.engines import Problem, run
from dualfl.engines.result import Energy
from dualfl.engines.session import Best
from dualfl.estimators import LogisticRegression
from dualfl.objectives import (
    L1,
    Absolute,
    ElasticNetPenalty,
    GroupL2,
    Hinge,
    LinearModel,
    Logistic,
    Loss,
    NonNegative,
    Penalty,
    Poisson,
    Quadratic,
    Quantile,
    Softmax,
    Squared,
    SquaredHinge,
)

LD: Any = np.longdouble
RNG = np.random.default_rng(5)


def poisson_minimum(X: Any, y: Any, ridge: float) -> Any:
    """E* of pooled rows that count alike, by Newton's method in extended precision."""
    X, y, w = X.astype(LD), y.astype(LD), np.zeros(X.shape[1], dtype=LD)
    E = lambda v: (np.exp(X @ v) - y * (X @ v)).mean() + LD(ridge) / 2 * (v @ v)  # noqa: E731
    for _ in range(200):
        rate = np.exp(X @ w)
        g = X.T @ (rate - y) / len(y) + LD(ridge) * w
        H = (X.T * rate) @ X / len(y) + LD(ridge) * np.eye(len(w))
        step, t = np.linalg.solve(H.astype(float), g.astype(float)).astype(LD), LD(1)
        while not E(w - t * step) <= E(w) and t > 1e-12:
            t /= 2
        w = w - t * step
    return E(w)


def test_few_digits_are_left_beside_a_steep_gradient() -> None:
    """|g|^2/mu is 1e38 at the first trial: as E - |g|^2/(2 mu), E was lost, and the certificate 0."""
    clients = [LinearModel(np.ones((5, 1)), np.full(5, y), Poisson(), 0.01) for y in (50.0, 100.0)]
    result = run(Problem(clients), Auto(), tol=1e-6, rounds=50)
    star = float(poisson_minimum(np.ones((2, 1)), np.array([50.0, 100.0]), 0.01))
    assert result.certificate is not None and result.energy is not None
    assert 0 < result.energy - star + 1e-12 <= result.certificate + 1e-12
    assert result.stopped != "tol" or result.energy - star <= 1e-6 * abs(star)


@pytest.mark.parametrize("seed", range(12))
def test_counts_in_silos_sorted_by_their_targets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 2)) * [1.0, 3.0]
    y = np.sort(rng.poisson(np.exp(np.clip(2 * X[:, 0], -4, 4)) * 20).astype(float))
    clients = [LinearModel(X[rows], y[rows], Poisson(), 1e-3) for rows in np.array_split(np.arange(40), 4)]
    result = run(Problem(clients), Auto(), tol=1e-6, rounds=40)
    star = float(poisson_minimum(X, y, 1e-3))
    for row, best in zip(result.history, np.minimum.accumulate(result.history.column("energy"))):
        assert row.certificate is None or row.certificate >= best - star - 1e-13 * abs(star)


def test_columns_of_very_different_scales() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)) * [1e7, 1e-2, 1e-2]
    y = np.where(X[:, 1] * 100 + 0.7 * rng.standard_normal(60) > 0, 1, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=1e3, fit_intercept=False).fit(X, y, groups=np.arange(60) % 2)
        assert model.certificate_ is not None and model.certificate_ > 0
    ridge, best = 1 / (1e3 * 60), np.inf
    v, scale = np.zeros(3), np.array([1e7, 1e-2, 1e-2])
    unit = X / scale  # the same problem in other units, w = v/scale
    s = np.where(y == 1, 1.0, -1.0)
    for _ in range(60):  # Newton's method in units in which it is easy
        m = s * (unit @ v)
        p = 1 / (1 + np.exp(m))
        g = unit.T @ (-s * p) / 60 + ridge * v / scale**2
        H = (unit.T * (p * (1 - p))) @ unit / 60 + np.diag(ridge / scale**2)
        v = v - np.linalg.solve(H, g)
        best = min(best, float(np.logaddexp(0, -s * (unit @ v)).mean() + ridge / 2 * np.sum((v / scale) ** 2)))
    assert model.objective_ - best <= model.certificate_ + 1e-14


def test_bundle_with_columns_of_a_million() -> None:
    rng = np.random.default_rng(1)
    X, y = 1e6 * rng.standard_normal((40, 2)), rng.standard_normal(40)
    problem = Problem([LinearModel(X[i::2], y[i::2], Absolute(), 1e-6) for i in range(2)])
    result = run(problem, make("bundle"), tol=1e-6, rounds=15)
    unit = Problem([LinearModel(X[i::2] / 1e6, y[i::2], Absolute(), 1e-18) for i in range(2)])
    best = run(unit, make("fedipm"), rounds=60).energy  # the same problem in other units
    assert best is not None and result.energy is not None and result.certificate is not None
    assert result.certificate >= result.energy - best - 1e-9


def test_bundle_on_numbers_too_large_to_be_added_to_one() -> None:
    X, y = 1e-8 * RNG.standard_normal((20, 2)), 1e9 * RNG.standard_normal(20)
    result = run(Problem([LinearModel(X, y, Absolute(), 1e4)]), make("bundle"), rounds=5)
    assert result.certificate is not None and result.certificate > 0
    assert minimise_on_simplex(np.full((2, 2), np.inf), np.zeros(2)).sum() == pytest.approx(1.0)


# -- cuts ------------------------------------------------------------------------------------------------


def test_a_bound_from_cuts_is_below_the_minimum_at_every_scale() -> None:
    """Quadratics whose minimum is 0, some with no other curvature than mu, where nothing is given away."""
    careless = 0
    for _ in range(300):
        d, mu = int(RNG.integers(1, 6)), 10.0 ** RNG.uniform(-10, 3)
        h = mu * (1 + 10.0 ** RNG.uniform(-3, 8, d) * (RNG.random() < 0.5))
        star = RNG.standard_normal(d) * 10.0 ** RNG.uniform(-3, 3, d)
        points = star + RNG.standard_normal((4, d)) * 10.0 ** RNG.uniform(-8, 3)
        cuts = []
        for x in points:
            step = x.astype(LD) - star.astype(LD)
            E, g = float((h * step * step).sum() / 2), (h * step).astype(float)
            cuts.append(Cut(x, E, g, 2.0**-52 * E, 2.0**-52 * float(np.linalg.norm(g))))
            careless += E - float(g @ g) / (2 * mu) > 0
        beta = RNG.dirichlet(np.ones(4))
        assert proven(mu, cuts, beta) <= 0 and proven(mu, cuts[:1]) <= 0
        zero = type("Zero", (), {"prox": lambda self, step, v: v, "value": lambda self, x: 0.0})()
        assert penalised(mu, cuts[0], zero) <= 0
    assert careless > 30  # as E - |g|^2/(2 mu), many are above the minimum
    assert proven(1.0, [Cut(np.zeros(1), 1.0, np.full(1, np.inf), 0.0, 0.0)]) == -np.inf


# -- what a run makes of it ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Liar(GradientDescent):
    """Claims a lower bound that is none."""

    name = "liar"

    def bound(self, s: Any) -> float:
        return 10.0


def test_a_bound_above_an_energy_is_an_alarm_and_no_proof() -> None:
    problem = Problem([Quadratic(np.eye(2), np.ones(2))])
    result = run(problem, Liar(), rounds=5, tol=1e-3)
    assert result.stopped == "contradiction" and result.certificate is None
    assert "contradict each other" in result.certificate_reason and "below 10" in result.certificate_reason
    assert result.history[-1].certificate is None and len(result.history) == 1


def test_a_certificate_is_never_zero() -> None:
    """At the minimiser the bound may be above the energy by a rounding error; the certificate is that error."""
    result = run(Problem([Quadratic(np.eye(2), np.ones(2))]), make("gd"), rounds=30)
    assert result.certificate is not None and result.rounding is not None
    assert 0 < result.rounding <= result.certificate <= 1e-13
    exact = Best(np.zeros(1)).updated(np.zeros(1), Energy(1.0, 1e-15), 1.0 + 5e-16)
    assert exact.certificate == 1e-15 and not exact.contradicted
    assert Best(np.zeros(1)).updated(np.zeros(1), Energy(1.0, 1e-15), 1.0 + 5e-15).contradicted


def test_of_models_that_rounding_does_not_tell_apart_the_last_one_counts() -> None:
    first, second, third = (np.full(1, float(k)) for k in range(3))
    best = Best(first).updated(first, Energy(1.0, 1e-8), -np.inf).updated(second, Energy(1.0 + 1e-9, 1e-8), -np.inf)
    assert best.theta is second
    assert best.updated(third, Energy(1.0 + 1e-7, 1e-8), -np.inf).theta is second
    assert best.updated(third, Energy(np.nan, 0.0), -np.inf).theta is second


# -- bounds that were useless ----------------------------------------------------------------------------

X = RNG.standard_normal((40, 4))
SIGNS = np.where(X[:, 0] + RNG.standard_normal(40) > 0, 1.0, -1.0)
USELESS: dict[str, tuple[Loss, Any, Penalty | None, float, Any]] = {
    "softmax, l1, free intercept": (Softmax(3), RNG.integers(0, 3, 40).astype(float), L1(0.01), 0.0, "free"),
    "Poisson, elastic net, free intercept": (
        Poisson(), RNG.poisson(30.0, 40).astype(float), ElasticNetPenalty(0.01, 0.01), 0.0, "free",
    ),
    "squared, free intercept, targets of 1e9": (Squared(), 1e9 + X[:, 0] + RNG.standard_normal(40), None, 0.0, "free"),
    "squared hinge, box": (SquaredHinge(), SIGNS, NonNegative(), 0.0, False),
    "logistic, box, free intercept": (Logistic(), SIGNS, NonNegative(), 0.0, "free"),
    "logistic, group": (Logistic(), SIGNS, GroupL2(0.02), 0.0, False),
}  # fmt: skip


@pytest.mark.parametrize("name", USELESS)
def test_what_is_solved_is_also_proven(name: str) -> None:
    loss, y, penalty, ridge, intercept = USELESS[name]
    clients = [LinearModel(X[i::2], y[i::2], loss, ridge, intercept=intercept) for i in range(2)]
    result = run(Problem(clients, penalty=penalty), Auto(), rounds=25, threads=1)
    assert result.certificate is not None and result.energy is not None and result.rounding is not None
    assert result.certificate <= 30 * result.rounding + 1e-8 * abs(result.energy)


@pytest.mark.parametrize("intercept", [False, "free"])
@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Quantile(0.7)], ids=["hinge", "absolute", "quantile"])
def test_kinks_with_groups_and_no_ridge_are_proven_to_the_last_digits(loss: Loss, intercept: Any) -> None:
    rng = np.random.default_rng(3)
    rows, beta = rng.standard_normal((60, 6)), np.array([1.0, -1.0, 0.5, 0.0, 0.0, 0.0])
    z = rows @ beta + 0.5 * rng.standard_normal(60)
    y = np.where(z > 0, 1.0, -1.0) if isinstance(loss, Hinge) else z
    clients = [LinearModel(rows[i::3], y[i::3], loss, intercept=intercept) for i in range(3)]
    groups = (0, 0, 0, 1, 1, 1, 2) if intercept else (0, 0, 0, 1, 1, 1)
    for alpha in (1e-3, 3e-2):
        problem = Problem(clients, penalty=GroupL2(alpha, groups))
        result = run(problem, Auto(), rounds=40, threads=1)
        assert result.certificate is not None and result.rounding is not None and result.energy is not None
        assert 0 < result.certificate <= 30 * result.rounding + 1e-12 * abs(result.energy)
