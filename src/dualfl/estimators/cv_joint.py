"""Survival and ordered levels with the penalty chosen by federated cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from dualfl.estimators.cross_validated import CrossValidated
from dualfl.estimators.ordinal import OrdinalRegression
from dualfl.estimators.parameters import estimator
from dualfl.estimators.survival import CoxPH


@estimator
class CoxPHCV(CrossValidated, CoxPH):
    """`CoxPH` with alpha chosen by the cross-validated partial likelihood of Verweij and van Houwelingen.

    The loss of a fold is that of all rows less that of the rows outside it, both under the model of the latter, for
    each held-out event; rows are compared within silos only. After the fit, `alpha_`
    is the choice and `path_` has the losses and a `figure()`. Other attributes are those of `CoxPH`.

    Parameters
    ----------
    alphas : int or sequence of float, default 10
        Strengths to try, or how many of them, from the strongest to the weakest.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.estimators import CoxPHCV, survival_target
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> y = survival_target(event=rng.random(60) < 0.7, time=rng.exponential(np.exp(-X[:, 0])))
    >>> model = CoxPHCV(alphas=[1.0, 10.0]).fit(X, y, groups=[i % 2 for i in range(60)])
    >>> bool(model.alpha_ in model.path_.values)
    True
    """

    plain, parameter = CoxPH, "alpha"
    alphas: int | Sequence[float] = 10
    alpha: float = field(init=False)


@estimator
class OrdinalRegressionCV(CrossValidated, OrdinalRegression):
    """`OrdinalRegression` with alpha chosen by the held-out log-likelihood.

    After the fit, `alpha_` is the choice and `path_` has the losses and a `figure()`. Other attributes are those of
    `OrdinalRegression`.

    Parameters
    ----------
    alphas : int or sequence of float, default 10
        Strengths to try, or how many of them, from the strongest to the weakest.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import OrdinalRegressionCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = OrdinalRegressionCV(alphas=[0.01, 0.1]).fit(X[:, :3], y // 120, groups=[i % 3 for i in range(len(y))])
    >>> bool(model.alpha_ in model.path_.values)
    True
    """

    plain, parameter = OrdinalRegression, "alpha"
    alphas: int | Sequence[float] = 10
    alpha: float = field(init=False)
