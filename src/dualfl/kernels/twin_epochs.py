"""The sequential methods as plain loops: one coordinate, or one row, after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .losses import Array, Loss
from .twin_losses import values_and_slopes

if TYPE_CHECKING:
    from .twin import Rows

Index = npt.NDArray[np.int64]
REFRESH = 64  # sweeps after which the gradient is computed afresh, to drop the rounding it gathered


def best_coordinate(a: float, slope: float, curvature: float, l1: float, lo: float, hi: float) -> float:
    """The minimiser over [lo, hi] of slope (x - a) + curvature (x - a)^2 / 2 + l1 |x|."""
    if curvature > 0:
        free = a - slope / curvature
        free = np.sign(free) * max(abs(free) - l1 / curvature, 0.0)
    elif abs(slope) <= l1:
        free = 0.0
    else:  # linear: to the better end, and nowhere if there is none
        end = lo if slope > 0 else hi
        free = end if np.isfinite(end) else a
    return float(min(max(free, lo), hi))


def sdca_epoch(
    rows: Rows,
    q: Array,
    b: Array,
    lo: Array,
    hi: Array,
    eps: float,
    s: Array,
    alpha: Array,
    theta: Array,
    lam: float,
    norms2: Array,
    order: Index,
) -> None:
    for i in order:
        if s[i] == 0.0:
            continue  # the row has no say: any alpha_i is optimal
        where, x = rows.row(i)
        slope = q[i] * float(x @ theta[where]) - b[i]
        new = best_coordinate(alpha[i], slope, s[i] * q[i] ** 2 * norms2[i] / lam, eps, lo[i], hi[i])
        theta[where] += (s[i] * q[i] * (new - alpha[i]) / lam) * x
        alpha[i] = new


def pairs_older(S: Array, Y: Array, sy: Array, count: int, newest: int, parts: Array, v: Array) -> None:
    for i in range(count):
        p = newest - i  # a ring: negative places count from its end
        parts[i] = S[p] @ v / sy[p]
        v -= parts[i] * Y[p]


def pairs_newer(S: Array, Y: Array, sy: Array, count: int, newest: int, parts: Array, v: Array) -> None:
    for i in reversed(range(count)):
        p = newest - i
        v += (parts[i] - Y[p] @ v / sy[p]) * S[p]


def cd_quadratic(
    Q: Array,
    q: Array,
    l1: Array,
    lo: Array,
    hi: Array,
    x: Array,
    grad: Array,
    sweeps: int,
    tol: float,
) -> tuple[int, float]:
    change = 0.0
    for sweep in range(1, sweeps + 1):
        change = 0.0
        for i in range(len(x)):
            curvature = float(Q[i, i])
            step = best_coordinate(x[i], grad[i], curvature, l1[i], lo[i], hi[i]) - x[i]
            if step != 0.0:
                x[i] += step
                grad += step * Q[i]
                change = max(change, curvature * abs(step))
        if change <= tol:
            return sweep, change
        if sweep % REFRESH == 0:
            grad[:] = Q @ x - q
    return sweeps, change


def _slope(loss: Loss, z: Array, label: Array, weight: float) -> Array:
    return np.asarray(weight * values_and_slopes(loss, z[None, :], label)[1][0])


def svrg_epoch(
    rows: Rows,
    loss: Loss,
    y: Array,
    s: Array,
    Z: Array,
    G: Array,
    W: Array,
    step: float,
    ridge: Array,
    c: Array,
    indices: Index,
) -> None:
    for i in indices:
        where, x = rows.row(i)
        here = _slope(loss, x @ W[where], y[i : i + 1], s[i])
        change = rows.n * (here - _slope(loss, Z[i], y[i : i + 1], s[i]))
        W -= step * (G + ridge[:, None] * W - c)
        W[where] -= step * np.outer(x, change)


def saga_epoch(
    rows: Rows,
    loss: Loss,
    y: Array,
    s: Array,
    R: Array,
    G: Array,
    W: Array,
    step: float,
    ridge: Array,
    c: Array,
    indices: Index,
) -> None:
    for i in indices:
        where, x = rows.row(i)
        here = _slope(loss, x @ W[where], y[i : i + 1], s[i])
        change = here - R[i]
        W -= step * (G + ridge[:, None] * W - c)
        W[where] -= (step * rows.n) * np.outer(x, change)
        G[where] += np.outer(x, change)
        R[i] = here
