"""Silos as they are: without a class, with a constant column, of one row; and what cannot be fitted, in a sentence."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import PoissonRegressor as SkPoisson

from dualfl.errors import InputError, NoMinimiser, NotSupported
from dualfl.estimators import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    StandardScaler,
)

RNG = np.random.default_rng(3)
X = RNG.normal(size=(1200, 4))
Y = np.where(X[:, 0] - X[:, 1] + RNG.logistic(size=1200) > 0, "ill", "well")


def rows_apart():
    """1,000 rows; 100 of one class with a constant column; one row; 99 more."""
    order = np.argsort(Y == "well", kind="stable")
    parts = [order[100:1100], order[:100], order[1100:1101], order[1101:]]
    table = X.copy()
    table[parts[1], 2] = 5.0
    return table, parts


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(tol=1e-9),
        LogisticRegression(C=0.1, l1_ratio=0.5, tol=1e-9),
        LogisticRegression(C=np.inf, tol=1e-9),
        LinearSVC(tol=1e-9),
        LinearSVC(C=0.01, loss="hinge", tol=1e-7),
    ],
    ids=["l2", "elastic net", "none", "squared hinge", "hinge"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_odd_silos_give_the_pooled_model(model, request):
    table, parts = rows_apart()
    apart = model.fit_silos([(table[rows], Y[rows]) for rows in parts]).coef_
    together = model.fit(table, Y).coef_
    loose = 1e-3 if "hinge" in request.node.callspec.id and "squared" not in request.node.callspec.id else 1e-5
    assert np.linalg.norm(apart - together) <= loose * np.linalg.norm(together)
    assert list(model.classes_) == ["ill", "well"]


def test_labels_of_any_kind():
    for labels in (np.array([True, False]), np.array([-3.0, 7.0]), np.array(["b", "a"], dtype=object)):
        y = labels[(Y == "ill").astype(int)]
        model = LogisticRegression().fit(X, y, groups=np.arange(1200) % 2)
        assert set(model.predict(X)) <= set(labels) and (model.predict(X) == y).mean() > 0.7


def test_one_class_overall():
    with pytest.raises(InputError, match=r"one class 'ill'.*at least 2 classes"):
        LogisticRegression().fit(X, np.full(1200, "ill"), groups=np.arange(1200) % 2)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_separable_without_a_penalty(classes):
    x = np.linspace(-1, 1, 60)[:, None]
    y = np.digitize(x[:, 0], np.linspace(-1, 1, classes + 1)[1:-1])
    table = np.column_stack([x, x**2])
    with pytest.raises(NoMinimiser, match=r"separable.*give a finite C"):
        LogisticRegression(C=np.inf).fit(table, y, groups=np.arange(60) % 3)
    assert LogisticRegression(C=10.0).fit(table, y).score(table, y) > 0.9


def test_without_a_penalty_the_whole_hessian_proves_the_fit():
    model = LogisticRegression(C=np.inf).fit(X, Y, groups=np.arange(1200) % 3)
    assert 0 < model.certificate_ <= 1e-6 * model.objective_


def test_an_algorithm_without_a_proof_says_that_nothing_is_proven():
    with pytest.warns(ConvergenceWarning, match="tol was not certified: nothing is proven"):
        model = LogisticRegression(C=np.inf, algorithm="lbfgs").fit(X, Y, groups=np.arange(1200) % 3)
    assert model.certificate_ is None


def test_too_few_rounds_warn():
    with pytest.warns(ConvergenceWarning, match="tol was not certified: .* 1 rounds"):
        LogisticRegression(max_iter=1, tol=1e-12, algorithm="lbfgs", penalize_intercept=True).fit(X, Y)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (LogisticRegression(algorithm="dualfl"), "dualfl needs a strongly convex.*penalize_intercept.*auto.*can"),
        (LogisticRegression(algorithm="giant", l1_ratio=1.0), "giant is for smooth problems.*l1.*prox-newton"),
        (LinearSVC(algorithm="lbfgs", loss="hinge"), "lbfgs needs a gradient, and the Hinge loss has none.*fedipm"),
        (LogisticRegression(algorithm="fedpdd"), "no algorithm 'fedpdd'; did you mean fedpd"),
        (LogisticRegression(algorithm=3), "algorithm must be a name or an Algorithm, but it is 3"),
        (LogisticRegression(C=0.0), "C must be a number > 0, but it is 0.0"),
        (LogisticRegression(l1_ratio=1.5), "l1_ratio must be between 0 .* but it is 1.5"),
        (LogisticRegression(tol=0.0), "tol must be a number > 0"),
        (LinearSVC(loss="logistic"), "squared_hinge.*but it is 'logistic'"),
        (LinearSVC(penalty="l0"), "penalty must be .* but it is 'l0'"),
    ],
)
def test_refusals(model, why):
    with pytest.raises((InputError, NotSupported), match=why):
        model.fit(X, Y)


def test_refusals_of_regressors():
    y = X[:, 0]
    with pytest.raises(InputError, match="alpha must be a number >= 0, but it is -1"):
        Ridge(-1).fit(X, y)
    with pytest.raises(InputError, match="counts >= 0"):
        PoissonRegressor().fit(X, y)
    with pytest.raises(InputError, match="0 < tau < 1"):
        QuantileRegressor(quantile=1.5).fit(X, y)


def test_silos_that_do_not_match():
    with pytest.raises(InputError, match=r"Silo north: X has 3 features.*4 features"):
        Ridge().fit_silos([(X, X[:, 0]), (X[:, :3], X[:, 0])], names=["south", "north"])
    with pytest.raises(InputError, match="at least one silo"):
        Ridge().fit_silos([])
    with pytest.raises(InputError, match=r"must be a pair \(X, y\)"):
        Ridge().fit_silos([X])
    with pytest.raises(InputError, match="has 3 entries for 1200 rows"):
        Ridge().fit(X, X[:, 0], groups=[1, 2, 3])
    with pytest.raises(InputError, match="2 silos and 1 names"):
        Ridge().fit_silos([(X, X[:, 0])] * 2, names=["a"])
    with pytest.raises(ValueError, match=r"[Ss]ample weights .*zero"):
        Ridge().fit(X, X[:, 0], sample_weight=np.zeros(1200))


def test_a_silo_without_weight_is_left_out():
    w = np.where(np.arange(1200) < 600, 1.0, 0.0)
    weighted = LogisticRegression(tol=1e-10).fit(X, Y, groups=w, sample_weight=w)
    assert np.allclose(weighted.coef_, LogisticRegression(tol=1e-10).fit(X[:600], Y[:600]).coef_, rtol=1e-6)


# -- targets and starts that are far away ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [Ridge(), Lasso(alpha=0.1), ElasticNet(), HuberRegressor(), QuantileRegressor(alpha=0.01)],
    ids=lambda model: type(model).__name__,
)
def test_a_large_mean_of_the_target_costs_no_digits(model):
    rng = np.random.default_rng(0)
    X, silo = rng.normal(size=(200, 5)), np.arange(200) % 3
    y = np.round(X @ [1.0, 2.0, 0.0, 0.0, -1.0] + rng.normal(size=200), 6)
    near = clone(model).fit(X, y, groups=silo)
    far = clone(model).fit(X, y + 2.0**30, groups=silo)
    assert far.certificate_ <= 1e-6 * far.objective_
    assert far.objective_ == pytest.approx(near.objective_, rel=1e-6)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-4)
    assert far.intercept_ - 2.0**30 == pytest.approx(near.intercept_, abs=1e-4)


def counts(shift):
    """Silos of counts of which the last has a feature far from the others', where exp overflows or nearly does."""
    rng = np.random.default_rng(0)
    silos = []
    for k in range(3):
        x = rng.integers(0, 2, 40).astype(float)
        y = rng.poisson(np.exp(2 * x)) if k < 2 else rng.poisson(1, 40)
        silos.append((np.c_[x + shift * (k == 2), rng.normal(size=40)], y))
    return silos


@pytest.mark.parametrize("shift", [20, 1000])
def test_a_start_that_overflows_is_left_behind_and_what_is_certified_is_true(shift):
    silos = counts(shift)
    X, y = np.vstack([X for X, _ in silos]), np.concatenate([y for _, y in silos])
    model = PoissonRegressor(alpha=1e-3).fit_silos(silos)
    pooled = SkPoisson(alpha=1e-3, solver="newton-cholesky", tol=1e-10, max_iter=1000).fit(X, y)
    assert model.certificate_ <= 1e-6 * model.objective_
    np.testing.assert_allclose(model.coef_, pooled.coef_, rtol=1e-3, atol=1e-5)


# -- groups -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ([0.0, np.nan, 1.0, 1.0], "row 1 has nan"),
        (np.array(["a", None, "b", "b"], dtype=object), "row 1 has None"),
        (np.array(["a", 1, "b", "b"], dtype=object), r"no common order \(int, str\)"),
        ([0, 1], "2 entries for 4 rows"),
    ],
)
def test_rows_without_a_silo_are_refused(groups, says):
    X, y = np.arange(8.0).reshape(4, 2), np.arange(4.0)
    for fit in (lambda: Ridge().fit(X, y, groups=groups), lambda: StandardScaler().fit(X, groups=groups)):
        with pytest.raises(InputError, match=says):
            fit()


@pytest.mark.parametrize("weight", [1.5e307, 1e-320])
@pytest.mark.parametrize("model", [LogisticRegression(), Ridge(), HuberRegressor(), StandardScaler()])
def test_weights_whose_sum_is_no_number_are_named(model, weight):
    weights = np.ones(1200)
    weights[7] = weight
    with pytest.raises(InputError, match=r"sample_weight\[7\] is .*; weights must be 0, or between"):
        model.fit(X, X[:, 0] > 0, sample_weight=weights)
