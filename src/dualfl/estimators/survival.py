"""Survival: Cox's proportional hazards, stratified by silo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data

from dualfl.errors import InputError, NoMinimiser
from dualfl.estimators.base import check_count, check_number, what_ran
from dualfl.estimators.classifiers import check_ratio
from dualfl.estimators.inference import Inference
from dualfl.estimators.silos import KINDS, rows_by_silo
from dualfl.estimators.solving import FitLimits, solve, warn_unless_certified
from dualfl.objectives import L1, CoxPartialLikelihood
from dualfl.objectives.cox import Ties
from dualfl.problem import Problem
from dualfl.silos import survival_sums
from dualfl.silos.survival_sums import StepFunction, baseline
from dualfl.silos.survival_tests import ChiSquare, proportionality
from dualfl.typing import AnyArray, Array


@dataclass(frozen=True, eq=False)
class SurvivalRows:
    """The rows of one silo, checked."""

    name: str
    X: Any
    event: AnyArray
    time: AnyArray
    weights: Array | None = None
    entry: AnyArray | None = None
    strata: AnyArray | None = None

    @property
    def mass(self) -> float:
        return float(len(self.time)) if self.weights is None else float(self.weights.sum())


class CoxPH(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Cox's proportional hazards model; every silo has a baseline hazard of its own, and no time leaves it.

    The objective is that of scikit-survival's CoxPHSurvivalAnalysis on rows stratified by silo,

        -log partial likelihood  +  alpha ((1 - l1_ratio)/2 |w|^2 + l1_ratio |w|_1).

    Parameters
    ----------
    alpha : float, default 0.0
        Strength of the penalty; 0 for none.
    l1_ratio : float, default 0.0
        0 is l2, 1 is l1, between them the elastic net.
    ties : Ties, default 'efron'
        "efron", or "breslow", which is scikit-survival's default.
    algorithm, tol, max_iter, random_state, verbose : str or Algorithm, float, int, int or None, bool
        As in `LogisticRegression`.

    Attributes
    ----------
    coef_ : log hazard ratios.
    baselines_ : for each silo, and each of its strata, the cumulative hazard of a row of zeros.
    objective_ : E, the objective above divided by the total weight of the rows; `certificate_` bounds E - E*.
    log_likelihood_ : the log partial likelihood.

    Others, such as `n_exchanges_`, are those of `LogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.estimators import CoxPH, survival_target
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [0.5], [2.5]])
    >>> y = survival_target(event=[1, 1, 0, 1, 0, 1], time=[9.0, 4.0, 5.0, 1.0, 7.0, 3.0])
    >>> model = CoxPH(alpha=0.1).fit(X, y, groups=["a", "a", "a", "b", "b", "b"])
    >>> bool(model.coef_[0] > 0)
    True
    """

    def __init__(
        self,
        alpha: float = 0.0,
        *,
        l1_ratio: float = 0.0,
        ties: Ties = "efron",
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.alpha, self.l1_ratio, self.ties = alpha, l1_ratio, ties
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose

    # -- fit --------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None, *, entry: Any = None, strata: Any = None
    ) -> Self:
        """Fit to rows that belong to silos.

        Parameters
        ----------
        X : rows by features; dense, SciPy sparse or a DataFrame.
        y : a structured array of an event indicator and a time, in this order, as scikit-survival takes it.
        groups : the silo of each row, any labels; None is one silo.
        sample_weight : how much each row counts; None counts every row once.
        entry : when a row came under observation (left truncation).
        strata : labels within silos; only rows of one label are compared.
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=KINDS)
        event, time = split_target(y, X.shape[0])
        given: dict[str, Any] = {
            "event": event,
            "time": time,
            "weights": None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64),
            "entry": None if entry is None else _one_a_row("entry", entry, X.shape[0]),
            "strata": None if strata is None else _one_a_row("strata", strata, X.shape[0]),
        }
        parts = {"all": slice(None)} if groups is None else rows_by_silo(groups, X.shape[0])
        silos = []
        for name, part in parts.items():
            own: dict[str, Any] = {key: v if v is None else v[part] for key, v in given.items()}
            silos.append(SurvivalRows(name, X[part], **own))
        return self._fit(silos)

    def fit_silos(self, silos: Any, names: Sequence[str] | None = None, **columns: str) -> Self:
        """Fit to silos.

        Parameters
        ----------
        silos : a list of silos, each (X, y) or (X, y, weights); or a study, `dualfl.connect(...)`.
        names : of the silos of a list, for messages.
        columns : of a study, whose target is the event: `time="days"`, and `entry`, `strata` and `weights` if there are
            any. Baselines are those of the silos that show them.
        """
        if hasattr(silos, "fit_estimator"):
            silos.fit_estimator(self, **columns)
            return self
        if len(silos) == 0:
            raise InputError("fit_silos needs at least one silo (X, y), and the list is empty.")
        names = [str(j) for j in range(len(silos))] if names is None else [str(name) for name in names]
        parts = []
        for j, (silo, name) in enumerate(zip(silos, names, strict=True)):
            X = validate_data(self, silo[0], reset=j == 0, accept_sparse="csr", dtype=KINDS)
            event, time = split_target(silo[1], X.shape[0])
            parts.append(SurvivalRows(name, X, event, time, silo[2] if len(silo) > 2 else None))
        return self._fit(parts)

    def _fit(self, silos: list[SurvivalRows]) -> Self:
        self.__dict__.pop("told_", None)  # of an earlier fit on a study
        silos = [silo for silo in silos if silo.mass > 0]
        if not any(silo.event.any() for silo in silos):
            raise InputError("No row of any silo has an event, so nothing can be said of hazards; all are censored.")
        alpha, ratio = check_number("alpha", self.alpha, least=0), check_ratio(self.l1_ratio)
        mass = sum(silo.mass for silo in silos)
        self.costs_ = {silo.name: self._cost(silo, alpha * (1 - ratio) / mass) for silo in silos}
        l1 = alpha * ratio / mass
        problem = Problem(list(self.costs_.values()), penalty=L1(l1) if l1 else None)
        seed = 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31 - 1))
        rounds, tol = check_count("max_iter", self.max_iter), check_number("tol", self.tol, above=0)
        limits = FitLimits(tol, rounds, seed, bool(self.verbose))
        try:
            result = solve(problem, self.algorithm, limits)
        except NoMinimiser as error:
            raise NoMinimiser(
                "Without a penalty this model has no minimiser: some combination of columns orders the events in all "
                "silos; give an alpha > 0."
            ) from error
        warn_unless_certified([result], limits)
        self.coef_ = np.array(result.theta)
        self.n_iter_, self.n_exchanges_ = result.rounds, result.history[-1].exchanges
        self.history_, self.algorithm_ = result.history, what_ran(result)
        self.certificate_, self.certificate_reason_ = result.certificate, result.certificate_reason
        self.objective_ = np.nan if result.energy is None else result.energy
        self.log_likelihood_ = -sum(f.mass * f.data_value(self.coef_) for f in self.costs_.values())
        self.baselines_ = {name: baseline(f, self.coef_) for name, f in self.costs_.items()}
        return self

    def _cost(self, silo: SurvivalRows, ridge: float) -> CoxPartialLikelihood:
        try:
            return CoxPartialLikelihood(
                silo.X, silo.time, silo.event, ridge,
                entry=silo.entry, strata=silo.strata, weights=silo.weights, ties=self.ties,
            )  # fmt: skip
        except InputError as error:
            raise InputError(f"Silo {silo.name}: {error}") from error

    # -- predictions ------------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """The log of the hazard ratio against a row of zeros."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=KINDS)
        return np.asarray(X @ self.coef_)

    def predict_cumulative_hazard_function(
        self, X: Any, silo: str | None = None, stratum: Any = 0
    ) -> list[StepFunction]:
        """For each row its cumulative hazard over time, with the baseline of a silo (and of one of its strata)."""
        base = self._baseline(silo, stratum)
        return [StepFunction(base.x, base.y * risk, 0.0) for risk in np.exp(self.predict(X))]

    def predict_survival_function(self, X: Any, silo: str | None = None, stratum: Any = 0) -> list[StepFunction]:
        """For each row its probability to live on, over time."""
        hazards = self.predict_cumulative_hazard_function(X, silo, stratum)
        return [StepFunction(hazard.x, np.exp(-hazard.y), 1.0) for hazard in hazards]

    def _baseline(self, silo: str | None, stratum: Any) -> StepFunction:
        check_is_fitted(self)
        if silo is None and len(self.baselines_) > 1:
            raise InputError(f"Every silo has its own baseline; name one of {', '.join(self.baselines_)}.")
        name = next(iter(self.baselines_)) if silo is None else str(silo)
        if name not in self.baselines_:
            raise InputError(f"There is no silo {name!r}; there are {', '.join(self.baselines_)}.")
        if stratum not in self.baselines_[name]:
            raise InputError(f"Silo {name} has no events in a stratum {stratum!r}.")
        found: StepFunction = self.baselines_[name][stratum]
        return found

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """Harrell's concordance, from pairs within silos."""
        risk = self.predict(X)
        event, time = split_target(y, len(risk))
        parts = {"all": slice(None)} if groups is None else rows_by_silo(groups, len(risk))
        counts = [survival_sums.pair_counts(time[p], event[p], risk[p]) for p in parts.values()]
        total: survival_sums.PairCounts = survival_sums.PairCounts.of(counts)
        return total.index

    # -- inference --------------------------------------------------------------------------------

    def information(self) -> Array:
        """The observed information: the Hessian of the negative log partial likelihood, summed over silos."""
        check_is_fitted(self)
        if hasattr(self, "told_"):
            return np.linalg.inv(self.told_.covariance)
        parts = [f.mass * (f.hessian(self.coef_) - f.ridge * np.eye(f.d)) for f in self.costs_.values()]
        H: Array = np.sum(parts, axis=0)
        return H

    @property
    def inference_(self) -> Inference:
        """Errors, tests and intervals; from the observed information, of the penalised model if there is a ridge."""
        check_is_fitted(self)
        if hasattr(self, "told_"):
            told: Inference = self.told_
            return told
        if self.alpha and self.l1_ratio:
            raise InputError("An l1 penalty sets coefficients to zero, and no Hessian tells how surely: no errors.")
        H = self.information()
        inverse = np.linalg.inv(H + float(self.alpha) * np.eye(len(H)))
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(len(self.coef_))])
        return Inference.of(
            list(map(str, names)), self.coef_, inverse @ H @ inverse, "hazard ratio", self.log_likelihood_
        )

    def summary(self) -> str:
        """The table of `inference_`."""
        return str(self.inference_)

    def proportionality(self, transform: str = "identity") -> list[ChiSquare]:
        """Score tests of whether coefficients change with time; transform is "identity" or "log"."""
        check_is_fitted(self)
        costs = list(self.costs_.values())
        totals = [(survival_sums.transformed(f.sets.times, transform), f.sets.deaths) for f in costs]
        events = sum(float(d.sum()) for _, d in totals)
        centre = sum(float(g @ d) for g, d in totals) / events
        parts = [survival_sums.proportionality_sums(f, self.coef_, transform, centre) for f in costs]
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(len(self.coef_))])
        return proportionality(survival_sums.ProportionalitySums.of(parts), list(map(str, names)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def survival_target(event: Any, time: Any) -> Any:
    """Events and times as one structured array, as `CoxPH` and scikit-survival take it.

    Parameters
    ----------
    event : object
        Whether the event was seen, for each row.
    time : object
        When it was seen, or the row was last heard of.

    Returns
    -------
    ndarray
        A structured array with the fields event and time.

    Examples
    --------
    >>> from dualfl.estimators import survival_target
    >>> survival_target([True, False], [2.5, 4.0])["time"]
    array([2.5, 4. ])
    """
    event, time = np.asarray(event), np.asarray(time)
    if event.shape != time.shape or event.ndim != 1:
        raise InputError(f"event and time must be vectors of one length, but they have {event.shape} and {time.shape}.")
    y = np.empty(len(time), dtype=[("event", bool), ("time", np.float64)])
    if not np.isin(event, (0, 1)).all():
        raise InputError(
            f"event must be 1 (it happened) or 0 (censored), and it contains {event[~np.isin(event, (0, 1))][0]!r}."
        )
    y["event"], y["time"] = event.astype(bool), time
    return y


def split_target(y: Any, n: int) -> tuple[Any, Any]:
    """The event indicator and the time of a structured array."""
    y = np.asarray(y)
    names = y.dtype.names
    if names is None or len(names) != 2:
        raise InputError(
            "y must be a structured array with an event indicator and a time, in this order, such as "
            f"survival_target(event, time) makes; its dtype is {y.dtype}."
        )
    if y.shape != (n,):
        raise InputError(f"y must have one entry for each of the {n} rows, but its shape is {y.shape}.")
    if y.dtype[0].kind not in "biu" and not np.isin(y[names[0]], (0, 1)).all():
        raise InputError(f"The first field of y, {names[0]!r}, must be the event indicator, booleans or 0 and 1.")
    return y[names[0]], y[names[1]]


def _one_a_row(name: str, given: Any, n: int) -> Any:
    values = np.asarray(given)
    if values.shape != (n,):
        raise InputError(f"{name} must be one value for each of the {n} rows, but its shape is {values.shape}.")
    return values
