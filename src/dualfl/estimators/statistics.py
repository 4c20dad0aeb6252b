"""What papers print of a fit, from sums over silos: tests, ratios, likelihoods, deviance, dispersion, robust errors.

Pure functions of numbers. H is the information about all coefficients for a dispersion of 1, summed over silos
(`silos.likelihoods.information`, or `CoxPH.information`); B the summed products of scores. Then

    model       Cov = phi H^-1                      phi the dispersion, 1 for counts and classes
    robust      Cov = H^-1 B H^-1                   scores by row, or by cluster within a silo, or by silo

and an estimate theta_k has the statistic theta_k/se_k, normal, or Student's where phi or few clusters are estimated.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln
from scipy.stats import chi2, f, norm
from scipy.stats import t as student

from dualfl.errors import InputError
from dualfl.objectives.families import CLogLog, Gamma, NegativeBinomial, Tweedie
from dualfl.objectives.joint_losses import Cox, Ordered
from dualfl.objectives.losses import Logistic, Loss, Poisson, Softmax, Squared
from dualfl.silos.costs import Sample
from dualfl.typing import Array

FEW_SILOS = 30  # below so many, errors that take a silo as one observation are rough


# -- coefficients -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Estimates with what is known of their errors; one number each."""

    estimate: Array
    error: Array
    statistic: Array
    p: Array
    lower: Array
    upper: Array
    df: float  # of Student's distribution; infinite for the normal one
    level: float

    @property
    def ratio(self) -> tuple[Array, Array, Array]:
        """exp of the estimates and of the ends of their intervals."""
        with np.errstate(over="ignore"):
            return np.exp(self.estimate), np.exp(self.lower), np.exp(self.upper)


def coefficients(estimate: Array, covariance: Array, df: float = np.inf, level: float = 0.95) -> Coefficients:
    """Tests and intervals of each coefficient."""
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, but it is {level}.")
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    law: Any = norm if np.isinf(df) else student(df)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.asarray(estimate / error)
    q = float(law.ppf((1 + level) / 2))
    p = 2 * law.sf(np.abs(statistic))
    return Coefficients(estimate, error, statistic, p, estimate - q * error, estimate + q * error, df, level)


def ratio_name(loss: Loss | str) -> str:
    """What exp of a coefficient is called; empty where it means nothing."""
    if isinstance(loss, Cox) or loss == "cox":
        return "hazard ratio"
    if isinstance(loss, Logistic | Softmax | Ordered) or loss == "ordinal":
        return "odds ratio"
    if isinstance(loss, Poisson | NegativeBinomial):
        return "rate ratio"
    if isinstance(loss, CLogLog):
        return "hazard ratio"
    return "mean ratio" if isinstance(loss, Gamma | Tweedie) else ""


# -- covariances --------------------------------------------------------------------------------------------


def model_covariance(H: Array, dispersion: float = 1.0) -> Array:
    """phi H^-1; columns of any units."""
    scale = np.sqrt(np.maximum(np.diag(H), 1e-300))
    inverse = np.linalg.inv(H / np.outer(scale, scale)) / np.outer(scale, scale)
    return np.asarray(dispersion * (inverse + inverse.T) / 2)


def robust_covariance(H: Array, B: Array, rows: float | None = None) -> Array:
    """H^-1 B H^-1; with `rows`, times rows/(rows - coefficients), known as HC1."""
    inverse = model_covariance(H)
    correction = 1.0 if rows is None else rows / (rows - len(H))
    return np.asarray(correction * inverse @ B @ inverse)


def clustered_covariance(H: Array, B: Array, clusters: int) -> Array:
    """The same with scores summed by cluster, times clusters/(clusters - 1)."""
    if clusters < 2:
        raise InputError(f"Errors by cluster need at least 2 clusters, and there are {clusters}.")
    return robust_covariance(H, B) * clusters / (clusters - 1)


def by_silo(H: Array, scores: Sequence[Array]) -> tuple[Array, float]:
    """Each silo as one cluster: the covariance, and the degrees of freedom J - 1 of Student's distribution.

    `scores` are the silos' summed scores at the fitted model, of which the sum is zero.
    """
    J = len(scores)
    if J < FEW_SILOS:
        warnings.warn(
            f"Errors that take each silo as one observation are rough with fewer than {FEW_SILOS} silos, and there are "
            f"{J}.",
            stacklevel=2,
        )
    S = np.stack(list(scores))
    return clustered_covariance(H, S.T @ S, J), J - 1.0


# -- tests --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TestResult:
    """A chi-square statistic, or F if `df_error` is finite."""

    __test__ = False  # not one of pytest's

    statistic: float
    df: int
    df_error: float = np.inf

    @property
    def p(self) -> float:
        if np.isinf(self.df_error):
            return float(chi2.sf(self.statistic, self.df))
        return float(f.sf(self.statistic / self.df, self.df, self.df_error))


# -- the fit as a whole -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FitStatistics:
    """nan where a family has no such number."""

    rows: float
    coefficients: int
    log_likelihood: float
    deviance: float
    null_deviance: float
    dispersion: float
    parameters: int  # the coefficients, and a dispersion that was estimated
    events: float | None = None  # of a survival model, which count in place of rows
    intercepts: int = 1  # of the model without columns

    @property
    def df_residual(self) -> float:
        return self.rows - self.coefficients

    @property
    def df_null(self) -> float:
        return self.rows - self.intercepts

    @property
    def aic(self) -> float:
        return -2 * self.log_likelihood + 2 * self.parameters

    @property
    def bic(self) -> float:
        return (
            -2 * self.log_likelihood
            + float(np.log(self.rows if self.events is None else self.events)) * self.parameters
        )


def fit_statistics(
    loss: Loss,
    sums: Mapping[str, float],
    null: Mapping[str, float] | None,
    coefficients: int,
    searched: bool = False,
    events: float | None = None,
) -> FitStatistics:
    """From the sums of `silos.likelihoods.likelihood_sums` at the model and at the one with an intercept only;
    `searched`: the dispersion of the loss is an estimate, too."""
    n = float(sums["mass"])
    deviance = 2 * (sums["loss"] - sums["least"])
    null_deviance = float("nan") if null is None else 2 * (null["loss"] - null["least"])
    free = isinstance(loss, Squared | Gamma | Tweedie)
    dispersion = 1.0
    if free:
        if not n > coefficients:
            raise InputError(
                f"There are {coefficients} coefficients and {n:,.0f} rows, so the dispersion has no estimate; give "
                "more rows, or fewer columns."
            )
        dispersion = sums["pearson"] / (n - coefficients)
    likelihood = log_likelihood(loss, sums)
    parameters = coefficients + (free or searched)
    return FitStatistics(n, coefficients, likelihood, deviance, null_deviance, dispersion, parameters, events)


def null_predictor(loss: Loss, sample: Sample) -> Array | None:
    """The predictor of a model without columns and offsets, from the mean of the targets; None where it is infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if isinstance(loss, Softmax):
            found = np.log(sample.classes / sample.classes.sum())
        else:
            found = np.atleast_1d(link(loss, sample.mean))
    return found if np.isfinite(found).all() else None


def link(loss: Loss, mean: float) -> float:
    """The predictor that belongs to this mean."""
    if isinstance(loss, Squared):
        return mean
    if isinstance(loss, Logistic):
        return float(np.log(mean) - np.log1p(-mean))
    return float(np.log(-np.log1p(-mean))) if isinstance(loss, CLogLog) else float(np.log(mean))


def log_likelihood(loss: Loss, sums: Mapping[str, float]) -> float:
    """Of all rows; where there is a dispersion, at deviance/rows, which is the most likely for least squares."""
    n, deviance = float(sums["mass"]), 2 * (sums["loss"] - sums["least"])
    if isinstance(loss, Squared | Gamma) and not deviance > 0:  # every target is predicted exactly
        return float("inf")
    if isinstance(loss, Squared):
        return -n / 2 * float(np.log(2 * np.pi * deviance / n) + 1)
    if isinstance(loss, Gamma):
        shape = n / deviance
        each = shape * np.log(shape) - gammaln(shape)
        return float(n * each + (shape - 1) * sums["logarithm"] - shape * sums["loss"])
    if isinstance(loss, Logistic | Softmax | Poisson | NegativeBinomial | CLogLog | Cox | Ordered):
        return float(sums["constant"] - sums["loss"])
    return float("nan")  # Tweedie's density is a series; others are no likelihoods
