"""Cross-validation: exchanges of every model, and time against scikit-learn's pooled cross-validation.

    DUALFL_DATA=... python -m benchmarks.cross_validation [--save] [--few] [PART ...]     parts: exchanges, time

Exchanges: 5 folds x 50 penalties on 5 silos, breast cancer (classes) and diabetes (targets; counts are drawn from
them). The limits are 25, and 2 for least squares. What a row says of a miss, it says.

Time: processor seconds of one thread, both programs in this run on the same folds and penalties, dualfl on 5 silos and
scikit-learn on all rows. dualfl's fits are accurate to tol = 1e-6 of the energy where they start; scikit-learn's have
its default tolerance, 1e-4 of another kind, and 1e-6. `choices` are the penalties that the two choose, `loss` how much
the least held-out losses differ. MNIST has 10,000 rows, pixels from 0 to 1, 3 folds x 5 penalties, and rivals of tol
1e-5 and 1e-6: with more of all this scikit-learn's side did not end in 18 minutes.
--few: 10 penalties. Words that are no part choose rows by their title.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "DUALFL_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported

import numpy as np  # noqa: E402
import sklearn.linear_model as pooled  # noqa: E402
from scipy.special import logsumexp  # noqa: E402
from sklearn.datasets import load_breast_cancer, load_diabetes  # noqa: E402
from sklearn.preprocessing import scale  # noqa: E402

from dualfl import estimators as federated  # noqa: E402
from dualfl.data import load  # noqa: E402
from dualfl.estimators.base import SilosHere  # noqa: E402
from dualfl.estimators.silos import SiloRows  # noqa: E402
from dualfl.silos.chamber import Dealing, dealt  # noqa: E402

PLACE = Path(__file__).parents[1] / "results" / "cross-validation.md"
SILOS, FOLDS = 5, 5
MOST, MOST_SQUARES = 25, 2
ACCURACY, PATIENCE = 1e-6, 600.0
lines: list[str] = []
kept: list[SilosHere] = []  # whoever was asked last


def say(text: str = "") -> None:
    print(text, flush=True)
    lines.append(text)


class Watched(SilosHere):
    """Silos whose ledger can be read after the fit."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        kept[:] = [self]


def fitted(model: Any, X: Any, y: Any) -> tuple[Any, float]:
    """The model, and the processor time that it took."""
    groups = np.arange(len(y)) % SILOS
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, groups=groups)
    return model, time.process_time() - began


def spent() -> dict[str, int]:
    return {entry.what: entry.exchanges for entry in kept[0].ledger.entries}


# -- exchanges ------------------------------------------------------------------------------------------------


def classes() -> tuple[Any, Any]:
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


def amounts() -> tuple[Any, Any]:
    X, y = load_diabetes(return_X_y=True)
    return scale(X), y


def counts() -> tuple[Any, Any]:
    X, y = amounts()
    return X, np.random.default_rng(0).poisson(np.exp(scale(y) / 2))


def exchanges(penalties: int) -> None:
    n, f = penalties, federated
    models: list[tuple[str, Callable[[], tuple[Any, Any]], Any]] = [
        ("logistic, l2", classes, f.LogisticRegressionCV(Cs=n)),
        ("logistic, l1", classes, f.LogisticRegressionCV(Cs=n, l1_ratio=1.0)),
        ("logistic, elastic net", classes, f.LogisticRegressionCV(Cs=n, l1_ratio=0.5)),
        ("squared hinge, l2", classes, f.LinearSVCCV(Cs=n)),
        ("squared hinge, l1", classes, f.LinearSVCCV(Cs=n, penalty="l1")),
        ("hinge, l2", classes, f.LinearSVCCV(Cs=n, loss="hinge")),
        ("ridge", amounts, f.RidgeCV(alphas=n)),
        ("lasso", amounts, f.LassoCV(alphas=n)),
        ("elastic net", amounts, f.ElasticNetCV(alphas=n)),
        ("Huber", amounts, f.HuberRegressorCV(alphas=n, scale=50.0)),
        ("median, l1", amounts, f.QuantileRegressorCV(alphas=n)),
        ("Poisson", counts, f.PoissonRegressorCV(alphas=n)),
    ]
    say(f"## Exchanges of {FOLDS} folds x {n} penalties")
    say()
    say("| model | cross-validation | the fit that follows | numbers | CPU s | |")
    say("|---|---:|---:|---:|---:|---|")
    for title, data, model in models:
        _, seconds = fitted(model, *data())
        found, most = spent(), MOST_SQUARES if title in ("ridge", "lasso", "elastic net") else MOST
        took = found.pop("cross-validation")
        verdict = "" if took <= most else f"missed: {most}"
        numbers = kept[0].ledger.numbers
        say(f"| {title} | {took} | {sum(found.values())} | {numbers:,} | {seconds:.2f} | {verdict} |")
    say()


# -- time -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contest:
    """A cross-validated fit by both programs; `rival(tol, splits)` is that of scikit-learn."""

    title: str
    X: Any
    y: Any
    model: Any
    rival: Callable[[float, Any], Any]
    tols: tuple[float, ...]
    folds: int = FOLDS


def splits(X: Any, y: Any, by_class: bool, folds: int) -> list[tuple[Any, Any]]:
    """dualfl's folds, as scikit-learn takes them."""
    number = np.empty(len(y), dtype=int)
    for j in range(SILOS):
        rows = np.flatnonzero(np.arange(len(y)) % SILOS == j)
        labels = np.unique(y, return_inverse=True)[1] if by_class else y
        number[rows] = dealt(SiloRows(str(j), X[rows], labels[rows]), Dealing(0, j, by_class), folds)
    return [(np.flatnonzero(number != fold), np.flatnonzero(number == fold)) for fold in range(folds)]


def log_loss(W: Any, b: Any, X: Any, y: Any) -> float:
    z = np.asarray(X @ np.atleast_2d(W).T) + b
    if z.shape[1] == 1:
        return float(np.logaddexp(0, -np.where(y > 0, 1, -1) * z[:, 0]).mean())
    return float((logsumexp(z, axis=1) - z[np.arange(len(y)), y]).mean())


def contests(penalties: int) -> list[Contest]:
    found = []
    Cs = np.logspace(-4, 4, penalties)
    X, y = classes()
    sets: list[tuple[str, Any, Any, Any, int, tuple[float, ...]]] = [("breast cancer", X, y, Cs, FOLDS, (1e-4, 1e-6))]
    table = load("a8a")
    sets.append(("a8a", table.X, np.unique(table.y, return_inverse=True)[1], Cs, FOLDS, (1e-4, 1e-6)))
    table = load("mnist")
    X, y = table.X[:10_000] / 255.0, np.unique(table.y[:10_000], return_inverse=True)[1]
    sets.append(("mnist, 10,000 rows", X, y, np.logspace(-3, 1, 5), 3, (1e-5, 1e-6)))
    for title, X, y, grid, folds, tols in sets:
        for solver in ("lbfgs", "newton-cholesky") if len(np.unique(y)) == 2 else ("lbfgs",):

            def logistic(tol: float, cv: Any, grid: Any = grid, solver: str = solver) -> Any:
                options = {"scoring": "neg_log_loss", "max_iter": 100_000, "use_legacy_attributes": False}
                return pooled.LogisticRegressionCV(Cs=grid, cv=cv, solver=solver, tol=tol, l1_ratios=(0.0,), **options)

            name = f"logistic, {title}, {len(grid)} penalties, {solver}"
            model = federated.LogisticRegressionCV(Cs=grid, cv=folds)
            found.append(Contest(name, X, y, model, logistic, tols, folds))

        def lasso(tol: float, cv: Any) -> Any:
            return pooled.LassoCV(alphas=penalties, cv=cv, tol=tol, max_iter=100_000)

        dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X, dtype=float)
        found.append(
            Contest(f"lasso, {title}", dense, y.astype(float), federated.LassoCV(alphas=penalties), lasso, (1e-4, 1e-6))
        )
    return found


def timed(rival: Any, X: Any, y: Any) -> tuple[Any, float]:
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rival.fit(X, y)
    return rival, time.process_time() - began


def race(penalties: int, chosen: list[str]) -> None:
    say("## Time")
    say()
    say("| fit | dualfl CPU s | exchanges | scikit-learn CPU s | its tol | ratio | choices | loss, relative | |")
    say("|---|---:|---:|---:|---:|---:|---|---:|---|")
    for one in contests(penalties):
        if chosen and not any(word in one.title for word in chosen):
            continue
        by_class = "logistic" in one.title
        model, mine = fitted(one.model, one.X, one.y)
        ours, least = getattr(model, model.parameter + "_"), float(model.path_.mean.min())
        for tol in one.tols:
            rival, theirs = timed(one.rival(tol, splits(one.X, one.y, by_class, one.folds)), one.X, one.y)
            found = float(np.ravel(rival.C_ if by_class else rival.alpha_)[0])
            loss = held_out(rival, by_class, model.path_.masses)
            verdict = "" if mine <= theirs else "slower"
            say(
                f"| {one.title} | {mine:.2f} | {spent()['cross-validation']} | {theirs:.2f} | {tol:g} | "
                f"{mine / theirs:.2f} | {ours:.4g}, {found:.4g} | {abs(loss - least) / least:.1e} | {verdict} |"
            )
            if theirs > PATIENCE:
                break
    say()


def held_out(rival: Any, by_class: bool, masses: Any) -> float:
    """The least mean loss over folds, in the unit of dualfl's path."""
    if not by_class:
        return float((rival.mse_path_ @ masses).min() / masses.sum() / 2)
    scores = np.asarray(rival.scores_)
    scores = scores.reshape(len(masses), -1)
    return float((-(masses @ scores) / masses.sum()).min())


def main() -> None:
    given = sys.argv[1:]
    penalties = 10 if "--few" in given else 50
    parts = [word for word in given if not word.startswith("--")]
    import dualfl.estimators.base as base

    base.SilosHere = Watched  # type: ignore[misc]  # so that its ledger can be read
    say("# Cross-validation")
    say()
    say(f"`python -m benchmarks.cross_validation {' '.join(given)}`")
    say()
    if not parts or "exchanges" in parts:
        exchanges(penalties)
    if not parts or "time" in parts:
        race(penalties, [word for word in parts if word not in ("exchanges", "time")])
    if "--save" in given:
        PLACE.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
