"""A fixed site effect is a column of ones for each silo; a random one is a covariance within silos."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from objective_cases import random_targets

import dualfl
from dualfl.algorithms.registry import make
from dualfl.errors import InputError, NotSupported
from dualfl.estimators.solving import FitLimits, solve
from dualfl.objectives import (
    CLogLog,
    Gamma,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    NegativeBinomial,
    OwnIntercept,
    Poisson,
    Softmax,
    Squared,
    SquaredHinge,
    Tweedie,
)
from dualfl.problem import Problem
from dualfl.silos.random_effect import SiteMoments, fit_random_intercept, from_moments
from oracle_tables import Table, oracles
from random_effects import dense_reml

LOSSES = [Logistic(), Poisson(), Squared(), Gamma(), Tweedie(1.5), NegativeBinomial(0.5), CLogLog(), Huber(0.7),
          SquaredHinge()]  # fmt: skip


def drawn(loss: Any, rng: Any, n: int = 30) -> tuple[Any, Any, Any, Any]:
    return rng.normal(size=(n, 3)) + [0, 5, 0], random_targets(loss, n, rng), rng.random(n) + 0.1, rng.normal(size=n)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_it_is_the_minimum_over_the_intercept(loss):
    rng, h = np.random.default_rng(0), 1e-5
    for kind in ("dense", "csr"):
        X, y, w, o = drawn(loss, rng)
        f = OwnIntercept(sp.csr_array(X) if kind == "csr" else X, y, loss, 0.1, weights=w, offset=o)
        whole = LinearModel(X, y, loss, 0.1, weights=w, offset=o, intercept="free")
        x, p = 0.1 * rng.normal(size=3), rng.normal(size=3)
        b = f.own_intercept(x)
        around = [whole.value(np.append(x, b + d)) for d in (-1e-4, 0.0, 1e-4)]
        assert f.value(x) == pytest.approx(around[1], rel=1e-12) and around[1] <= min(around) + 1e-14
        assert abs(whole.gradient(np.append(x, b))[-1]) < 1e-12
        assert f.gradient(x) @ p == pytest.approx((f.value(x + h * p) - f.value(x - h * p)) / (2 * h), abs=1e-6)
        assert_allclose(f.hessian(x) @ p, f.hessian_times(x, p), atol=1e-11)
        if not isinstance(loss, (Huber, SquaredHinge)):  # they have kinks in the slope
            assert_allclose(f.hessian(x) @ p, (f.gradient(x + h * p) - f.gradient(x - h * p)) / (2 * h), atol=1e-6)
        ray = f.at(x).ray(p)
        assert ray.value(0.01) == pytest.approx(f.value(x + 0.01 * p), rel=1e-12)
        assert np.linalg.eigvalsh(f.hessian(x))[-1] <= f.L and f.mu == 0.1
        off = f.rounding(x)
        assert 0 < off.value < 1e-9 and (off.gradient < 1e-9).all()
        assert f.scaled(0.5).value(x) - 0.05 * x @ x == pytest.approx((f.value(x) - 0.05 * x @ x) / 2)
        again = f.fresh()
        again.value(rng.normal(size=3))
        again.forget()
        assert again.gradient(x).tolist() == f.gradient(x).tolist()  # whatever came before


@pytest.mark.parametrize("ridge", [0.0, 0.05])
@pytest.mark.parametrize("loss", [Logistic(), Poisson(), Squared(), Gamma()], ids=repr)
def test_silos_make_the_fit_with_a_column_for_each(loss, ridge):
    rng = np.random.default_rng(1)
    X, y, _, _ = drawn(loss, rng, 150)
    silo = np.arange(150) % 4
    y = np.where(silo == 3, -1, y) if isinstance(loss, Logistic) else y  # the last silo has one class only
    clients = [OwnIntercept(X[silo == j], y[silo == j], loss, ridge) for j in range(4)]
    assert [f.silent for f in clients] == [False, False, False, isinstance(loss, Logistic)]
    result = solve(Problem(clients), "auto", FitLimits(1e-10, 60, 0, False))
    kept = silo < (3 if isinstance(loss, Logistic) else 4)
    ones = np.eye(4)[silo][:, : 3 if isinstance(loss, Logistic) else 4]
    pooled = LinearModel(np.column_stack([X, ones])[kept], y[kept], loss, 0.0)
    share = kept.mean()
    wide = np.append(np.full(3, ridge / share), np.zeros(ones.shape[1]))
    E = pooled.tilted(wide)
    from dualfl.solvers import DampedNewton, minimise
    from dualfl.solvers.stopping import GradientNorm

    best = minimise(E, solver=DampedNewton(), stop=GradientNorm(1e-12, cap=100)).x
    assert_allclose(result.theta, best[:3], rtol=2e-4, atol=1e-6)
    gap = result.energy - share * E.value(best)
    assert -1e-11 <= gap <= result.certificate + 1e-14
    assert result.certificate <= 1e-8
    S = Problem(clients).pooled.hessian(best[:3])
    H = share * E.hessian(best)
    assert_allclose(np.linalg.inv(S), np.linalg.inv(H)[:3, :3], rtol=1e-6)  # errors are those of the wide fit


def test_every_algorithm_can_take_it():
    rng = np.random.default_rng(2)
    X, y, _, _ = drawn(Logistic(), rng, 90)
    P = Problem([OwnIntercept(X[j::3], y[j::3], Logistic(), 0.1) for j in range(3)])
    best = dualfl.run(P, make("auto"), rounds=15).energy
    for name in ("lbfgs", "dualfl", "nesterov"):
        assert dualfl.run(P, make(name), rounds=150).energy == pytest.approx(best, abs=1e-6)


def test_what_cannot_have_one():
    for loss, y in ((Hinge(), [1, -1, 1]), (Softmax(3), [0, 1, 2])):
        with pytest.raises(NotSupported, match="A site effect needs a smooth loss of one predictor"):
            OwnIntercept(np.eye(3), y, loss)


# -- random effects -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ozone", "trees", "mtcars"])
def test_restricted_likelihood(name):
    t, r = Table(name), oracles()[f"random {name}"]
    n = len(t.y)
    silo = np.arange(n) // int(np.ceil(n / 5))
    y = t.y + 3 * np.sin(7 * silo)
    parts = [SiteMoments.of(t.X[silo == j], y[silo == j]) for j in np.unique(silo)]
    fit = from_moments(parts)
    assert fit.exchanges == 1
    order = np.append(len(fit.coefficients) - 1, np.arange(len(fit.coefficients) - 1))
    assert_allclose(fit.coefficients[order], r["coef"], rtol=1e-4)
    assert_allclose(np.sqrt(np.diag(fit.covariance))[order], r["se"], rtol=1e-4)
    assert fit.variance == pytest.approx(r["variance"][0], rel=2e-3)  # R ends its search early, where all is flat
    assert fit.residual == pytest.approx(r["scale"][0], rel=1e-3)
    assert fit.log_likelihood == pytest.approx(r["loglik"][0], rel=1e-8)
    beta, errors, variance, s2 = dense_reml(t.X, y, silo)
    assert_allclose(fit.coefficients, beta, rtol=1e-6)
    assert_allclose(np.sqrt(np.diag(fit.covariance)), errors, rtol=1e-6)
    assert fit.variance == pytest.approx(variance, rel=1e-5) and fit.residual == pytest.approx(s2, rel=1e-6)

    def ask(gammas: Any) -> Any:
        terms = [part.terms(gammas) for part in parts]
        return {key: sum(term[key] for term in terms) for key in terms[0]}

    masked = fit_random_intercept(ask, len(parts))
    assert masked.variance == fit.variance and 2 <= masked.exchanges <= 12


def test_no_variance_between_silos_is_found_as_zero():
    rng = np.random.default_rng(3)
    X, silo = rng.normal(size=(100, 2)), np.arange(100) % 5
    y = X @ [1.0, 2.0] + rng.normal(size=100)
    y -= np.array([y[silo == j].mean() for j in range(5)])[silo]  # less than by chance
    X -= np.array([X[silo == j].mean(axis=0) for j in range(5)])[silo]
    fit = from_moments([SiteMoments.of(X[silo == j], y[silo == j]) for j in range(5)])
    assert fit.variance == 0.0
    rows = np.column_stack([X, np.ones(100)])
    assert_allclose(fit.coefficients, np.linalg.lstsq(rows, y, rcond=None)[0], atol=1e-12)
    with pytest.raises(InputError, match="needs at least 2 silos"):
        from_moments([SiteMoments.of(X, y)])
    with pytest.raises(InputError, match="needs more rows"):
        from_moments([SiteMoments.of(X[:1], y[:1])] * 2)


def test_targets_of_any_size_are_heard_by_least_squares():
    """An intercept explains no spread: a silo with large targets is not silent, and the fit is that with dummies."""
    rng = np.random.default_rng(4)
    X, silo = rng.normal(size=(60, 2)), np.arange(60) % 3
    y = X @ [30.0, -20.0] + 5000.0 * (silo + 1) + rng.normal(size=60)
    clients = [OwnIntercept(X[silo == j], y[silo == j], Squared()) for j in range(3)]
    assert not any(f.silent for f in clients)
    H, g = sum(f.hessian(np.zeros(2)) for f in clients), sum(f.gradient(np.zeros(2)) for f in clients)
    dummies = np.column_stack([X, *(silo == j for j in range(3))])
    np.testing.assert_allclose(-np.linalg.solve(H, g), np.linalg.lstsq(dummies, y, rcond=None)[0][:2], rtol=1e-9)
