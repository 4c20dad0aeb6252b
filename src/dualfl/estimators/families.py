"""Further generalised linear models: gamma, Tweedie, negative binomial, and the complementary log-log link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dualfl.engines.engine import Result
from dualfl.errors import InputError, NoMinimiser
from dualfl.estimators.base import check_number
from dualfl.estimators.classifiers import LogisticRegression, check_ratio, check_strength
from dualfl.estimators.regressors import LogLink, check_alpha
from dualfl.estimators.solving import FitCost, Task
from dualfl.objectives import CLogLog, Gamma, NegativeBinomial, Poisson, Squared, Tweedie
from dualfl.objectives.inputs import check_offset
from dualfl.objectives.losses import Loss
from dualfl.silos.costs import ALL, Cost, Sample
from dualfl.silos.questions import Conversation, Exchange, Query, Silos, measuring
from dualfl.typing import Array

STEPS, SETTLED = 60, 1e-9  # of the search for a dispersion
BOUNDLESS = 1e6  # sizes, in means of the counts, beyond which there is none: rounding hides what is left of it


class GammaRegressor(LogLink):
    """Regression of amounts > 0 whose spread grows with their mean, with the logarithm as link.

    The objective is scikit-learn's, (1/(2S)) sum_i s_i deviance_i + (alpha/2)|w|^2, S = sum_i s_i. Up to a constant
    that is the mean of z + y exp(-z) with the paper's mu = alpha.

    Attributes are those of `LogisticRegression`.

    Parameters
    ----------
    alpha : float, default 1.0
        The strength of the penalty on the coefficients; the objective above says how it counts.
    fit_intercept : bool, default True
        Whether the model has an intercept.
    penalize_intercept : bool, default False
        Whether the penalty is on the intercept too; most first-order algorithms need that.
    algorithm : str or Algorithm, default 'auto'
        The name of an algorithm, an instance of one, or "auto", which takes the one that suits the problem.
    tol : float, default 1e-06
        The fit ends when E - E* <= tol |E| is proven.
    max_iter : int, default 200
        The largest number of rounds.
    random_state : int or None, optional
        The seed of algorithms that draw random numbers, and of folds.
    verbose : bool, default False
        Whether a bar shows how far the fit is.

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


class TweedieRegressor(LogLink):
    """Regression of amounts that are often zero, with the logarithm as link; the variance is the mean to a power.

    The objective is scikit-learn's, (1/(2S)) sum_i s_i deviance_i + (alpha/2)|w|^2, S = sum_i s_i.

    Other parameters, and the attributes, are those of `LogisticRegression`.

    Parameters
    ----------
    power : float, default 1.5
        1 is Poisson's, 2 is gamma's, between them are amounts with zeros; 0 is least squares, with the identity as
        link. Others have no convex likelihood, and are refused.
    alpha : float, default 1.0
        Strength of the l2 penalty.
    fit_intercept : bool, default True
        Whether the model has an intercept.
    penalize_intercept : bool, default False
        Whether the penalty is on the intercept too; most first-order algorithms need that.
    algorithm : str or Algorithm, default 'auto'
        The name of an algorithm, an instance of one, or "auto", which takes the one that suits the problem.
    tol : float, default 1e-06
        The fit ends when E - E* <= tol |E| is proven.
    max_iter : int, default 200
        The largest number of rounds.
    random_state : int or None, optional
        The seed of algorithms that draw random numbers, and of folds.
    verbose : bool, default False
        Whether a bar shows how far the fit is.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import TweedieRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TweedieRegressor().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 60
    ((10,), True)
    """

    def __init__(
        self,
        *,
        power: float = 1.5,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.power = power
        super().__init__(
            alpha=alpha, fit_intercept=fit_intercept, penalize_intercept=penalize_intercept, algorithm=algorithm,
            tol=tol, max_iter=max_iter, random_state=random_state, verbose=verbose,
        )  # fmt: skip

    def _cost(self, mass: float) -> FitCost:
        return FitCost(self._loss(), check_alpha(self.alpha))

    def _loss(self) -> Loss:
        power = check_number("power", self.power)
        known: dict[float, Loss] = {0.0: Squared(), 1.0: Poisson(), 2.0: Gamma()}
        if power not in known and not 1 < power < 2:
            raise InputError(f"power must be 0, or from 1 to 2, where the likelihood is convex, but it is {power:g}.")
        return known.get(power) or Tweedie(power)

    def predict(self, X: Any, offset: Any = None) -> Array:
        """The expected target of each row.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame
            Rows, with the columns of the fit.
        offset : array, optional
            A number for each row that is added to its linear predictor.

        Returns
        -------
        array
            One number a row.
        """
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
    fit_intercept : bool, default True
        Whether the model has an intercept.
    penalize_intercept : bool, default False
        Whether the penalty is on the intercept too; most first-order algorithms need that.
    algorithm : str or Algorithm, default 'auto'
        The name of an algorithm, an instance of one, or "auto", which takes the one that suits the problem.
    tol : float, default 1e-06
        The fit ends when E - E* <= tol |E| is proven.
    max_iter : int, default 200
        The largest number of rounds.
    random_state : int or None, optional
        The seed of algorithms that draw random numbers, and of folds.
    verbose : bool, default False
        Whether a bar shows how far the fit is.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import NegativeBinomialRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = NegativeBinomialRegressor(dispersion=0.5).fit(X, y // 50, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 60
    ((10,), True)
    """

    def __init__(
        self,
        *,
        dispersion: float | None = None,
        alpha: float = 0.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.dispersion = dispersion
        super().__init__(
            alpha=alpha, fit_intercept=fit_intercept, penalize_intercept=penalize_intercept, algorithm=algorithm,
            tol=tol, max_iter=max_iter, random_state=random_state, verbose=verbose,
        )  # fmt: skip

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
        """D^2, the share of the deviance that the model explains.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame
            Rows, with the columns of the fit.
        y : array
            Their targets.
        sample_weight : array, optional
            How often each row counts.

        Returns
        -------
        float
            1 if every target is predicted exactly, 0 for a model that knows the mean alone.
        """
        y = np.asarray(y, dtype=np.float64)
        w = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        own, mean = (self._deviance(y, m) for m in (self.predict(X), np.full(len(y), np.average(y, weights=w))))
        return float(1 - w @ own / (w @ mean))

    def _deviance(self, y: Array, m: Array) -> Array:
        a, grown = self.dispersion_, np.where(y > 0, y * np.log(np.where(y > 0, y, 1.0) / m), 0.0)
        return np.asarray(2 * (grown - (y + 1 / a) * np.log((1 + a * y) / (1 + a * m))))


class NoDispersion(NoMinimiser):
    """Counts that spread no more than Poisson's."""


def searching_dispersion(
    silos: Silos, model_of: Callable[[float], Any]
) -> Conversation[tuple[float, list[Result], Sample]]:
    """The most likely dispersion, and the model around it: one after the other, until both stay what they are."""
    dispersion, start = 1.0, None
    for _ in range(STEPS):
        model = model_of(dispersion)
        (sample,) = yield from measuring(silos, [ALL], model._cost(1.0).loss, 0, "the dispersion")
        (results,) = yield from model._solving(silos, [Task(model, sample, start)], "the dispersion")
        start = [results[0].theta]
        found = yield from likeliest(silos, model._costs(sample)[0], results[0].theta, dispersion, sample.mean)
        settled, dispersion = abs(found / dispersion - 1) <= SETTLED, found
        if settled:
            break
    model_of(dispersion)
    return dispersion, results, sample


def likeliest(silos: Silos, cost: Cost, theta: Array, dispersion: float, mean: float) -> Conversation[float]:
    """The dispersion that fits best around these means: Newton's method in the logarithm of the size."""
    size = 1 / dispersion
    for _ in range(STEPS):
        given = {"cost": cost.as_json(), "theta": theta, "size": size}
        (sums,) = yield Exchange("the dispersion", (Query("dispersion", given),))
        slope, bend = size * float(sums["slope"]), size**2 * float(sums["bend"]) - size * float(sums["slope"])
        step = slope / bend if bend > 0 else np.sign(slope)
        size *= float(np.exp(np.clip(step, -1.5, 1.5)))
        if not size < BOUNDLESS * max(mean, 1.0):
            raise NoDispersion(
                "The dispersion has no estimate, as the counts spread no more than Poisson's around this model: take "
                "Poisson's, or give one."
            )
        if abs(step) <= SETTLED / 10:
            break
    return 1 / size


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
    l1_ratio : float, default 0.0
        The share of l1 in the penalty: 0 is the ridge, 1 the lasso, between them the elastic net.
    fit_intercept : bool, default True
        Whether the model has an intercept.
    penalize_intercept : bool, default False
        Whether the penalty is on the intercept too; most first-order algorithms need that.
    algorithm : str or Algorithm, default 'auto'
        The name of an algorithm, an instance of one, or "auto", which takes the one that suits the problem.
    tol : float, default 1e-06
        The fit ends when E - E* <= tol |E| is proven.
    max_iter : int, default 200
        The largest number of rounds.
    random_state : int or None, optional
        The seed of algorithms that draw random numbers, and of folds.
    verbose : bool, default False
        Whether a bar shows how far the fit is.
    class_weight : dict or 'balanced', optional
        Weights of the classes, "balanced", or None.

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

    def __init__(
        self,
        *,
        C: float = np.inf,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = None,
        verbose: bool = False,
        class_weight: Any = None,
    ) -> None:
        super().__init__(
            C=C, l1_ratio=l1_ratio, fit_intercept=fit_intercept, penalize_intercept=penalize_intercept,
            algorithm=algorithm, tol=tol, max_iter=max_iter, random_state=random_state, verbose=verbose,
            class_weight=class_weight,
        )  # fmt: skip

    def _prepared(self, silos: Any) -> Any:
        prepared = super()._prepared(silos)
        if len(self.classes_) > 2:
            raise InputError(f"The complementary log-log link is for two classes, and there are {len(self.classes_)}.")
        return prepared

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
        """The probability of each class.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame
            Rows, with the columns of the fit.

        Returns
        -------
        array
            One row for each row of X, one column for each of `classes_`.
        """
        none = np.exp(-np.exp(self.decision_function(X)))
        return np.column_stack([none, 1 - none])

    def predict_log_proba(self, X: Any) -> Array:
        hazard = np.exp(self.decision_function(X))
        with np.errstate(divide="ignore"):
            return np.column_stack([-hazard, np.log(-np.expm1(-hazard))])

    def predict(self, X: Any) -> Any:
        """The more probable class of each row.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame
            Rows, with the columns of the fit.

        Returns
        -------
        array
            Classes, as they were in the targets.
        """
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.5).astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
