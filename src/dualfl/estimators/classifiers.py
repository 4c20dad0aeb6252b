"""Classification: logistic and multinomial regression, and the linear support vector machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from dualfl.engines.engine import Result
from dualfl.errors import InputError
from dualfl.estimators.base import FederatedClassifier, check_number
from dualfl.estimators.solving import FitCost, Task
from dualfl.objectives import Hinge, Logistic, Softmax, SquaredHinge
from dualfl.silos.costs import Cost
from dualfl.silos.questions import Conversation, Exchange, Query, Silos
from dualfl.typing import Array


def check_strength(C: Any) -> float:
    """C > 0, infinity included."""
    return check_number("C", C, above=0)


class LogisticRegression(FederatedClassifier):
    """Logistic regression on rows in several silos; multinomial for more than two classes.

    `fit(X, y, groups=silo)` says which silo each row belongs to; `fit_silos` takes one table for each silo, or the
    silos of a deployment. The model is that of the pooled rows. The objective is scikit-learn's,

        C sum_i s_i l(y_i, x_i'w + b) + (1 - l1_ratio)/2 |w|^2 + l1_ratio |w|_1,

    with the sample weights s_i. Divided by C S, S = sum_i s_i, it is the mean loss with the paper's
    mu = (1 - l1_ratio)/(C S) and the l1 penalty l1_ratio/(C S).

    Parameters
    ----------
    C : float, default 1.0
        Inverse strength of the penalty; np.inf for none.
    l1_ratio : float, default 0.0
        0 is l2, 1 is l1, between them the elastic net.
    fit_intercept : bool, default True
        Whether there is an intercept b.
    penalize_intercept : bool, default False
        Whether the penalty acts on b too, as in the paper; scikit-learn's does not.
    algorithm : str or Algorithm, default 'auto'
        "auto", the name of any algorithm of the library, or an `Algorithm` with its hyperparameters.
    tol : float, default 1e-06
        The accuracy to be proven, E - E* <= tol |E|.
    max_iter : int, default 200
        The largest number of rounds.
    random_state : int or None, optional
        For algorithms that draw random numbers.
    verbose : bool, default False
        Whether to show progress.
    class_weight : dict or 'balanced', optional
        How much rows of a class count, a dict; "balanced" lets all classes weigh the same.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, feature_names_in_ : ndarray or int
        As in scikit-learn.
    n_iter_, n_exchanges_ : int
        The number of rounds and of exchanges.
    history_ : History
        One row for each round: what it cost, and how good the model was.
    objective_ : float
        E, the objective divided by C S.
    certificate_ : float or None
        A proven bound on E - E*. Where it is None, `certificate_reason_` says why.
    algorithm_ : str
        Which algorithm ran, and why.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.estimators import LogisticRegression
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> y = np.array(["no", "no", "yes", "no", "yes", "yes"])
    >>> model = LogisticRegression().fit(X, y, groups=["a", "b", "a", "b", "b", "a"])
    >>> model.predict([[0.5], [4.5]])
    array(['no', 'yes'], dtype='<U3')
    >>> bool(model.certificate_ <= 1e-6 * model.objective_)
    True
    """

    _no_minimiser = (
        "The classes are separable by a hyperplane, or nearly so, and without a penalty the coefficients then grow for "
        "ever; give a finite C, such as C=1.0."
    )

    def __init__(
        self,
        *,
        C: float = 1.0,
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
        self.C, self.l1_ratio = C, l1_ratio
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose, self.class_weight = random_state, verbose, class_weight

    def _cost(self, mass: float) -> FitCost:
        k = len(self.classes_)
        strength = 1 / (check_strength(self.C) * mass)
        ratio = check_ratio(self.l1_ratio)
        return FitCost(Logistic() if k == 2 else Softmax(k), (1 - ratio) * strength, ratio * strength)

    def _positives(self) -> Sequence[int | None]:
        return (1,) if len(self.classes_) == 2 else (None,)

    def _inspecting(self, silos: Silos, task: Task, results: list[Result]) -> Conversation[None]:
        (cost,) = self._costs(task.sample)
        if cost.ridge == cost.l1 == 0 and (yield from separates(cost, results[0])):
            raise (yield from self._without_minimiser(silos, task.sample))

    def _keep(self, W: Array, b: Array) -> None:
        if len(self.classes_) > 2:  # adding a constant to all classes changes nothing: the mean is taken as 0
            if self.fit_intercept and not self.penalize_intercept:
                b = b - b.mean()
            if getattr(self, "C", None) == np.inf:
                W = W - W.mean(axis=0)
        super()._keep(W, b)

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
        z = self._predictor(X)
        if z.shape[1] == 1:
            p = expit(z[:, 0])
            return np.column_stack([1 - p, p])
        probabilities: Array = softmax(z, axis=1)
        return probabilities

    def predict_log_proba(self, X: Any) -> Array:
        z = self._predictor(X)
        if z.shape[1] == 1:
            return -np.logaddexp(0.0, z * [1.0, -1.0])
        top = z - z.max(axis=1, keepdims=True)
        logs: Array = top - np.log(np.exp(top).sum(axis=1, keepdims=True))
        return logs


def check_ratio(l1_ratio: Any) -> float:
    ratio = check_number("l1_ratio", l1_ratio, least=0)
    if ratio > 1:
        raise InputError(f"l1_ratio must be between 0 (l2) and 1 (l1), but it is {l1_ratio!r}.")
    return ratio


def separates(cost: Cost, result: Result) -> Conversation[bool]:
    """Whether every row is on the right side: then twice the model is better, and there is no best one."""
    plain = replace(cost, shift=0.0).as_json()
    (answer,) = yield Exchange("the fit", (Query("wrong", {"cost": plain, "theta": result.theta}),))
    return round(float(answer["wrong"])) == 0


class LinearSVC(FederatedClassifier):
    """Linear support vector machine; one class against the rest for more than two.

    The objective is

        (1/2)|w|^2 + C sum_i s_i l(y_i, x_i'w + b),

    l the squared hinge max(0, 1 - y z)^2 or the hinge. Divided by C S, S = sum_i s_i, it is the mean loss with the
    paper's mu = 1/(C S). The intercept is free by default; scikit-learn's LinearSVC penalises it, which is
    `penalize_intercept=True` here.

    Other parameters, and the attributes, are those of `LogisticRegression`. With more than two classes there is one
    problem for each: `history_` is a list, `certificate_` and `objective_` are sums. The problems do not depend on each
    other and their messages can travel together, so `n_iter_` and `n_exchanges_` are those of the slowest class.

    Parameters
    ----------
    C : float, default 1.0
        Inverse strength of the penalty.
    loss : str, default 'squared_hinge'
        "squared_hinge" or "hinge".
    penalty : str, default 'l2'
        "l2", or "l1" for |w|_1 in place of (1/2)|w|^2.
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
    >>> from dualfl.estimators import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = X[:, :3] / X[:, :3].std(axis=0)
    >>> model = LinearSVC().fit(X, y, groups=[i % 3 for i in range(len(y))])
    >>> model.coef_.shape, model.score(X, y) > 0.8
    ((1, 3), True)
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        loss: str = "squared_hinge",
        penalty: str = "l2",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = None,
        verbose: bool = False,
        class_weight: Any = None,
    ) -> None:
        self.C, self.loss, self.penalty = C, loss, penalty
        self.fit_intercept, self.penalize_intercept = fit_intercept, penalize_intercept
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose, self.class_weight = random_state, verbose, class_weight

    def _cost(self, mass: float) -> FitCost:
        strength = 1 / (check_strength(self.C) * mass)
        losses = {"squared_hinge": SquaredHinge(), "hinge": Hinge()}
        if self.loss not in losses:
            raise InputError(f'loss must be "squared_hinge" or "hinge", but it is {self.loss!r}.')
        if self.penalty not in ("l2", "l1"):
            raise InputError(f'penalty must be "l2" or "l1", but it is {self.penalty!r}.')
        if strength == 0:
            raise InputError("C must be finite for a support vector machine, but it is inf.")
        ridge, l1 = (strength, 0.0) if self.penalty == "l2" else (0.0, strength)
        return FitCost(losses[self.loss], ridge, l1)

    def _positives(self) -> Sequence[int | None]:
        k = len(self.classes_)
        return (1,) if k == 2 else tuple(range(k))
