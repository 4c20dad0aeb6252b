"""A step along a ray for solvers with their own direction, and when rounding has the last word.

phi(t) = f(x + t p) is convex, so its slope only grows, and a line search is the search for the root of phi'. Slopes
keep their digits where values have lost theirs: near a minimiser phi changes by t^2 and drowns in rounding while
phi' changes by t. Hence the search trusts slopes and asks for a value only where they prove no decrease. Both a
value and a slope are free on the cached predictors of a linear model; there the search goes on to a nearly exact
minimum, which saves iterations of L-BFGS. Where each costs a pass, a rough step is enough.
"""

from __future__ import annotations

import numpy as np

from dualfl.objectives.points import Point, Ray
from dualfl.objectives.work import Cost

EXACT, ROUGH = 0.1, 0.9  # |phi'(t)| against |phi'(0)| at which the search ends, where asking is free and where not
MOST = 40  # trials
EPS = float(np.finfo(float).eps)


def search(cost: Cost, ray: Ray, value: float, slope: float, t: float = 1.0, rough: float = ROUGH) -> float | None:
    """A step t with phi(t) <= phi(0) and a small |phi'(t)|, from a first trial; None if rounding hides every one.

    `value`, `slope` are phi(0) and phi'(0) < 0. Secant steps on phi', kept inside a bracket [low, high]; an overflow
    is a high end too.
    """
    low, slope_low, high, slope_high = 0.0, slope, np.inf, np.nan
    for _ in range(MOST):
        before = cost.passes
        slope_t = ray.slope(t)  # first: where it costs a pass, the value comes with it
        tolerance = EXACT if cost.passes == before else rough
        finite = bool(np.isfinite(slope_t)) and bool(np.isfinite(ray.value(t)))
        if finite and abs(slope_t) <= tolerance * abs(slope):
            # by convexity  phi(t) <= phi(0) + low phi'(low) + (t - low) phi'(t)
            if slope_t <= 0 or low * slope_low + (t - low) * slope_t <= 0:
                return t
            if ray.value(t) <= value + 4 * EPS * abs(value):
                return t
        guess = _secant(low, slope_low, t, slope_t) if finite else np.nan
        if finite and slope_t < 0:
            low, slope_low = t, slope_t
        else:
            high, slope_high = t, slope_t if finite else np.nan
        if high == np.inf:
            t = float(np.clip(guess, 1.5 * t, 10 * t))
        else:
            if not np.isnan(slope_high):
                guess = _secant(low, slope_low, high, slope_high)
            width = high - low
            t = low + width / 10 if np.isnan(guess) else float(np.clip(guess, low + width / 10, high - width / 10))
        if not low < t < high:  # neighbours in floating point
            break
    return low or None


def _secant(t0: float, slope0: float, t1: float, slope1: float) -> float:
    """Where the line through two slopes is zero; inf if it never rises."""
    return t1 - slope1 * (t1 - t0) / (slope1 - slope0) if slope1 > slope0 else np.inf


class Plateau:
    """Notices that neither the value nor the gradient has moved for a while, and remembers the best point.

    A while: `patience` iterations and a quarter of all so far, since an ill-conditioned problem is slow at the end too.
    """

    def __init__(self, patience: int = 30) -> None:
        self.patience = patience
        self.best: Point | None = None
        self._norm, self._value, self._wait, self._seen = np.inf, np.inf, 0, 0

    def reached(self, point: Point, norm: float) -> bool:
        value = point.value
        self._seen += 1
        moved = norm < 0.9 * self._norm or value < self._value - 4 * EPS * abs(value)
        self._wait = 0 if moved else self._wait + 1
        self._value = min(self._value, value)
        if norm < self._norm:
            self.best, self._norm = point, norm
        return self._wait > self.patience + self._seen // 4
