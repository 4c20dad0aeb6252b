"""Regression: ridge, lasso, elastic net, Huber, quantile and Poisson."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dualfl.errors import InputError
from dualfl.estimators.base import FederatedRegressor, check_number
from dualfl.estimators.classifiers import check_ratio
from dualfl.estimators.solving import FitCost
from dualfl.objectives import Huber, Poisson, Quantile, Squared
from dualfl.objectives.inputs import check_offset
from dualfl.typing import Array


class Shrunk(FederatedRegressor):
    """Least squares with a penalty of one strength."""

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose


class Ridge(Shrunk):
    """Least squares with an l2 penalty.

    The objective is scikit-learn's, sum_i s_i (y_i - x_i'w - b)^2 + alpha |w|^2. Divided by 2 S, S = sum_i s_i, it is
    half the mean square with the paper's mu = alpha/S. `alpha=0` is least squares.

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
    >>> from dualfl.estimators import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = Ridge().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 40
    ((10,), True)
    """

    def _cost(self, mass: float) -> FitCost:
        return FitCost(Squared(), check_alpha(self.alpha) / mass)


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
    >>> from dualfl.estimators import ElasticNet
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ElasticNet().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 60
    ((10,), True)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.alpha, self.l1_ratio = alpha, l1_ratio
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose

    def _cost(self, mass: float) -> FitCost:
        alpha, ratio = check_alpha(self.alpha), check_ratio(self.l1_ratio)
        return FitCost(Squared(), alpha * (1 - ratio), alpha * ratio)


class Lasso(Shrunk):
    """Least squares with an l1 penalty.

    The objective is scikit-learn's, (1/(2S)) sum_i s_i (y_i - x_i'w - b)^2 + alpha |w|_1, S = sum_i s_i; the paper's mu
    is 0.

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
    >>> from dualfl.estimators import Lasso
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = Lasso().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 60
    ((10,), True)
    """

    def _cost(self, mass: float) -> FitCost:
        return FitCost(Squared(), 0.0, check_alpha(self.alpha))


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
    >>> from dualfl.estimators import HuberRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = HuberRegressor().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 200
    ((10,), True)
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.35,
        scale: float = 1.0,
        alpha: float = 0.0001,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.epsilon, self.scale, self.alpha = epsilon, scale, alpha
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose

    def _cost(self, mass: float) -> FitCost:
        scale = check_number("scale", self.scale, above=0)
        delta = check_number("epsilon", self.epsilon, above=0) * scale
        return FitCost(Huber(delta), check_alpha(self.alpha) * scale / mass)


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
    >>> from dualfl.estimators import QuantileRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = QuantileRegressor().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.n_exchanges_ < 200
    ((10,), True)
    """

    def __init__(
        self,
        *,
        quantile: float = 0.5,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.quantile, self.alpha = quantile, alpha
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose

    def _cost(self, mass: float) -> FitCost:
        return FitCost(Quantile(check_number("quantile", self.quantile)), 0.0, check_alpha(self.alpha))


class LogLink(FederatedRegressor):
    """Means of which the logarithm is linear, with an l2 penalty."""

    _location: ClassVar = False

    @property
    def _power(self) -> float:
        """Of the mean, to which the variance is proportional."""
        return 1.0

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose

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


class PoissonRegressor(LogLink):
    """Regression of counts, with the logarithm as link.

    The objective is scikit-learn's, (1/(2S)) sum_i s_i deviance_i + (alpha/2)|w|^2, S = sum_i s_i. Up to a constant
    that is the mean of exp(z) - y z with the paper's mu = alpha.

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
