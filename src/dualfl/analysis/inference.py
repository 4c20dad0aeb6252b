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
from dualfl.objectives import Logistic, Loss, Poisson, Softmax, Squared
from dualfl.typing import Array

LARGEST = 2000  # coefficients; a larger Hessian is no message
COLLINEAR = 1e-12  # of the largest eigenvalue of the scaled columns' Gram matrix
ENDLESS = 1e-8  # of the curvature that a direction would have at even odds


@dataclass(frozen=True, eq=False)
class Errors:
    """Of every entry of theta, a flat matrix of features and the intercept by outputs."""

    covariance: Array
    quantile: float  # of the intervals: estimate -+ quantile * standard error
    form: str

    @property
    def standard(self) -> Array:
        errors: Array = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return errors


def obstacle(loss: Loss, l1: float, coefficients: int, rows: int) -> str:
    """Why there are no standard errors; empty if there are."""
    if not isinstance(loss, Logistic | Softmax | Squared | Poisson):
        return "the loss is not the likelihood of a generalised linear model"
    if l1 > 0:
        return "an l1 penalty sets coefficients to zero, and no Hessian tells how surely"
    if coefficients > LARGEST:
        return f"there are {coefficients:,} coefficients, and Hessians are summed up to {LARGEST:,}"
    if isinstance(loss, Squared) and coefficients >= rows:
        which = "as many coefficients as rows" if coefficients == rows else "more coefficients than rows"
        return (
            f"there are {which} ({coefficients:,} and {rows:,}), so residuals say nothing of the spread around the fit"
        )
    return ""


def standard_errors(
    H: Array, loss: Loss, ridge: float, n: float, residuals: float = 0.0, level: float = 0.95
) -> Errors:
    """From the summed Hessians of all silos, n rows in all; for least squares more than there are coefficients."""
    k = loss.outputs
    D = len(H) // k
    penalised = np.repeat(np.append(np.ones(D - 1), 0.0), k)
    A = H + np.diag(n * ridge * penalised)
    if k > 1:  # all directions that change nothing get a curvature of their own; H knows none of them
        shared = np.eye(D) if ridge == 0 else np.diag(1.0 - penalised[::k])
        A = A + np.kron(shared, np.full((k, k), np.trace(H) / len(H) / k))
    B = np.linalg.solve(A, H)  # (H + P)^+ H
    covariance = np.linalg.solve(A, B.T)
    half = (1 + level) / 2
    form = "inverse Fisher information" if ridge == 0 else "sandwich form for the ridge"
    if not isinstance(loss, Squared):
        return Errors((covariance + covariance.T) / 2, float(norm.ppf(half)), form)
    free = n - float(np.trace(B))
    return Errors(residuals / free * (covariance + covariance.T) / 2, float(t.ppf(half, free)), form)


# -- what a fit without a penalty needs -------------------------------------------------------------------


def check_determined(G: Array, names: Sequence[str]) -> None:
    """Refuse columns that repeat each other, from the silos' summed products."""
    values, vectors = np.linalg.eigh(G)
    if values[0] > COLLINEAR * values[-1]:
        return
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
    H = H + np.kron(G, np.full((k, k), 1.0 / k)) if k > 1 else H  # not the direction that all classes share
    values, vectors = scipy.linalg.eigh(H, np.kron(G, np.eye(k)), subset_by_index=[0, 0])
    strength = np.abs(vectors[:, 0]).reshape(-1, k).max(axis=1)
    return float(values[0]), _involved(strength[:-1], names)


def _involved(direction: Array, names: Sequence[str]) -> str:
    strength = np.abs(direction)
    largest = [i for i in np.argsort(-strength) if strength[i] > 0.05 * strength.max()]
    shown = [repr(names[i]) if i < len(names) else "the intercept" for i in largest[:4]]
    return ", ".join(shown) + (", ..." if len(largest) > 4 else "")
