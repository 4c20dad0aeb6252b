"""Proportional odds: ordered levels 0 .. K-1, with P(y <= k) = sigma(t_k - x'w) and thresholds t_0 < ... < t_(K-2).

Let a = t_y - x'w and b = t_(y-1) - x'w be how far a row is from the thresholds above and below its level. Then

    -log P(y)  =  log(1 + e^-a)  +  log(1 + e^b)  +  h(t_y - t_(y-1)),      h(d) = -log(1 - e^-d),

without the first term for the highest level, without the second for the lowest, and with the third between two
thresholds only: two logistic losses, and a barrier that keeps thresholds apart, convex in (w, t). The model is the flat
vector (w, tau), t = base + tau with a base that all clients share, so that zero is a model. Where thresholds are not in
order, f is infinite. The ridge acts on w; f has no L, because the barrier has none.

    f(w, tau) = sum_i s_i (-log P(y_i)) + (ridge/2)|w|^2,      sum_i s_i = 1.

Rounding. As for linear models: K u times the sizes of what is added up, the predictors' part by Cauchy and Schwarz, and
what an error of (|t_k| + |t_(k-1)|) u in a difference of thresholds makes of the barrier.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dualfl.arguments import check
from dualfl.errors import InputError
from dualfl.kernels import Design
from dualfl.objectives.base import Objective, check_factor
from dualfl.objectives.inputs import check_features, check_offset, check_weights
from dualfl.objectives.points import Point
from dualfl.objectives.predictors import PredictorPoint
from dualfl.objectives.rounding import Rounding, roundings
from dualfl.typing import AnyArray, Array, frozen, sealed


class Parts(NamedTuple):
    """At one place: by rows the terms above and below, and the barriers."""

    value: float  # without the ridge; infinite where thresholds are not in order
    above: Array  # sigma(-a), the slope of the first term, with its sign changed
    below: Array  # sigma(b)
    curved_above: Array
    curved_below: Array
    slope: Array  # h' and h'' of each gap between thresholds, times the weight of the level
    bend: Array


class ProportionalOdds(Objective):
    """The likelihood of ordered levels.

    Parameters
    ----------
    X : ndarray or SciPy CSR
        Rows by features; dense or SciPy CSR.
    y : array_like
        Levels, numbers 0 .. levels - 1; a client may lack some.
    levels : int
        How many there are in all clients together.
    ridge : float, default 0.0
        The mu of (mu/2)|w|^2.
    weights, offset : array_like or None
        One number a row, as in `LinearModel`.
    base : array_like, optional
        The thresholds of the model zero, in order; None takes a distance of 1 around 0.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import ProportionalOdds
    >>> f = ProportionalOdds(np.array([[0.0], [1.0]]), [0, 1], levels=2)
    >>> round(f.value(np.zeros(2)), 6)  # log 2: the threshold is 0
    0.693147
    """

    code = 61  # by which a survey knows it

    def __init__(
        self,
        X: AnyArray | sp.csr_array | sp.csr_matrix,
        y: npt.ArrayLike,
        levels: int,
        ridge: float = 0.0,
        *,
        weights: npt.ArrayLike | None = None,
        offset: npt.ArrayLike | None = None,
        base: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__()
        check("ridge", ridge, float)
        if not 0 <= ridge < np.inf:
            raise InputError(f"ridge must be a finite number >= 0, but it is {ridge}.")
        if not isinstance(levels, (int, np.integer)) or levels < 2:
            raise InputError(f"An ordered target needs at least 2 levels, and levels = {levels!r}.")
        self.design = Design(check_features(X))
        self.n, self.levels, self.ridge = self.design.n, int(levels), float(ridge)
        self.y = check_levels(y, self.n, self.levels)
        self.s, self._mass = check_weights(weights, self.n)
        self.offset = None if offset is None else sealed(check_offset(offset, self.n))
        self.base = check_base(base, self.levels)
        D = self.design.D
        self.shape = (D + self.levels - 1,)
        self.free = np.arange(self.d) >= D
        self.offers = frozenset({"gradient", "hessian"})

    @property
    def name(self) -> str:
        return "ProportionalOdds"

    @property
    def mass(self) -> float:
        return self._mass

    @property
    def convexity(self) -> Array:
        return np.where(np.asarray(self.free), 0.0, self.ridge)

    @cached_property
    def shares(self) -> Array:
        """The weight of each level."""
        return np.bincount(self.y, weights=self.s, minlength=self.levels).astype(np.float64)

    @cached_property
    def column_sizes(self) -> Array:
        X: Any = self.design.X
        squares = X.multiply(X).T @ self.s if bool(sp.issparse(X)) else np.einsum("l,lk,lk->k", self.s, X, X)
        return np.asarray(np.sqrt(squares) * (1 + roundings(self.n)))

    def split(self, x: Array) -> tuple[Array, Array]:
        """w, and the thresholds."""
        D = self.design.D
        return x[:D], self.base + x[D:]

    # -- evaluation -------------------------------------------------------------------------------

    def predictors(self, x: Array) -> Array:
        z = self.directions(x)
        return z if self.offset is None else z + self.offset

    def directions(self, p: Array) -> Array:
        self.cost.passes += 0.5
        return self.design.forward(np.ascontiguousarray(p[: self.design.D, None]))[:, 0]

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def parts(self, z: Array, t: Array) -> Parts:
        y, s = self.y, self.s
        ends = np.concatenate([[-np.inf], t, [np.inf]])
        a, b = ends[y + 1] - z, ends[y] - z
        above, far = _logistic(-a)
        below, near = _logistic(b)
        gaps, shares = np.diff(t), self.shares[1:-1]
        ordered = bool((gaps > 0).all()) and bool(np.isfinite(z).all())
        barrier = np.where(shares > 0, -np.log(-np.expm1(-gaps)), 0.0)
        value = float(s @ (far + near) + shares @ barrier) if ordered else np.inf
        slope = np.where(shares > 0, -shares / np.expm1(gaps), 0.0)
        bend = np.where(shares > 0, shares / (4 * np.sinh(np.minimum(gaps, 700) / 2) ** 2), 0.0)
        return Parts(value, above, below, above * (1 - above), below * (1 - below), slope, bend)

    def _point(self, x: Array) -> Point:
        return OrdinalPoint(self, x)

    def ordinal_point(self, x: Array) -> OrdinalPoint:
        point = self.at(x)
        assert isinstance(point, OrdinalPoint)
        return point

    def ridge_value(self, x: Array) -> float:
        w = x[: self.design.D]
        return self.ridge / 2 * float(w @ w)

    def by_threshold(self, above: Array, below: Array) -> Array:
        """Sums over the rows of numbers that belong to the threshold above and to that below each row's level."""
        K = self.levels
        up = np.bincount(self.y, weights=above, minlength=K)[: K - 1]
        return np.asarray(up + np.bincount(self.y, weights=below, minlength=K)[1:])

    def hessian(self, x: Array) -> Array:
        self.cost.hessian_products += self.d
        self.cost.passes += 2
        p, D, K = self.ordinal_point(x).parts, self.design.D, self.levels
        if not np.isfinite(p.value):
            return np.full((self.d, self.d), np.nan)
        s = self.s
        H = np.zeros((self.d, self.d))
        H[:D, :D] = self.design.gram(s * (p.curved_above + p.curved_below))
        rows, level = np.arange(self.n), self.y
        cross = np.zeros((self.n, K + 1))
        cross[rows, level + 1] = s * p.curved_above  # the threshold above has the number of the level
        cross[rows, level] = s * p.curved_below
        H[:D, D:] = -self.design.backward(np.ascontiguousarray(cross[:, 1:K]))
        H[D:, :D] = H[:D, D:].T
        T = np.diag(self.by_threshold(s * p.curved_above, s * p.curved_below))
        H[D:, D:] = T + _gaps(p.bend)
        H[np.diag_indices(D)] += self.ridge
        return np.asarray((H + H.T) / 2)

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def rounding(self, x: Array, drift: float = 0.0) -> Rounding:
        point = self.ordinal_point(x)
        p, (w, t) = point.parts, self.split(x)
        K = roundings(self.n + self.d)
        slopes = p.above + p.below
        P = float(np.sqrt(self.s @ slopes**2))
        apart = np.abs(t[1:]) + np.abs(t[:-1])
        lost = np.abs(p.slope) + p.bend * apart  # of the barriers' slopes
        reach = 0.0 if self.offset is None else float(np.sqrt(self.s @ self.offset**2))
        size = float(self.column_sizes @ np.abs(w)) + reach + float(np.abs(t).max(initial=0.0))
        pull = self.column_sizes * P + self.ridge * np.abs(w)
        push = self.by_threshold(self.s * p.above, self.s * p.below) + _ends(lost)
        more = drift * float(np.abs(point.predictors).max(initial=0.0))
        value = K * (abs(point.value) + P * size + float(pull @ np.abs(w)) + float(lost @ apart)) + P * more
        value += ((K * size + more) ** 2 + float(p.bend @ (K * apart) ** 2)) / 2
        gradient = K * np.concatenate([pull, push + np.abs(t)])
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return Rounding(np.inf, np.full(self.d, np.inf))
        return Rounding(value, gradient)

    def with_ridge(self, ridge: float) -> ProportionalOdds:
        """The same rows under another ridge."""
        view = self.fresh()
        view.ridge = float(ridge)
        return view

    def scaled(self, factor: float) -> ProportionalOdds:
        view = self.fresh()
        view.s = frozen(self.s * check_factor(factor))
        for known in ("shares", "column_sizes"):
            view.__dict__.pop(known, None)
        return view


class OrdinalPoint(PredictorPoint["ProportionalOdds"]):
    """Ordered levels at (w, tau), with their predictors once they are known."""

    @cached_property
    def parts(self) -> Parts:
        return self.f.parts(self.predictors, self.f.split(self.x)[1])

    @property
    def value(self) -> float:
        return self.parts.value + self.f.ridge_value(self.x)

    @cached_property
    def gradient(self) -> Array:
        f, p = self.f, self.parts
        f.cost.gradients += 1
        f.cost.passes += 0.5
        if not np.isfinite(p.value):
            return sealed(np.full(f.d, np.nan))
        g = f.design.backward((f.s * (p.above - p.below))[:, None])[:, 0] + f.ridge * self.x[: f.design.D]
        thresholds = f.by_threshold(-f.s * p.above, f.s * p.below) + np.diff(p.slope, prepend=0.0, append=0.0) * -1
        return sealed(np.concatenate([g, thresholds]))

    def hessian_times(self, v: Array) -> Array:
        f, p = self.f, self.parts
        f.cost.hessian_products += 1
        f.cost.passes += 0.5
        dz, (dw, dt) = f.directions(v), (v[: f.design.D], v[f.design.D :])
        ends = np.concatenate([[0.0], dt, [0.0]])
        above, below = f.s * p.curved_above * (ends[f.y + 1] - dz), f.s * p.curved_below * (ends[f.y] - dz)
        top = -f.design.backward((above + below)[:, None])[:, 0] + f.ridge * dw
        return np.concatenate([top, f.by_threshold(above, below) + _gaps(p.bend) @ dt])


def _logistic(m: Array) -> tuple[Array, Array]:
    """sigma(m) and log(1 + e^m), which are 0 at -inf."""
    e = np.exp(-np.abs(m))
    return np.where(m >= 0, 1.0, e) / (1.0 + e), np.maximum(m, 0.0) + np.log1p(e)


def _gaps(bend: Array) -> Array:
    """The second derivative of a function of differences: tridiagonal."""
    ends = _ends(bend)
    return np.asarray(np.diag(ends) - np.diag(bend, 1) - np.diag(bend, -1))


def _ends(v: Array) -> Array:
    """What gaps add to the thresholds at their ends."""
    return np.asarray(np.append(v, 0.0) + np.append(0.0, v))


def check_levels(y: npt.ArrayLike, n: int, levels: int) -> npt.NDArray[np.intp]:
    values = np.asarray(y)
    if values.shape != (n,):
        raise InputError(f"y must be one level for each of the {n} rows, but its shape is {values.shape}.")
    wrong = ~np.isin(values, np.arange(levels))
    if wrong.any():
        raise InputError(f"Levels are numbers 0 to {levels - 1}, and y contains {values[wrong][0]!r}.")
    return values.astype(np.intp)


def check_base(base: npt.ArrayLike | None, levels: int) -> Array:
    t = np.array(np.arange(levels - 1) - (levels - 2) / 2 if base is None else base, dtype=np.float64)
    if t.shape != (levels - 1,) or not np.isfinite(t).all() or not (np.diff(t) > 0).all():
        raise InputError(f"base must be {levels - 1} finite thresholds that rise, but it is {t.tolist()}.")
    return sealed(t)
