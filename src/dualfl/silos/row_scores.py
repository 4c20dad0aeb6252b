"""What every row adds to the slope of the likelihood, for robust errors. It stays in the silo; sums of it leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dualfl import kernels
from dualfl.objectives.cox import CoxPartialLikelihood
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.ordinal import ProportionalOdds
from dualfl.objectives.site_effect import OwnIntercept
from dualfl.silos.curvature import dense
from dualfl.silos.survival_sums import score_residuals
from dualfl.typing import Array


def row_scores(f: Any, theta: Array) -> Array:
    """Rows by coefficients, weighted."""
    if isinstance(f, CoxPartialLikelihood):
        return score_residuals(f, theta)
    if isinstance(f, ProportionalOdds):
        return ordered_scores(f, theta)
    if isinstance(f, OwnIntercept):
        return own_intercept_scores(f, theta)
    return linear_scores(f, theta)


def linear_scores(f: LinearModel, theta: Array) -> Array:
    R = f.mass * kernels.residual(f.loss, f.predictors(theta), f.y, f.s)[1]
    rows = dense(f)
    if f.design.intercept:
        rows = np.column_stack([rows, np.ones(f.n)])
    return np.asarray((rows[:, :, None] * R[:, None, :]).reshape(f.n, -1))


def own_intercept_scores(f: OwnIntercept, theta: Array) -> Array:
    """Around what the silo's own intercept takes up: those of w in a fit with a column for each silo."""
    if f.silent:
        return np.zeros((f.n, f.d))
    at = f.site_point(theta).whole
    U, H = linear_scores(f.base, at), f.base.hessian(at)
    return np.asarray(U[:, :-1] - np.outer(U[:, -1], H[:-1, -1] / H[-1, -1]))


def ordered_scores(f: ProportionalOdds, theta: Array) -> Array:
    """Of coefficients, and of thresholds: that above a row's level, that below, and the gap between them."""
    p, t = f.ordinal_point(theta).parts, f.split(theta)[1]
    rows, K = np.arange(f.n), f.levels
    w = f.mass * f.s
    push = np.zeros((f.n, K + 1))  # of all thresholds, and of the ends, which are none
    push[rows, f.y + 1] -= w * p.above
    push[rows, f.y] += w * p.below
    inner = (f.y > 0) & (f.y < K - 1)
    gap = np.zeros(f.n)
    gap[inner] = -1 / np.expm1(np.diff(t)[f.y[inner] - 1])
    push[rows, f.y + 1] += w * gap
    push[rows, f.y] -= w * gap
    return np.column_stack([(w * (p.above - p.below))[:, None] * dense(f), push[:, 1:K]])


def summed_products(U: Array, number: npt.NDArray[Any]) -> Array:
    """sum over clusters of (sum of scores)(sum of scores)'; `number` is that of a row's cluster."""
    sums = np.zeros((int(number.max(initial=-1)) + 1, U.shape[1]))
    np.add.at(sums, number, U)
    return np.asarray(sums.T @ sums)
