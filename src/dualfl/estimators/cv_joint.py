"""Survival and ordered levels with the penalty chosen by federated cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dualfl.estimators.cv import CrossValidated
from dualfl.estimators.ordinal import OrdinalRegression
from dualfl.estimators.survival import CoxPH
from dualfl.objectives.cox import Ties


class CoxPHCV(CrossValidated, CoxPH):
    """`CoxPH` with alpha chosen by the cross-validated partial likelihood of Verweij and van Houwelingen.

    The loss of a fold is that of all rows less that of the rows outside it, both under the model of the latter, for
    each held-out event; rows are compared within silos only. `alphas`, `cv` and `rule` are as in
    `LogisticRegressionCV`, and so are the attributes `alpha_` and `path_`; others are those of `CoxPH`.

    Parameters
    ----------
    alphas : int or sequence of float, default 10
        Strengths to try, or how many of them, from the strongest to the weakest.
    l1_ratio : float, default 0.0
        0 is l2, 1 is l1, between them the elastic net.
    ties : Ties, default 'efron'
        "efron" or "breslow".
    cv : int or str, default 5
        How many folds inside every silo, or "silo" to leave one silo out at a time.
    rule : str, default 'min'
        "min" takes the smallest held-out loss; "1se" the strongest penalty within one standard error of it.
    algorithm, tol, max_iter, random_state, verbose : str or Algorithm, float, int, int or None, bool
        As in `LogisticRegressionCV`.

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

    def __init__(
        self,
        *,
        alphas: int | Sequence[float] = 10,
        l1_ratio: float = 0.0,
        ties: Ties = "efron",
        cv: int | str = 5,
        rule: str = "min",
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.alphas, self.l1_ratio, self.ties, self.cv, self.rule = alphas, l1_ratio, ties, cv, rule
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose


class OrdinalRegressionCV(CrossValidated, OrdinalRegression):
    """`OrdinalRegression` with alpha chosen by the held-out log-likelihood.

    `alphas`, `cv` and `rule` are as in `LogisticRegressionCV`, and so are the attributes `alpha_` and `path_`; others
    are those of `OrdinalRegression`.

    Parameters
    ----------
    alphas : int or sequence of float, default 10
        Strengths to try, or how many of them, from the strongest to the weakest.
    l1_ratio : float, default 0.0
        0 is l2, 1 is l1, between them the elastic net.
    levels : sequence of Any, optional
        The levels from low to high; None sorts what y has.
    cv : int or str, default 5
        How many folds inside every silo, or "silo" to leave one silo out at a time.
    rule : str, default 'min'
        "min" takes the smallest held-out loss; "1se" the strongest penalty within one standard error of it.
    algorithm, tol, max_iter, random_state, verbose : str or Algorithm, float, int, int or None, bool
        As in `LogisticRegressionCV`.

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

    def __init__(
        self,
        *,
        alphas: int | Sequence[float] = 10,
        l1_ratio: float = 0.0,
        levels: Sequence[Any] | None = None,
        cv: int | str = 5,
        rule: str = "min",
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.alphas, self.l1_ratio, self.levels, self.cv, self.rule = alphas, l1_ratio, levels, cv, rule
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose
