"""Points and rays of costs that see a model through one linear predictor a row: Cox, ordered levels, site effects.

Along x + t p the predictors are z + t q, so that a ray costs half a pass over the rows, for q, and a step none. What
updates lose is kept as `drift`, an absolute bound. Beyond DRIFT times the largest predictor they are computed afresh:
`rounding` of a solved cost counts on it.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from dualfl.objectives.linear_point import DRIFT
from dualfl.objectives.points import Point, Ray
from dualfl.objectives.rounding import UNIT
from dualfl.typing import Array, frozen, sealed


class SeesPredictors(Protocol):
    """What such a cost can tell; each costs half a pass."""

    def predictors(self, x: Array) -> Array:
        """One a row, offsets included."""
        ...

    def directions(self, p: Array) -> Array:
        """How they change along p."""
        ...


F = TypeVar("F", bound=SeesPredictors)


class PredictorPoint(Point, Generic[F]):
    """A cost at x, with its predictors once they are known."""

    def __init__(self, f: F, x: Array, z: Array | None = None, drift: float = 0.0) -> None:
        super().__init__(x)
        self.f, self._z, self.drift = f, z, drift

    @property
    def predictors(self) -> Array:
        if self._z is None:
            self._z = self.f.predictors(self.x)
        return self._z

    def ray(self, p: Array) -> Ray:
        return PredictorRay(self, frozen(p))

    def slope(self, p: Array, q: Array) -> float:
        """Of the cost along p, where predictors change by q."""
        return float(self.gradient @ p)


class PredictorRay(Ray):
    """x + t p: half a pass for the predictors of p, and none for any number of steps t."""

    def __init__(self, start: PredictorPoint[Any], p: Array) -> None:
        self.start, self.p = start, p
        self.z, self.q = start.predictors, start.f.directions(p)
        self._seen: tuple[float, PredictorPoint[Any]] | None = None

    def point(self, t: float) -> PredictorPoint[Any]:
        if self._seen is None or self._seen[0] != t:
            x, z = sealed(self.start.x + t * self.p), self.z + t * self.q
            size, step = (float(np.abs(v).max(initial=0.0)) for v in (z, self.q))
            drift = self.start.drift + 2 * UNIT * (size + abs(t) * step)
            far = not drift <= DRIFT * size  # also when rays led far away and back
            kind = type(self.start)
            self._seen = t, kind(self.start.f, x) if far else kind(self.start.f, x, z, drift)
        return self._seen[1]

    def value(self, t: float) -> float:
        return self.point(t).value

    def slope(self, t: float) -> float:
        return self.point(t).slope(self.p, self.q)
