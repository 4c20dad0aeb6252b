"""Ordered levels: proportional odds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dualfl.engines.result import Result
from dualfl.errors import InputError
from dualfl.estimators.base import FederatedLinear, check_number
from dualfl.estimators.classifiers import check_ratio
from dualfl.estimators.parameters import estimator
from dualfl.estimators.silos import KINDS
from dualfl.estimators.solving import FitCost
from dualfl.objectives import Ordered, ProportionalOdds
from dualfl.silos.chamber import SiloRows
from dualfl.silos.costs import Sample
from dualfl.silos.likelihoods import information
from dualfl.typing import AnyArray, Array


@estimator
class OrdinalRegression(ClassifierMixin, FederatedLinear):  # type: ignore[misc]  # scikit-learn is untyped
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

    Attributes
    ----------
    coef_ : ndarray
        The logarithms of the odds ratios of a higher level.
    thresholds_ : ndarray
        One number between each two neighbouring levels.
    classes_ : ndarray
        The levels, from low to high.
    certificate_, objective_, algorithm_, n_iter_, n_exchanges_, history_ : object
        As in `LogisticRegression`.

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

    alpha: float = field(default=0.0, kw_only=False)
    l1_ratio: float = 0.0
    levels: Sequence[Any] | None = None

    def fit_silos(self, silos: Any, names: Sequence[str] | None = None, **columns: str) -> Self:
        """Fit to silos.

        Parameters
        ----------
        silos : sequence or Study
            A list of silos, each (X, y) or (X, y, weights); or a study, `dualfl.connect(...)`.
        names : sequence of str, optional
            The names of the silos of a list, for messages.
        columns : str
            For a study: `weights`, `offset` or `exposure`, if there are any.
        """
        if hasattr(silos, "fit_estimator"):
            silos.fit_estimator(self, **columns)
            return self
        return super().fit_silos(silos, names)

    def _prepared(self, silos: list[SiloRows]) -> list[SiloRows]:
        """Rows with the number of their level; the thresholds of a model without columns are learnt."""
        found = np.unique(np.concatenate([np.unique(silo.y) for silo in silos]))
        self.classes_ = found if self.levels is None else np.asarray(self.levels)
        if len(self.classes_) < 2:
            raise InputError(f"All rows have the one level {self.classes_.tolist()[0]!r}; an ordered target needs two.")
        known = {level: k for k, level in enumerate(self.classes_.tolist())}
        missing = [level for level in found.tolist() if level not in known]
        if missing:
            raise InputError(f"y contains {missing[0]!r}, which is not among the levels {self.classes_.tolist()}.")
        numbered = [silo.with_targets(np.array([known[level] for level in silo.y.tolist()])) for silo in silos]
        K = len(self.classes_)
        shares = np.sum([np.bincount(silo.y, silo.weights, minlength=K) for silo in numbered], axis=0)
        absent = np.flatnonzero(~(shares > 0))
        if len(absent):
            raise InputError(
                f"No row of any silo has the level {self.classes_.tolist()[absent[0]]!r}, so its thresholds are not "
                "determined; leave it out."
            )
        self.base_ = base(shares)
        return numbered

    def _cost(self, mass: float) -> FitCost:
        alpha, ratio = check_number("alpha", self.alpha, least=0), check_ratio(self.l1_ratio)
        loss = Ordered(len(self.classes_), tuple(self.base_))
        return FitCost(loss, alpha * (1 - ratio) / mass, alpha * ratio / mass)

    def _keep(self, W: Array, b: Array) -> None:
        D = self.n_features_in_
        self.theta_ = W[0]
        self.coef_, self.thresholds_ = W[0, :D], self.base_ + W[0, D:]

    def _note(self, results: list[Result], sample: Sample, model: FederatedLinear | None = None) -> None:
        super()._note(results, sample, model)
        values = [f.mass * f.ordinal_point(self.theta_).parts.value for f in self._objectives()]
        self.log_likelihood_ = -float(sum(values))

    def _objectives(self) -> list[ProportionalOdds]:
        """Of the silos, as long as the rows are here."""
        return [chamber.objective(self._known.cost) for chamber in self._silos_here().chambers]

    def _model(self) -> Array:
        return np.array(self.theta_)

    def _estimate(self) -> Array:
        return np.append(self.coef_, self.thresholds_)

    def _names(self) -> list[str]:
        return [*self._columns(), *(f"{a} | {b}" for a, b in zip(self.classes_, self.classes_[1:]))]

    def information(self) -> Array:
        """The observed information about coefficients and thresholds, summed over silos."""
        check_is_fitted(self)
        if getattr(self, "_rows", None) is None:
            return np.asarray(np.linalg.inv(self.inference_.covariance), dtype=np.float64)
        return np.asarray(np.sum([information(f, self.theta_) for f in self._objectives()], axis=0))

    def predict_proba(self, X: Any) -> Array:
        """The probability of each level.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame
            Rows, with the columns of the fit.

        Returns
        -------
        array
            One row for each row of X, one column for each of `classes_`.
        """
        check_is_fitted(self)
        z = np.asarray(validate_data(self, X, reset=False, accept_sparse="csr", dtype=KINDS) @ self.coef_)
        below = expit(self.thresholds_[None, :] - z[:, None])
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    def predict(self, X: Any) -> AnyArray:
        """The most probable level of each row.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame
            Rows, with the columns of the fit.

        Returns
        -------
        array
            Levels, as they were in the targets.
        """
        found: AnyArray = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return found


def base(shares: Array) -> Array:
    """The thresholds of a model without features: the log odds of being at most at each level."""
    below = np.cumsum(shares)[:-1] / shares.sum()
    return np.asarray(np.log(below) - np.log1p(-below))
