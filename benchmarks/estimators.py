"""Federated fits against pooled ones: five data sets, three partitions, every estimator that makes sense.

    DUALFL_DATA=... python -m benchmarks.estimators [--save] [DATA ...]

Partitions of the rows into 5 silos: shuffled; by label (by the size of the target, for regression); and shuffled, but
one silo has 2 rows. The pooled fit is scikit-learn's own at tight tolerance, or SciPy's on the same objective where
scikit-learn's differs (Huber's fitted scale; LinearSVC's penalised intercept; SVC is the hinge with a free intercept).

Where the objective is smooth and strictly convex, `coefficients` is |w - w_pooled|/|w_pooled| and must be at most 1e-6.
Elsewhere `objective` is (E - E_better) / E_better, with the better of the two, and must be at most 1e-8, and an l1
penalty must leave the same coefficients; where the columns left are linearly dependent there are many minimisers, all
with the same predictions, and these must agree to 1e-6. Exchanges must be at most 20. A row that misses says so.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.linear_model as pooled
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.preprocessing import scale
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from dualfl import estimators as federated
from dualfl.data import load
from dualfl.data.partitions import label, shuffled
from dualfl.errors import DualflError

COMMAND = "python -m benchmarks.estimators --save"
SILOS, TINY = 5, 2
KINKS = 5e-8  # tol where there are kinks, and errors are a tenth of it: fedipm's certificate ends at about 1e-8
COEFFICIENTS, OBJECTIVE, PREDICTIONS, EXCHANGES = 1e-6, 1e-8, 1e-6, 20
TIGHT = 1e-10  # tol of the fits; coefficients are about as exact as its square root
Fit = tuple[Any, Any]  # coefficients, one row an output, and intercepts


@dataclass(frozen=True)
class Task:
    """An estimator, its pooled rival, and the pooled objective by which both are judged (None: by coefficients)."""

    name: str
    model: Any
    rival: str
    fit: Callable[[Any, Any], Fit]
    objective: Callable[[Any, Any, Any, Any], float] | None = None
    sparse: bool = False  # whether an l1 penalty must leave the same coefficients
    tol: float = TIGHT


# -- objectives on the pooled rows, in plain NumPy --------------------------------------------------------------


def logistic_l1(C: float) -> Callable[..., float]:
    def objective(X: Any, y: Any, W: Any, b: Any) -> float:
        z = X @ W.T + b
        if z.shape[1] == 1:
            loss = np.logaddexp(0, -np.where(y == y.max(), 1, -1) * z[:, 0])
        else:
            loss = np.logaddexp.reduce(z, axis=1) - z[np.arange(len(y)), y.astype(int)]
        return float(loss.mean() + np.abs(W).sum() / (C * len(y)))

    return objective


def hinge(C: float, intercept: bool = False) -> Callable[..., float]:
    def objective(X: Any, y: Any, W: Any, b: Any) -> float:
        total = 0.0
        for w, c, s in zip(W, b, one_against_rest(y)):
            ridge = w @ w + (c * c if intercept else 0.0)
            total += np.maximum(0, 1 - s * (X @ w + c)).mean() + ridge / (2 * C * len(y))
        return float(total)

    return objective


def squares_l1(alpha: float, ratio: float) -> Callable[..., float]:
    def objective(X: Any, y: Any, W: Any, b: Any) -> float:
        w, r = W[0], y - X @ W[0] - b[0]
        return float(r @ r / (2 * len(y)) + alpha * ratio * np.abs(w).sum() + alpha * (1 - ratio) / 2 * w @ w)

    return objective


def pinball(quantile: float, alpha: float) -> Callable[..., float]:
    def objective(X: Any, y: Any, W: Any, b: Any) -> float:
        r = y - X @ W[0] - b[0]
        return float(np.maximum(quantile * r, (quantile - 1) * r).mean() + alpha * np.abs(W).sum())

    return objective


def one_against_rest(y: Any) -> list[Any]:
    classes = np.unique(y)
    return [np.where(y == c, 1.0, -1.0) for c in (classes[1:] if len(classes) == 2 else classes)]


# -- pooled fits ------------------------------------------------------------------------------------------------


def sklearn_fit(model: Any) -> Callable[[Any, Any], Fit]:
    def fit(X: Any, y: Any) -> Fit:
        found = model.fit(X, y)
        return np.atleast_2d(found.coef_), np.atleast_1d(found.intercept_)

    return fit


def machines(make: Callable[[], Any]) -> Callable[[Any, Any], Fit]:
    """One machine for each class against the rest, with the intercept that SciPy's or SVC's leaves free."""

    def fit(X: Any, y: Any) -> Fit:
        found = [make().fit(X, s) for s in one_against_rest(y)]
        return np.concatenate([m.coef_ for m in found]), np.concatenate([m.intercept_ for m in found])

    return fit


def scipy_fit(slopes: Callable[[Any, Any], tuple[Any, Any, Any]], ridge: Callable[[int], float]) -> Any:
    """A trust-region Newton method on the pooled objective; `slopes` gives loss, l' and l'' of each row."""

    def one(X: Any, y: Any) -> Any:
        Z, n = np.column_stack([X, np.ones(len(y))]), len(y)
        mu = np.append(np.full(X.shape[1], ridge(n)), 0.0)

        def cost(x: Any) -> float:
            return float(slopes(Z @ x, y)[0].mean() + mu @ x**2 / 2)

        def gradient(x: Any) -> Any:
            return Z.T @ slopes(Z @ x, y)[1] / n + mu * x

        def hessian(x: Any) -> Any:
            return (Z.T * slopes(Z @ x, y)[2]) @ Z / n + np.diag(mu)

        x = np.zeros(Z.shape[1])
        x[-1] = y.mean()
        found = minimize(cost, x, jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-9})
        x = found.x
        for _ in range(5):  # SciPy stops where the cost no longer falls in its last digit; the gradient still does
            x = x - np.linalg.solve(hessian(x), gradient(x))
        return x

    def fit(X: Any, y: Any) -> Fit:
        columns = [one(X, s) for s in one_against_rest(y)] if len(np.unique(y)) < 20 else [one(X, y)]
        found = np.stack(columns)
        return found[:, :-1], found[:, -1]

    return fit


def squared_hinge(z: Any, y: Any) -> tuple[Any, Any, Any]:
    slack = np.maximum(0, 1 - y * z)
    return slack**2, -2 * y * slack, 2.0 * (slack > 0)


def huber(delta: float) -> Callable[[Any, Any], tuple[Any, Any, Any]]:
    def slopes(z: Any, y: Any) -> tuple[Any, Any, Any]:
        r = z - y
        inside = np.clip(r, -delta, delta)
        return inside * r - inside**2 / 2, inside, 1.0 * (np.abs(r) <= delta)

    return slopes


# -- tasks ------------------------------------------------------------------------------------------------------


def classification(saga: int, free_hinge: bool = True, C: float = 1.0) -> list[Task]:
    newton = pooled.LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=200)
    l1 = pooled.LogisticRegression(C=C, l1_ratio=1.0, solver="saga", tol=1e-9, max_iter=saga, random_state=0)
    tasks = [
        Task("logistic, l2", federated.LogisticRegression(C=C), "LogisticRegression", sklearn_fit(newton)),
        Task(
            "logistic, l1", federated.LogisticRegression(C=C, l1_ratio=1.0), "LogisticRegression, saga",
            sklearn_fit(l1), logistic_l1(C), sparse=True, tol=KINKS,
        ),
        Task(
            "squared hinge", federated.LinearSVC(C=C), "SciPy, same objective",
            scipy_fit(squared_hinge, lambda n: 1 / (C * n)), tol=1e-14,
        ),
    ]  # fmt: skip
    if free_hinge:
        machine = machines(lambda: SVC(C=C, kernel="linear", tol=1e-9))
        return [
            *tasks,
            Task("hinge", federated.LinearSVC(C=C, loss="hinge"), "SVC, linear", machine, hinge(C), tol=KINKS),
        ]
    weak = 0.01  # so that liblinear converges
    penalised = federated.LinearSVC(C=weak, loss="hinge", penalize_intercept=True)
    liblinear = machines(lambda: LinearSVC(C=weak, loss="hinge", tol=1e-9, max_iter=200_000, random_state=0))
    return [*tasks, Task("hinge, penalised intercept", penalised, "LinearSVC", liblinear, hinge(weak, True), tol=KINKS)]


def regression() -> list[Task]:
    return [
        Task("ridge", federated.Ridge(), "Ridge", sklearn_fit(pooled.Ridge(solver="cholesky"))),
        Task(
            "lasso", federated.Lasso(), "Lasso", sklearn_fit(pooled.Lasso(tol=1e-14, max_iter=100_000)),
            squares_l1(1.0, 1.0), sparse=True,
        ),
        Task(
            "elastic net", federated.ElasticNet(), "ElasticNet",
            sklearn_fit(pooled.ElasticNet(tol=1e-14, max_iter=100_000)), squares_l1(1.0, 0.5), sparse=True,
        ),
        Task(
            "Huber, scale 50", federated.HuberRegressor(scale=50.0), "SciPy, same objective",
            scipy_fit(huber(1.35 * 50.0), lambda n: 1e-4 * 50.0 / n),
        ),
        Task(
            "quantile 0.9, l1", federated.QuantileRegressor(quantile=0.9), "QuantileRegressor",
            sklearn_fit(pooled.QuantileRegressor(quantile=0.9)), pinball(0.9, 1.0), sparse=True, tol=KINKS,
        ),
        Task(
            "Poisson", federated.PoissonRegressor(), "PoissonRegressor",
            sklearn_fit(pooled.PoissonRegressor(solver="newton-cholesky", tol=1e-12, max_iter=500)),
            tol=1e-13,  # its curvature is the mean count, 152, and its deviance small
        ),
    ]  # fmt: skip


def bundled(loader: Callable[..., Any], standardise: bool = True) -> Callable[[], Fit]:
    def rows() -> Fit:
        X, y = loader(return_X_y=True)
        return (scale(X) if standardise else X / X.max()), y

    return rows


def a8a() -> Fit:
    data = load("a8a")
    return data.X.toarray().astype(np.float64), np.asarray(data.y)


DATA: dict[str, tuple[Callable[[], Fit], Callable[[], list[Task]]]] = {
    "digits": (bundled(load_digits, standardise=False), lambda: classification(saga=1000)),
    "breast cancer": (bundled(load_breast_cancer), lambda: classification(saga=30_000)),
    "wine": (bundled(load_wine), lambda: classification(saga=30_000)),
    "diabetes": (bundled(load_diabetes), regression),
    "a8a": (a8a, lambda: classification(saga=400, free_hinge=False)),
}


def partitions(y: Any) -> dict[str, Any]:
    """The silo of each row."""
    n = len(y)
    tiny = shuffled(n, SILOS - 1, seed=1)
    tiny = [tiny[0][TINY:], *tiny[1:], tiny[0][:TINY]]
    found = {"shuffled": shuffled(n, SILOS), "by label": label(y, SILOS), f"one silo of {TINY} rows": tiny}
    return {name: _numbers(parts, n) for name, parts in found.items()}


def _numbers(parts: Any, n: int) -> Any:
    numbers = np.empty(n, dtype=int)
    for j, rows in enumerate(parts):
        numbers[rows] = j
    return numbers


# -- one row of the table ---------------------------------------------------------------------------------------


def row(task: Task, X: Any, y: Any, silo: Any, rival: Fit) -> tuple[str, bool]:
    """The cells of a row after its partition, and whether all limits hold."""
    model = task.model.set_params(tol=task.tol)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, groups=silo)
        except DualflError as error:
            return f"{task.rival} | - | - | - | - | - | MISS: {error}", False
    seconds = time.perf_counter() - began
    W, b = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    gap = np.inf if model.certificate_ is None else model.certificate_ / abs(model.objective_)
    misses = [] if not heard else [f"certified {gap:.0e} only"]
    remark = ""
    if task.objective is None:
        error = np.linalg.norm(W - rival[0]) / np.linalg.norm(rival[0])
        cells, misses = [f"{error:.0e}", ""], misses + ["coefficients"] * (not error <= COEFFICIENTS)
    else:
        mine, theirs = task.objective(X, y, W, b), task.objective(X, y, *rival)
        error = mine / min(mine, theirs) - 1
        misses += ["objective"] * (not error <= OBJECTIVE)
        cells = ["", f"{error:.0e}" + (f" (theirs {theirs / mine - 1:.0e})" if theirs > mine else "")]
        if task.sparse:
            same = np.array_equal(np.abs(W) > 1e-6, np.abs(rival[0]) > 1e-6)
            cells[1] += f", {np.count_nonzero(W)} left"
            if not same:
                apart, remark = predictions_apart(X, (W, b), rival), collinear(X, W, rival[0])
                misses += [] if remark and apart <= PREDICTIONS else [f"support ({remark})" if remark else "support"]
                remark = f" ({remark}; predictions {apart:.0e} apart)"
    misses += ["exchanges"] * (not model.n_exchanges_ <= EXCHANGES)
    verdict = "MISS: " + ", ".join(misses) if misses else f"ok{remark}"
    cells = [task.rival, *cells, f"{gap:.0e}", str(model.n_exchanges_), f"{seconds:.2f}", verdict]
    return " | ".join(cells), not misses


def collinear(X: Any, W: Any, V: Any) -> str:
    """A remark if the columns that either fit uses are linearly dependent: then there is more than one minimiser."""
    used = np.any((np.abs(W) > 1e-6) | (np.abs(V) > 1e-6), axis=0)
    A = np.column_stack([X[:, used], np.ones(len(X))])
    rank = int(np.linalg.matrix_rank(A))
    return f"not unique: {A.shape[1]} columns of rank {rank}" if rank < A.shape[1] else ""


def predictions_apart(X: Any, mine: Fit, theirs: Fit) -> float:
    """|predictions - theirs| / |theirs|, which are unique where coefficients are not."""
    ours, others = (X @ np.asarray(W).T + b for W, b in (mine, theirs))
    return float(np.linalg.norm(ours - others) / np.linalg.norm(others))


def run(names: list[str]) -> str:
    lines = [f"`{COMMAND}`", "", (__doc__ or "").split("\n\n", 2)[2].strip(), ""]
    total = missed = 0
    for name in names:
        rows, tasks = DATA[name]
        try:
            X, y = rows()
        except DualflError as error:
            print(f"{name} is left out: {error}", file=sys.stderr, flush=True)
            lines += [f"### {name}", "", f"Left out: {error}", ""]
            continue
        lines += [f"### {name}, {X.shape[0]:,} x {X.shape[1]}", ""]
        lines += ["| estimator | silos | pooled fit | coefficients | objective | certified | exchanges | seconds | |"]
        lines += ["|---|---|---|---:|---:|---:|---:|---:|---|"]
        for task in tasks():
            print(f"{name}: {task.name} ...", file=sys.stderr, flush=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rival = task.fit(X, y)
            for split, silo in partitions(y).items():
                cells, ok = row(task, X, y, silo, rival)
                total, missed = total + 1, missed + (not ok)
                lines.append(f"| {task.name} | {split} | {cells} |")
                print("   ", split, "|", cells, file=sys.stderr, flush=True)
        lines.append("")
    lines.append(f"{total - missed} of {total} rows reach every limit; {missed} miss one.")
    return "\n".join(lines) + "\n"


def main() -> None:
    save = "--save" in sys.argv
    names = [name for name in sys.argv[1:] if name != "--save"] or list(DATA)
    for name in names:
        if name not in DATA:
            sys.exit(f"There is no data set {name!r} here; there are {', '.join(DATA)}.")
    with threadpool_limits(1, user_api="blas"):
        text = run(names)
    print(text)
    if save:
        Path("results/estimators.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
