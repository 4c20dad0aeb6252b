"""Further generalised linear models: gamma, Tweedie, negative binomial, and the complementary log-log link."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualfl.engines.result import Result
from dualfl.errors import InputError
from dualfl.estimators.base import check_number
from dualfl.estimators.classifiers import LogisticRegression, check_ratio, check_strength
from dualfl.estimators.dispersion import searching_dispersion
from dualfl.estimators.parameters import estimator
from dualfl.estimators.proving import certified
from dualfl.estimators.regressors import LogLink, check_alpha
from dualfl.estimators.solving import FitCost, Task, proof_of
from dualfl.objectives import CLogLog, Gamma, NegativeBinomial, Poisson, Squared, Tweedie
from dualfl.objectives.inputs import check_offset
from dualfl.objectives.losses import Loss
from dualfl.silos.questions import Conversation, Silos
from dualfl.typing import Array


@estimator
class GammaRegressor(LogLink):
    """Regression of amounts > 0 whose spread grows with their mean, with the logarithm as link.

    The objective is scikit-learn's, (1/(2S)) sum_i s_i deviance_i + (alpha/2)|w|^2, S = sum_i s_i. Up to a constant
    that is the mean of z + y exp(-z) with the paper's mu = alpha.

    Attributes are those of `LogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import GammaRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GammaRegressor().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 60
    ((10,), True)
    """

    @property
    def _power(self) -> float:
        return 2.0

    def _cost(self, mass: float) -> FitCost:
        return FitCost(Gamma(), check_alpha(self.alpha))


@estimator
class TweedieRegressor(LogLink):
    """Regression of amounts that are often zero, with the logarithm as link; the variance is the mean to a power.

    The objective is scikit-learn's, (1/(2S)) sum_i s_i deviance_i + (alpha/2)|w|^2, S = sum_i s_i.

    Other parameters, and the attributes, are those of `LogisticRegression`.

    Parameters
    ----------
    power : float, default 1.5
        1 is Poisson's, 2 is gamma's, between them are amounts with zeros; 0 is least squares, with the identity as
        link. Others have no convex likelihood, and are refused.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import TweedieRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TweedieRegressor().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 60
    ((10,), True)
    """

    power: float = 1.5

    def _cost(self, mass: float) -> FitCost:
        return FitCost(self._loss(), check_alpha(self.alpha))

    def _loss(self) -> Loss:
        power = check_number("power", self.power)
        known: dict[float, Loss] = {0.0: Squared(), 1.0: Poisson(), 2.0: Gamma()}
        if power not in known and not 1 < power < 2:
            raise InputError(f"power must be 0, or from 1 to 2, where the likelihood is convex, but it is {power:g}.")
        return known.get(power) or Tweedie(power)

    def predict(self, X: Any, offset: Any = None) -> Array:
        if self.power != 0:
            return super().predict(X, offset)
        z = self._predictor(X).ravel()
        return z if offset is None else z + check_offset(offset, len(z))

    @property
    def _power(self) -> float:
        return self.power

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.power != 0
        return tags


@estimator
class NegativeBinomialRegressor(LogLink):
    """Regression of counts that spread more than Poisson's: variance m + dispersion m^2, with the logarithm as link.

    The objective is the mean of (y + 1/a) log(1 + a exp(z)) - y z, a the dispersion, and (alpha/2)|w|^2.

    Other parameters, and the attributes, are those of `LogisticRegression`; `dispersion_` is what was given or found.

    Parameters
    ----------
    dispersion : float, optional
        a > 0; None searches the most likely one, a model and two sums over silos a step. (R's theta is 1/a.).
    alpha : float, default 0.0
        Strength of the l2 penalty.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import NegativeBinomialRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = NegativeBinomialRegressor(dispersion=0.5).fit(X, y // 50, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 60
    ((10,), True)
    """

    dispersion: float | None = None
    alpha: float = 0.0

    def _cost(self, mass: float) -> FitCost:
        dispersion = getattr(self, "dispersion_", 1.0) if self.dispersion is None else self.dispersion
        return FitCost(NegativeBinomial(check_number("dispersion", dispersion, above=0)), check_alpha(self.alpha))

    @property
    def _searched(self) -> bool:
        return self.dispersion is None

    def _fitting(self, silos: Silos) -> Conversation[None]:
        if self.dispersion is not None:
            self.dispersion_ = float(check_number("dispersion", self.dispersion, above=0))
            yield from super()._fitting(silos)
            return
        self.dispersion_ = 1.0

        def with_dispersion(found: float) -> NegativeBinomialRegressor:
            self.dispersion_ = found
            return self

        _, results, sample = yield from searching_dispersion(silos, with_dispersion)
        self._note(results, sample)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        y = np.asarray(y, dtype=np.float64)
        w = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        own, mean = (self._deviance(y, m) for m in (self.predict(X), np.full(len(y), np.average(y, weights=w))))
        return float(1 - w @ own / (w @ mean))

    def _deviance(self, y: Array, m: Array) -> Array:
        a, grown = self.dispersion_, np.where(y > 0, y * np.log(np.where(y > 0, y, 1.0) / m), 0.0)
        return np.asarray(2 * (grown - (y + 1 / a) * np.log((1 + a * y) / (1 + a * m))))


@estimator
class CLogLogRegression(LogisticRegression):
    """Two classes with the complementary log-log link, P(second class) = 1 - exp(-exp(x'w + b)).

    It is the link of events that are seen or not in a time of observation; with an offset of the time's logarithm the
    coefficients are those of proportional hazards. The objective is that of `LogisticRegression` with this loss.

    Parameters and attributes are those of `LogisticRegression`; C is infinite by default, which means no penalty.

    Parameters
    ----------
    C : float, default inf
        The inverse of the penalty's strength: the objective is the mean loss plus the penalty over C n, as in
        scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dualfl.estimators import CLogLogRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = X[:, :3] / X[:, :3].std(axis=0)
    >>> model = CLogLogRegression().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.score(X, y) > 0.8
    ((1, 3), True)
    """

    C: float = np.inf

    def _prepared(self, silos: Any) -> Any:
        prepared = super()._prepared(silos)
        if len(self.classes_) > 2:
            raise InputError(f"The complementary log-log link is for two classes, and there are {len(self.classes_)}.")
        return prepared

    def _proven(self, silos: Silos, task: Task, results: list[Result]) -> Conversation[list[Result]]:
        """Rows of this process have their proof from the run; those of a study are asked for sums that prove it."""
        (cost,), (result,) = self._costs(task.sample), results
        if result.certificate is not None or proof_of(silos.side(cost, task.sample), False) is not None:
            return results
        return [(yield from certified(silos, self, task.sample, result))]

    def _inspecting(self, silos: Silos, task: Task, results: list[Result]) -> Conversation[None]:
        """The loss goes to 0 as exp(-e^z), so along a direction that separates a fit ends before its curvature is seen
        to vanish; where nothing is proven, silos are asked for such a direction."""
        yield from super()._inspecting(silos, task, results)
        (cost,) = self._costs(task.sample)
        if results[0].certificate is None and cost.ridge == cost.l1 == 0:
            error = yield from self._without_minimiser(silos, task.sample)
            if error.direction is not None:
                raise error

    def _cost(self, mass: float) -> FitCost:
        strength, ratio = 1 / (check_strength(self.C) * mass), check_ratio(self.l1_ratio)
        return FitCost(CLogLog(), (1 - ratio) * strength, ratio * strength)

    def predict_proba(self, X: Any) -> Array:
        none = np.exp(-np.exp(self.decision_function(X)))
        return np.column_stack([none, 1 - none])

    def predict_log_proba(self, X: Any) -> Array:
        hazard = np.exp(self.decision_function(X))
        with np.errstate(divide="ignore"):
            return np.column_stack([-hazard, np.log(-np.expm1(-hazard))])

    def predict(self, X: Any) -> Any:
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.5).astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
