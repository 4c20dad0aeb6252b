"""The ten losses in NumPy, one row of predictors at a time but vectorised: value, slope, curvature.

Every formula is written so that it neither overflows where the loss is finite nor hides a NaN.
"""

from collections.abc import Callable

import numpy as np

from .losses import (
    ABSOLUTE,
    EPSILON_INSENSITIVE,
    HINGE,
    HUBER,
    LOGISTIC,
    POISSON,
    QUANTILE,
    SOFTMAX,
    SQUARED,
    SQUARED_HINGE,
    Array,
    Loss,
    check_columns,
    check_curvature,
)


def values_and_slopes(loss: Loss, Z: Array, y: Array) -> tuple[Array, Array]:
    """l(y_i, z_i), shape (n,), and l'(y_i, z_i), shape (n, k)."""
    check_columns(loss.code, Z.shape[1])
    if loss.code == SOFTMAX:
        return _softmax(Z, y)
    value, slope = _SCALAR[loss.code](Z[:, 0], y, loss.parameter)
    return value, slope[:, None]


def curvature_times(loss: Loss, Z: Array, P: Array, y: Array) -> Array:
    """l''(y_i, z_i) applied to p_i, shape (n, k)."""
    check_columns(loss.code, Z.shape[1])
    check_curvature(loss.code)
    if loss.code == SOFTMAX:
        p = _probabilities(Z)[0]
        return np.asarray(p * (P - np.sum(p * P, axis=1, keepdims=True)))
    return _curvature(loss.code, Z[:, 0], y, loss.parameter)[:, None] * P


def _probabilities(Z: Array) -> tuple[Array, Array, Array]:
    top = Z.max(axis=1, keepdims=True)  # the shift that keeps exp in range
    p = np.exp(Z - top)
    total = p.sum(axis=1, keepdims=True)
    p /= total
    return p, top[:, 0], total[:, 0]


def _softmax(Z: Array, y: Array) -> tuple[Array, Array]:
    p, top, total = _probabilities(Z)
    rows = np.arange(len(y))
    label = y.astype(np.intp)
    value = np.log(total) + (top - Z[rows, label])
    p[rows, label] -= 1.0
    return value, p


def _logistic(z: Array, y: Array, _: float) -> tuple[Array, Array]:
    m = y * z
    e = np.exp(-np.abs(m))  # in (0, 1]: it cannot overflow
    value = np.maximum(-m, 0.0) + np.log1p(e)
    return value, -y * np.where(m >= 0, e, 1.0) / (1.0 + e)


def _squared(z: Array, y: Array, _: float) -> tuple[Array, Array]:
    r = z - y
    return 0.5 * r * r, r


def _huber(z: Array, y: Array, delta: float) -> tuple[Array, Array]:
    r = z - y
    a = np.abs(r)
    return np.where(a <= delta, 0.5 * r * r, delta * (a - 0.5 * delta)), np.clip(r, -delta, delta)


def _poisson(z: Array, y: Array, _: float) -> tuple[Array, Array]:
    e = np.exp(z)
    return e - y * z, e - y


def _squared_hinge(z: Array, y: Array, _: float) -> tuple[Array, Array]:
    gap = np.maximum(0.0, 1.0 - y * z)
    return gap * gap, -2.0 * y * gap


def _hinge(z: Array, y: Array, _: float) -> tuple[Array, Array]:
    gap = 1.0 - y * z
    return np.maximum(0.0, gap), -y * np.where(gap > 0, 1.0, np.where(gap <= 0, 0.0, gap))


def _absolute(z: Array, y: Array, _: float) -> tuple[Array, Array]:
    r = z - y
    return np.abs(r), np.sign(r)


def _quantile(z: Array, y: Array, tau: float) -> tuple[Array, Array]:
    r = z - y
    slope = np.where(r > 0, 1.0 - tau, np.where(r < 0, -tau, r))
    return np.maximum((1.0 - tau) * r, -tau * r), slope


def _epsilon_insensitive(z: Array, y: Array, eps: float) -> tuple[Array, Array]:
    r = z - y
    gap = np.abs(r) - eps
    return np.maximum(0.0, gap), np.where(gap > 0, np.sign(r), np.where(gap <= 0, 0.0, gap))


_SCALAR: dict[int, Callable[[Array, Array, float], tuple[Array, Array]]] = {
    LOGISTIC: _logistic,
    SQUARED: _squared,
    HUBER: _huber,
    POISSON: _poisson,
    SQUARED_HINGE: _squared_hinge,
    HINGE: _hinge,
    ABSOLUTE: _absolute,
    QUANTILE: _quantile,
    EPSILON_INSENSITIVE: _epsilon_insensitive,
}


def _curvature(code: int, z: Array, y: Array, parameter: float) -> Array:
    if code == LOGISTIC:
        e = np.exp(-np.abs(z))  # sigma'(yz) = sigma'(z), for y = -1 or +1
        return np.asarray(e / (1.0 + e) ** 2)
    if code == SQUARED:
        return np.ones_like(z)
    if code == POISSON:
        return np.asarray(np.exp(z))
    if code == HUBER:
        a = np.abs(z - y)
        return np.where(a <= parameter, 1.0, np.where(a > parameter, 0.0, a))
    gap = 1.0 - y * z  # squared hinge
    return np.where(gap > 0, 2.0, np.where(gap <= 0, 0.0, gap))
