"""The estimators of `dualfl fit`: a loss and a penalty as the paper writes them, and what a model is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from dualfl.engines.result import Result
from dualfl.errors import NoMinimiser
from dualfl.estimators.base import FederatedLinear
from dualfl.estimators.classifiers import FederatedClassifier, LinearSVC, LogisticRegression
from dualfl.estimators.families import CLogLogRegression
from dualfl.estimators.regressors import FederatedRegressor, LogLink
from dualfl.estimators.solving import FitCost, FitLimits, Task
from dualfl.objectives import CLogLog, Cox, Loss, Ordered
from dualfl.silos.costs import Cost, Sample
from dualfl.silos.questions import Conversation, Silos
from dualfl.tables.encoding import Scaling
from dualfl.tables.schema import INTERCEPT
from dualfl.typing import AnyArray, Array


class Fitted(FederatedLinear):
    """An estimator whose penalty is given as the paper gives it; it keeps what its runs returned."""

    fit_intercept, penalize_intercept = True, False
    kind: ClassVar[str]  # what its predictor means (`silos.predictor`)
    _no_minimiser = "There is no minimiser, because there is no penalty."

    def __init__(
        self,
        loss: Loss,
        ridge: float = 0.0,
        l1: float = 0.0,
        *,
        own_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.loss, self.ridge, self.l1, self.own_intercept = loss, ridge, l1, own_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose

    def _cost(self, mass: float) -> FitCost:
        return FitCost(self.loss, self.ridge, self.l1)

    def _costs(self, sample: Sample) -> list[Cost]:
        costs = super()._costs(sample)
        return [replace(cost, intercept="own") for cost in costs] if self.own_intercept else costs

    def _intercept(self) -> Any:
        return False if self.own_intercept else super()._intercept()

    def _inspecting(self, silos: Silos, task: Task, results: list[Result]) -> Conversation[None]:
        if not self.own_intercept:
            yield from super()._inspecting(silos, task, results)

    def _without_minimiser(self, silos: Silos, sample: Sample, known: Any = None) -> Conversation[NoMinimiser]:
        """Whoever has asked for the fit knows its columns, and says more."""
        yield from ()
        return NoMinimiser(self._no_minimiser)

    def _proven(self, silos: Silos, task: Task, results: list[Result]) -> Conversation[list[Result]]:
        """Whoever has asked for the fit asks for its proof, too."""
        yield from ()
        return results

    def _limits(self, sample: Sample) -> FitLimits:
        return replace(super()._limits(sample), proof_follows=self.proof_follows)

    @property
    def proof_follows(self) -> bool:
        """Whether the proof is made of questions after the run, because the algorithm has none (`proving`)."""
        if self.l1:
            return isinstance(self.loss, Ordered)
        return self.own_intercept or isinstance(self.loss, Cox | Ordered | CLogLog)

    def _read(self, results: list[Result], offset: float = 0.0) -> None:
        whole = not (self.own_intercept or isinstance(self.loss, Cox | Ordered))
        self.fit_intercept = whole
        super()._read(results, offset)
        self.results_ = results

    @property
    def outputs(self) -> int:
        """Rows of coefficients: one for each class where there are more than two."""
        classes = len(getattr(self, "classes_", ()))
        return classes if classes > 2 else 1

    # -- what a model is made of ------------------------------------------------------------------

    @property
    def stacked(self) -> Array:
        """Coefficients and, last, intercepts if there are any; one column an output."""
        W = np.atleast_2d(self.coef_).T
        return W if self.own_intercept else np.vstack([W, np.atleast_1d(self.intercept_)[None]])

    def names(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Of the lines of `stacked`."""
        return (*columns,) if self.own_intercept else (*columns, INTERCEPT)

    def back(self, scaling: Scaling) -> Array:
        """The matrix that takes `stacked` for scaled columns to that for the columns themselves."""
        return np.diag(1 / scaling.spread) if self.own_intercept else scaling.back

    def restored(self, W: Array, b: Array) -> Fitted:
        """Fitted, with the coefficients that somebody found before; one row an output."""
        self.n_features_in_ = W.shape[1]
        FederatedClassifier._keep(self, W, b) if hasattr(self, "classes_") else FederatedRegressor._keep(self, W, b)
        return self


class Probabilities(Fitted, LogisticRegression):
    """Classes with probabilities."""

    kind = "probabilities"

    def _keep(self, W: Array, b: Array) -> None:
        if len(self.classes_) > 2 and self.ridge == self.l1 == 0:
            W = W - W.mean(axis=0)  # the same vector added to all classes changes nothing
        super()._keep(W, b)


class Margins(Fitted, LinearSVC):  # type: ignore[misc]  # `loss` is a Loss in one base, a word in the other
    """Classes with decision values; one against the rest for more than two."""

    kind = "margins"


class Seen(Fitted, CLogLogRegression):
    """Two classes with the complementary log-log link."""

    kind = "cloglog"


class Values(Fitted, FederatedRegressor):
    """Real targets."""

    kind = "values"


class Counts(Fitted, LogLink):
    """Expected counts."""

    kind = "counts"


class Amounts(Fitted, LogLink):
    """Expected amounts."""

    kind = "amounts"


class Joint(Fitted):
    """Models that are no sum over rows of a predictor alone; they have no common intercept."""

    fit_intercept = False

    def _shift(self, sample: Sample) -> float:
        return 0.0

    def back(self, scaling: Scaling) -> Array:
        return np.diag(1 / scaling.spread)


class Hazards(Joint):
    """Proportional hazards: the log of the hazard ratio."""

    kind = "hazards"

    def _keep(self, W: Array, b: Array) -> None:
        self.coef_, self.intercept_ = W, np.zeros(1)

    @property
    def stacked(self) -> Array:
        return np.atleast_2d(self.coef_).T

    def names(self, columns: Sequence[str]) -> tuple[str, ...]:
        return (*columns,)

    def predict(self, X: Any) -> Array:
        return self._predictor(X).ravel()

    def restored(self, W: Array, b: Array) -> Fitted:
        self.n_features_in_ = W.shape[1]
        self._keep(W, b)
        return self


class Levels(Joint):
    """Ordered levels: coefficients, and thresholds between the levels."""

    kind = "ordered"
    loss: Ordered

    def _keep(self, W: Array, b: Array) -> None:
        D = W.shape[1] - (self.loss.levels - 1)
        self.coef_, self.thresholds_ = W[:, :D], np.array(self.loss.base) + W[0, D:]
        self.intercept_ = self.thresholds_

    @property
    def stacked(self) -> Array:
        return np.concatenate([np.ravel(self.coef_), self.thresholds_])[:, None]

    def names(self, columns: Sequence[str]) -> tuple[str, ...]:
        between = zip(self.level_names, self.level_names[1:])
        return (*columns, *(f"{low} | {high}" for low, high in between))

    level_names: Sequence[str] = ()

    def back(self, scaling: Scaling) -> Array:
        d, k = len(scaling.mean), self.loss.levels - 1
        T = np.diag(np.append(1 / scaling.spread, np.ones(k)))
        T[d:, :d] = scaling.mean / scaling.spread  # t - w'(x - mean)/spread
        return T

    def predict_proba(self, X: Any) -> Array:
        z = self._predictor_alone(X)
        below = expit(self.thresholds_[None, :] - z[:, None])
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    def predict(self, X: Any) -> AnyArray:
        found: AnyArray = self.predict_proba(X).argmax(axis=1)
        return found

    def _predictor_alone(self, X: Any) -> Array:
        return np.asarray(X @ np.ravel(self.coef_))

    def restored(self, W: Array, b: Array) -> Fitted:
        self.n_features_in_ = W.shape[1]
        self.coef_, self.thresholds_ = W, np.asarray(b)
        self.intercept_ = self.thresholds_
        return self
