"""What Hessians, Newton steps and dual points beside their domain prove of E*, against the best energy found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dualfl.algorithms.few_exchanges import FedIPM, OneShot, ProxNewton, SketchedNewton, dependence
from dualfl.algorithms.few_exchanges.self_concordance import Curvature, gain, psi
from dualfl.engines import Problem, run
from dualfl.errors import NoMinimiser
from dualfl.objectives import (
    L1,
    Absolute,
    BoxConstraint,
    EpsilonInsensitive,
    GroupL2,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    Loss,
    NonNegative,
    Poisson,
    Softmax,
    Squared,
    SquaredHinge,
)

LD: Any = np.longdouble
SMOOTH = (Logistic(), Poisson(), Softmax(3), Huber(0.7), SquaredHinge())


def targets(rng: Any, loss: Loss, X: Any) -> Any:
    z = (X - X.mean(axis=0)) @ rng.standard_normal(X.shape[1]) / np.maximum(X.std(axis=0), 1e-30).max()
    noisy = z + rng.logistic(size=len(z))
    if isinstance(loss, Logistic | SquaredHinge | Hinge):
        return np.where(noisy > np.median(noisy), 1.0, -1.0)
    if isinstance(loss, Poisson):
        return rng.poisson(np.exp(np.clip(z, -3, 3)) * 5).astype(float)
    return rng.permutation(np.arange(len(z)) % 3).astype(float) if isinstance(loss, Softmax) else noisy


def drawn(rng: Any, loss: Loss, penalty: Any = None, ridge: float = 0.0) -> Problem:
    n, D = int(rng.integers(30, 60)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, D)) * 10.0 ** rng.uniform(-4, 4, D)
    X[:, 0] += rng.choice([0.0, 30.0]) * np.abs(X[:, 0]).max()
    y, intercept = targets(rng, loss, X), [False, True, "free"][int(rng.integers(3))]
    clients = [LinearModel(X[i::3], y[i::3], loss, ridge, intercept=intercept) for i in range(3)]
    return Problem(clients, penalty=penalty)


def test_psi_is_its_formula_and_does_not_cancel() -> None:
    for u in (*np.geomspace(1e-12, 0.9, 60), 0.049, 0.051, 0.999999):
        exact = LD(u)
        formula = (exact + (1 - exact) * np.log1p(-exact)) / exact**2
        assert 0.5 <= psi(float(u)) <= 1.0
        if u > 1e-3:
            assert psi(float(u)) == pytest.approx(float(formula), rel=1e-12)
    assert psi(0.0) == 0.5 and psi(1.0) == np.inf


@pytest.mark.parametrize("loss", SMOOTH, ids=str)
@pytest.mark.parametrize("ridge", [0.0, 1e-6])
def test_a_hessian_certifies_in_the_exchange_that_is_near_enough(loss: Loss, ridge: float) -> None:
    rng = np.random.default_rng(len(str(loss)))
    for _ in range(6):
        problem = drawn(rng, loss, ridge=ridge)
        result = run(problem, SketchedNewton(least_rows=1), rounds=14, threads=1)
        least = result.history.column("energy").min()
        assert result.certificate is not None and result.certificate <= 1e-9 * abs(least)
        for row, best in zip(result.history, np.minimum.accumulate(result.history.column("energy"))):
            assert row.certificate is None or row.certificate >= best - least


def test_half_the_decrement_alone_would_be_false() -> None:
    """e^z - z has its minimum 1 at 0. From above, where curvature falls on the way, it falls by more than lam^2/2."""
    for z in np.linspace(0.1, 3, 30):
        E, slope, H = np.exp(z) - z, np.exp(z) - 1.0, np.exp(z)
        found = gain(Curvature(np.array([[H]]), np.zeros(1), 0.0, 1.0), np.array([slope]), np.zeros(1))
        assert E - found.most <= 1 < E - slope**2 / (2 * H)


@pytest.mark.parametrize("penalty", [L1(0.01), GroupL2(0.01), NonNegative(), BoxConstraint(-0.1, 0.2)], ids=str)
@pytest.mark.parametrize("loss", SMOOTH, ids=str)
def test_newtons_model_proves_its_own_minimum(loss: Loss, penalty: Any) -> None:
    rng = np.random.default_rng(7)
    X = rng.standard_normal((60, 3))
    y = targets(rng, loss, X)
    problem = Problem([LinearModel(X[i::3], y[i::3], loss, intercept="free") for i in range(3)], penalty=penalty)
    result = run(problem, ProxNewton(least_rows=1), rounds=14, threads=1)
    least = result.history.column("energy").min()
    assert result.certificate is not None and result.certificate <= 1e-8 * abs(least)
    for row, best in zip(result.history, np.minimum.accumulate(result.history.column("energy"))):
        assert row.certificate is None or row.certificate >= best - least


@pytest.mark.parametrize("loss", [Hinge(), Absolute(), EpsilonInsensitive(0.3)], ids=str)
@pytest.mark.parametrize("penalty", [None, L1(0.05), BoxConstraint(-0.2, 0.2)], ids=str)
def test_linear_programs_are_proven_to_rounding(loss: Loss, penalty: Any) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((50, 3)) + [1e3, 0, 0]
    y = targets(rng, loss, X)
    problem = Problem([LinearModel(X[i::2], y[i::2], loss, intercept="free") for i in range(2)], penalty=penalty)
    result = run(problem, FedIPM(least_rows=1), rounds=40, tol=1e-9, threads=1)
    assert result.stopped == "tol" and result.energy is not None
    for _ in range(100):
        near = result.theta + 10.0 ** rng.uniform(-8, -1) * rng.standard_normal(4) * [1e-3, 1, 1, 1]
        assert problem.value(near) >= result.energy - result.certificate


@pytest.mark.parametrize("layout", ["equal", "zero", "constant"])
@pytest.mark.parametrize("loss", [Squared(), Logistic(), Softmax(3), Absolute()], ids=str)
def test_columns_that_are_others_do_not_spoil_a_proof(loss: Loss, layout: str) -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 3))
    X[:, 1] = {"equal": X[:, 0], "zero": 0.0, "constant": 1e4}[layout]
    y = targets(rng, loss, X[:, [0, 2]])
    algorithm = {"Squared": OneShot, "Absolute": FedIPM}.get(type(loss).__name__, SketchedNewton)(least_rows=1)
    clients = [LinearModel(X[i::3], y[i::3], loss, intercept="free") for i in range(3)]
    result = run(Problem(clients), algorithm, rounds=30, tol=1e-8, threads=1)
    assert result.stopped == "tol"
    less = [LinearModel(X[i::3][:, [0, 2]], y[i::3], loss, intercept="free") for i in range(3)]
    other = run(Problem(less), algorithm, rounds=30, tol=1e-8, threads=1)
    assert result.energy == pytest.approx(other.energy, rel=1e-7)


def test_only_what_is_equal_in_every_bit_is_another_column() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 4))
    X[:, 1], X[:, 2] = X[:, 0] * (1 + 2.0**-52), -X[:, 0]
    f = LinearModel(X, np.zeros(20), Squared())
    guesses = dependence.guessed(X.T @ X, np.ones(4, dtype=bool))
    assert {int(k) for k in guesses[:, 0]} == {0, 1}
    kept = dependence.proven(guesses, dependence.unlike(f.design, guesses))
    assert all(np.array_equal(X[:, int(k)], c * X[:, int(other)]) for k, other, c in kept)


def test_counts_begin_where_iteratively_reweighted_least_squares_does() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 4))
    y = rng.poisson(np.exp(X @ [0.5, -0.3, 0.2, 0.1] + 6)).astype(float)
    problem = Problem([LinearModel(X[i::3], y[i::3], Poisson(), intercept="free") for i in range(3)])
    result = run(problem, SketchedNewton(), rounds=20, tol=1e-8, threads=1)
    assert result.stopped == "tol" and result.history[-1].exchanges <= 6


def test_a_separation_tells_its_direction() -> None:
    """Classes that the second of three columns separates: nothing grows but its coefficient."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((80, 3))
    X[:, 1] += 2 * np.sign(X[:, 1])
    problem = Problem([LinearModel(X[i::2], np.sign(X[i::2, 1]), Logistic()) for i in range(2)])
    with pytest.raises(NoMinimiser) as caught:
        run(problem, SketchedNewton(), rounds=60, threads=1)
    direction = caught.value.direction
    assert direction[1] > 0 and (np.sign(X[:, 1]) * (X @ direction) > 0).all()
