"""Fits without messages: certificates against energies in extended precision, and who is sent back."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from dualfl.algorithms import Auto
from dualfl.errors import DualflError
from dualfl.estimators import (
    ElasticNet,
    GammaRegressor,
    Lasso,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    all_rows,
    all_rows_softmax,
    proof,
)
from dualfl.objectives import single_precision

LONG = np.longdouble


def energy(model, X, y, ridge, l1, w, b):
    """E in extended precision, half deviances left out."""
    z = X.astype(LONG) @ w.astype(LONG) + LONG(b)
    y = y.astype(LONG)
    kind = type(model).__name__
    if kind == "LogisticRegression":
        losses = np.logaddexp(LONG(0), -y * z)
    elif kind == "PoissonRegressor":
        losses = np.exp(z) - y * z
    elif kind == "GammaRegressor":
        losses = z + y * np.exp(-z)
    else:
        losses = (y - z) ** 2 / 2
    w = w.astype(LONG)
    return losses.mean() + LONG(ridge) / 2 * (w @ w) + LONG(l1) * np.abs(w).sum()


def data(n=300, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.7 * rng.normal(size=(n, 1))
    return X, X @ rng.normal(size=d) / np.sqrt(d) + 0.5 * rng.normal(size=n), rng


def cases(n, X, z, rng):
    labels = np.where(rng.random(n) < 1 / (1 + np.exp(-z)), 1, -1)
    counts = rng.poisson(np.exp(np.clip(z, -3, 3))).astype(float)
    return {
        "logistic": (LogisticRegression(), labels, 1 / n, 0.0),
        "unpenalised": (LogisticRegression(C=np.inf), labels, 0.0, 0.0),
        "l1": (LogisticRegression(l1_ratio=1.0), labels, 0.0, 1 / n),
        "net": (LogisticRegression(l1_ratio=0.3), labels, 0.7 / n, 0.3 / n),
        "poisson": (PoissonRegressor(alpha=1e-3), counts, 1e-3, 0.0),
        "gamma": (GammaRegressor(alpha=1e-3), counts + 0.5, 1e-3, 0.0),
        "ridge": (Ridge(), z, 1 / n, 0.0),
        "lasso": (Lasso(0.02), z, 0.0, 0.02),
        "elastic": (ElasticNet(0.02, l1_ratio=0.5), z, 0.01, 0.01),
    }


NAMES = ("logistic", "unpenalised", "l1", "net", "poisson", "gamma", "ridge", "lasso", "elastic")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("unit", [1.0, 1e5, 1e-4])
def test_a_certificate_is_a_proof_and_nobody_else_was_asked(name, unit, monkeypatch):
    X, z, rng = data()
    columns = np.array([1.0, unit, 1, 1, 1 / unit, 1])
    X = X * columns
    model, y, ridge, l1 = cases(300, X, z, rng)[name]
    groups = np.arange(300) % 7
    best = type(model)(**model.get_params()).set_params(tol=1e-10, algorithm=Auto(cost="exchanges", least_rows=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best.fit(X, y, groups=groups)

    def nobody(*_, **__):
        raise AssertionError("the fit was sent back")

    if unit == 1.0:
        monkeypatch.setattr(type(model), "_fit_here", nobody)
    for tol in (1e-2, 1e-6):
        model.set_params(tol=tol).fit(X, y, groups=groups)
        mine, other = (energy(m, X, y, ridge, l1, m.coef_.ravel(), np.ravel(m.intercept_)[0]) for m in (model, best))
        assert mine - min(mine, other) <= model.certificate_
        assert model.certificate_ <= tol * abs(model.objective_)


def test_a_bound_that_is_too_high_would_be_seen(monkeypatch):
    """The test above fails if the proof forgets that curvature may fall."""
    X, z, rng = data(60, 3, seed=4)
    model, y, ridge, l1 = cases(60, 8 * X, 20 * z, rng)["logistic"]
    best = energy(model, 8 * X, y, ridge, l1, *parts(LogisticRegression(tol=1e-11).fit(8 * X, y)))
    real = all_rows.gain
    monkeypatch.setattr(all_rows, "CLOSE", np.inf)
    monkeypatch.setattr(all_rows, "gain", lambda C, *rest: real(C._replace(reach=0.0), *rest))
    model.set_params(tol=0.5).fit(8 * X, y)
    assert energy(model, 8 * X, y, ridge, l1, *parts(model)) - best > model.certificate_


def parts(model):
    return model.coef_.ravel(), float(np.ravel(model.intercept_)[0])


def test_a_lasso_with_more_columns_than_rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 400))
    y = X[:, :5].sum(axis=1) + 0.1 * rng.normal(size=80) + 1e3
    for rows in (X, X.astype(np.float32), sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0))):
        model = Lasso(0.05).fit(rows, y, groups=np.arange(80) % 4)
        dense = rows.toarray() if sparse.issparse(rows) else rows.astype(float)
        g = dense.T @ (dense @ model.coef_ + model.intercept_ - y) / 80
        assert (np.abs(g) <= 0.05 * (1 + 1e-4)).all()
        at = model.coef_ != 0
        np.testing.assert_allclose(g[at], -0.05 * np.sign(model.coef_[at]), rtol=2e-3)
        assert model.certificate_ <= 1e-6 * model.objective_ and "in this process" in model.algorithm_


def test_silos_change_the_account_and_no_bit():
    X, z, rng = data()
    y = (z > 0).astype(int)
    one = LogisticRegression().fit(X, y)
    many = LogisticRegression().fit(X, y, groups=rng.integers(0, 9, size=300))
    assert np.array_equal(one.coef_, many.coef_) and one.certificate_ == many.certificate_
    assert many.history_[-1].floats_up == 9 * one.history_[-1].floats_up > 0
    assert many.history_[-1].contacts == 9 * many.n_exchanges_ and len(many.history_) == many.n_iter_ + 1


def test_rows_without_weight_are_not_there():
    X, z, rng = data()
    s = rng.integers(0, 3, size=300).astype(float)
    X[s == 0] = 1e60
    model = Ridge().fit(X, z, sample_weight=s)
    same = Ridge().fit(X[s > 0], z[s > 0], sample_weight=s[s > 0])
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-7)


@pytest.mark.parametrize("name", ["twins", "separable", "perfect"])
def test_what_is_not_for_newton_is_sent_back(name):
    X, z, _ = data()
    if name == "twins":
        X[:, 1] = X[:, 0]
        model = LogisticRegression(C=np.inf).fit(X, np.sin(7 * z) > 0)
        assert "in this process" not in model.algorithm_ and model.certificate_ <= 1e-6 * model.objective_
    elif name == "separable":
        with pytest.raises(DualflError, match="separable"):
            LogisticRegression(C=np.inf).fit(X, X[:, 0] > 0)
    else:
        model = Ridge(alpha=0.0).fit(X, X @ np.arange(6.0))
        np.testing.assert_allclose(model.coef_, np.arange(6.0), atol=1e-8)


@pytest.mark.parametrize("penalize_intercept", [False, True])
@pytest.mark.parametrize("unit", [1.0, 1e4])
@pytest.mark.parametrize("small", [False, True])
def test_a_softmax(penalize_intercept, unit, small, monkeypatch):
    if not small:
        monkeypatch.setattr(all_rows, "is_small_softmax", lambda f: False)
    X, z, rng = data(200, 4, seed=2)
    X = X * [1, unit, 1, 1] + [0, 0, 3, 0]
    y = np.digitize(z + 0.5 * rng.normal(size=200), [-0.5, 0.5])
    model = LogisticRegression(penalize_intercept=penalize_intercept).fit(X, y, groups=np.arange(200) % 3)
    assert model.algorithm_.startswith("auto runs sketched-newton" if small else "auto runs lbfgs")
    assert "in this process" in model.algorithm_ and model.certificate_ <= 1e-6 * model.objective_

    def at(m):
        Z = X.astype(LONG) @ m.coef_.T.astype(LONG) + m.intercept_.astype(LONG)
        Z -= Z.max(axis=1, keepdims=True)
        loss = np.log(np.exp(Z).sum(axis=1)) - Z[np.arange(200), y]
        kept = np.append(m.coef_, m.intercept_ if penalize_intercept else []).astype(LONG)
        return loss.mean() + kept @ kept / 400

    best = LogisticRegression(penalize_intercept=penalize_intercept, tol=1e-10, algorithm=Auto(least_rows=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best.fit(X, y, groups=np.arange(200) % 3)
    assert at(model) - min(at(model), at(best)) <= model.certificate_


@pytest.mark.parametrize("falling", [False, True])
def test_a_large_softmax_takes_the_metric_that_is_better_there(falling, monkeypatch):
    """Alike features and rows that are told apart: plain L-BFGS; a falling spectrum: the moments of the features."""
    rng = np.random.default_rng(0)
    k, d, n = 20, 80, 800
    y = np.arange(n) % k
    X = 3 * rng.normal(size=(n, d)) + 2 * rng.normal(size=(k, d))[y]
    X = X * np.arange(1, d + 1) ** -1.0 if falling else X
    monkeypatch.setattr(all_rows, "is_small_softmax", lambda f: False)

    def passes(**changed):
        for name, value in changed.items():
            monkeypatch.setattr(all_rows_softmax, name, value)
        model = LogisticRegression(C=1 / (n * 1e-3), fit_intercept=False).fit(X, y)
        assert model.certificate_ <= 1e-6 * model.objective_
        return model.n_exchanges_

    both = passes()
    only_metric = passes(TRIAL_PASSES=0)  # the trial ends before its first pass, and nothing is compared
    assert both <= only_metric + 7 if falling else both < 0.8 * only_metric


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("intercept", [False, True])
def test_single_precision_leads_and_double_precision_proves(kind, intercept, monkeypatch):
    """Many classes, rows in several blocks: the same minimum as without, also to more than six digits."""
    rng = np.random.default_rng(5)
    n, d, k = 160, 5, 33
    y = np.arange(n) % k
    X = (40 + 8 * rng.normal(size=(n, d)) + 10 * rng.normal(size=(k, d))[y]).clip(0, 255).astype(kind)
    monkeypatch.setattr(all_rows, "is_small_softmax", lambda f: False)
    monkeypatch.setattr(single_precision, "BLOCK", 1 << 11)
    monkeypatch.setattr(proof, "LARGE", 1 << 10)
    led = []
    real = single_precision.SinglePrecision.loss_and_gradient
    monkeypatch.setattr(
        single_precision.SinglePrecision, "loss_and_gradient", lambda f, x: led.append(f.n) or real(f, x)
    )

    def fit(tol, groups=None):
        return LogisticRegression(C=0.1, tol=tol, fit_intercept=intercept).fit(X, y, groups=groups)

    model, many = fit(1e-6), fit(1e-6, np.arange(n) % 3)
    assert len(led) > 10 and np.array_equal(model.coef_, many.coef_)
    finest = fit(1e-9)  # six digits are not enough for this one
    monkeypatch.setattr(all_rows_softmax, "MANY_CLASSES", k + 1)
    led.clear()
    other = fit(1e-9)
    assert not led

    def at(m):
        Z = X.astype(LONG) @ m.coef_.T.astype(LONG) + m.intercept_.astype(LONG)
        Z -= Z.max(axis=1, keepdims=True)
        loss = np.log(np.exp(Z).sum(axis=1)) - Z[np.arange(n), y]
        kept = m.coef_.ravel().astype(LONG)
        return loss.mean() + 10 * (kept @ kept) / (2 * n)

    least = min(at(finest), at(other))
    for m, tol in ((model, 1e-6), (finest, 1e-9), (other, 1e-9)):
        assert at(m) - least <= m.certificate_ <= tol * m.objective_


def test_bytes_take_no_more_passes_than_their_fractions():
    """A free intercept is lost beside features of size 100, unless these get other units."""
    rng = np.random.default_rng(6)
    n, d, k = 200, 300, 5
    y = np.arange(n) % k
    X = (60 + 30 * rng.normal(size=(n, d)) + 20 * rng.normal(size=(k, d))[y]).clip(0, 255).astype(np.uint8)
    whole = LogisticRegression(C=0.1 / 255**2).fit(X, y)
    fractions = LogisticRegression(C=0.1).fit(X / 255, y)
    np.testing.assert_allclose(255 * whole.coef_, fractions.coef_, atol=1e-3 * np.abs(fractions.coef_).max())
    assert whole.n_exchanges_ <= fractions.n_exchanges_ + 5


@pytest.mark.parametrize("intercept", [False, True, "penalised"])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.uint8])
def test_many_sparse_columns_with_l1(intercept, kind, monkeypatch):
    """No Hessian, but working sets of columns: stationary to many digits, and proven, also with twins of columns."""
    rng = np.random.default_rng(3)
    n, d = 400, 3000
    X = sparse.csr_array(np.where(rng.random((n, d)) < 0.01, 1.0, 0.0))
    X.data = rng.integers(1, 9, size=X.nnz).astype(kind)
    X = sparse.csr_array(sparse.hstack([X, X[:, :40]], format="csr"))
    z = X.astype(float) @ np.where(np.arange(d + 40) < 60, rng.normal(size=d + 40), 0.0) / 3 + 0.5
    y, s = np.where(rng.random(n) < 1 / (1 + np.exp(-z)), 1, -1), rng.uniform(0.5, 2, size=n)

    def nobody(*_, **__):
        raise AssertionError("the fit was sent back")

    monkeypatch.setattr(LogisticRegression, "_fit_here", nobody)
    model = LogisticRegression(C=1.0, l1_ratio=1.0, fit_intercept=bool(intercept))
    model.set_params(penalize_intercept=intercept == "penalised").fit(X, y, sample_weight=s, groups=np.arange(n) % 5)
    assert model.certificate_ <= 1e-6 * model.objective_ and model.algorithm_.startswith("auto runs prox-newton")
    w, b, alpha = model.coef_.ravel(), float(np.ravel(model.intercept_)[0]) if intercept else 0.0, 1 / s.sum()
    slopes = -y * s / s.sum() / (1 + np.exp(y * (X.astype(float) @ w + b)))
    g = X.astype(float).T @ slopes
    assert (np.abs(g) <= alpha * (1 + 1e-5)).all() and 5 < np.count_nonzero(w) < n
    np.testing.assert_allclose(g[w != 0], -alpha * np.sign(w[w != 0]), rtol=1e-5)
    if intercept:
        held = alpha * np.sign(b) if intercept == "penalised" else 0.0
        assert abs(slopes.sum() + held) <= 1e-5 * alpha
