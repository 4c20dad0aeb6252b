"""Ordered levels: proportional odds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data

from dualfl.errors import InputError
from dualfl.estimators.base import check_count, check_number, what_ran
from dualfl.estimators.classifiers import check_ratio
from dualfl.estimators.inference import Inference
from dualfl.estimators.silos import KINDS, rows_by_silo
from dualfl.estimators.solving import FitLimits, solve, warn_unless_certified
from dualfl.objectives import L1, ProportionalOdds
from dualfl.objectives.inputs import check_offset
from dualfl.problem import Problem
from dualfl.typing import AnyArray, Array


class OrdinalRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Proportional odds for an ordered target: log odds of y <= k are threshold_k - x'w (R's polr).

    The objective is -log likelihood + alpha ((1 - l1_ratio)/2 |w|^2 + l1_ratio |w|_1); thresholds are free.

    Parameters
    ----------
    alpha : float, default 0.0
        Strength of the penalty; 0 for none.
    l1_ratio : float, default 0.0
        0 is l2, 1 is l1, between them the elastic net.
    levels : sequence of Any, optional
        The levels from low to high; None sorts what y has.
    algorithm, tol, max_iter, random_state, verbose : str or Algorithm, float, int, int or None, bool
        As in `LogisticRegression`.

    Attributes
    ----------
    coef_ : log odds ratios of a higher level.
    thresholds_ : one between each two levels.
    classes_ : the levels, from low to high.

    Others, such as `certificate_` and `n_exchanges_`, are those of `LogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.estimators import OrdinalRegression
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> y = ["low", "low", "high", "mid", "high", "high"]
    >>> model = OrdinalRegression(alpha=0.1, levels=["low", "mid", "high"]).fit(X, y, groups=list("ababab"))
    >>> model.predict([[0.0], [5.0]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        alpha: float = 0.0,
        *,
        l1_ratio: float = 0.0,
        levels: Sequence[Any] | None = None,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.alpha, self.l1_ratio, self.levels = alpha, l1_ratio, levels
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None, *, offset: Any = None) -> Self:
        """Fit to rows that belong to silos; see `LogisticRegression.fit`."""
        X = validate_data(self, X, accept_sparse="csr", dtype=KINDS)
        number = self._numbers(np.asarray(y), X.shape[0])
        n = X.shape[0]
        w = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        o = None if offset is None else check_offset(offset, n)
        parts = {"all": np.arange(n)} if groups is None else rows_by_silo(groups, n)
        parts = {name: p for name, p in parts.items() if w is None or w[p].sum() > 0}
        shares = np.bincount(number, weights=w, minlength=len(self.classes_)).astype(np.float64)  # summed over silos
        alpha, ratio = check_number("alpha", self.alpha, least=0), check_ratio(self.l1_ratio)
        mass = float(shares.sum())
        self.base_ = base(shares)
        self.costs_ = {
            name: ProportionalOdds(
                X[p], number[p], len(self.classes_), alpha * (1 - ratio) / mass,
                weights=None if w is None else w[p], offset=None if o is None else o[p], base=self.base_,
            )
            for name, p in parts.items()
        }  # fmt: skip
        return self._solve(alpha * ratio / mass)

    def fit_silos(self, study: Any, **columns: str) -> Self:
        """Fit to a study, `dualfl.connect(...)`; `columns`: `weights`, `offset` or `exposure`, if there are any."""
        study.fit_estimator(self, **columns)
        return self

    def _numbers(self, y: AnyArray, n: int) -> Any:
        """The number of each row's level."""
        if y.shape != (n,):
            raise InputError(f"y must be one level for each of the {n} rows, but its shape is {y.shape}.")
        self.classes_ = np.unique(y) if self.levels is None else np.asarray(self.levels)
        if len(self.classes_) < 2:
            raise InputError(f"All rows have the one level {self.classes_.tolist()[0]!r}; an ordered target needs two.")
        known = {level: k for k, level in enumerate(self.classes_.tolist())}
        missing = [level for level in np.unique(y).tolist() if level not in known]
        if missing:
            raise InputError(f"y contains {missing[0]!r}, which is not among the levels {self.classes_.tolist()}.")
        number = np.array([known[level] for level in y.tolist()])
        absent = np.flatnonzero(np.bincount(number, minlength=len(self.classes_)) == 0)
        if len(absent):
            raise InputError(
                f"No row of any silo has the level {self.classes_.tolist()[absent[0]]!r}, so its thresholds are not "
                "determined; leave it out."
            )
        return number

    def _solve(self, l1: float) -> Self:
        self.__dict__.pop("told_", None)  # of an earlier fit on a study
        problem = Problem(list(self.costs_.values()), penalty=L1(l1) if l1 else None)
        seed = 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31 - 1))
        tol, rounds = check_number("tol", self.tol, above=0), check_count("max_iter", self.max_iter)
        limits = FitLimits(tol, rounds, seed, bool(self.verbose))
        result = solve(problem, self.algorithm, limits)
        warn_unless_certified([result], limits)
        D = self.n_features_in_
        self.theta_ = np.array(result.theta)
        self.coef_, self.thresholds_ = self.theta_[:D], self.base_ + self.theta_[D:]
        self.n_iter_, self.n_exchanges_ = result.rounds, result.history[-1].exchanges
        self.history_, self.algorithm_ = result.history, what_ran(result)
        self.certificate_, self.certificate_reason_ = result.certificate, result.certificate_reason
        self.objective_ = np.nan if result.energy is None else result.energy
        self.log_likelihood_ = -sum(f.mass * f.ordinal_point(self.theta_).parts.value for f in self.costs_.values())
        return self

    def information(self) -> Array:
        """The observed information about coefficients and thresholds, summed over silos."""
        check_is_fitted(self)
        parts = [f.mass * (f.hessian(self.theta_) - np.diag(f.convexity)) for f in self.costs_.values()]
        return np.asarray(sum(parts))

    @property
    def inference_(self) -> Inference:
        """Errors, tests and intervals of coefficients and thresholds; from the observed information."""
        check_is_fitted(self)
        if hasattr(self, "told_"):
            told: Inference = self.told_
            return told
        if self.alpha and self.l1_ratio:
            raise InputError("An l1 penalty sets coefficients to zero, and no Hessian tells how surely: no errors.")
        H = self.information()
        ridge = np.append(np.full(len(self.coef_), float(self.alpha)), np.zeros(len(self.thresholds_)))
        inverse = np.linalg.inv(H + np.diag(ridge))
        columns = getattr(self, "feature_names_in_", [f"x{j}" for j in range(len(self.coef_))])
        names = [*map(str, columns), *(f"{a} | {b}" for a, b in zip(self.classes_, self.classes_[1:]))]
        estimate = np.append(self.coef_, self.thresholds_)
        return Inference.of(names, estimate, inverse @ H @ inverse, "odds ratio", self.log_likelihood_)

    def summary(self) -> str:
        """The table of `inference_`."""
        return str(self.inference_)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities, one column a level."""
        check_is_fitted(self)
        z = np.asarray(validate_data(self, X, reset=False, accept_sparse="csr", dtype=KINDS) @ self.coef_)
        below = expit(self.thresholds_[None, :] - z[:, None])
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    def predict(self, X: Any) -> AnyArray:
        """The most probable level."""
        found: AnyArray = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def base(shares: Array) -> Array:
    """The thresholds of a model without features: the log odds of being at most at each level."""
    below = np.cumsum(shares)[:-1] / shares.sum()
    return np.asarray(np.log(below) - np.log1p(-below))
