"""Estimates with what is known of their errors, for people and for programs; and how it is asked of silos.

One exchange of sums after the fit tells it: the information about the coefficients, and what the likelihood is made of.
An estimator that was fitted in this process asks when somebody wants to know, as long as the rows are there; one that
was fitted to a study asks at the end of its fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualfl.errors import DualflError, InputError
from dualfl.estimators.standard_errors import ENDLESS, Errors, flattest, obstacle, standard_errors
from dualfl.estimators.statistics import (
    Coefficients,
    FitStatistics,
    coefficients,
    fit_statistics,
    null_predictor,
    ratio_name,
)
from dualfl.lines import entry, number, p_value, table
from dualfl.objectives import Cox, Loss, Ordered
from dualfl.silos.costs import Cost, Sample
from dualfl.silos.likelihoods import EXPECTED
from dualfl.silos.questions import Conversation, Exchange, Query
from dualfl.silos.separation import SEPARABLE
from dualfl.silos.verbs import whole
from dualfl.typing import Array

PURPOSE = "errors"
JOINT = (Cox, Ordered)
REFIT = "fit the columns with coefficients that are not 0 once more, without a penalty, and say so beside its errors"
CHANGED = 1e-6  # relatively: energies that differ by more are not of the same rows


@dataclass(frozen=True, eq=False)
class Inference:
    """`inference_` of a model: tests, intervals, covariance and likelihood.

    names : of the coefficients, intercepts and thresholds last.
    coefficients : estimates, errors, statistics, p-values and intervals, an array each.
    covariance : of the coefficients.
    ratio : what exp of a coefficient is called; empty where it means nothing.
    statistics : log-likelihood, deviance, dispersion, AIC and their kin.
    form : what the errors were made of.
    beside : how many of the last are intercepts or thresholds, which have no ratio.
    penalised : whether there was a penalty, so that AIC and BIC mean nothing.
    """

    names: tuple[str, ...]
    coefficients: Coefficients
    covariance: Array
    ratio: str
    statistics: FitStatistics
    form: str
    beside: int = 0
    penalised: bool = False

    @staticmethod
    def of(names: Sequence[str], estimate: Array, errors: Errors, ratio: str, **more: Any) -> Inference:
        found = coefficients(estimate, errors.covariance, errors.df)
        return Inference(tuple(names), found, errors.covariance, ratio, form=errors.form, **more)

    @property
    def log_likelihood(self) -> float:
        return self.statistics.log_likelihood

    def at(self, level: float) -> Inference:
        """With intervals at another level than 0.95."""
        one = self.coefficients
        return replace(self, coefficients=coefficients(one.estimate, self.covariance, one.df, level))

    def __str__(self) -> str:
        found = self.coefficients
        head = ["coefficient", "estimate", "std err", "z" if np.isinf(found.df) else "t", "p"]
        head += [self.ratio] * bool(self.ratio) + ["low", "high"]
        lines = table(head, [self._line(i) for i in range(len(self.names))])
        of_what = f" of the {self.ratio}" if self.ratio else ""
        errors = f"{self.form}, from sums over silos; intervals{of_what} at {100 * found.level:.12g}%"
        return "\n".join([*lines, "", entry("errors", errors), entry("likelihood", self._likelihood())])

    def _line(self, i: int) -> list[str]:
        found = self.coefficients
        z, low, high = float(found.statistic[i]), found.lower, found.upper
        line = [self.names[i], number(found.estimate[i]), number(found.error[i])]
        line += [f"{z:.2f}" if abs(z) < 1e4 else f"{z:.3g}", p_value(float(found.p[i]))]
        if not self.ratio:
            return [*line, number(low[i]), number(high[i])]
        if i >= len(self.names) - self.beside:
            return [*line, "", "", ""]
        return [*line, *(number(end[i]) for end in found.ratio)]

    def _likelihood(self) -> str:
        one = self.statistics
        parts = [("log-likelihood", one.log_likelihood, 8)]
        if one.events is None:
            parts += [(f"deviance on {one.df_residual:,.6g} df", one.deviance, 6)]
            parts += [(f"null deviance on {one.df_null:,.6g} df", one.null_deviance, 6)]
        if not self.penalised:
            parts += [("AIC", one.aic, 7), ("BIC", one.bic, 7)]
        if one.parameters > one.coefficients and one.dispersion != 1:
            parts.append(("dispersion", one.dispersion, 5))
        text = ", ".join(f"{name} {value:.{digits}g}" for name, value, digits in parts if np.isfinite(value))
        count = f"{one.rows:,.6g} rows" if one.events is None else f"{one.rows:,.6g} rows, {one.events:,.6g} events"
        return f"{text}; {count}"


class Endless(DualflError):
    """The likelihood is flat in some direction, and rises there for ever."""


@dataclass(frozen=True, eq=False)
class Fitting:
    """What an estimator remembers of its fit: the cost that was minimised, the rows in numbers, and E."""

    cost: Cost
    sample: Sample
    energy: float


def inferring(
    fit: Fitting, theta: Array, names: Sequence[str], estimate: Array, searched: bool = False, offset: bool = False
) -> Conversation[Inference]:
    """By one exchange. `theta` is what the cost is minimised by, `estimate` the same as people read it."""
    cost, sample, loss = fit.cost, fit.sample, fit.cost.loss
    reason = obstacle(loss, cost.l1, theta.size, sample.n, REFIT)
    if reason:
        raise InputError(f"This fit has no standard errors: {reason}.")
    plain = replace(cost, ridge=0.0, l1=0.0, shift=0.0)
    at = {"cost": plain.as_json(), "theta": theta}
    queries = [Query("expected_information" if isinstance(loss, EXPECTED) else "information", at)]
    asked = products_question(cost)
    null_asked = null_question(plain, sample, theta.size, offset)
    told, sums, *others = yield Exchange(PURPOSE, (*queries, Query("likelihood", at), *asked, *null_asked))
    null = others[len(asked) :]
    check_same(fit, theta, float(sums["loss"]) / sample.mass)
    H = whole(np.asarray(told["information" if "information" in told else "hessian"]))
    if asked and is_flat(H, others[0], loss):
        raise Endless("some direction is flat")
    beside = free_coefficients(cost)
    penalised = 0 if cost.intercept is True else beside
    errors = standard_errors(H, loss, cost.ridge, sample.mass, float(sums["pearson"]), free=penalised)
    count = theta.size - (loss.outputs > 1) * (theta.size // loss.outputs)
    events = float(sample.classes[1]) if isinstance(loss, Cox) else None
    found = fit_statistics(loss, sums, null[0] if null else None, count, searched, events)
    found = replace(found, intercepts=beside * max(loss.outputs - 1, 1))
    more = {"statistics": found, "beside": beside * loss.outputs, "penalised": cost.ridge > 0}
    return Inference.of(names, estimate, errors, ratio_name(loss), **more)


def endless(cost: Cost, theta: Array) -> Conversation[bool]:
    """Whether the likelihood is flat in some direction, where nothing else keeps coefficients finite."""
    asked = products_question(cost) if cost.l1 == 0 else []
    if not asked:
        return False
    given = {"cost": replace(cost, shift=0.0).as_json(), "theta": theta}
    told, products = yield Exchange(PURPOSE, (Query("information", given), *asked))
    return is_flat(whole(np.asarray(told["hessian"])), products, cost.loss)


def is_flat(H: Array, products: Any, loss: Loss) -> bool:
    G = whole(np.asarray(products["products"]))
    return bool(np.isfinite(H).all()) and flattest(H, G, loss, [str(i) for i in range(len(G))])[0] < ENDLESS


def products_question(cost: Cost) -> list[Query]:
    """Of the columns, beside which a likelihood may be flat, where nothing else keeps coefficients finite."""
    if cost.ridge > 0 or not isinstance(cost.loss, SEPARABLE) or not (cost.intercept or isinstance(cost.loss, JOINT)):
        return []
    return [Query("products", {"rows": {}} | ({"within": True} if isinstance(cost.loss, Cox) else {}))]


def free_coefficients(cost: Cost) -> int:
    """How many rows of the model, the last ones, are an intercept or thresholds."""
    if isinstance(cost.loss, Ordered):
        return cost.loss.levels - 1
    return int(cost.intercept in ("free", True))


def null_question(plain: Cost, sample: Sample, size: int, offset: bool) -> list[Query]:
    """About the model without columns, where it is known without a fit."""
    if isinstance(plain.loss, Cox | Ordered):
        known = isinstance(plain.loss, Cox) or not offset
        return [Query("likelihood", {"cost": plain.as_json(), "theta": np.zeros(size)})] if known else []
    null = None if offset or not plain.intercept else null_predictor(plain.loss, sample)
    if null is None:
        return []
    cost = replace(plain, intercept=False, features=False)
    return [Query("likelihood", {"cost": cost.as_json(), "theta": null})]


def check_same(fit: Fitting, theta: Array, loss: float) -> None:
    """That the rows are those of the fit: an array may have been changed since."""
    cost, kept = fit.cost, theta.size - (0 if fit.cost.intercept is True else fit.cost.loss.outputs)
    w = theta if not cost.intercept or cost.intercept is True else theta[:kept]
    if isinstance(cost.loss, Ordered):
        w = theta[: theta.size - cost.loss.levels + 1]
    energy = loss + cost.ridge / 2 * float(w @ w)
    if np.isfinite(fit.energy) and not abs(energy - fit.energy) <= CHANGED * max(abs(energy), abs(loss), 1e-9):
        raise InputError(
            f"The rows have changed since the fit (the objective is {energy:.6g} now and was {fit.energy:.6g}); fit "
            "them again, and ask for errors then."
        )
