"""summary() and inference_: errors, tests and likelihoods of every estimator, against closed forms and scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_diabetes, load_iris

from dualfl import estimators as est
from dualfl.errors import InputError, NoMinimiser

X, y = load_diabetes(return_X_y=True, as_frame=True)
X = X[["age", "sex", "bmi", "bp"]] * 10
SILO = np.arange(len(y)) % 3
CLASS = (y > 140).astype(int)
DESIGN = np.column_stack([X, np.ones(len(y))])


def test_least_squares_has_the_errors_of_the_textbook():
    model = est.Ridge(alpha=0).fit(X, y, groups=SILO)
    found, df = model.inference_, len(y) - 5
    theta, residual, *_ = np.linalg.lstsq(DESIGN, y, rcond=None)
    V = residual[0] / df * np.linalg.inv(DESIGN.T @ DESIGN)
    np.testing.assert_allclose(found.covariance, V, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.coefficients.p, 2 * stats.t.sf(np.abs(theta / np.sqrt(np.diag(V))), df), rtol=1e-6)
    sigma2 = residual[0] / len(y)
    likelihood = stats.norm.logpdf(y - DESIGN @ theta, scale=np.sqrt(sigma2)).sum()
    assert found.log_likelihood == pytest.approx(likelihood, rel=1e-10)
    assert found.statistics.aic == pytest.approx(-2 * likelihood + 2 * 6)
    assert found.statistics.null_deviance == pytest.approx(((y - y.mean()) ** 2).sum())
    assert found.names == ("age", "sex", "bmi", "bp", "(intercept)")


GLMS = {
    "logistic": (est.LogisticRegression(C=np.inf), CLASS, lambda m: m * (1 - m), lambda z: 1 / (1 + np.exp(-z))),
    "poisson": (est.PoissonRegressor(alpha=0), y // 20, lambda m: m, np.exp),
    "gamma": (est.GammaRegressor(alpha=0), y, lambda m: np.ones_like(m), np.exp),
    "tweedie": (est.TweedieRegressor(alpha=0), y, lambda m: m**0.5, np.exp),
    "negative binomial": (
        est.NegativeBinomialRegressor(dispersion=0.5), y // 20, lambda m: m / (1 + 0.5 * m), np.exp,
    ),
    "cloglog": (
        est.CLogLogRegression(), CLASS, lambda m: np.log1p(-m) ** 2 * (1 - m) / m, lambda z: -np.expm1(-np.exp(z)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", GLMS)
def test_generalised_models_have_the_expected_information(family):
    model, target, weight, mean = GLMS[family]
    model.fit(X, target, groups=SILO)
    m = mean(DESIGN @ np.append(model.coef_, model.intercept_))
    V = np.linalg.inv(DESIGN.T @ (DESIGN * weight(m)[:, None]))
    found = model.inference_
    V = V * found.statistics.dispersion
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)), np.sqrt(np.diag(V)), rtol=1e-6)
    assert max(map(len, model.summary().splitlines())) <= 80


def test_a_ridge_takes_the_sandwich_and_a_chosen_one_the_penalty_that_was_chosen():
    plain = est.RidgeCV(alphas=[0.5, 5.0]).fit(X, y, groups=SILO)
    again = est.Ridge(alpha=plain.alpha_).fit(X, y, groups=SILO)
    np.testing.assert_allclose(plain.inference_.covariance, again.inference_.covariance, rtol=1e-9, atol=1e-10)
    A = DESIGN.T @ DESIGN
    P = plain.alpha_ * np.diag([1.0, 1.0, 1.0, 1.0, 0.0])
    B = np.linalg.solve(A + P, A)
    r = y - again.predict(X)
    V = r @ r / (len(y) - np.trace(B)) * B @ np.linalg.inv(A + P)
    np.testing.assert_allclose(again.inference_.covariance, V, rtol=1e-7, atol=1e-10)
    assert "AIC" not in again.summary()


def test_several_classes_have_a_line_for_each_and_their_mean_is_certain():
    Z, c = load_iris(return_X_y=True)
    model = est.LogisticRegression(C=0.5).fit(Z, c, groups=np.arange(150) % 2)
    found = model.inference_
    assert found.names[:3] == ("x0, 0", "x0, 1", "x0, 2") and len(found.names) == 15
    together = np.kron(np.ones(5) / 5, np.ones(3))
    assert together @ found.covariance @ together < 1e-8 * np.diag(found.covariance).min()
    assert found.statistics.df_null == 148


def test_survival_and_levels_answer_the_same_way():
    days = stats.expon.ppf((np.argsort(np.argsort(y)) + 0.5) / len(y))
    died = np.arange(len(y)) % 4 > 0
    cox = est.CoxPH().fit(X, est.survival_target(died, days), groups=SILO)
    np.testing.assert_allclose(cox.inference_.covariance, np.linalg.inv(cox.information()), rtol=1e-8)
    assert cox.inference_.statistics.events == died.sum() and "hazard ratio" in cox.summary()
    levels = est.OrdinalRegression().fit(X, np.digitize(y, [100, 180]), groups=SILO)
    np.testing.assert_allclose(levels.inference_.covariance, np.linalg.inv(levels.information()), rtol=1e-8)
    assert levels.inference_.log_likelihood == pytest.approx(levels.log_likelihood_, rel=1e-9)
    assert levels.inference_.names[-2:] == ("0 | 1", "1 | 2")


@pytest.mark.parametrize(
    ("model", "why"),
    [(est.Lasso(), "l1"), (est.ElasticNet(), "l1"), (est.HuberRegressor(), "likelihood"), (est.LinearSVC(), "likeli")],
)
def test_nothing_is_made_up(model, why):
    model.fit(X, CLASS if isinstance(model, est.LinearSVC) else y, groups=SILO)
    with pytest.raises(InputError, match=why):
        model.summary()
    if why == "l1":
        with pytest.raises(InputError, match="once more, without a penalty, and say so"):
            model.inference_  # noqa: B018


def test_errors_are_asked_for_while_the_rows_are_there_and_are_the_fits():
    rows = X.to_numpy().copy()
    model = est.PoissonRegressor().fit(rows, y, groups=np.sort(SILO))
    stored = pickle.loads(pickle.dumps(model))
    with pytest.raises(InputError, match="not here any more"):
        stored.summary()
    np.testing.assert_array_equal(stored.predict(rows), model.predict(rows))
    rows += 1
    with pytest.raises(InputError, match="have changed since the fit"):
        model.summary()
    known = est.PoissonRegressor().fit(X, y, groups=SILO)
    text = known.summary()
    assert pickle.loads(pickle.dumps(known)).summary() == text
    wide, narrow = known.inference_.at(0.99).coefficients, known.inference_.coefficients
    assert (wide.upper > narrow.upper).all()


def test_a_new_fit_forgets_the_errors_of_the_former():
    model = est.Ridge(alpha=0).fit(X, y)
    before = model.inference_.covariance
    assert (model.fit(X, 2 * y).inference_.covariance > before * 3.9)[np.diag_indices(5)].all()


# -- separation ---------------------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
WARD = RNG.integers(0, 5, 200)
FREE = RNG.normal(size=(200, 3))
COLUMNS = np.column_stack([FREE, WARD == 0])


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (est.LogisticRegression(C=np.inf), np.where(WARD == 0, 1, RNG.random(200) < 0.5)),
        (est.CLogLogRegression(), np.where(WARD == 0, 0, RNG.random(200) < 0.5)),
        (est.PoissonRegressor(alpha=0), np.where(WARD == 0, 0, RNG.poisson(2, 200))),
        (est.OrdinalRegression(), np.where(WARD == 0, 2, RNG.integers(0, 3, 200))),
    ],
)
def test_the_level_that_separates_is_named_and_innocent_columns_are_not(model, target):
    with pytest.raises(InputError, match="What separates is the column x3"):
        model.fit(COLUMNS, target, groups=np.arange(200) % 3).summary()


@pytest.mark.parametrize("rare", [10, 20])
def test_a_column_whose_rows_have_all_happened_is_named_for_the_clog_log_link_too(rare):
    """Its loss goes to 0 so fast that the curvature is not seen to vanish: a fit ended with a coefficient of 6."""
    rng, seldom = np.random.default_rng(rare), np.arange(200) < rare
    target = seldom | (rng.random(200) < -np.expm1(-np.exp(FREE[:, 0] - 1)))
    with pytest.raises(NoMinimiser, match="What separates is the column x3"):
        est.CLogLogRegression().fit(np.column_stack([FREE, seldom]), target, groups=np.arange(200) % 3)


def test_a_combination_that_separates_is_told_and_does():
    target = FREE[:, 0] - 0.5 * FREE[:, 1] > 0.1
    with pytest.raises(NoMinimiser, match=r"combination x0 - 0\.[3-7]") as told:
        est.LogisticRegression(C=np.inf).fit(FREE, target, groups=np.arange(200) % 3)
    w = told.value.direction
    margins = np.where(target, 1, -1) * (np.column_stack([FREE, np.ones(200)]) @ w)
    assert (margins >= 0).all() and (margins > 0).any()


def test_events_in_the_order_of_a_column_are_told():
    time = RNG.permutation(200) + 1.0
    columns = np.column_stack([FREE, np.round(-time / 7)])
    died = est.survival_target(RNG.random(200) < 0.6, time)
    with pytest.raises(InputError, match="What separates is the column x3"):
        est.CoxPH().fit(columns, died, groups=np.arange(200) % 3).summary()
