"""How far off a computed value and a computed gradient may be: a bound for every objective, at every point.

Let v and g be what f.value(x) and f.gradient(x) return in floating point, with unit roundoff u = 2^-53. Then

    |v - f(x)|  <=  value,          f(y)  >=  v - value + <g, y - x> - <gradient, |y - x|>      for all y.

The second line is what lower bounds need, and no more: g must make a valid cut, it need not be the gradient at x.

Linear models. The kernels add up at most n + D terms for any number they return, and spend a few roundings on a loss,
so K = n + D + 16 roundings bound them all. A computed predictor z~_i is off by at most K u sum_k |x_ik theta_k|. With
the slopes p_i = l'(z~_i) and the column sizes c_k = sqrt(sum_i s_i x_ik^2), Cauchy and Schwarz give

    sum_i s_i |p_i| |x_ik|  <=  P c_k,      P = sqrt(sum_i s_i p_i^2),

so all that rounding does to g_k is at most K u P c_k (small designs are added up as on the left). To the value it does

    K u ( sum_i s_i |l_i|  +  P sum_k c_k |theta_k| )  +  (l''/2) (K u sum_k c_k |theta_k|)^2 :

the terms themselves, what the errors of the predictors make of them to first order, and the rest of Taylor's formula.
The same covers the cut. For any numbers z~_i, l(y) >= l(z~_i) + p_i (x_i'y - z~_i) exactly, and x_i'x - z~_i is what
was bounded above. Where a computed slope is not l' to relative accuracy (Poisson's e^z - y, softmax's p - 1), the sizes
of its two parts stand for |p_i|. Nonsmooth losses have |p_i| <= their Lipschitz constant, and no second-order term.

What a user brings as a function is taken to be computed with (n + d + 16) u times |f| + |f'||x|; nobody can check that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dualfl import kernels
from dualfl.kernels.losses import EPSILON_INSENSITIVE, POISSON, QUANTILE, SOFTMAX
from dualfl.typing import Array

if TYPE_CHECKING:
    from dualfl.objectives.base import Objective
    from dualfl.objectives.linear import LinearModel

UNIT = 2.0**-53
SPARE = 16  # roundings that everything gets beyond those of its sums
CHUNK, CACHED = 1 << 20, 1 << 16  # numbers of a design that are squared at a time, sparse or not
SMALL = 1 << 16  # numbers of a design that may be walked over once more


class Rounding(NamedTuple):
    """See above; one number, and one for each coordinate."""

    value: float
    gradient: Array

    def __add__(self, other: Rounding) -> Rounding:  # type: ignore[override]  # tuples are added otherwise
        return Rounding(self.value + other.value, self.gradient + other.gradient)

    def times(self, factor: float) -> Rounding:
        return Rounding(factor * self.value, factor * self.gradient)


def roundings(terms: int) -> float:
    """The relative error of a sum of so many terms, with some to spare."""
    return (terms + SPARE) * UNIT


def of_mean(silos: int) -> float:
    """What a weighted mean over so many silos makes of the mean of their bounds, relatively.

    Adding up costs (silos + 4) u of the mean size of what is added, and a silo's bound is at least SPARE u of its own.
    """
    return 1 + (silos + 4) / SPARE


@np.errstate(over="ignore", invalid="ignore")
def linear(f: LinearModel, x: Array, drift: float = 0.0) -> Rounding:
    """Of a linear model, as derived above; `drift`: what else predictors may be off, relative to the largest."""
    point: Any = f.at(x)
    Z, theta = point.predictors, np.abs(f.matrix(x))
    K = roundings(f.n + f.design.D)
    extra, slopes, curvature = point.row_sizes
    P = np.sqrt(f.s @ slopes**2)  # one for each output
    c = f.column_sizes
    off, more = K * (c @ theta), drift * float(np.abs(Z).max(initial=0.0)) if drift else 0.0
    small = f.n * f.design.D <= SMALL and not isinstance(f.design.X, kernels.RowsOnDisk)
    pull = product(f, f.s[:, None] * slopes) if small else c[:, None] * P
    ridge, size = f.ridge * np.abs(f.ridge_part(x)), theta.ravel()
    sizes = abs(point.value) + float(f.s @ extra) + float(ridge @ size) + float(pull.ravel() @ size)
    gradient = K * (pull.ravel() + ridge)
    if f.offset is not None:  # like a column whose coefficient is 1
        reach = float(np.sqrt(f.s @ f.offset**2))
        off, sizes = off + K * float(np.abs(f.offset).max()), sizes + float(P.sum()) * reach
    value = K * sizes + float((P * more).sum() + curvature / 2 * ((off + more) ** 2).sum())
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        return Rounding(np.inf, np.full(f.d, np.inf))
    return Rounding(value, gradient)


def product(f: LinearModel, R: Array) -> Array:
    """|X|'R, where that costs nothing to speak of: the sums themselves instead of Cauchy's and Schwarz's bound."""
    out = np.empty((f.design.D, R.shape[1]))
    out[: f.design.X.shape[1]] = abs(f.design.scale) * np.asarray(f.design.sizes @ R)
    if f.design.intercept:
        out[-1] = R.sum(axis=0)
    return out


def slope_spread(f: LinearModel, x: Array) -> float:
    """(K u P)^2: with c_k it bounds how far off the data's part of the gradient at x may be, by K u P c_k."""
    point: Any = f.at(x)
    slopes = point.row_sizes[1]
    with np.errstate(over="ignore"):
        return float(roundings(f.n + f.design.D) ** 2 * (f.s @ slopes**2).sum())


def row_sizes(f: LinearModel, Z: Array) -> tuple[Array, Array, float]:
    """By rows, the parts of which a loss is the difference, beyond its value; its slope likewise; and its curvature."""
    loss, y = f.loss, f.y
    extra = np.zeros(f.n)
    if not loss.smooth:
        if loss.code == EPSILON_INSENSITIVE:
            extra += loss.parameter
        steepest = max(loss.parameter, 1 - loss.parameter) if loss.code == QUANTILE else 1.0
        return extra, np.full((f.n, 1), steepest), 0.0
    if (sizes := loss.rounding_sizes(Z[:, 0], y)) is not None:
        return sizes[0], sizes[1][:, None], sizes[2]
    slopes = np.abs(kernels.residual(loss, Z, y, np.ones(f.n))[1].reshape(f.n, f.k))
    curvature = loss.curvature
    if loss.code == POISSON:
        extra += 2 * y * np.abs(Z[:, 0])
        slopes += 2 * y[:, None]
        curvature = 2 * float(slopes.max())
    elif loss.code == SOFTMAX:
        extra += 1.0  # log(1 + small)
        slopes[np.arange(f.n), y.astype(np.intp)] += 1.0
    return extra, slopes, curvature


def column_sizes(f: LinearModel) -> Array:
    """c_k = sqrt(sum_i s_i x_ik^2), a little too large; rows in pieces, so that none is copied as a whole."""
    X, design = f.design.X, f.design
    squares = np.zeros(design.D)
    rows = max(1, (CHUNK if sp.issparse(X) else CACHED) * f.n // max(design.entries, 1))
    with np.errstate(over="ignore"):
        for first in range(0, f.n, rows):
            piece: Any = X[first : first + rows]
            s = f.s[first : first + rows]
            wide = piece.astype(np.float64, copy=False)
            squares[: X.shape[1]] += s @ np.square(wide) if not sp.issparse(piece) else wide.multiply(wide).T @ s
        squares *= design.scale**2
        if design.intercept:
            squares[-1] = f.s.sum()
        return np.asarray(np.sqrt(squares) * (1 + roundings(f.n)))


def plain(f: Objective, x: Array) -> Rounding:
    """Of a function of which nothing is known but its value, its gradient and L."""
    K = roundings(f.n + f.d)
    value = abs(f.value(x))
    gradient = np.abs(f.gradient(x)) if f.smooth else np.zeros(f.d)
    steep = gradient + (f.L * float(np.linalg.norm(x)) if np.isfinite(f.L) else 0.0)
    return Rounding(K * (value + float(gradient @ np.abs(x))), K * steep)
