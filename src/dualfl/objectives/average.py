"""The weighted mean of several objectives: the pooled cost E, for reference solutions and measurements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce

import numpy as np

from dualfl.errors import NotSupported
from dualfl.objectives.base import Objective
from dualfl.objectives.points import Point, Ray
from dualfl.objectives.rounding import Rounding, of_mean
from dualfl.objectives.work import Cost
from dualfl.typing import Array, frozen, sealed


class Average(Objective):
    """sum_j w_j f_j. Its points and rays are those of its parts, so a line search stays free."""

    def __init__(self, parts: Sequence[Objective], weights: Sequence[float]) -> None:
        super().__init__()
        self.parts, self.weights = list(parts), [float(w) for w in weights]
        self.shape, self.free = parts[0].shape, parts[0].free
        self.n = sum(f.n for f in parts)
        self.convex = all(f.convex for f in parts)
        self.mu = float(np.min(self.convexity))
        self.offers = frozenset.intersection(*(f.offers for f in parts)) - {"projected", "moments", "samples", "dual"}

    @property
    def convexity(self) -> float | Array:
        return reduce(np.minimum, [f.convexity for f in self.parts])

    @property
    def mass(self) -> float:
        return sum(f.mass for f in self.parts)

    @property
    def cost(self) -> Cost:
        """The mean work of the parts, each a fraction of the data."""
        total = Cost()
        for f in self.parts:
            total = total + f.cost
        share = 1 / len(self.parts)
        return Cost(total.gradients * share, total.hessian_products * share, total.passes * share)

    @property
    def L(self) -> float:
        return sum(w * f.L for w, f in zip(self.weights, self.parts))

    @property
    def name(self) -> str:
        return f"the mean of {len(self.parts)} {self.parts[0].name}"

    def _point(self, x: Array) -> Point:
        return AveragePoint(self, [f.at(x) for f in self.parts])

    def hessian(self, x: Array) -> Array:
        return _sum(self.weights, [f.hessian(x) for f in self.parts])

    def rounding(self, x: Array, drift: float = 0.0) -> Rounding:
        parts = [f.rounding(x, drift) for f in self.parts]
        value = float(np.dot(self.weights, [part.value for part in parts]))
        return Rounding(value, _sum(self.weights, [part.gradient for part in parts])).times(of_mean(len(parts)))

    def measured(self, x: Array) -> tuple[float, Array, Rounding]:
        """Value, gradient and rounding; what a part remembers is dropped before the next one is asked."""
        value, gradient, off = 0.0, np.zeros(self.d), Rounding(0.0, np.zeros(self.d))
        for w, f in zip(self.weights, self.parts):
            mine, g = f.value_gradient(x)
            value += w * mine
            gradient += w * g
            off += f.rounding(x).times(w)
            f.forget()
        return value, gradient, off.times(of_mean(len(self.parts)))

    def fresh(self) -> Average:
        return Average([f.fresh() for f in self.parts], self.weights)

    def scaled(self, factor: float) -> Objective:
        raise NotSupported("A mean of objectives cannot be scaled as a whole; scale its parts.")


def common_ridge(parts: Sequence[Objective], weights: Sequence[float]) -> float | Array | None:
    """The ridge that every f_j.scaled(N w_j) must have for their plain mean to be sum_j w_j f_j; None for its own.

    With m_j the convexity of f_j it is m = sum_j w_j m_j, since N w_j (f_j - (m_j/2)|.|^2) + (m/2)|.|^2 has the right
    mean, and keeps m > 0 if anybody has a ridge. Linear models that are scaled keep their m_j, which comes to the same
    only if all have one ridge.
    """
    N = len(parts)
    wanted = sum(w * np.asarray(f.convexity) for f, w in zip(parts, weights))
    kept = sum(np.asarray(f.scaled(N * w).convexity) / N for f, w in zip(parts, weights))
    if np.allclose(wanted, kept, rtol=1e-12, atol=0.0):
        return None
    return float(wanted) if np.ndim(wanted) == 0 else np.asarray(wanted)


def _sum(weights: Sequence[float], arrays: Sequence[Array]) -> Array:
    total = weights[0] * arrays[0]
    for w, a in zip(weights[1:], arrays[1:]):
        total += w * a
    return total


class AveragePoint(Point):
    def __init__(self, f: Average, points: list[Point]) -> None:
        super().__init__(points[0].x)
        self.f, self.points = f, points

    @cached_property
    def value(self) -> float:
        return float(np.dot(self.f.weights, [p.value for p in self.points]))

    @cached_property
    def gradient(self) -> Array:
        return sealed(_sum(self.f.weights, [p.gradient for p in self.points]))

    def hessian_times(self, v: Array) -> Array:
        return _sum(self.f.weights, [p.hessian_times(v) for p in self.points])

    def ray(self, p: Array) -> Ray:
        p = frozen(p)
        return AverageRay(self.f, [point.ray(p) for point in self.points])


class AverageRay(Ray):
    def __init__(self, f: Average, rays: list[Ray]) -> None:
        self.f, self.rays = f, rays

    def value(self, t: float) -> float:
        return float(np.dot(self.f.weights, [r.value(t) for r in self.rays]))

    def slope(self, t: float) -> float:
        return float(np.dot(self.f.weights, [r.slope(t) for r in self.rays]))

    def point(self, t: float) -> Point:
        return AveragePoint(self.f, [r.point(t) for r in self.rays])
