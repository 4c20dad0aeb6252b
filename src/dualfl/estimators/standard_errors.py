"""Standard errors and intervals from the pooled Hessian: each silo sends the Hessian of its own rows, and they add up.

With H the Fisher information of all rows (for the links here, the Hessian of the summed loss), and P = n ridge on the
coefficients and 0 on the intercept,

    Cov  =  phi (H + P)^+ H (H + P)^+.

Without a penalty that is phi H^+, the inverse Fisher information. With a ridge it is the sandwich form: the spread of
the penalised estimate around its own mean; its bias, which a small ridge keeps small, is not in it. phi is 1 for counts
and classes; for least squares it is the residual sum of squares over n - tr((H + P)^+ H), and intervals are Student's.

Softmax coefficients are determined up to a constant that all classes share; their mean is 0, and ^+ leaves it so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.stats import norm, t

from dualfl.errors import InputError
from dualfl.objectives import (
    CLogLog,
    Cox,
    Gamma,
    Logistic,
    Loss,
    NegativeBinomial,
    Ordered,
    Poisson,
    Softmax,
    Squared,
    Tweedie,
)
from dualfl.silos.likelihoods import EXPECTED
from dualfl.typing import Array

LARGEST = 2000  # coefficients; a larger Hessian is no message
LIKELIHOODS = (Logistic, Softmax, Squared, Poisson, NegativeBinomial, Gamma, Tweedie, CLogLog, Cox, Ordered)
ON_THE_COMMAND_LINE = "--refit fits the chosen columns once more, without a penalty, labelled as such"
COLLINEAR = 1e-12  # of the largest eigenvalue of the scaled columns' Gram matrix
ENDLESS = 1e-8  # of the curvature that a direction would have at even odds


@dataclass(frozen=True, eq=False)
class Errors:
    """Of every entry of theta, a flat matrix of features and the intercept by outputs."""

    covariance: Array
    quantile: float  # of the intervals: estimate -+ quantile * standard error
    form: str
    df: float = np.inf  # of Student's distribution; infinite for the normal one
    clusters: int | None = None  # that errors are taken from, if they are
    kind: str = ""  # which information they are taken from

    @property
    def standard(self) -> Array:
        errors: Array = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return errors


def obstacle(loss: Loss, l1: float, coefficients: int, rows: int, refit: str = ON_THE_COMMAND_LINE) -> str:
    """Why there are no standard errors; empty if there are. `refit`: what one may do after l1."""
    if not isinstance(loss, LIKELIHOODS):
        return "the loss is not the likelihood of a generalised linear model"
    if l1 > 0:
        return f"an l1 penalty sets coefficients to zero, and no Hessian tells how surely; {refit}"
    if coefficients > LARGEST:
        return f"there are {coefficients:,} coefficients, and Hessians are summed up to {LARGEST:,}"
    if isinstance(loss, Squared | Gamma | Tweedie) and coefficients >= rows:
        which = "as many coefficients as rows" if coefficients == rows else "more coefficients than rows"
        return (
            f"there are {which} ({coefficients:,} and {rows:,}), so residuals say nothing of the spread around the fit"
        )
    return ""


def standard_errors(
    H: Array,
    loss: Loss,
    ridge: float,
    n: float,
    residuals: float = 0.0,
    level: float = 0.95,
    free: int = 1,
    extra: int = 0,
) -> Errors:
    """From the summed information of all silos, n rows in all; for least squares more than there are coefficients.

    residuals : Pearson's statistic, where there is a dispersion to estimate.
    free : how many coefficients, the last ones, are not penalised.
    extra : intercepts that stayed in their silos.
    """
    k = loss.outputs
    D = len(H) // k
    penalised = np.repeat(np.append(np.ones(D - free), np.zeros(free)), k)
    A = H + np.diag(n * ridge * penalised)
    if k > 1:  # all directions that change nothing get a curvature of their own; H knows none of them
        shared = np.eye(D) if ridge == 0 else np.diag(1.0 - penalised[::k])
        A = A + np.kron(shared, np.full((k, k), np.trace(H) / len(H) / k))
    B = np.linalg.solve(A, H)  # (H + P)^+ H
    covariance = np.linalg.solve(A, B.T)
    inverse = f"inverse {information_name(loss)} information"
    form = inverse if ridge == 0 else "sandwich form for the ridge"
    if not isinstance(loss, Squared | Gamma | Tweedie):
        return Errors((covariance + covariance.T) / 2, half_width(level), form)
    df = n - float(np.trace(B)) - extra
    return Errors(residuals / df * (covariance + covariance.T) / 2, half_width(level, df), form, df)


def half_width(level: float, df: float = np.inf) -> float:
    """Of an interval, in standard errors: normal, or Student's with df degrees of freedom."""
    half = (1 + level) / 2
    return float(norm.ppf(half) if np.isinf(df) else t.ppf(half, df))


def information_name(loss: Loss) -> str:
    """Which one; where the link is the canonical one, expected and observed are the same."""
    if isinstance(loss, Cox | Ordered):
        return "observed"
    return "expected Fisher" if isinstance(loss, EXPECTED) else "Fisher"


def robust_errors(
    H: Array, products: Array, clusters: float, by: str, ridge: float, n: float, free: int, level: float
) -> Errors:
    """(H + P)^-1 B (H + P)^-1 with B the summed products of scores; those of clusters times J/(J - 1)."""
    A = H + np.diag(n * ridge * np.append(np.ones(len(H) - free), np.zeros(free)))
    half_way = np.linalg.solve(A, products)
    covariance = np.linalg.solve(A, half_way.T)
    covariance = (covariance + covariance.T) / 2
    J = round(clusters)
    if by == "row":
        return Errors(covariance, half_width(level), "robust, from products of the rows' scores")
    if J < 2:
        raise InputError(f"Errors by cluster need at least 2 clusters, and there is {J}; take --errors robust.")
    whose = "silos" if by == "silo" else "clusters within silos"  # the same label in two silos is two clusters
    form = f"clustered, from the summed scores of {J:,} {whose}, times {J}/{J - 1}"
    df = J - 1.0 if by == "silo" else np.inf
    return Errors(covariance * J / (J - 1), half_width(level, df), form, df, J)


# -- what a fit without a penalty needs -------------------------------------------------------------------


def check_determined(G: Array, names: Sequence[str], within: bool = False, strata: str = "") -> None:
    """Refuse columns that repeat each other, from the silos' summed products; `within`: around each silo's means, or
    those of its strata, which `strata` tells apart."""
    values, vectors = np.linalg.eigh(G)
    if values[0] > COLLINEAR * values[-1]:
        return
    if strata and not G.any():
        raise InputError(
            f"In every stratum of column {strata!r} there is one row, or all rows are the same, so no row can be "
            "compared with another; give --strata a column of which many rows have the same label, or leave it out."
        )
    if strata:
        raise InputError(
            f"The columns {_involved(vectors[:, 0], names)} have one value within every stratum of column {strata!r}, "
            "or determine each other there, so without a penalty their coefficients are not determined; leave one out "
            "with --drop, give --strata a column with fewer labels, or take --penalty l2."
        )
    if within:
        raise InputError(
            f"The columns {_involved(vectors[:, 0], names)} have one value within every silo, or determine each other "
            "there, and every silo has a baseline or an intercept of its own, so without a penalty their coefficients "
            "are not determined; leave one out with --drop, or take --penalty l2."
        )
    raise InputError(
        f"The columns {_involved(vectors[:, 0], names)} determine each other (their combination is constant), so "
        "without a penalty their coefficients are not determined; leave one out with --drop, or take --penalty l2."
    )


def flattest(H: Array, G: Array, loss: Loss, names: Sequence[str]) -> tuple[float, str]:
    """The least curvature of the summed loss, against that of the columns alone, and the columns in that direction.

    Where some value of a column occurs with one class only (or with no counts), the likelihood rises with the
    coefficient without end, and the curvature goes to zero.
    """
    k = loss.outputs
    if isinstance(loss, Ordered):  # thresholds between levels, and an intercept, may follow any direction
        H, G = without_last(H, loss.levels - 1), without_last(G, 1)
    H = H + np.kron(G, np.full((k, k), 1.0 / k)) if k > 1 else H  # not the direction that all classes share
    values, vectors = scipy.linalg.eigh(H, np.kron(G, np.eye(k)), subset_by_index=[0, 0])
    strength = np.abs(vectors[:, 0]).reshape(-1, k).max(axis=1)
    return float(values[0]), _involved(strength[: len(names)], names)


def without_last(H: Array, count: int) -> Array:
    """The curvature that is left where the last coordinates are at their best: Schur's complement."""
    d = len(H) - count
    found: Array = H[:d, :d] - H[:d, d:] @ np.linalg.solve(H[d:, d:], H[d:, :d])
    return found


def _involved(direction: Array, names: Sequence[str]) -> str:
    strength = np.abs(direction)
    largest = [i for i in np.argsort(-strength) if strength[i] > 0.05 * strength.max()]
    shown = [repr(names[i]) if i < len(names) else "the intercept" for i in largest[:4]]
    return ", ".join(shown) + (", ..." if len(largest) > 4 else "")
