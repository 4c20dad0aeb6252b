"""Estimators that choose their penalty by federated cross-validation: one class for each with a fixed penalty.

`C: float = field(init=False)` says that C is not given, as it is chosen. Weights of classes are not taken either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from dualfl.estimators.classifiers import LinearSVC, LogisticRegression
from dualfl.estimators.cross_validated import CrossValidated
from dualfl.estimators.parameters import estimator
from dualfl.estimators.regressors import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
)


@estimator
class LogisticRegressionCV(CrossValidated, LogisticRegression):
    """`LogisticRegression` with C chosen by the held-out log loss.

    Other parameters mean what they mean in `LogisticRegression`; `random_state` (a whole number) also deals the folds.
    After the fit, `C_` is the choice and `path_` has the losses and a `figure()`.

    Parameters
    ----------
    Cs : int or sequence of float, default 10
        The number of values, or the values themselves. With l1 they begin where all coefficients are zero;
        otherwise they are spread over 1e-4 .. 1e4.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dualfl.estimators import LogisticRegressionCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = X[:, :3] / X[:, :3].std(axis=0)
    >>> model = LogisticRegressionCV(Cs=[0.1, 1.0]).fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> bool(model.C_ in model.path_.values)
    True
    """

    plain, parameter = LogisticRegression, "C"
    Cs: int | Sequence[float] = 10
    C: float = field(init=False)
    class_weight: Any = field(init=False, default=None)


@estimator
class LinearSVCCV(CrossValidated, LinearSVC):
    """`LinearSVC` with C chosen by its own loss on held-out rows.

    After the fit, `C_` is the choice and `path_` has the losses and a `figure()`.

    Parameters
    ----------
    Cs : int or sequence of float, default 10
        Values of C to try, or how many; by default a grid of 10 between 1e-4 and 1e4.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dualfl.estimators import LinearSVCCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = X[:, :3] / X[:, :3].std(axis=0)
    >>> model = LinearSVCCV(Cs=[0.1, 1.0]).fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> bool(model.C_ in model.path_.values)
    True
    """

    plain, parameter = LinearSVC, "C"
    Cs: int | Sequence[float] = 10
    C: float = field(init=False)
    class_weight: Any = field(init=False, default=None)


@estimator
class RidgeCV(CrossValidated, Ridge):
    """`Ridge` with alpha chosen by the held-out squared error.

    After the fit, `alpha_` is the choice and `path_` has the losses and a `figure()`.

    Parameters
    ----------
    alphas : int or sequence of float, default (0.1, 1.0, 10.0)
        Strengths to try, or how many of them, from the strongest to the weakest.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import RidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RidgeCV().fit(X[:, :3], y, groups=[i % 3 for i in range(len(y))])
    >>> bool(model.alpha_ in model.path_.values)
    True
    """

    plain, parameter = Ridge, "alpha"
    alphas: int | Sequence[float] = (0.1, 1.0, 10.0)
    alpha: float = field(init=False)


@estimator
class LassoCV(CrossValidated, Lasso):
    """`Lasso` with alpha chosen by the held-out squared error.

    After the fit, `alpha_` is the choice and `path_` has the losses and a `figure()`.

    Parameters
    ----------
    alphas : int or sequence of float, default 30
        Strengths to try, or how many of them, from the strongest to the weakest.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import LassoCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LassoCV().fit(X[:, :3], y, groups=[i % 3 for i in range(len(y))])
    >>> bool(model.alpha_ in model.path_.values)
    True
    """

    plain, parameter = Lasso, "alpha"
    alphas: int | Sequence[float] = 30
    alpha: float = field(init=False)


@estimator
class ElasticNetCV(CrossValidated, ElasticNet):
    """`ElasticNet` with alpha chosen by the held-out squared error.

    After the fit, `alpha_` is the choice and `path_` has the losses and a `figure()`.

    Parameters
    ----------
    alphas : int or sequence of float, default 30
        Strengths to try, or how many of them, from the strongest to the weakest.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import ElasticNetCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ElasticNetCV().fit(X[:, :3], y, groups=[i % 3 for i in range(len(y))])
    >>> bool(model.alpha_ in model.path_.values)
    True
    """

    plain, parameter = ElasticNet, "alpha"
    alphas: int | Sequence[float] = 30
    alpha: float = field(init=False)


@estimator
class HuberRegressorCV(CrossValidated, HuberRegressor):
    """`HuberRegressor` with alpha chosen by the held-out Huber loss.

    After the fit, `alpha_` is the choice and `path_` has the losses and a `figure()`.

    Parameters
    ----------
    alphas : int or sequence of float, default 10
        Strengths to try, or how many of them, from the strongest to the weakest.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import HuberRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = HuberRegressorCV(alphas=[0.1, 1.0]).fit(X[:, :3], y, groups=[i % 3 for i in range(len(y))])
    >>> bool(model.alpha_ in model.path_.values)
    True
    """

    plain, parameter = HuberRegressor, "alpha"
    alphas: int | Sequence[float] = 10
    alpha: float = field(init=False)


@estimator
class QuantileRegressorCV(CrossValidated, QuantileRegressor):
    """`QuantileRegressor` with alpha chosen by the held-out pinball loss.

    After the fit, `alpha_` is the choice and `path_` has the losses and a `figure()`.

    Parameters
    ----------
    alphas : int or sequence of float, default 10
        Strengths to try, or how many of them, from the strongest to the weakest.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import QuantileRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = QuantileRegressorCV(alphas=[0.01, 0.1], cv=2).fit(X[:, :3], y, groups=[i % 3 for i in range(len(y))])
    >>> bool(model.alpha_ in model.path_.values)
    True
    """

    plain, parameter = QuantileRegressor, "alpha"
    alphas: int | Sequence[float] = 10
    alpha: float = field(init=False)


@estimator
class PoissonRegressorCV(CrossValidated, PoissonRegressor):
    """`PoissonRegressor` with alpha chosen by the held-out deviance.

    After the fit, `alpha_` is the choice and `path_` has the losses and a `figure()`.

    Parameters
    ----------
    alphas : int or sequence of float, default 10
        Strengths to try, or how many of them, from the strongest to the weakest.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import PoissonRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PoissonRegressorCV(alphas=[0.1, 1.0]).fit(X[:, :3], y // 50, groups=[i % 3 for i in range(len(y))])
    >>> bool(model.alpha_ in model.path_.values)
    True
    """

    plain, parameter = PoissonRegressor, "alpha"
    alphas: int | Sequence[float] = 10
    alpha: float = field(init=False)
