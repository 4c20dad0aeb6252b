"""The fits that people do every day: each a data set, an objective, and the programs that can minimise it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import datasets, linear_model
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benchmarks.rivals import energies
from benchmarks.rivals.contest import Contender, Model, model_of
from dualfl import estimators
from dualfl.data import load

PROVEN = (1e-6,)  # dualfl proves this much; the others are only asked for a true error
MANY = 100_000  # iterations


@dataclass
class Fit:
    """One row of the table."""

    name: str
    contenders: list[Contender]
    energy: Callable[[Model], float]
    turns: int = 3
    milliseconds: float | None = None  # a figure of its own; otherwise the ratio counts


def ours(make: Callable[[], Any], X: Any, y: Any, silos: int) -> Contender:
    """`make` gives an estimator; the rows are dealt out in turn."""
    groups = np.arange(X.shape[0]) % silos

    def fit(tol: float) -> Model:
        model = make().set_params(tol=tol).fit(X, y, groups=groups)
        proven = "not proven" if model.certificate_ is None else f"{model.certificate_ / abs(model.objective_):.0e}"
        return model_of(model, f"{model.n_exchanges_} exchanges, proven {proven}")

    return Contender(f"dualfl auto, {silos} silo{'s' if silos > 1 else ''}", fit, PROVEN)


def sklearn_like(name: str, make: Callable[[float], Any], X: Any, y: Any, tols: Any = None) -> Contender:
    def fit(tol: float) -> Model:
        return model_of(make(tol).fit(X, y))

    return Contender(name, fit) if tols is None else Contender(name, fit, tols)


def installed(*names: str) -> bool:
    from importlib.util import find_spec

    return all(find_spec(name) is not None for name in names)


# -- classification -------------------------------------------------------------------------------------------


def mnist(mu: float) -> Fit:
    data = load("mnist")
    y, n = data.y, len(data.y)
    rows = sparse.csr_array(data.X.astype(np.float64) * data.scale)
    C = 1 / (n * mu)

    def theirs(solver: str) -> Callable[[float], Any]:
        return lambda tol: linear_model.LogisticRegression(C=C, solver=solver, tol=tol, max_iter=MANY)

    matrix = sparse.csr_matrix(rows)
    tols = (1e-4, 1e-5, 1e-6)

    def make() -> Any:
        return estimators.LogisticRegression(C=C)

    # the same model of the bytes themselves: coefficients are 255 times smaller
    bytes_of = ours(lambda: estimators.LogisticRegression(C=C * data.scale**2), data.X, y, 8)

    def of_bytes(tol: float) -> Model:
        W, b, told = bytes_of.fit(tol)
        return Model(W / data.scale, b, told)

    return Fit(
        f"MNIST 60k, softmax, mu = {mu:g}",
        [
            ours(make, rows, y, 8),
            ours(make, rows, y, 1),
            Contender("dualfl auto, 8 silos, bytes", of_bytes, PROVEN),
            sklearn_like("scikit-learn newton-cg", theirs("newton-cg"), matrix, y, tols),
            sklearn_like("scikit-learn lbfgs", theirs("lbfgs"), matrix, y, tols),
        ],
        energies.energy(rows, y, energies.softmax, mu),
        turns=1,
    )


def a8a() -> tuple[Any, np.ndarray]:
    data = load("a8a")
    X = sparse.csr_matrix(data.X).astype(np.float64)
    return X, np.where(np.asarray(data.y) > 0, 1.0, -1.0)


def a8a_logistic() -> Fit:
    X, y = a8a()
    n = len(y)

    def theirs(solver: str) -> Callable[[float], Any]:
        return lambda tol: linear_model.LogisticRegression(solver=solver, tol=tol, max_iter=MANY)

    contenders = [ours(estimators.LogisticRegression, X, y, 8), ours(estimators.LogisticRegression, X, y, 1)]
    for solver in ("newton-cholesky", "lbfgs"):
        contenders.append(sklearn_like(f"scikit-learn {solver}", theirs(solver), X, y))
    if installed("glum"):
        import glum

        contenders.append(
            sklearn_like(
                "glum irls-ls",
                lambda tol: glum.GeneralizedLinearRegressor(
                    family="binomial", alpha=1 / n, l1_ratio=0.0, gradient_tol=tol, solver="irls-ls", max_iter=1000
                ),
                X,
                (y > 0).astype(float),
            )
        )
    return Fit("a8a, logistic, C = 1", contenders, energies.energy(X, y, energies.logistic, 1 / n))


def a8a_l1() -> Fit:
    X, y = a8a()
    n = len(y)

    def make() -> Any:
        return estimators.LogisticRegression(l1_ratio=1.0)

    contenders = [
        ours(make, X, y, 8),
        ours(make, X, y, 1),
        sklearn_like(
            "scikit-learn saga",
            lambda tol: linear_model.LogisticRegression(l1_ratio=1.0, solver="saga", tol=tol, max_iter=MANY),
            X,
            y,
            LADDER_SAGA,
        ),
    ]
    if installed("skglm"):
        import skglm

        contenders.append(
            sklearn_like("skglm", lambda tol: skglm.SparseLogisticRegression(alpha=1 / n, tol=tol), X.tocsc(), y)
        )
    return Fit("a8a, logistic, l1, C = 1", contenders, energies.energy(X, y, energies.logistic, l1=1 / n), turns=1)


LADDER_SAGA = (1e-4, 1e-5)


def a8a_svm() -> Fit:
    X, y = a8a()
    n = len(y)

    def make() -> Any:
        return estimators.LinearSVC(loss="hinge", penalize_intercept=True)

    return Fit(
        "a8a, linear SVM (hinge), C = 1",
        [
            ours(make, X, y, 8),
            ours(make, X, y, 1),
            sklearn_like(
                "liblinear, dual", lambda tol: LinearSVC(loss="hinge", tol=tol, max_iter=MANY), X, y, LADDER_SVM
            ),
        ],
        energies.energy(X, y, energies.hinge, 1 / n, all_of_it=True),
    )


LADDER_SVM = tuple(10.0**-i for i in range(1, 6))


def breast_cancer() -> Fit:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    signs, n = np.where(y > 0, 1.0, -1.0), len(y)
    contenders = [ours(estimators.LogisticRegression, X, y, 5)]
    for solver in ("newton-cholesky", "lbfgs"):
        contenders.append(
            sklearn_like(
                f"scikit-learn {solver}",
                lambda tol, solver=solver: linear_model.LogisticRegression(solver=solver, tol=tol, max_iter=MANY),
                X,
                y,
            )
        )
    measure = energies.energy(X, signs, energies.logistic, 1 / n)
    return Fit("breast cancer, 569 x 30, logistic", contenders, measure, turns=25, milliseconds=8)


def unpenalised() -> Fit:
    X, y = synthetic(20_000, 50)
    labels = np.where(np.random.default_rng(1).random(len(y)) < 1 / (1 + np.exp(-y)), 1.0, -1.0)

    def make() -> Any:
        return estimators.LogisticRegression(C=np.inf)

    contenders = [
        ours(make, X, labels, 8),
        ours(make, X, labels, 1),
        sklearn_like(
            "scikit-learn newton-cholesky",
            lambda tol: linear_model.LogisticRegression(C=np.inf, solver="newton-cholesky", tol=tol, max_iter=MANY),
            X,
            labels,
        ),
    ]
    if installed("statsmodels"):
        import statsmodels.api as sm

        def logit(tol: float) -> Model:
            found = sm.Logit((labels > 0).astype(float), sm.add_constant(X)).fit(method="newton", tol=tol, disp=0)
            return Model(found.params[1:, None], found.params[:1])

        contenders.append(Contender("statsmodels Logit", logit))
    return Fit("unpenalised logistic, 20,000 x 50", contenders, energies.energy(X, labels, energies.logistic))


# -- regression -----------------------------------------------------------------------------------------------


def synthetic(n: int, d: int, active: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n, 1))
    w = np.zeros(d)
    w[: active or d] = rng.normal(size=active or d) / np.sqrt(active or d)
    return X, X @ w + 0.5 * rng.normal(size=n)


def ridge() -> Fit:
    X, y = datasets.load_diabetes(return_X_y=True)
    n = len(y)
    contenders = [
        ours(estimators.Ridge, X, y, 5),
        sklearn_like("scikit-learn cholesky", lambda tol: linear_model.Ridge(solver="cholesky"), X, y, (1e-6,)),
    ]
    measure = energies.energy(X, y, energies.half_square, 1 / n)
    return Fit("diabetes, 442 x 10, ridge", contenders, measure, turns=25, milliseconds=2)


def lasso(n: int, d: int) -> Fit:
    X, y = synthetic(n, d, active=20)
    centred = X - X.mean(axis=0)
    alpha = 0.05 * float(np.abs(centred.T @ (y - y.mean())).max()) / n

    def make() -> Any:
        return estimators.Lasso(alpha)

    contenders = [
        ours(make, X, y, 8),
        ours(make, X, y, 1),
        sklearn_like("scikit-learn", lambda tol: linear_model.Lasso(alpha, tol=tol, max_iter=MANY), X, y),
    ]
    if installed("skglm"):
        import skglm

        contenders.append(sklearn_like("skglm", lambda tol: skglm.Lasso(alpha, tol=tol), np.asfortranarray(X), y))
    if installed("celer"):
        import celer

        contenders.append(sklearn_like("celer", lambda tol: celer.Lasso(alpha, tol=tol), np.asfortranarray(X), y))
    return Fit(f"lasso, {n:,} x {d:,}", contenders, energies.energy(X, y, energies.half_square, l1=alpha), turns=5)


def counts() -> Fit:
    X, eta = synthetic(20_000, 50)
    y = np.random.default_rng(1).poisson(np.exp(0.5 * eta)).astype(float)
    alpha = 1e-3

    def make() -> Any:
        return estimators.PoissonRegressor(alpha=alpha)

    contenders = [
        ours(make, X, y, 8),
        ours(make, X, y, 1),
        sklearn_like(
            "scikit-learn newton-cholesky",
            lambda tol: linear_model.PoissonRegressor(alpha=alpha, solver="newton-cholesky", tol=tol, max_iter=MANY),
            X,
            y,
        ),
    ]
    if installed("glum"):
        import glum

        contenders.append(
            sklearn_like(
                "glum irls-ls",
                lambda tol: glum.GeneralizedLinearRegressor(
                    family="poisson", alpha=alpha, l1_ratio=0.0, gradient_tol=tol, solver="irls-ls", max_iter=1000
                ),
                X,
                y,
            )
        )
    return Fit("Poisson, 20,000 x 50", contenders, energies.energy(X, y, energies.poisson, alpha))


def quantile() -> Fit:
    X, y = synthetic(5_000, 50)
    alpha = 1e-3

    def make() -> Any:
        return estimators.QuantileRegressor(quantile=0.5, alpha=alpha)

    contenders = [ours(make, X, y, 8), ours(make, X, y, 1)]
    for solver in ("highs-ipm", "highs-ds"):
        contenders.append(
            sklearn_like(
                f"scikit-learn {solver}",
                lambda tol, solver=solver: linear_model.QuantileRegressor(quantile=0.5, alpha=alpha, solver=solver),
                X,
                y,
                (1e-6,),
            )
        )
    return Fit("median, 5,000 x 50", contenders, energies.energy(X, y, energies.median_loss, l1=alpha), turns=1)


FITS: dict[str, Callable[[], Fit]] = {
    "breast-cancer": breast_cancer,
    "ridge": ridge,
    "a8a": a8a_logistic,
    "a8a-l1": a8a_l1,
    "a8a-svm": a8a_svm,
    "lasso-tall": lambda: lasso(5_000, 200),
    "lasso-wide": lambda: lasso(2_000, 5_000),
    "poisson": counts,
    "unpenalised": unpenalised,
    "quantile": quantile,
    "mnist-2": lambda: mnist(1e-2),
    "mnist-4": lambda: mnist(1e-4),
}
