"""Survival: Cox's proportional hazards, stratified by silo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from dualfl.engines.result import Result
from dualfl.errors import InputError
from dualfl.estimators.base import FederatedLinear, check_number
from dualfl.estimators.classifiers import check_ratio
from dualfl.estimators.parameters import estimator
from dualfl.estimators.silos import KINDS, counting, row_weights, rows_by_silo
from dualfl.estimators.solving import FitCost
from dualfl.objectives import Cox, CoxPartialLikelihood
from dualfl.objectives.cox import Ties, check_entries, check_events, check_times
from dualfl.objectives.inputs import check_offset
from dualfl.silos import survival_sums
from dualfl.silos.chamber import SiloRows
from dualfl.silos.costs import Sample
from dualfl.silos.likelihoods import information
from dualfl.silos.survival_sums import StepFunction, baseline
from dualfl.silos.survival_tests import ChiSquare, proportionality
from dualfl.typing import Array


@estimator
class CoxPH(FederatedLinear):
    """Cox's proportional hazards model over several silos.

    Every silo has its own baseline hazard, and no event time leaves a silo: the fit is that of R's
    `coxph(... + strata(silo))`. `survival_target` makes the target y from events and times.

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

    Attributes
    ----------
    coef_ : ndarray
        The logarithms of the hazard ratios.
    baselines_ : dict
        For each silo, and each of its strata, the cumulative hazard of a row of zeros.
    objective_ : float
        E, the objective above divided by the total weight of the rows. `certificate_` bounds E - E*.
    log_likelihood_ : float
        The logarithm of the partial likelihood.
    certificate_, algorithm_, n_iter_, n_exchanges_, history_ : object
        As in `LogisticRegression`.

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

    _no_minimiser = (
        "Without a penalty this model has no minimiser: some combination of columns orders the events in all silos; "
        "give an alpha > 0."
    )

    alpha: float = field(default=0.0, kw_only=False)
    l1_ratio: float = 0.0
    ties: Ties = "efron"

    # -- fit --------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        sample_weight: Any = None,
        *,
        offset: Any = None,
        entry: Any = None,
        strata: Any = None,
    ) -> Self:
        """Fit to rows that belong to silos.

        Parameters
        ----------
        X : array_like
            Rows by features: dense, SciPy sparse or a DataFrame.
        y : structured array
            An event indicator and a time, in this order, as in scikit-survival.
        groups : array_like, optional
            The silo of each row, any labels; None is one silo.
        sample_weight : array_like, optional
            How much each row counts; None counts every row once.
        offset : array_like, optional
            A number for each row that is added to its linear predictor.
        entry : array_like, optional
            When each row came under observation (left truncation).
        strata : array_like, optional
            Labels within silos; only rows with the same label are compared.
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=KINDS)
        whole = survival_rows("all", X, y, sample_weight, offset, entry=entry, strata=strata)
        check_rows(whole)  # here, where rows have the numbers that were given
        if groups is None:
            return self._fit_here([whole], joined=True)
        parts = rows_by_silo(groups, whole.n).items()
        return self._fit_here([replace(whole.rows(part), name=name) for name, part in parts], joined=True)

    def fit_silos(self, silos: Any, names: Sequence[str] | None = None, **columns: str) -> Self:
        """Fit to silos.

        Parameters
        ----------
        silos : sequence or Study
            A list of silos, each (X, y) or (X, y, weights); or a study, `dualfl.connect(...)`.
        names : sequence of str, optional
            The names of the silos of a list, for messages.
        columns : str
            For a study, whose target is the event: `time="days"`, and `entry`, `strata`, `weights`, `offset` or
            `exposure` if there are any. Baselines are those of the silos that show them.
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
            parts.append(survival_rows(name, X, silo[1], silo[2] if len(silo) > 2 else None))
        return self._fit_here(parts)

    def _prepared(self, silos: list[SiloRows]) -> list[SiloRows]:
        silos = counting(silos)
        for silo in silos:
            try:
                check_rows(silo)
            except InputError as error:
                raise InputError(f"Silo {silo.name}: {error}") from error
        if not any(silo.y.any() for silo in silos):
            raise InputError("No row of any silo has an event, so nothing can be said of hazards; all are censored.")
        return [silo.with_targets(np.asarray(silo.y, dtype=np.intp)) for silo in silos]

    @property
    def _class_count(self) -> int:
        return 2  # rows with an event, and those without

    def _cost(self, mass: float) -> FitCost:
        alpha, ratio = check_number("alpha", self.alpha, least=0), check_ratio(self.l1_ratio)
        return FitCost(Cox(self.ties), alpha * (1 - ratio) / mass, alpha * ratio / mass)

    def _keep(self, W: Array, b: Array) -> None:
        self.coef_ = W[0]

    def _note(self, results: list[Result], sample: Sample, model: FederatedLinear | None = None) -> None:
        super()._note(results, sample, model)
        costs = self.costs_
        self.log_likelihood_ = -sum(f.mass * f.data_value(self.coef_) for f in costs.values())
        self.baselines_ = {name: baseline(f, self.coef_) for name, f in costs.items()}

    @property
    def costs_(self) -> dict[str, CoxPartialLikelihood]:
        """The partial likelihood of each silo, as long as the rows are here."""
        check_is_fitted(self)
        if getattr(self, "_rows", None) is None:
            raise InputError("The rows of this fit are not here any more (it was stored, copied, or far away).")
        return {chamber.name: chamber.objective(self._known.cost) for chamber in self._silos_here().chambers}

    # -- predictions ------------------------------------------------------------------------------

    def predict(self, X: Any, offset: Any = None) -> Array:
        """The log of the hazard ratio of each row against a row of zeros, whose offset is 0.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame
            Rows, with the columns of the fit.
        offset : array, optional
            A number for each row that is added to its linear predictor.

        Returns
        -------
        array
            One number a row; the larger, the sooner the event.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=KINDS)
        z = np.asarray(X @ self.coef_)
        return z if offset is None else z + check_offset(offset, len(z))

    def predict_cumulative_hazard_function(
        self, X: Any, silo: str | None = None, stratum: Any = 0, *, offset: Any = None
    ) -> list[StepFunction]:
        """The cumulative hazard of each row over time.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame
            Rows, with the columns of the fit.
        silo : str, optional
            The silo whose baseline hazard is taken; it may be left out where there is one.
        stratum : int, default 0
            Which of the strata of that silo.
        offset : array, optional
            A number for each row that is added to its linear predictor.

        Returns
        -------
        list of StepFunction
            One function of time for each row.
        """
        base = self._baseline(silo, stratum)
        return [StepFunction(base.x, base.y * risk, 0.0) for risk in np.exp(self.predict(X, offset))]

    def predict_survival_function(
        self, X: Any, silo: str | None = None, stratum: Any = 0, *, offset: Any = None
    ) -> list[StepFunction]:
        """For each row the probability that its event has not happened yet, over time.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame
            Rows, with the columns of the fit.
        silo : str, optional
            The silo whose baseline hazard is taken; it may be left out where there is one.
        stratum : int, default 0
            Which of the strata of that silo.
        offset : array, optional
            A number for each row that is added to its linear predictor.

        Returns
        -------
        list of StepFunction
            One function of time for each row.
        """
        hazards = self.predict_cumulative_hazard_function(X, silo, stratum, offset=offset)
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

    def score(self, X: Any, y: Any, groups: Any = None, *, offset: Any = None) -> float:
        """Harrell's concordance, from pairs within silos.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame
            Rows, with the columns of the fit.
        y : structured array
            Event and time of each row, as `survival_target` makes it.
        groups : array, optional
            The silo of each row; without it all rows are one silo.
        offset : array, optional
            A number for each row that is added to its linear predictor.

        Returns
        -------
        float
            The share of pairs in which the row with the higher risk had its event first; 0.5 is chance.
        """
        risk = self.predict(X, offset)
        event, time = split_target(y, len(risk))
        parts = {"all": slice(None)} if groups is None else rows_by_silo(groups, len(risk))
        counts = [survival_sums.pair_counts(time[p], event[p], risk[p]) for p in parts.values()]
        total: survival_sums.PairCounts = survival_sums.PairCounts.of(counts)
        return total.index

    # -- inference --------------------------------------------------------------------------------

    def _estimate(self) -> Array:
        return np.array(self.coef_)

    def information(self) -> Array:
        """The observed information: the Hessian of the negative log partial likelihood, summed over silos."""
        check_is_fitted(self)
        if getattr(self, "_rows", None) is None:
            return np.asarray(np.linalg.inv(self.inference_.covariance), dtype=np.float64)
        H: Array = np.sum([information(f, self.coef_) for f in self.costs_.values()], axis=0)
        return H

    def proportionality(self, transform: str = "identity") -> list[ChiSquare]:
        """Score tests of whether coefficients change with time; transform is "identity" or "log"."""
        costs = list(self.costs_.values())
        totals = [(survival_sums.transformed(f.sets.times, transform), f.sets.deaths) for f in costs]
        events = sum(float(d.sum()) for _, d in totals)
        centre = sum(float(g @ d) for g, d in totals) / events
        parts = [survival_sums.proportionality_sums(f, self.coef_, transform, centre) for f in costs]
        return proportionality(survival_sums.ProportionalitySums.of(parts), self._columns())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
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
    event = check_events(event, len(time))
    y["event"], y["time"] = event, time
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


def survival_rows(name: str, X: Any, y: Any, weights: Any, offset: Any = None, **more: Any) -> SiloRows:
    """The rows of a silo: events as targets, times and what else there is beside them."""
    event, time = split_target(y, X.shape[0])
    beside = {key: _one_a_row(key, values, X.shape[0]) for key, values in more.items() if values is not None}
    offset = None if offset is None else check_offset(offset, X.shape[0])
    return SiloRows(name, X, event, row_weights(weights, X), offset, {"time": time, **beside})


def check_rows(silo: SiloRows) -> None:
    """Times, events and entries that make sense, or a sentence."""
    time = check_times("time", silo.more["time"], silo.n)
    check_events(silo.y, silo.n)
    if "entry" in silo.more:
        check_entries(silo.more["entry"], time)


def _one_a_row(name: str, given: Any, n: int) -> Any:
    values = np.asarray(given)
    if values.shape != (n,):
        raise InputError(f"{name} must be one value for each of the {n} rows, but its shape is {values.shape}.")
    return values
