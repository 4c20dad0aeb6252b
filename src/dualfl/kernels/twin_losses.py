"""The losses in NumPy, one row of predictors at a time but vectorised: value, slope, curvature.

Every formula is written so that it neither overflows where the loss is finite nor hides a NaN.
"""

from collections.abc import Callable

import numpy as np

from .losses import (
    ABSOLUTE,
    CLOGLOG,
    EPSILON_INSENSITIVE,
    GAMMA,
    HINGE,
    HUBER,
    LOGISTIC,
    NEGATIVE_BINOMIAL,
    POISSON,
    QUANTILE,
    SOFTMAX,
    SQUARED,
    SQUARED_HINGE,
    TWEEDIE,
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


def _gamma(z: Array, y: Array, _: float) -> tuple[Array, Array]:
    e = y * np.exp(-z)
    return z + e, 1.0 - e


def _tweedie(z: Array, y: Array, p: float) -> tuple[Array, Array]:
    near, far = y * np.exp((1.0 - p) * z), np.exp((2.0 - p) * z)
    near = np.where(y == 0, 0.0, near)  # no 0 * inf
    return near / (p - 1.0) + far / (2.0 - p), far - near


def _negative_binomial(z: Array, y: Array, a: float) -> tuple[Array, Array]:
    w, total = z + np.log(a), y + 1.0 / a
    e = np.exp(-np.abs(w))
    value = total * (np.maximum(w, 0.0) + np.log1p(e)) - y * z
    return value, total * (np.where(w >= 0, 1.0, e) / (1.0 + e)) - y


SERIES = 0.3466  # half of log 2: up to here m/(e^m - 1) is summed as a series


def _death(z: Array) -> tuple[Array, Array, Array]:
    """m = e^z, phi = m/(e^m - 1), and m + phi - 1, each with full relative accuracy."""
    m = np.exp(z)
    s = np.minimum(m, SERIES)
    q = s * s
    tail = q * (1 / 12 - q * (1 / 720 - q * (1 / 30240 - q * (1 / 1209600 - q * (1 / 47900160)))))
    large = np.maximum(m, SERIES)
    phi = np.where(m <= SERIES, 1.0 - s / 2 + tail, np.where(m > 745, 0.0, large / np.expm1(np.minimum(large, 745))))
    return m, phi, np.where(m <= SERIES, s / 2 + tail, m + phi - 1.0)


def _cloglog(z: Array, y: Array, _: float) -> tuple[Array, Array]:
    m, phi, _rest = _death(z)
    tiny = m < 1e-8  # -log(1 - e^-m) = -log m + m/2 - m^2/24 + ...
    safe = np.where(tiny, 1.0, m)
    e = np.exp(-safe)
    rare = np.where(e <= 0.3, -np.log1p(-np.minimum(e, 0.3)), -np.log(-np.expm1(-safe)))
    value = np.where(y > 0, np.where(tiny, m / 2 - z, rare), m)
    return value, np.where(y > 0, -phi, m)


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
    GAMMA: _gamma,
    TWEEDIE: _tweedie,
    NEGATIVE_BINOMIAL: _negative_binomial,
    CLOGLOG: _cloglog,
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
    if code == GAMMA:
        return np.asarray(y * np.exp(-z))
    if code == TWEEDIE:
        near = np.where(y == 0, 0.0, y * np.exp((1.0 - parameter) * z))
        return np.asarray((parameter - 1.0) * near + (2.0 - parameter) * np.exp((2.0 - parameter) * z))
    if code == NEGATIVE_BINOMIAL:
        e = np.exp(-np.abs(z + np.log(parameter)))
        return np.asarray((y + 1.0 / parameter) * (e / (1.0 + e) ** 2))
    if code == CLOGLOG:
        m, phi, rest = _death(z)
        return np.where(y > 0, np.where(m > 745, 0.0, phi * rest), m)
    gap = 1.0 - y * z  # squared hinge
    return np.where(gap > 0, 2.0, np.where(gap <= 0, 0.0, gap))
