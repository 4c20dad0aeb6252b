"""Proportional odds over silos against R's ordinal, and the objective against its formula."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import dualfl
from dualfl.algorithms.registry import make
from dualfl.errors import DualflError, InputError
from dualfl.estimators import OrdinalRegression
from dualfl.objectives import ProportionalOdds
from dualfl.problem import Problem
from oracle_tables import SPLITS, Table, oracles, silos

LD = np.longdouble


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", ["housing", "gears", "visits"])
def test_pooled_fits(name, split):
    t, r = Table(name, "weight"), oracles()[f"ordinal {name}"]
    model = OrdinalRegression(tol=1e-14).fit(t.X, t.y, groups=silos(len(t.y), split, t.y), sample_weight=t["weight"])
    scale = np.maximum(np.abs(r["coef"]), r["se"])
    assert np.abs((model.coef_ - r["coef"]) / scale).max() <= 1e-6
    assert_allclose(model.thresholds_, r["zeta"] + r["coef"] @ r["centre"], rtol=1e-6)
    errors = np.sqrt(np.diag(np.linalg.inv(model.information())))[: len(model.coef_)]
    assert_allclose(errors, r["se"], rtol=1e-6)
    assert model.log_likelihood_ == pytest.approx(r["loglik"][0], rel=1e-10)
    assert model.certificate_ <= 1e-11 and model.n_exchanges_ <= 12
    P = model.predict_proba(t.X)
    assert_allclose(P.sum(axis=1), 1.0)
    assert set(model.predict(t.X)) <= set(model.classes_)


def drawn(rng, n=40, levels=4):
    X, y = rng.normal(size=(n, 3)), rng.integers(0, levels, n)
    w, o = rng.random(n) + 0.1, rng.normal(size=n)
    return X, y, w, o


def formula(f, X, y, w, o, x):
    """-log P(y) as a difference of probabilities, in extended precision."""
    x = np.asarray(x).astype(LD)
    z = X.astype(LD) @ x[:3] + o
    t = np.concatenate([[-LD(np.inf)], f.base.astype(LD) + x[3:], [LD(np.inf)]])
    P = 1 / (1 + np.exp(z - t[y + 1])) - 1 / (1 + np.exp(z - t[y]))
    return (w / w.astype(LD).sum() * -np.log(P)).sum() + LD(f.ridge) / 2 * (x[:3] ** 2).sum()


def test_derivatives_and_rounding():
    rng, h = np.random.default_rng(0), 1e-6
    for kind in ("dense", "csr") * 8:
        X, y, w, o = drawn(rng)
        f = ProportionalOdds(sp.csr_array(X) if kind == "csr" else X, y, 4, 0.1, weights=w, offset=o)
        x, p = 0.2 * rng.normal(size=6), rng.normal(size=6)
        assert f.value(x) == pytest.approx(float(formula(f, X, y, w, o, x)), rel=1e-13)
        assert f.gradient(x) @ p == pytest.approx((f.value(x + h * p) - f.value(x - h * p)) / (2 * h), abs=1e-7)
        assert_allclose(f.hessian(x) @ p, (f.gradient(x + h * p) - f.gradient(x - h * p)) / (2 * h), atol=1e-7)
        assert_allclose(f.hessian(x) @ p, f.hessian_times(x, p), atol=1e-13)
        ray = f.at(x).ray(p)
        assert ray.value(0.1) == pytest.approx(f.value(x + 0.1 * p), rel=1e-13)
        assert ray.slope(0.1) == pytest.approx(f.gradient(x + 0.1 * p) @ p, rel=1e-9)
        off, value, g = f.rounding(x), f.value(x), f.gradient(x)
        assert abs(float(formula(f, X, y, w, o, x) - LD(value))) <= off.value
        for size in (1e-8, 1e-4, 0.1):
            step = size * rng.normal(size=6)
            there = formula(f, X, y, w, o, x + step)
            slope = (g.astype(LD) * step - off.gradient.astype(LD) * np.abs(step)).sum()
            assert LD(value) - LD(off.value) + slope <= there
        half = f.scaled(0.5)
        assert half.value(x) - f.ridge_value(x) == pytest.approx((f.value(x) - f.ridge_value(x)) / 2)


def test_thresholds_out_of_order_cost_infinitely_much():
    X, y, _, _ = drawn(np.random.default_rng(1))
    f = ProportionalOdds(X, y, 4)
    assert f.value(np.array([0, 0, 0, 2.0, 0, 0])) == np.inf and f.L == np.inf
    assert np.isfinite(f.value(np.full(6, 1e8)))  # far away, but in order


def test_algorithms_that_need_no_L_run_and_others_say_why():
    rng = np.random.default_rng(2)
    X, y, _, _ = drawn(rng, n=120)
    P = Problem([ProportionalOdds(X[j::3], y[j::3], 4, 0.1) for j in range(3)])
    one = ProportionalOdds(X, y, 4, 0.1)
    best = dualfl.run(Problem([one]), make("prox-newton"), rounds=30).energy
    result = dualfl.run(P, make("auto"), rounds=20)
    assert "prox-newton" in result.choice and result.energy == pytest.approx(best, rel=1e-10)
    for name in ("nesterov", "dualfl", "gd"):
        with pytest.raises(DualflError):
            dualfl.run(P, make(name), rounds=2)


def test_a_silo_may_lack_levels_and_labels_may_be_words():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 2))
    y = np.array(["low", "mid", "high"])[np.digitize(X[:, 0] + rng.logistic(size=90), [-0.5, 1.0])]
    silo = np.where(y == "low", 0, 1)
    model = OrdinalRegression(levels=["low", "mid", "high"], alpha=1.0).fit(X, y, groups=silo)
    whole = OrdinalRegression(levels=["low", "mid", "high"], alpha=1.0).fit(X, y)
    assert_allclose(model.coef_, whole.coef_, rtol=1e-5)
    assert model.coef_[0] > 0 and model.certificate_ <= 1e-6 * model.objective_


def test_bad_input():
    X = np.eye(3)
    with pytest.raises(InputError, match="All rows have the one level 1"):
        OrdinalRegression().fit(X, [1, 1, 1])
    with pytest.raises(InputError, match="y contains 'x', which is not among the levels"):
        OrdinalRegression(levels=["a", "b"]).fit(X, ["a", "b", "x"])
    with pytest.raises(InputError, match="No row of any silo has the level 'c'"):
        OrdinalRegression(levels=["a", "b", "c"]).fit(X, ["a", "b", "b"])
    with pytest.raises(InputError, match=r"Levels are numbers 0 to 1, and y contains"):
        ProportionalOdds(X, [0, 1, 2], 2)
    with pytest.raises(InputError, match="2 finite thresholds that rise"):
        ProportionalOdds(X, [0, 1, 2], 3, base=[1.0, 0.0])
    with pytest.raises(InputError, match="at least 2 levels"):
        ProportionalOdds(X, [0, 0, 0], 1)
