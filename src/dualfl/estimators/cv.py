"""Estimators that choose their penalty by federated cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from dualfl.errors import InputError
from dualfl.estimators import path_here
from dualfl.estimators.base import FederatedLinear, check_number
from dualfl.estimators.classifiers import LinearSVC, LogisticRegression
from dualfl.estimators.path import Dealt, PenaltyPath, following, make_folds
from dualfl.estimators.regressors import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
)
from dualfl.estimators.solving import FitCost, Task
from dualfl.silos.questions import Conversation, Silos
from dualfl.typing import Array

WEAKEST = 1e-3  # of the strongest l1 penalty: where a path ends by default


class CrossValidated(FederatedLinear):
    """Mixin: cross-validate along a path of penalties, then fit all rows with the chosen one.

    `plain` is the estimator with a fixed penalty, `parameter` the name of the penalty there.
    """

    plain: ClassVar[type[FederatedLinear]]
    parameter: ClassVar[str] = "alpha"

    def _fitting(self, silos: Silos) -> Conversation[None]:
        folds = make_folds(silos.names, self.cv)

        def values(dealt: Dealt) -> Conversation[Array]:
            return self._values(silos, dealt)

        path, sample = yield from following(silos, self._plain, values, folds, self.parameter, self.rule)
        self.path_: PenaltyPath = path
        setattr(self, self.parameter + "_", path.value)
        model = self._plain(path.value)
        task = Task(model, sample)
        found = path_here.fitted(silos, task)
        results = [found] if found else (yield from model._solving(silos, [task]))[0]
        self._note(results, sample, model)

    def _cost(self, mass: float) -> FitCost:
        """With the penalty that was chosen; before that, for what does not depend on it."""
        found: FitCost = self._plain(getattr(self, self.parameter + "_", 1.0))._cost(mass)
        return found

    def _plain(self, value: float) -> Any:
        """The estimator with this penalty, and with the classes of all silos."""
        shared = {name: getattr(self, name) for name in parameters(self.plain) if name != self.parameter}
        model = self.plain(**shared | {self.parameter: value})
        for learnt in ("classes_", "base_"):
            if hasattr(self, learnt):
                setattr(model, learnt, getattr(self, learnt))
        return model

    def _values(self, silos: Silos, dealt: Dealt) -> Conversation[Array]:
        """The path, from the strongest penalty to the weakest."""
        given = self.Cs if self.parameter == "C" else self.alphas
        if not np.ndim(given):
            count = int(check_number("the number of penalties", given, least=1))
            return (yield from self._default_values(silos, dealt, count))
        values = np.unique(np.asarray(given, dtype=np.float64))
        if not len(values) or not (values > 0).all():
            raise InputError(f"Penalties must be positive numbers, but they are {list(np.atleast_1d(given))}.")
        return values if self.parameter == "C" else values[::-1].copy()

    def _default_values(self, silos: Silos, dealt: Dealt, count: int) -> Conversation[Array]:
        """From the least l1 penalty that leaves nothing, downwards; without l1, scikit-learn's wide grid."""
        model = self._plain(1.0)
        cost = model._cost(dealt.whole.mass)
        if cost.l1 == 0:
            grid = np.logspace(-4, 4, count)
            return grid if self.parameter == "C" else grid[::-1].copy()
        strongest = (yield from dealt.strongest(silos, model)) or 1.0
        path: Array = np.geomspace(1.0, WEAKEST, count) * strongest / cost.l1  # cost.l1: at alpha = 1 or C = 1
        return 1 / path if self.parameter == "C" else path


@cache
def parameters(estimator: type[FederatedLinear]) -> tuple[str, ...]:
    """The names of its parameters; finding them out takes longer than many a fit of a path."""
    return tuple(estimator._get_param_names())


class LogisticRegressionCV(CrossValidated, LogisticRegression):
    """`LogisticRegression` with C chosen by the held-out log loss.

    Other parameters mean what they mean in `LogisticRegression`; `random_state` (a whole number) also deals the folds.
    After the fit, `C_` is the choice and `path_` has the losses and a `figure()`.

    Parameters
    ----------
    Cs : int or sequence of float, default 10
        The number of values, or the values themselves. With l1 they begin where all coefficients are zero;
        otherwise they are spread over 1e-4 .. 1e4.
    l1_ratio : float, default 0.0
        The share of l1 in the penalty: 0 is the ridge, 1 the lasso, between them the elastic net.
    cv : int or str, default 5
        Number of folds inside every silo, or "silo" to leave one silo out at a time.
    rule : str, default 'min'
        "min" for the least held-out loss, "1se" for the strongest penalty within one standard error of it.
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
    random_state : int, optional
        The seed of algorithms that draw random numbers, and of folds.
    verbose : bool, default False
        Whether a bar shows how far the fit is.

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

    def __init__(
        self,
        *,
        Cs: int | Sequence[float] = 10,
        l1_ratio: float = 0.0,
        cv: int | str = 5,
        rule: str = "min",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.Cs, self.l1_ratio, self.cv, self.rule = Cs, l1_ratio, cv, rule
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose


class LinearSVCCV(CrossValidated, LinearSVC):
    """`LinearSVC` with C chosen by its own loss on held-out rows.

    `Cs`, `cv` and `rule` are as in `LogisticRegressionCV`, and so are the attributes `C_` and `path_`.

    Parameters
    ----------
    Cs : int or sequence of float, default 10
        Values of C to try, or how many; by default a grid of 10 between 1e-4 and 1e4.
    loss : str, default 'squared_hinge'
        "hinge" or "squared_hinge".
    penalty : str, default 'l2'
        "l1" or "l2".
    cv : int or str, default 5
        How many folds inside every silo, or "silo" to leave one silo out at a time.
    rule : str, default 'min'
        "min" takes the smallest held-out loss; "1se" the strongest penalty within one standard error of it.
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
    random_state : int, optional
        The seed of algorithms that draw random numbers, and of folds.
    verbose : bool, default False
        Whether a bar shows how far the fit is.

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

    def __init__(
        self,
        *,
        Cs: int | Sequence[float] = 10,
        loss: str = "squared_hinge",
        penalty: str = "l2",
        cv: int | str = 5,
        rule: str = "min",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.Cs, self.loss, self.penalty, self.cv, self.rule = Cs, loss, penalty, cv, rule
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose


class RidgeCV(CrossValidated, Ridge):
    """`Ridge` with alpha chosen by the held-out squared error.

    `alphas`, `cv` and `rule` are as in `LogisticRegressionCV`, and so are the attributes `alpha_` and `path_`.

    Parameters
    ----------
    alphas : int or sequence of float, default (0.1, 1.0, 10.0)
        Strengths to try, or how many of them, from the strongest to the weakest.
    cv : int or str, default 5
        How many folds inside every silo, or "silo" to leave one silo out at a time.
    rule : str, default 'min'
        "min" takes the smallest held-out loss; "1se" the strongest penalty within one standard error of it.
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
    random_state : int, optional
        The seed of algorithms that draw random numbers, and of folds.
    verbose : bool, default False
        Whether a bar shows how far the fit is.

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

    def __init__(
        self,
        *,
        alphas: int | Sequence[float] = (0.1, 1.0, 10.0),
        cv: int | str = 5,
        rule: str = "min",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.alphas, self.cv, self.rule = alphas, cv, rule
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose


class LassoCV(CrossValidated, Lasso):
    """`Lasso` with alpha chosen by the held-out squared error.

    `alphas`, `cv` and `rule` are as in `LogisticRegressionCV`, and so are the attributes `alpha_` and `path_`.

    Parameters
    ----------
    alphas : int or sequence of float, default 30
        Strengths to try, or how many of them, from the strongest to the weakest.
    cv : int or str, default 5
        How many folds inside every silo, or "silo" to leave one silo out at a time.
    rule : str, default 'min'
        "min" takes the smallest held-out loss; "1se" the strongest penalty within one standard error of it.
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
    random_state : int, optional
        The seed of algorithms that draw random numbers, and of folds.
    verbose : bool, default False
        Whether a bar shows how far the fit is.

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

    def __init__(
        self,
        *,
        alphas: int | Sequence[float] = 30,
        cv: int | str = 5,
        rule: str = "min",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.alphas, self.cv, self.rule = alphas, cv, rule
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose


class ElasticNetCV(CrossValidated, ElasticNet):
    """`ElasticNet` with alpha chosen by the held-out squared error.

    `alphas`, `cv` and `rule` are as in `LogisticRegressionCV`, and so are the attributes `alpha_` and `path_`.

    Parameters
    ----------
    alphas : int or sequence of float, default 30
        Strengths to try, or how many of them, from the strongest to the weakest.
    l1_ratio : float, default 0.5
        The share of l1 in the penalty: 0 is the ridge, 1 the lasso, between them the elastic net.
    cv : int or str, default 5
        How many folds inside every silo, or "silo" to leave one silo out at a time.
    rule : str, default 'min'
        "min" takes the smallest held-out loss; "1se" the strongest penalty within one standard error of it.
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
    random_state : int, optional
        The seed of algorithms that draw random numbers, and of folds.
    verbose : bool, default False
        Whether a bar shows how far the fit is.

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

    def __init__(
        self,
        *,
        alphas: int | Sequence[float] = 30,
        l1_ratio: float = 0.5,
        cv: int | str = 5,
        rule: str = "min",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.alphas, self.l1_ratio, self.cv, self.rule = alphas, l1_ratio, cv, rule
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose


class HuberRegressorCV(CrossValidated, HuberRegressor):
    """`HuberRegressor` with alpha chosen by the held-out Huber loss.

    `alphas`, `cv` and `rule` are as in `LogisticRegressionCV`, and so are the attributes `alpha_` and `path_`.

    Parameters
    ----------
    alphas : int or sequence of float, default 10
        Strengths to try, or how many of them, from the strongest to the weakest.
    epsilon : float, default 1.35
        Where the loss goes from squared to linear, in units of the scale.
    scale : float, default 1.0
        The scale of residuals; None: estimated first.
    cv : int or str, default 5
        How many folds inside every silo, or "silo" to leave one silo out at a time.
    rule : str, default 'min'
        "min" takes the smallest held-out loss; "1se" the strongest penalty within one standard error of it.
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
    random_state : int, optional
        The seed of algorithms that draw random numbers, and of folds.
    verbose : bool, default False
        Whether a bar shows how far the fit is.

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

    def __init__(
        self,
        *,
        alphas: int | Sequence[float] = 10,
        epsilon: float = 1.35,
        scale: float = 1.0,
        cv: int | str = 5,
        rule: str = "min",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.alphas, self.epsilon, self.scale, self.cv, self.rule = alphas, epsilon, scale, cv, rule
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose


class QuantileRegressorCV(CrossValidated, QuantileRegressor):
    """`QuantileRegressor` with alpha chosen by the held-out pinball loss.

    `alphas`, `cv` and `rule` are as in `LogisticRegressionCV`, and so are the attributes `alpha_` and `path_`.

    Parameters
    ----------
    alphas : int or sequence of float, default 10
        Strengths to try, or how many of them, from the strongest to the weakest.
    quantile : float, default 0.5
        Which quantile, between 0 and 1.
    cv : int or str, default 5
        How many folds inside every silo, or "silo" to leave one silo out at a time.
    rule : str, default 'min'
        "min" takes the smallest held-out loss; "1se" the strongest penalty within one standard error of it.
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
    random_state : int, optional
        The seed of algorithms that draw random numbers, and of folds.
    verbose : bool, default False
        Whether a bar shows how far the fit is.

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

    def __init__(
        self,
        *,
        alphas: int | Sequence[float] = 10,
        quantile: float = 0.5,
        cv: int | str = 5,
        rule: str = "min",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.alphas, self.quantile, self.cv, self.rule = alphas, quantile, cv, rule
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose


class PoissonRegressorCV(CrossValidated, PoissonRegressor):
    """`PoissonRegressor` with alpha chosen by the held-out deviance.

    `alphas`, `cv` and `rule` are as in `LogisticRegressionCV`, and so are the attributes `alpha_` and `path_`.

    Parameters
    ----------
    alphas : int or sequence of float, default 10
        Strengths to try, or how many of them, from the strongest to the weakest.
    cv : int or str, default 5
        How many folds inside every silo, or "silo" to leave one silo out at a time.
    rule : str, default 'min'
        "min" takes the smallest held-out loss; "1se" the strongest penalty within one standard error of it.
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
    random_state : int, optional
        The seed of algorithms that draw random numbers, and of folds.
    verbose : bool, default False
        Whether a bar shows how far the fit is.

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

    def __init__(
        self,
        *,
        alphas: int | Sequence[float] = 10,
        cv: int | str = 5,
        rule: str = "min",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.alphas, self.cv, self.rule = alphas, cv, rule
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose
