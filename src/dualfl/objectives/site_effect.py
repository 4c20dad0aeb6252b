"""A fixed effect of the site: every client has an intercept of its own, which never leaves it.

    f(w) = min over b of g(w, b),      g(w, b) = sum_i s_i l(y_i, o_i + x_i'w + b) + (ridge/2) |w|^2,

convex in w, for a smooth loss of one predictor. With b the minimiser, the gradient is g_w, and the Hessian is Schur's
complement g_ww - g_wb g_bw / g_bb. To find b is a problem in one variable, which costs no pass over the rows.

Where targets are all of one kind (one class; counts that are all 0) the minimum is at an infinite b, whatever w is:
f is the ridge alone, and `silent` says so. Such a client contributes nothing.

Constants. g_ww is at most L of the linear model without an intercept, and so is Schur's complement.

Rounding. What is computed is off as g is, and because b is not quite the minimiser: let r bound |g_b| there. Since
|dg_w/db| <= max_i |x_i| dg_b/db, row by row, g_w is off by at most r max_i |x_ik|; and g by at most r times the
distance from the minimiser, for which 2 r/g_bb stands while it is below 1/2: so far g_bb changes by less than half.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dualfl import kernels
from dualfl.errors import NotSupported
from dualfl.objectives.base import Objective
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.linear_point import LinearPoint
from dualfl.objectives.losses import Loss
from dualfl.objectives.points import Point
from dualfl.objectives.predictors import PredictorPoint
from dualfl.objectives.rounding import Rounding
from dualfl.typing import AnyArray, Array, sealed

STEPS = 200  # of the search for b; halvings included


class OwnIntercept(Objective):
    """The likelihood of a client's rows, minimised over an intercept that is its own.

    Parameters are those of `LinearModel`, without `intercept`.

    Parameters
    ----------
    X : ndarray or SciPy CSR
        The rows.
    y : array_like
        The targets.
    loss : Loss
        The loss of a target and a predictor.
    ridge : float, default 0.0
        The strength of the ridge.
    weights : array_like, optional
        Weights of the rows.
    scale : float, default 1.0
        What the entries of X are multiplied by.
    offset : array_like, optional
        What is added to the predictors.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import OwnIntercept, Squared
    >>> f = OwnIntercept(np.array([[1.0], [2.0], [3.0]]), [11.0, 12.0, 13.0], Squared())
    >>> f.value(np.array([1.0])), f.own_intercept(np.array([1.0]))
    (0.0, 10.0)
    """

    code = 62  # by which a survey knows it

    def __init__(
        self,
        X: AnyArray | sp.csr_array | sp.csr_matrix,
        y: npt.ArrayLike,
        loss: Loss,
        ridge: float = 0.0,
        *,
        weights: npt.ArrayLike | None = None,
        scale: float = 1.0,
        offset: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__()
        if not loss.smooth or loss.outputs > 1:
            raise NotSupported(f"A site effect needs a smooth loss of one predictor, and {loss} is none.")
        self.base = LinearModel(X, y, loss, ridge, weights=weights, intercept="free", scale=scale, offset=offset)
        self.n, self.ridge, self.mu = self.base.n, self.base.ridge, self.base.ridge
        self.shape = (self.base.d - 1,)
        self.offers = frozenset({"gradient", "hessian"})

    @property
    def name(self) -> str:
        return f"{self.base.loss} with a site effect"

    @property
    def mass(self) -> float:
        return self.base.mass

    @property
    def L(self) -> float:
        return self._without.L

    @cached_property
    def _without(self) -> LinearModel:
        f = self.base
        return LinearModel(f.design.X, f.y, f.loss, f.ridge, weights=f.s, scale=f.design.scale)

    @cached_property
    def silent(self) -> bool:
        """Whether the intercept alone explains all targets, in the limit; residuals never go to zero there."""
        f, counts = self.base, self.base.s > 0
        if f.loss.location:
            return False
        ends = [kernels.residual(f.loss, np.full((f.n, 1), z), f.y, f.s)[1][counts].sum() for z in (-500.0, 500.0)]
        return not (ends[0] < -1e-100 and ends[1] > 1e-100)

    def own_intercept(self, w: Array) -> float:
        """b, which stays here."""
        return self.site_point(w).b

    def site_point(self, w: Array) -> SitePoint:
        point = self.at(w)
        assert isinstance(point, SitePoint)
        return point

    def _point(self, x: Array) -> Point:
        return SitePoint(self, x)

    def predictors(self, x: Array) -> Array:
        """Without the own intercept."""
        self.cost.passes += 0.5
        return self.base.predictors(np.append(x, 0.0))[:, 0]

    def directions(self, p: Array) -> Array:
        self.cost.passes += 0.5
        return self.base.directions(np.append(p, 0.0))[:, 0]

    @np.errstate(over="ignore", invalid="ignore")
    def best(self, z: Array) -> float:
        """The b with sum_i s_i l'(z_i + b) = 0: Newton's method in a bracket, which is widened and halved."""
        f = self.base
        low, high, reach = -np.inf, np.inf, 1.0
        b = self._suggested - float(f.s @ z) / float(f.s.sum())
        for _ in range(STEPS):
            at = (z + b)[:, None]
            slope = float(kernels.residual(f.loss, at, f.y, f.s)[1].sum())
            bend = float(kernels.curvature_times(f.loss, at, np.ones_like(at), f.y, f.s).sum())
            if slope == 0 or (not np.isfinite(slope + bend) and np.isfinite(low + high) and high - low < 1e-300):
                break
            low, high = (b, high) if slope < 0 else (low, b)
            step = -slope / bend if bend > 0 and np.isfinite(slope) else np.nan
            trial = b + step
            if not (low < trial < high and abs(step) <= reach):
                inside = np.isfinite(low) and np.isfinite(high)
                trial = (low + high) / 2 if inside else b + (reach if slope < 0 else -reach)
                reach *= 2
            if trial == b or abs(trial - b) <= 1e-16 * abs(b):
                break
            b = trial
        return b

    @cached_property
    def _suggested(self) -> float:
        """The mean of the predictors that the targets suggest: always the same, so that no bit depends on history."""
        f = self.base
        z = f.y if f.loss.location else f.loss.working(f.y)
        return 0.0 if z is None else float(f.s @ z) / float(f.s.sum())

    def hessian(self, x: Array) -> Array:
        self.cost.hessian_products += self.d
        self.cost.passes += 1
        if self.silent:
            return self.ridge * np.eye(self.d)
        H = self.base.hessian(self.site_point(x).whole)
        S = H[:-1, :-1] - np.outer(H[:-1, -1], H[-1, :-1]) / H[-1, -1]
        return np.asarray((S + S.T) / 2)

    def rounding(self, x: Array, drift: float = 0.0) -> Rounding:
        if self.silent:
            return Rounding(1e-15 * self.ridge * float(x @ x), 1e-15 * self.ridge * np.abs(x))
        point = self.site_point(x)
        off = self.base.rounding(point.whole, drift * self._larger_without(point) if drift else 0.0)
        r = abs(float(self.base.gradient(point.whole)[-1])) + float(off.gradient[-1])
        apart = 2 * r / point.bend if point.bend > 0 else np.inf
        if not apart < 0.5:
            return Rounding(np.inf, np.full(self.d, np.inf))
        return Rounding(off.value + r * apart, off.gradient[:-1] + r * self._largest)

    @staticmethod
    def _larger_without(point: SitePoint) -> float:
        """How much larger predictors are without b, as a drift is relative to the largest of those."""
        without, beside = (float(np.abs(z).max(initial=0.0)) for z in (point.predictors, point.predictors + point.b))
        return max(1.0, without / max(beside, 1e-300))

    @cached_property
    def _largest(self) -> Array:
        """max_i |x_ik| of every column."""
        X: Any = self.base.design.X
        top = np.asarray(abs(X).max(axis=0).todense()).ravel() if bool(sp.issparse(X)) else np.abs(X).max(axis=0)
        return np.asarray(abs(self.base.design.scale) * top.astype(np.float64))

    def with_ridge(self, ridge: float) -> OwnIntercept:
        """The same rows under another ridge."""
        view = self.fresh()
        view.base = self.base.with_ridge(ridge)
        view.ridge = view.mu = float(ridge)
        view.__dict__.pop("_without", None)
        return view

    def scaled(self, factor: float) -> OwnIntercept:
        view = self.fresh()
        view.base = self.base.scaled(factor)
        view.__dict__.pop("_without", None)
        view._recent.clear()
        return view


class SitePoint(PredictorPoint["OwnIntercept"]):
    """f at w, with the predictors X w, and b once it is known."""

    @cached_property
    def b(self) -> float:
        return 0.0 if self.f.silent else self.f.best(self.predictors)

    @cached_property
    def inner(self) -> LinearPoint:
        """The linear model at (w, b), with the predictors that are known."""
        Z = np.ascontiguousarray((self.predictors + self.b)[:, None])
        return LinearPoint(self.f.base, sealed(np.append(self.x, self.b)), Z)

    @property
    def whole(self) -> Array:
        """(w, b), of which the linear model may be asked: it remembers these predictors, not others."""
        self.f.base._recent.clear()
        self.f.base._recent.append(self.inner)
        return self.inner.x

    @property
    def bend(self) -> float:
        f = self.f.base
        Z = (self.predictors + self.b)[:, None]
        return float(kernels.curvature_times(f.loss, Z, np.ones_like(Z), f.y, f.s).sum())

    @property
    def value(self) -> float:
        if self.f.silent:
            return self.f.ridge / 2 * float(self.x @ self.x)
        return self.inner.value

    @cached_property
    def gradient(self) -> Array:
        self.f.cost.gradients += 1
        self.f.cost.passes += 0.5
        return sealed(self.f.ridge * self.x) if self.f.silent else sealed(self.inner.gradient[:-1].copy())

    def hessian_times(self, v: Array) -> Array:
        f = self.f
        f.cost.hessian_products += 1
        f.cost.passes += 2
        if f.silent:
            return f.ridge * v
        row = self.inner.hessian_times(np.append(np.zeros(f.d), 1.0))
        t = -float(row[:-1] @ v) / float(row[-1])
        return self.inner.hessian_times(np.append(v, t))[:-1]
