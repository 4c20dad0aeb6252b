"""A linear model at a point and along a ray, with its linear predictors remembered."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dualfl import kernels
from dualfl.objectives import rounding
from dualfl.objectives.points import Point, Ray
from dualfl.objectives.rounding import Rounding
from dualfl.typing import AnyArray, Array, frozen, sealed

if TYPE_CHECKING:
    from dualfl.objectives.linear import LinearModel

# Predictors that were updated along rays are computed afresh once they may be off by this much, relatively.
DRIFT = 2.0**-44


class LinearPoint(Point):
    """A linear model at x, with its linear predictors Z = X Theta once they are known."""

    def __init__(self, f: LinearModel, x: Array, Z: Array | None = None, drift: float = 0.0) -> None:
        super().__init__(x)
        self.f = f
        self._Z = Z
        self.drift = drift  # how far Z may be from X Theta after updates along rays
        self._data_value: float | None = None
        self._gradient: Array | None = None
        self.rounding: Rounding | None = None

    @property
    def predictors(self) -> Array:
        if self._Z is None:
            self._Z = self.f.predictors(self.x)
        return self._Z

    def predictors_of(self, rows: AnyArray | slice) -> Array:
        """Those of some rows."""
        return np.asarray(self.predictors[rows])

    @cached_property
    def row_sizes(self) -> tuple[Array, Array, float]:
        return rounding.row_sizes(self.f, self.predictors)

    @property
    def value(self) -> float:
        f = self.f
        if self._data_value is None:
            self._data_value = kernels.value(f.loss, self.predictors, f.y, f.s)
        kept = f.ridge_part(self.x)
        return float(self._data_value + f.ridge / 2 * (kept @ kept))

    @property
    def gradient(self) -> Array:
        if self._gradient is None:
            self._gradient = self._compute_gradient()
        return self._gradient

    def _compute_gradient(self) -> Array:
        f = self.f
        f.require_gradient("This step")
        f.cost.gradients += 1
        if self._Z is None and f.offset is not None:
            self._Z = f.predictors(self.x)
        if self._Z is None:
            f.cost.passes += 1
            self._data_value, G, self._Z = f.design.value_gradient(f.matrix(self.x), f.loss, f.y, f.s)
        else:
            f.cost.passes += 0.5
            self._data_value, R = kernels.residual(f.loss, self._Z, f.y, f.s)
            G = f.design.backward(R)
        g = G.ravel()
        if f.ridge:
            g += f.ridge * f.ridge_part(self.x)
        return sealed(g)

    def hessian_times(self, v: Array) -> Array:
        f = self.f
        f.require_gradient("A Hessian product")
        f.cost.hessian_products += 1
        f.cost.passes += 1
        HV = f.design.hessian_times(f.matrix(v), f.loss, self.predictors, f.y, f.s)
        return HV.ravel() + f.ridge * f.ridge_part(v)

    def ray(self, p: Array) -> Ray:
        return LinearRay(self, frozen(p))


class LinearRay(Ray):
    """theta + t p: half a pass for the predictors of p, and none for any number of steps t."""

    def __init__(self, start: LinearPoint, p: Array) -> None:
        f = start.f
        self.start, self.p, self.f = start, p, f
        self.Z, self.P = start.predictors, f.directions(p)
        x_kept, p_kept = f.ridge_part(start.x), f.ridge_part(p)
        # (ridge/2)|x + t p|^2 = constant + linear t + quadratic t^2 / 2
        self.constant = f.ridge / 2 * float(x_kept @ x_kept)
        self.linear = f.ridge * float(x_kept @ p_kept)
        self.quadratic = f.ridge * float(p_kept @ p_kept)
        self._seen: tuple[float, float, float] | None = None

    def _both(self, t: float) -> tuple[float, float]:
        if self._seen is None or self._seen[0] != t:
            values, slopes = kernels.ray(self.f.loss, self.Z, self.P, np.array([t]), self.f.y, self.f.s)
            self._seen = t, float(values[0]), float(slopes[0])
        return self._seen[1], self._seen[2]

    def value(self, t: float) -> float:
        return self._both(t)[0] + self.constant + t * (self.linear + t / 2 * self.quadratic)

    def values(self, steps: Sequence[float]) -> Array:
        t = np.asarray(steps, dtype=float)
        values, _ = kernels.ray(self.f.loss, self.Z, self.P, t, self.f.y, self.f.s)
        return np.asarray(values + self.constant + t * (self.linear + t / 2 * self.quadratic))

    def slope(self, t: float) -> float:
        return self._both(t)[1] + self.linear + t * self.quadratic

    def point(self, t: float) -> Point:
        x, Z = sealed(self.start.x + t * self.p), self.Z + t * self.P
        size = _size(Z)
        drift = self.start.drift + np.finfo(np.float64).eps * (size + abs(t) * self._size)
        if not drift <= DRIFT * size:  # also when rays led far away and back
            return LinearPoint(self.f, x)
        return LinearPoint(self.f, x, Z, drift)

    @cached_property
    def _size(self) -> float:
        return _size(self.P)


def _size(Z: Array) -> float:
    return max(float(Z.max()), -float(Z.min()))
