"""The bundle method: its quadratic programme, its cuts at kinks, and what it proves beside a free intercept."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dualfl.algorithms.dual import bundle_units
from dualfl.algorithms.dual.kinks import steady_subgradient
from dualfl.algorithms.dual.simplex import minimise_on_simplex
from dualfl.algorithms.registry import make
from dualfl.engines import Problem, run
from dualfl.engines.client import LocalCost
from dualfl.objectives import Absolute, EpsilonInsensitive, Hinge, LinearModel, Quantile

LOSSES = {"hinge": Hinge(), "absolute": Absolute(), "quantile": Quantile(0.3), "eps": EpsilonInsensitive(0.2)}


def targets(loss, rng, n):
    y = rng.standard_normal(n)
    return np.where(y > 0, 1.0, -1.0) if isinstance(loss, Hinge) else y


@pytest.mark.parametrize("rank", [2, 5, 12])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_quadratic_programme_is_solved_whatever_depends_on_what(rank, scale):
    """With more cuts than dimensions G is singular, and some faces have no minimiser at all."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        Q = rng.standard_normal((12, rank)) * scale
        Q[7] = Q[3]  # and a cut twice
        G, c = Q @ Q.T, rng.standard_normal(12) * scale**2
        b = minimise_on_simplex(G, c)
        assert (b >= 0).all() and b.sum() == pytest.approx(1.0, abs=1e-12)
        slopes = G @ b - c
        assert b @ slopes - slopes.min() <= 1e-12 * (np.abs(G).max() + np.abs(c).max())


def test_the_quadratic_programme_of_cuts_that_are_nearly_the_same_is_solved_too():
    """As late in a run: many cuts of a kinked cost, all near its minimum, and a direction that hardly curves."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pieces = rng.standard_normal((15, 40))
        Q = pieces[rng.integers(15, size=120)] + 1e-7 * rng.standard_normal((120, 40))
        Q[:, 0] *= 1e4
        c = rng.uniform(0, 1e-6, 120)
        c[rng.integers(120, size=12)] -= 1e2
        G = Q @ Q.T
        b = minimise_on_simplex(G, c)
        slopes = G @ b - c
        assert b @ slopes - slopes.min() <= 1e-14 * (np.abs(G).max() + np.abs(c).max())


@pytest.mark.parametrize("name", LOSSES)
def test_a_slope_at_a_kink_does_not_depend_on_rounding(name):
    loss, rng = LOSSES[name], np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), targets(LOSSES[name], rng, 40)
    edge = y - 0.2 if name == "eps" else y  # where row 0 has its kink
    x = np.linalg.lstsq(X[:1], edge[:1], rcond=None)[0]
    found = []
    for side in (-1, 1):
        f = LinearModel(X, y, loss, 0.1, intercept=True).tilted(0.2, np.ones(4))
        at = np.append(x * (1 + side * 1e-14), 0.0)
        g, high = steady_subgradient(LocalCost(f), at)
        found.append(g)
        for other in (at + 1e-3 * rng.standard_normal(4), at + rng.standard_normal(4)):
            assert f.value(other) >= f.value(at) + g @ (other - at) - high - 1e-14
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)
    away = rng.standard_normal(4)
    np.testing.assert_allclose(steady_subgradient(LocalCost(f), away)[0], LocalCost(f).subgradient(away), atol=1e-14)


def smallest(X, y, loss, ridge):
    """The minimum, by interior points on all rows at once."""
    p = Problem([LinearModel(X, y, loss, intercept="free").tilted(np.append(ridge, 0.0))])
    return run(p, make("fedipm"), rounds=60, threads=1)


@pytest.mark.parametrize("name", ["hinge", "absolute", "quantile"])
@pytest.mark.parametrize("units", ["as they are", "1e6 to 1e-6", "far means"])
def test_what_is_proven_beside_a_free_intercept_is_true(name, units):
    loss, rng = LOSSES[name], np.random.default_rng(3)
    X, y = rng.standard_normal((80, 4)), targets(LOSSES[name], rng, 80)
    ridge = np.full(4, 0.02)
    if units == "1e6 to 1e-6":
        T = np.array([1e6, 1e-6, 1e3, 1.0])
        X, ridge = X * T, ridge * T**2
    if units == "far means":
        X = X + [1e5, 0.0, -30.0, 1e3]
    clients = [LinearModel(X[j::4], y[j::4], loss, intercept="free").tilted(np.append(ridge, 0.0)) for j in range(4)]
    exact = smallest(X, y, loss, ridge)
    result = run(Problem(clients), make("bundle", proximal=True), rounds=40, threads=1)
    floor = 1e-10 * abs(exact.energy)
    proven = [row.energy - row.certificate for row in result.history if row.certificate is not None]
    assert len(proven) > 20 and max(proven) <= exact.energy + floor
    assert result.certificate is not None and result.energy - exact.energy <= result.certificate + floor
    assert result.certificate <= 1e-4 * abs(exact.energy)


def test_weights_that_lean_are_balanced_before_anything_is_proven(monkeypatch):
    """E = |b| + w^2/2 has the minimum 0; nine tenths of a cut that climbs in b must not prove what it is at b = 5."""
    units = bundle_units.Units(np.ones(2), np.zeros(2), np.array([1.0, 0.0]))
    Z, S, E = np.array([[0.0, 2.0], [0.0, -1.0]]), np.array([[0.0, 1.0], [0.0, -1.0]]), np.array([2.0, 1.0])
    told = (units, Z, S, E, np.zeros(2), np.zeros(2), np.array([0.9, 0.1]), np.array([0.0, 5.0]))
    assert -1e-6 <= bundle_units.lower_bound(*told) <= 0.0
    monkeypatch.setattr(bundle_units, "leaning", lambda beta, surely, heights: beta)
    assert bundle_units.lower_bound(*told) > 1.0


def test_a_minimum_without_any_ridge_is_that_of_another_method():
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((60, 3)) * [1.0, 1e4, 1e-3], rng.standard_normal(60)
    clients = [LinearModel(X[j::3], y[j::3], Absolute(), intercept="free") for j in range(3)]
    result = run(Problem(clients), make("bundle", proximal=True), rounds=60, threads=1)
    found = minimize(lambda t: np.abs(X / [1.0, 1e4, 1e-3] @ t[:3] + t[3] - y).mean(), np.zeros(4), method="Powell")
    assert result.energy <= found.fun * (1 + 1e-6) and result.certificate is None
