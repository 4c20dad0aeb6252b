"""Cross-validation: exchanges of every model, and time against scikit-learn's pooled cross-validation.

    DUALFL_DATA=... python -m benchmarks.cross_validation [--save] [--few] [PART ...]     parts: exchanges, time

Exchanges: 5 folds x 50 penalties on 5 separate silos, as between organisations: breast cancer (classes) and diabetes
(targets; counts and times are drawn from them), and for several classes iris, wine and digits. The limits are 25, and 2
for least squares. What a row says of a miss, it says. Models without an estimator of their own that chooses are those
of `dualfl fit --alpha cv`, with 50 penalties in place of its 11 or 20.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "DUALFL_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported

import numpy as np  # noqa: E402
import sklearn.linear_model as pooled  # noqa: E402
from scipy.special import logsumexp  # noqa: E402
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine  # noqa: E402
from sklearn.preprocessing import scale  # noqa: E402

from dualfl import estimators as federated  # noqa: E402
from dualfl.analysis.models import Recipe  # noqa: E402
from dualfl.analysis.whole_fit import LARGEST_RIDGE, SMALLEST_RIDGE, WEAKEST  # noqa: E402
from dualfl.data import load  # noqa: E402
from dualfl.estimators import survival_target  # noqa: E402
from dualfl.estimators.folds import make_folds  # noqa: E402
from dualfl.estimators.path import Dealt, following  # noqa: E402
from dualfl.silos.chamber import Chamber, Dealing, SiloRows, dealt  # noqa: E402
from dualfl.silos.here import SilosHere  # noqa: E402
from dualfl.silos.questions import Conversation, drive  # noqa: E402

PLACE = Path(__file__).parents[1] / "results" / "cross-validation.md"
SILOS, FOLDS = 5, 5
MOST, MOST_SQUARES = 25, 2
ACCURACY, PATIENCE = 1e-6, 600.0
lines: list[str] = []
kept: list[SilosHere] = []  # whoever was asked in the last fit
apart = [False]  # whether silos are computed one by one, as they are between organisations


def say(text: str = "") -> None:
    print(text, flush=True)
    lines.append(text)


class Watched(SilosHere):
    """Silos whose ledger can be read after the fit."""

    def __init__(self, chambers: Sequence[Chamber], joined: bool = False) -> None:
        super().__init__(chambers, joined and not apart[0])
        kept.append(self)


def fitted(model: Any, X: Any, y: Any) -> tuple[Any, float]:
    """The model, and the processor time that it took."""
    groups = np.arange(len(y)) % SILOS
    kept.clear()
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, groups=groups)
    return model, time.process_time() - began


def spent() -> dict[str, int]:
    return {entry.what: entry.exchanges for silos in kept for entry in silos.ledger.entries}


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


def several(load: Callable[..., Any]) -> Callable[[], tuple[Any, Any]]:
    """Of several classes."""

    def found() -> tuple[Any, Any]:
        X, y = load(return_X_y=True)
        return scale(X), y

    return found


def times() -> tuple[Any, Any]:
    """Of survival: larger targets of diabetes are sooner, and a third is censored."""
    X, y = amounts()
    rng = np.random.default_rng(0)
    return X, survival_target(event=rng.random(len(y)) < 2 / 3, time=rng.exponential(np.exp(-scale(y) / 2)))


def positive() -> tuple[Any, Any]:
    X, y = amounts()
    return X, y / y.mean()


def levels() -> tuple[Any, Any]:
    X, y = amounts()
    return X, np.digitize(y, [90, 150, 220])


class Chosen:
    """The penalty of a model of `dualfl fit` by cross-validation, as it does it."""

    def __init__(self, model: str, penalty: str, penalties: int) -> None:
        self.recipe, self.penalties = Recipe(model, penalty, 1.0), penalties

    def fit(self, X: Any, y: Any, groups: Any) -> None:
        classes = len(np.unique(y)) if self.recipe.kind.classes else 0
        rows = [SiloRows(str(j), X[groups == j], y[groups == j]) for j in range(SILOS)]
        silos = Watched([Chamber(one, Dealing(0, j, bool(classes))) for j, one in enumerate(rows)])

        def model(alpha: float) -> Any:
            return replace(self.recipe, alpha=alpha).estimator(classes)

        def values(dealt: Dealt) -> Conversation[Any]:
            if not self.recipe.share:
                return np.geomspace(LARGEST_RIDGE, SMALLEST_RIDGE, self.penalties)
            strongest = yield from dealt.strongest(silos, model(1.0))
            return np.geomspace(1.0, WEAKEST, self.penalties) * strongest / self.recipe.share

        drive(following(silos, model, values, make_folds(silos.names, FOLDS), "alpha"), silos)


def exchanges(penalties: int, chosen: list[str]) -> None:
    n, f = penalties, federated
    iris, wine, digits = several(load_iris), several(load_wine), several(load_digits)
    models: list[tuple[str, Callable[[], tuple[Any, Any]], Any]] = [
        ("logistic, l2", classes, f.LogisticRegressionCV(Cs=n)),
        ("logistic, l1", classes, f.LogisticRegressionCV(Cs=n, l1_ratio=1.0)),
        ("logistic, elastic net", classes, f.LogisticRegressionCV(Cs=n, l1_ratio=0.5)),
        ("multinomial, l2, iris", iris, Chosen("multinomial", "l2", n)),
        ("multinomial, l1, iris", iris, Chosen("multinomial", "l1", n)),
        ("multinomial, l2, wine", wine, Chosen("multinomial", "l2", n)),
        ("multinomial, l1, wine", wine, Chosen("multinomial", "l1", n)),
        ("multinomial, elastic net, wine", wine, Chosen("multinomial", "elastic-net", n)),
        ("multinomial, l2, digits", digits, Chosen("multinomial", "l2", n)),
        ("squared hinge, l2", classes, f.LinearSVCCV(Cs=n)),
        ("squared hinge, l1", classes, f.LinearSVCCV(Cs=n, penalty="l1")),
        ("squared hinge, l2, wine", wine, Chosen("squared-hinge", "l2", n)),
        ("hinge, l2", classes, f.LinearSVCCV(Cs=n, loss="hinge")),
        ("complementary log-log, l2", classes, Chosen("cloglog", "l2", n)),
        ("complementary log-log, l1", classes, Chosen("cloglog", "l1", n)),
        ("proportional odds, l2", levels, f.OrdinalRegressionCV(alphas=n)),
        ("proportional odds, l1", levels, f.OrdinalRegressionCV(alphas=n, l1_ratio=1.0)),
        ("ridge", amounts, f.RidgeCV(alphas=n)),
        ("lasso", amounts, f.LassoCV(alphas=n)),
        ("elastic net", amounts, f.ElasticNetCV(alphas=n)),
        ("Huber", amounts, f.HuberRegressorCV(alphas=n, scale=50.0)),
        ("median, l1", amounts, f.QuantileRegressorCV(alphas=n)),
        ("median, l2", amounts, Chosen("quantile", "l2", n)),
        ("Poisson", counts, f.PoissonRegressorCV(alphas=n)),
        ("Poisson, l1", counts, Chosen("poisson", "l1", n)),
        ("negative binomial, l2", counts, Chosen("negative-binomial", "l2", n)),
        ("negative binomial, l1", counts, Chosen("negative-binomial", "l1", n)),
        ("gamma, l2", positive, Chosen("gamma", "l2", n)),
        ("gamma, l1", positive, Chosen("gamma", "l1", n)),
        ("Tweedie, l2", positive, Chosen("tweedie", "l2", n)),
        ("Tweedie, l1", positive, Chosen("tweedie", "l1", n)),
        ("Cox, l2", times, f.CoxPHCV(alphas=n)),
        ("Cox, l1", times, f.CoxPHCV(alphas=n, l1_ratio=1.0)),
    ]
    say(f"## Exchanges of {FOLDS} folds x {n} penalties")
    say()
    say("| model | cross-validation | the fit that follows | numbers | CPU s | |")
    say("|---|---:|---:|---:|---:|---|")
    apart[0] = True
    for title, data, model in models:
        if chosen and not any(word in title for word in chosen):
            continue
        _, seconds = fitted(model, *data())
        found, most = spent(), MOST_SQUARES if title in ("ridge", "lasso", "elastic net") else MOST
        took = found.pop("cross-validation")
        verdict = "" if took <= most else f"missed: {most}"
        numbers, rest = sum(silos.ledger.numbers for silos in kept), sum(found.values()) or ""
        say(f"| {title} | {took} | {rest} | {numbers:,} | {seconds:.2f} | {verdict} |")
    apart[0] = False
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
    words = [word for word in parts if word not in ("exchanges", "time")]
    import dualfl.estimators.base as base

    base.SilosHere = Watched  # type: ignore[attr-defined]  # so that its ledger can be read
    say("# Cross-validation")
    say()
    say(f"`python -m benchmarks.cross_validation {' '.join(given)}`")
    say()
    if not parts or "exchanges" in parts:
        exchanges(penalties, words)
    if not parts or "time" in parts:
        race(penalties, words)
    if "--save" in given:
        PLACE.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
