"""Every estimator on unlike silos against the pooled fit of scikit-learn, or of SciPy on the same objective."""

import numpy as np
import pytest
import sklearn.linear_model as pooled
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from dualfl import estimators as federated
from oracles import l1_logistic

RNG = np.random.default_rng(0)


def table(load):
    X, y = load(return_X_y=True)
    return scale(X), y


CANCER, WINE, DIABETES = table(load_breast_cancer), table(load_wine), table(load_diabetes)
COUNTS = DIABETES[0], np.round(DIABETES[1] / 40)


def sorted_silos(y):
    """Silos by label, or by the size of the target, and a silo of one row."""
    groups = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    groups[17] = 9
    return groups


def relative(a, b):
    return np.linalg.norm(np.ravel(a) - np.ravel(b)) / np.linalg.norm(np.ravel(b))


PAIRS = {
    "logistic": (
        federated.LogisticRegression(C=0.7),
        pooled.LogisticRegression(C=0.7, solver="newton-cholesky"),
        CANCER,
    ),
    "multinomial": (federated.LogisticRegression(), pooled.LogisticRegression(solver="newton-cholesky"), WINE),
    "no intercept": (
        federated.LogisticRegression(fit_intercept=False),
        pooled.LogisticRegression(fit_intercept=False, solver="newton-cholesky"),
        CANCER,
    ),
    "ridge": (federated.Ridge(3.0), pooled.Ridge(3.0, solver="cholesky"), DIABETES),
    "least squares": (federated.Ridge(0.0), pooled.LinearRegression(), DIABETES),
    "lasso": (federated.Lasso(2.0), pooled.Lasso(2.0), DIABETES),
    "elastic net": (federated.ElasticNet(0.5, l1_ratio=0.7), pooled.ElasticNet(0.5, l1_ratio=0.7), DIABETES),
    "poisson": (
        federated.PoissonRegressor(alpha=0.1),
        pooled.PoissonRegressor(alpha=0.1, solver="newton-cholesky"),
        COUNTS,
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_are_those_of_the_pooled_fit(name, weighted):
    mine, theirs, (X, y) = PAIRS[name]
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float) if weighted else None
    mine.set_params(tol=1e-10).fit(X, y, groups=sorted_silos(y), sample_weight=w)
    if "tol" in theirs.get_params():
        theirs.set_params(tol=1e-13 if "newton" in str(theirs) else 1e-12)
    theirs.fit(X, y, sample_weight=w)
    assert relative(mine.coef_, theirs.coef_) < 1e-6
    assert np.allclose(mine.intercept_, theirs.intercept_, rtol=1e-6, atol=1e-7)
    assert mine.certificate_ <= 1e-10 * abs(mine.objective_)
    assert mine.n_exchanges_ <= 20
    assert np.allclose(mine.predict(X[:5]), theirs.predict(X[:5])) if name != "multinomial" else True


def test_l1_logistic_reaches_the_better_objective_and_the_same_support():
    X, y = CANCER[0][:, :10], CANCER[1]
    mine = federated.LogisticRegression(C=0.3, l1_ratio=1.0, tol=1e-9).fit(X, y, groups=sorted_silos(y))
    theirs = l1_logistic(C=0.3, solver="saga", tol=1e-10, max_iter=20_000).fit(X, y)

    def objective(w, b):
        return np.logaddexp(0, -np.where(y == 1, 1, -1) * (X @ w + b)).mean() + np.abs(w).sum() / (0.3 * len(y))

    energies = [objective(m.coef_[0], m.intercept_[0]) for m in (mine, theirs)]
    assert np.isclose(energies[0], mine.objective_, rtol=1e-12)
    assert energies[0] <= min(energies) * (1 + 1e-8)
    assert ((mine.coef_ != 0) == (np.abs(theirs.coef_) > 1e-6)).all()
    assert mine.n_exchanges_ <= 20


def test_multinomial_l1_is_certified_too():
    X, y = WINE
    model = federated.LogisticRegression(C=0.5, l1_ratio=1.0, tol=1e-8).fit(X, y, groups=y)
    assert model.certificate_ <= 1e-8 * model.objective_
    assert 0 < (model.coef_ == 0).mean() < 1
    assert abs(model.intercept_.sum()) < 1e-12


def test_huber_at_scikit_learns_scale():
    X, y = DIABETES
    y = y.copy()
    y[::40] += 600
    theirs = pooled.HuberRegressor(alpha=0.3, tol=1e-10, max_iter=5000).fit(X, y)
    mine = federated.HuberRegressor(alpha=0.3, scale=theirs.scale_, tol=1e-10).fit(X, y, groups=sorted_silos(y))
    assert relative(mine.coef_, theirs.coef_) < 1e-3  # as far as theirs has converged

    delta, ridge = 1.35 * theirs.scale_, 0.3 * theirs.scale_ / len(y)

    def cost(x):
        r = X @ x[:-1] + x[-1] - y
        slope = np.clip(r, -delta, delta)
        value = (slope * r - slope**2 / 2).mean() + ridge / 2 * x[:-1] @ x[:-1]
        return value, np.append(X.T @ slope / len(y) + ridge * x[:-1], slope.mean())

    best = minimize(cost, np.append(mine.coef_, mine.intercept_) * 0.9, jac=True, tol=1e-14, options={"maxiter": 5000})
    assert relative(mine.coef_, best.x[:-1]) < 1e-5
    assert mine.objective_ <= best.fun * (1 + 1e-12)


@pytest.mark.parametrize("quantile", [0.5, 0.9])
def test_quantile(quantile):
    X, y = DIABETES
    mine = federated.QuantileRegressor(quantile=quantile, alpha=0.5, tol=1e-7).fit(X, y, groups=sorted_silos(y))
    theirs = pooled.QuantileRegressor(quantile=quantile, alpha=0.5).fit(X, y)

    def objective(m):
        r = y - m.predict(X)
        return np.maximum(quantile * r, (quantile - 1) * r).mean() + 0.5 * np.abs(m.coef_).sum()

    assert objective(mine) <= objective(theirs) * (1 + 1e-7)
    assert mine.certificate_ <= 1e-7 * mine.objective_ and mine.n_exchanges_ <= 20


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_support_vector_machine(loss):
    X, y = CANCER
    mine = federated.LinearSVC(C=0.1, loss=loss, tol=1e-7).fit(X, y, groups=np.arange(len(y)) % 4)
    assert mine.certificate_ <= 1e-7 * mine.objective_ and mine.n_exchanges_ <= 20
    if loss == "hinge":  # SVC leaves the intercept free, as we do
        theirs = SVC(C=0.1, kernel="linear", tol=1e-8).fit(X, y)
        assert relative(mine.coef_, theirs.coef_) < 1e-3
        return
    s = np.where(y == 1, 1.0, -1.0)

    def cost(x):
        slack = np.maximum(0, 1 - s * (X @ x[:-1] + x[-1]))
        ridge = 1 / (0.1 * len(y))
        g = -2 * slack * s / len(y)
        return (slack**2).mean() + ridge / 2 * x[:-1] @ x[:-1], np.append(X.T @ g + ridge * x[:-1], g.sum())

    best = minimize(cost, np.zeros(X.shape[1] + 1), jac=True, tol=1e-14, options={"maxiter": 5000})
    assert mine.objective_ <= best.fun * (1 + 1e-7)


def test_penalised_intercept_is_the_papers_objective():
    X, y = CANCER
    mine = federated.LogisticRegression(C=0.05, penalize_intercept=True, tol=1e-10).fit(X, y, groups=y)
    ones = np.column_stack([X, np.ones(len(y))])
    theirs = pooled.LogisticRegression(C=0.05, fit_intercept=False, solver="newton-cholesky", tol=1e-12).fit(ones, y)
    assert relative(np.append(mine.coef_, mine.intercept_), theirs.coef_) < 1e-7


def test_named_algorithms_give_the_same_model():
    X, y = CANCER
    settings = {"C": 0.01, "penalize_intercept": True, "tol": 1e-7, "max_iter": 3000}
    models = [
        federated.LogisticRegression(algorithm=name, **settings).fit(X, y, groups=np.arange(len(y)) % 3)
        for name in ("auto", "dualfl", "lbfgs")
    ]
    for model in models[1:]:
        assert relative(model.coef_, models[0].coef_) < 1e-2
        assert model.certificate_ <= 1e-7 * model.objective_
    assert models[0].algorithm_.startswith("auto runs sketched-newton: ") and models[1].algorithm_ == "dualfl"


def test_sparse_rows_and_sparse_silos():
    X, y = CANCER
    X = np.where(np.abs(X) > 0.8, X, 0.0)
    dense = federated.LogisticRegression(tol=1e-10).fit(X, y, groups=y)
    sparse = federated.LogisticRegression(tol=1e-10).fit(csr_matrix(X), y, groups=y)
    mixed = federated.LogisticRegression(tol=1e-10).fit_silos(
        [(X[y == 0], y[y == 0]), (csr_matrix(X[y == 1]), y[y == 1])]
    )
    assert relative(sparse.coef_, dense.coef_) < 1e-9 and relative(mixed.coef_, dense.coef_) < 1e-9
    assert np.allclose(sparse.predict_proba(csr_matrix(X)), dense.predict_proba(X))
