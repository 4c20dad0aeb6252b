"""Regression: ridge, lasso, elastic net, Huber, quantile and Poisson."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from dualfl.errors import InputError
from dualfl.estimators.base import WithIntercept, check_number
from dualfl.estimators.classifiers import check_ratio
from dualfl.estimators.parameters import estimator
from dualfl.estimators.solving import FitCost
from dualfl.objectives import Huber, Poisson, Quantile, Squared
from dualfl.objectives.inputs import check_offset
from dualfl.silos.chamber import SiloRows
from dualfl.silos.costs import Sample
from dualfl.typing import Array


@estimator
class FederatedRegressor(RegressorMixin, WithIntercept):  # type: ignore[misc]  # scikit-learn is untyped
    """Real targets."""

    _location: ClassVar = True  # whether the loss depends on y - z only

    def _shift(self, sample: Sample) -> float:
        """The mean of the targets, where an intercept can take it up."""
        return sample.mean if self._location and self._intercept() == "free" else 0.0

    def _prepared(self, silos: list[SiloRows]) -> list[SiloRows]:
        return [silo.with_targets(np.asarray(silo.y, dtype=np.float64)) for silo in silos]

    def _keep(self, W: Array, b: Array) -> None:
        self.coef_, self.intercept_ = W[0], float(b[0])

    def predict(self, X: Any) -> Array:
        """The predicted target of each row.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame
            Rows, with the columns of the fit.

        Returns
        -------
        array
            One number a row.
        """
        return self._predictor(X).ravel()


@estimator
class Shrunk(FederatedRegressor):
    """Least squares with a penalty of one strength.

    Parameters
    ----------
    alpha : float, default 1.0
        The strength of the penalty on the coefficients; the objective above says how it counts.
    """

    alpha: float = field(default=1.0, kw_only=False)


@estimator
class Ridge(Shrunk):
    """Least squares with an l2 penalty.

    The objective is scikit-learn's, sum_i s_i (y_i - x_i'w - b)^2 + alpha |w|^2. Divided by 2 S, S = sum_i s_i, it is
    half the mean square with the paper's mu = alpha/S. `alpha=0` is least squares.

    Attributes are those of `LogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = Ridge().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 40
    ((10,), True)
    """

    def _cost(self, mass: float) -> FitCost:
        return FitCost(Squared(), check_alpha(self.alpha) / mass)


@estimator
class ElasticNet(FederatedRegressor):
    """Least squares with l1 and l2 penalties.

    The objective is scikit-learn's,

        (1/(2S)) sum_i s_i (y_i - x_i'w - b)^2 + alpha l1_ratio |w|_1 + alpha (1 - l1_ratio)/2 |w|^2,    S = sum_i s_i,

    so the paper's mu is alpha (1 - l1_ratio).

    Attributes are those of `LogisticRegression`.

    Parameters
    ----------
    alpha : float, default 1.0
        The strength of the penalty on the coefficients; the objective above says how it counts.
    l1_ratio : float, default 0.5
        The share of l1 in the penalty: 0 is the ridge, 1 the lasso, between them the elastic net.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import ElasticNet
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ElasticNet().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 60
    ((10,), True)
    """

    alpha: float = field(default=1.0, kw_only=False)
    l1_ratio: float = 0.5

    def _cost(self, mass: float) -> FitCost:
        alpha, ratio = check_alpha(self.alpha), check_ratio(self.l1_ratio)
        return FitCost(Squared(), alpha * (1 - ratio), alpha * ratio)


@estimator
class Lasso(Shrunk):
    """Least squares with an l1 penalty.

    The objective is scikit-learn's, (1/(2S)) sum_i s_i (y_i - x_i'w - b)^2 + alpha |w|_1, S = sum_i s_i; the paper's mu
    is 0.

    Attributes are those of `LogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import Lasso
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = Lasso().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 60
    ((10,), True)
    """

    def _cost(self, mass: float) -> FitCost:
        return FitCost(Squared(), 0.0, check_alpha(self.alpha))


@estimator
class HuberRegressor(FederatedRegressor):
    """Regression that is robust against large residuals.

    scikit-learn minimises sum_i s_i (sigma + sigma H(r_i / sigma)) + alpha |w|^2 over w, b and the scale sigma, with
    H(z) = z^2 up to |z| = epsilon and linear beyond. Here sigma is given as `scale`, in the unit of y. Multiplied by
    scale/(2 S), S = sum_i s_i, the objective is the mean of r^2/2, linear beyond epsilon * scale, with the paper's
    mu = alpha scale/S. At scikit-learn's fitted `scale_` both have the same coefficients.

    Other parameters, and the attributes, are those of `LogisticRegression`.

    Parameters
    ----------
    epsilon : float, default 1.35
        How many scales a residual may have before it counts linearly.
    scale : float, default 1.0
        Of the residuals that are not outliers.
    alpha : float, default 0.0001
        Strength of the l2 penalty.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import HuberRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = HuberRegressor().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 200
    ((10,), True)
    """

    epsilon: float = 1.35
    scale: float = 1.0
    alpha: float = 0.0001

    def _cost(self, mass: float) -> FitCost:
        scale = check_number("scale", self.scale, above=0)
        delta = check_number("epsilon", self.epsilon, above=0) * scale
        return FitCost(Huber(delta), check_alpha(self.alpha) * scale / mass)


@estimator
class QuantileRegressor(FederatedRegressor):
    """Regression of a quantile.

    The objective is scikit-learn's, (1/S) sum_i s_i pinball(y_i - x_i'w - b) + alpha |w|_1, S = sum_i s_i, with
    pinball(r) = quantile * r for r > 0 and (quantile - 1) r otherwise; the paper's mu is 0.

    Other parameters, and the attributes, are those of `LogisticRegression`.

    Parameters
    ----------
    quantile : float, default 0.5
        Between 0 and 1; 0.5 is the median.
    alpha : float, default 1.0
        Strength of the l1 penalty.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import QuantileRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = QuantileRegressor().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 200
    ((10,), True)
    """

    quantile: float = 0.5
    alpha: float = 1.0

    def _cost(self, mass: float) -> FitCost:
        return FitCost(Quantile(check_number("quantile", self.quantile)), 0.0, check_alpha(self.alpha))


@estimator
class LogLink(FederatedRegressor):
    """Means of which the logarithm is linear, with an l2 penalty.

    Parameters
    ----------
    alpha : float, default 1.0
        The strength of the penalty on the coefficients; the objective above says how it counts.
    """

    alpha: float = 1.0
    _location: ClassVar = False

    @property
    def _power(self) -> float:
        """Of the mean, to which the variance is proportional."""
        return 1.0

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
        z = self._predictor(X).ravel()
        return np.exp(z if offset is None else z + check_offset(offset, len(z)))

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
        from sklearn.metrics import d2_tweedie_score  # takes a quarter of a second to import

        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=self._power))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


@estimator
class PoissonRegressor(LogLink):
    """Regression of counts, with the logarithm as link.

    The objective is scikit-learn's, (1/(2S)) sum_i s_i deviance_i + (alpha/2)|w|^2, S = sum_i s_i. Up to a constant
    that is the mean of exp(z) - y z with the paper's mu = alpha.

    Attributes are those of `LogisticRegression`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import PoissonRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PoissonRegressor().fit(X, y // 50, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 60
    ((10,), True)
    """

    def _cost(self, mass: float) -> FitCost:
        return FitCost(Poisson(), check_alpha(self.alpha))


def check_alpha(alpha: Any) -> float:
    value = check_number("alpha", alpha, least=0)
    if value == np.inf:
        raise InputError("alpha must be finite, but it is inf.")
    return value
