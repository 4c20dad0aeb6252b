"""Gamma, Tweedie, negative binomial and clog-log models over silos, and their statistics, against R and statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from dualfl.errors import InputError, NoMinimiser
from dualfl.estimators import (
    CLogLogRegression,
    GammaRegressor,
    LogisticRegression,
    NegativeBinomialRegressor,
    PoissonRegressor,
    TweedieRegressor,
    statistics,
)
from dualfl.objectives import CLogLog, Gamma, LinearModel, Logistic, Loss, NegativeBinomial, Poisson, Tweedie
from dualfl.silos import likelihoods
from dualfl.silos.row_scores import row_scores, summed_products
from oracle_tables import SPLITS, Table, oracles, silos

CLOSE = 1e-6
OPTIONS: dict[str, Any] = {"tol": 1e-15, "max_iter": 60}


def summed(loss: Loss, X: Any, y: Any, group: Any, theta: Any, what: Any, **more: Any) -> Any:
    """A silo's function of its rows, added up over silos."""
    parts = []
    for j in np.unique(group):
        own = {key: v[group == j] for key, v in more.items()}
        f = LinearModel(X[group == j], y[group == j], loss, intercept="free", **own)
        parts.append(what(f, theta))
    if isinstance(parts[0], dict):
        return {key: sum(part[key] for part in parts) for key in parts[0]}
    return sum(parts)


def checked(model: Any, loss: Loss, t: Table, y: Any, group: Any, r: Any) -> None:
    """Coefficients, errors, likelihood, deviances; y as the loss takes it."""
    theta = np.append(np.ravel(model.coef_), model.intercept_)
    order = np.append(len(theta) - 1, np.arange(len(theta) - 1))  # R has the intercept first
    scale = np.maximum(np.abs(r["coef"]), r["se"])
    assert np.abs((theta[order] - r["coef"]) / scale).max() <= CLOSE
    sums = summed(loss, t.X, y, group, theta, likelihoods.likelihood_sums)
    mean = float(np.mean(y if not isinstance(loss, (CLogLog, Logistic)) else y > 0))
    link = {Logistic: np.log(mean / (1 - mean)), CLogLog: np.log(-np.log(1 - mean))} if mean < 1 else {}
    empty = np.append(np.zeros(t.X.shape[1]), link.get(type(loss), np.log(mean)))
    null = summed(loss, t.X, y, group, empty, likelihoods.likelihood_sums)
    found = statistics.fit_statistics(loss, sums, null, len(theta))
    assert found.deviance == pytest.approx(r["deviance"][0], rel=1e-8)
    assert found.null_deviance == pytest.approx(r["null"][0], rel=1e-8)
    if "loglik" in r:
        assert found.log_likelihood == pytest.approx(r["loglik"][0], rel=1e-8)
    if "dispersion" in r:
        assert found.dispersion == pytest.approx(r["dispersion"][0], rel=CLOSE)
    H = summed(loss, t.X, y, group, theta, likelihoods.information)
    cov = statistics.model_covariance(H, found.dispersion)
    errors = statistics.coefficients(theta, cov).error[order]
    assert_allclose(errors, r["se"], rtol=CLOSE)
    assert model.certificate_ is not None and model.certificate_ <= 1e-10 * max(1.0, abs(model.objective_))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    "name",
    ["gamma ozone", "gamma trees", "gamma mtcars", "cloglog birthwt", "cloglog pima", "cloglog infert"]
    + [f"{kind} {table}" for kind in ("negative-binomial", "poisson") for table in ("quine", "warpbreaks", "insects")]
    + [f"tweedie {p} {table}" for p in (1.3, 1.7) for table in ("quine", "warpbreaks", "insects")],
)
def test_pooled_fits(name, split):
    kind, *power, table = name.split()
    t, r = Table(table), oracles()[name]
    group = silos(len(t.y), split, t.y)
    y = t.y
    if kind == "cloglog":
        model, loss = CLogLogRegression(**OPTIONS), CLogLog()
        y = np.where(t.y > 0, 1.0, -1.0)
    else:
        made = {
            "gamma": lambda: (GammaRegressor(alpha=0, **OPTIONS), Gamma()),
            "poisson": lambda: (PoissonRegressor(alpha=0, **OPTIONS), Poisson()),
            "negative-binomial": lambda: (NegativeBinomialRegressor(dispersion=0.5, **OPTIONS), NegativeBinomial(0.5)),
            "tweedie": lambda: (
                TweedieRegressor(power=float(power[0]), alpha=0, **OPTIONS),
                Tweedie(float(power[0])),
            ),
        }
        model, loss = made[kind]()
    model.fit(t.X, t.y, groups=group)
    checked(model, loss, t, y, group, r)
    assert model.n_exchanges_ <= 12


@pytest.mark.parametrize("table", ["quine", "warpbreaks", "insects"])
def test_a_searched_dispersion(table):
    t, r = Table(table), oracles()[f"negative-binomial searched {table}"]
    model = NegativeBinomialRegressor(**OPTIONS).fit(t.X, t.y, groups=silos(len(t.y), "shuffled", t.y))
    assert 1 / model.dispersion_ == pytest.approx(r["theta"][0], rel=1e-5)  # R stops its search at 1e-6 or so
    scale = np.maximum(np.abs(r["coef"]), r["se"])
    assert np.abs((np.append(model.intercept_, model.coef_) - r["coef"]) / scale).max() <= 1e-5
    sums = summed(
        NegativeBinomial(model.dispersion_), t.X, t.y, np.zeros(len(t.y)), np.append(model.coef_, model.intercept_),
        likelihoods.likelihood_sums,
    )  # fmt: skip
    assert statistics.log_likelihood(NegativeBinomial(model.dispersion_), sums) == pytest.approx(
        r["loglik"][0], rel=1e-8
    )
    assert 0 < model.score(t.X, t.y) < 1


@pytest.mark.parametrize("size", [0.02, 0.05])
def test_a_large_dispersion(size):
    """A search that begins next to its minimiser had hardly moved, and was taken for one that moves without end."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(600, 3))
    y = rng.negative_binomial(size, size / (size + np.exp(X @ [0.5, -0.4, 0.2] + 2)))
    model = NegativeBinomialRegressor(tol=1e-12).fit(X, y, groups=np.arange(600) % 3)
    assert 0.8 < 1 / model.dispersion_ / size < 1.25

    def likelihood(dispersion: float) -> float:
        known = NegativeBinomialRegressor(dispersion=dispersion, tol=1e-12).fit(X, y, groups=np.arange(600) % 3)
        size = 1 / dispersion
        return float(scipy.stats.nbinom.logpmf(y, size, size / (size + known.predict(X))).sum())

    best = likelihood(model.dispersion_)
    assert all(likelihood(model.dispersion_ * factor) < best for factor in (0.99, 1.01))


def test_a_dispersion_that_does_not_exist():
    X = np.arange(40.0)[:, None] % 4
    with pytest.raises(NoMinimiser, match="The dispersion has no estimate"):
        NegativeBinomialRegressor().fit(X, np.full(40, 5) + (np.arange(40) % 2))


@pytest.mark.parametrize("kind", ["poisson", "negative-binomial"])
def test_an_exposure(kind):
    t, r = Table("ships", "offset"), oracles()[f"{kind} ships"]
    group = silos(len(t.y), "shuffled", t.y)
    model: Any = (
        PoissonRegressor(alpha=0, **OPTIONS)
        if kind == "poisson"
        else NegativeBinomialRegressor(dispersion=0.2, **OPTIONS)
    )
    model.fit(t.X, t.y, groups=group, offset=t["offset"])
    scale = np.maximum(np.abs(r["coef"]), r["se"])
    assert np.abs((np.append(model.intercept_, model.coef_) - r["coef"]) / scale).max() <= CLOSE
    loss = Poisson() if kind == "poisson" else NegativeBinomial(0.2)
    theta = np.append(model.coef_, model.intercept_)
    H = summed(loss, t.X, t.y, group, theta, likelihoods.information, offset=t["offset"])
    errors = np.sqrt(np.diag(statistics.model_covariance(H)))
    assert_allclose(np.append(errors[-1], errors[:-1]), r["se"], rtol=CLOSE)


@pytest.mark.parametrize(("table", "loss"), [("quine", Poisson()), ("ozone", Gamma()), ("pima", Logistic())])
def test_robust_errors(table, loss):
    t, r = Table(table), oracles()[f"robust {table}"]
    y = np.where(t.y > 0, 1.0, -1.0) if table == "pima" else t.y
    n, theta = len(y), np.append(r["coef"][1:], r["coef"][0])
    group = np.arange(n) // 60  # whole clusters in each
    H = summed(loss, t.X, y, group, theta, lambda f, x: f.mass * f.hessian(x))  # the observed one, as statsmodels has
    B = summed(loss, t.X, y, group, theta, lambda f, theta: summed_products(row_scores(f, theta), np.arange(f.n)))
    errors = np.sqrt(np.diag(statistics.robust_covariance(H, B)))
    assert_allclose(np.append(errors[-1], errors[:-1]), r["hc0"], rtol=CLOSE)
    cluster = np.arange(n) // 5
    B = sum(
        summed_products(
            row_scores(LinearModel(t.X[group == j], y[group == j], loss, intercept="free"), theta),
            np.unique(cluster[group == j], return_inverse=True)[1],
        )
        for j in np.unique(group)
    )
    k = len(np.unique(cluster))
    errors = np.sqrt(np.diag(statistics.clustered_covariance(H, B, k))) * np.sqrt((n - 1) / (n - len(theta)))
    assert_allclose(np.append(errors[-1], errors[:-1]), r["clustered"], rtol=CLOSE)  # with statsmodels' own factor


def test_against_scikit_learn():
    from sklearn import linear_model

    t = Table("ozone")
    X = (t.X - t.X.mean(axis=0)) / t.X.std(axis=0)
    for own, other in (
        (GammaRegressor(alpha=0.1, tol=1e-14), linear_model.GammaRegressor(alpha=0.1, tol=1e-12, max_iter=10000)),
        (
            TweedieRegressor(power=1.6, alpha=0.1, tol=1e-14),
            linear_model.TweedieRegressor(power=1.6, alpha=0.1, tol=1e-12, max_iter=10000),
        ),
    ):
        own.fit(X, t.y, groups=np.arange(len(t.y)) % 4)
        other.fit(X, t.y)
        assert_allclose(own.coef_, other.coef_, rtol=1e-5)
        assert own.score(X, t.y) == pytest.approx(other.score(X, t.y), rel=1e-6)
        assert_allclose(own.predict(X), other.predict(X), rtol=1e-6)
        assert own.certificate_ <= 1e-11


def test_bad_input():
    X, y = np.arange(6.0)[:, None], np.array([1.0, 2.0, 0.0, 3.0, 1.0, 2.0])
    with pytest.raises(InputError, match=r"Gamma takes targets > 0, and y contains 0; Tweedie takes zeros too"):
        GammaRegressor().fit(X, y)
    with pytest.raises(InputError, match=r"power must be 0, or from 1 to 2, .* but it is 3"):
        TweedieRegressor(power=3.0).fit(X, y)
    with pytest.raises(InputError, match=r"dispersion must be a number > 0"):
        NegativeBinomialRegressor(dispersion=-1.0).fit(X, y)
    with pytest.raises(InputError, match="for two classes, and there are 4"):
        CLogLogRegression().fit(X, y)
    with pytest.raises(InputError, match=r"offset\[0\] is -inf"):
        PoissonRegressor().fit(X, y, offset=np.full(6, -np.inf))
    with pytest.raises(NoMinimiser, match="separable"):
        LogisticRegression(C=np.inf).fit(X, X[:, 0] > 2)
