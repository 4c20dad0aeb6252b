"""Statistics from sums: against scipy's distributions, least squares by hand, and each other."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from dualfl.errors import InputError
from dualfl.estimators import statistics as st
from dualfl.objectives import CLogLog, Gamma, LinearModel, Logistic, NegativeBinomial, Poisson, Squared, Tweedie
from dualfl.silos import likelihoods
from dualfl.silos.row_scores import row_scores, summed_products


def test_coefficients():
    estimate, cov = np.array([1.0, -2.0, 0.0]), np.diag([0.25, 1.0, 4.0])
    table = st.coefficients(estimate, cov)
    assert_allclose(table.statistic, [2.0, -2.0, 0.0])
    assert_allclose(table.p, [0.0455002639, 0.0455002639, 1.0], rtol=1e-8)
    assert_allclose(table.lower, estimate - 1.959963985 * np.sqrt(np.diag(cov)), rtol=1e-7)
    assert_allclose(table.ratio[0], np.exp(estimate))
    students = st.coefficients(estimate, cov, df=5, level=0.9)
    assert_allclose(students.p[0], 2 * stats.t.sf(2.0, 5))
    assert_allclose(students.upper[0], 1 + stats.t.ppf(0.95, 5) * 0.5)
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        st.coefficients(estimate, cov, level=95)


def test_least_squares_by_hand():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)) * [1.0, 1e6], rng.normal(size=40)
    rows = np.column_stack([X, np.ones(40)])
    theta = np.linalg.lstsq(rows, y, rcond=None)[0]
    f = LinearModel(X, y, Squared(), intercept="free")
    sums = likelihoods.likelihood_sums(f, theta)
    null = likelihoods.likelihood_sums(f, np.array([0, 0, y.mean()]))
    fit = st.fit_statistics(Squared(), sums, null, 3)
    r = y - rows @ theta
    assert fit.deviance == pytest.approx(r @ r) and fit.null_deviance == pytest.approx(((y - y.mean()) ** 2).sum())
    assert fit.dispersion == pytest.approx(r @ r / 37) and fit.df_residual == 37 and fit.df_null == 39
    exact = stats.norm.logpdf(r, scale=np.sqrt(r @ r / 40)).sum()
    assert fit.log_likelihood == pytest.approx(exact)
    assert fit.aic == pytest.approx(-2 * exact + 8) and fit.bic == pytest.approx(-2 * exact + 4 * np.log(40))
    cov = st.model_covariance(likelihoods.information(f, theta), fit.dispersion)
    assert_allclose(cov, r @ r / 37 * np.linalg.inv(rows.T @ rows), rtol=1e-8)
    B = summed_products(row_scores(f, theta), np.arange(40))
    white = np.linalg.inv(rows.T @ rows) @ (rows.T @ (rows * r[:, None] ** 2)) @ np.linalg.inv(rows.T @ rows)
    assert_allclose(st.robust_covariance(likelihoods.information(f, theta), B), white, rtol=1e-7)
    assert_allclose(st.robust_covariance(likelihoods.information(f, theta), B, 40), white * 40 / 37, rtol=1e-7)
    test = st.TestResult(5.0, 1)
    assert test.p == pytest.approx(stats.chi2.sf(5, 1))


@pytest.mark.parametrize("loss", [Logistic(), Poisson(), NegativeBinomial(0.5), CLogLog()], ids=str)
def test_likelihoods_are_probabilities(loss):
    z = np.linspace(-2, 1.5, 12)
    y = np.where(np.arange(12) % 3 == 0, 1.0, -1.0) if isinstance(loss, Logistic | CLogLog) else np.arange(12.0) % 4
    f = LinearModel(z[:, None], y, loss, intercept="free")
    m = np.exp(z)
    p = 1 / (1 + np.exp(-z)) if isinstance(loss, Logistic) else 1 - np.exp(-m)
    exact = {
        "Logistic": lambda: stats.bernoulli.logpmf(y > 0, p),
        "CLogLog": lambda: stats.bernoulli.logpmf(y > 0, p),
        "Poisson": lambda: stats.poisson.logpmf(y, m),
        "NegativeBinomial": lambda: stats.nbinom.logpmf(y, 2, 2 / (2 + m)),
    }[str(loss)]()
    assert st.log_likelihood(loss, likelihoods.likelihood_sums(f, np.array([1.0, 0.0]))) == pytest.approx(exact.sum())


def test_expected_information_is_the_mean_of_the_observed():
    """Over what y may be: a numerical check for each link that is not canonical."""
    rng, z = np.random.default_rng(1), np.array([-0.5, 0.3, 1.1])
    m = np.exp(z)
    drawn = {
        Gamma(): rng.gamma(4.0, m / 4.0, (200_000, 3)),
        NegativeBinomial(0.5): rng.negative_binomial(2, 2 / (2 + m), (200_000, 3)),
        CLogLog(): np.where(rng.random((200_000, 3)) < 1 - np.exp(-m), 1.0, -1.0),
        Tweedie(1.5): None,
    }
    from dualfl.kernels import twin_losses

    for loss, y in drawn.items():
        expected = likelihoods.expected_curvature(loss, z)
        if y is None:  # E y = m is all that it depends on
            y = m[None, :]
        for j in range(3):
            Z = np.full((len(y), 1), z[j])
            observed = twin_losses.curvature_times(loss, Z, np.ones_like(Z), y[:, j].astype(float)).mean()
            assert expected[j] == pytest.approx(observed, rel=2e-2)


def test_silos_as_clusters():
    assert st.TestResult(2.0, 2, 10).p == pytest.approx(stats.f.sf(1.0, 2, 10))
    scores = [np.array([1.0, 0, 0]), np.array([-1.0, 1, 0]), np.array([0.0, -1, 0])]
    with pytest.warns(UserWarning, match="fewer than 30 silos, and there are 3"):
        V, df = st.by_silo(np.eye(3), scores)
    assert df == 2 and np.linalg.matrix_rank(V) == 2
    with pytest.raises(InputError, match="at least 2 clusters"):
        st.clustered_covariance(np.eye(3), np.eye(3), 1)


def test_refusals_and_names():
    few = {"mass": 3.0, "loss": 1.0, "least": 0.0, "pearson": 1.0, "logarithm": 0.0}
    with pytest.raises(InputError, match="so the dispersion has no estimate"):
        st.fit_statistics(Gamma(), few, None, 3)
    names = [st.ratio_name(k) for k in (Logistic(), Poisson(), CLogLog(), Gamma(), Squared(), "cox", "ordinal")]
    assert names == ["odds ratio", "rate ratio", "hazard ratio", "mean ratio", "", "hazard ratio", "odds ratio"]
