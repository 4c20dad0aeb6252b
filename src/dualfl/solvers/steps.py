"""The length of a gradient step: 1/L, or found by full backtracking (Calatroni & Chambolle 2019).

A step tau from x along -g is short enough if

    F(x - tau g) <= F(x) - (tau/2) |g|^2,

as it is for every tau <= 1/L. "Full" means that each iteration first tries tau/grow, so the step can grow again where
the function is flat. When tau |g|^2 drowns in the rounding of F, the same is asked of the slope of F along -g, which
keeps its digits: on a quadratic the test is equivalent to a slope that is not positive yet.
"""

from __future__ import annotations

import numpy as np

from dualfl.errors import Diverged
from dualfl.objectives.points import Point, Ray

SHRINK, GROW = 0.5, 0.9
NOISE = 1e-9  # of |F|; a decrease below it is not to be trusted


class Steps:
    """Chooses tau for every gradient step; `L` if it is to be 1/L, None for backtracking."""

    def __init__(self, L: float | None) -> None:
        self.searching = L is None or not np.isfinite(L)
        self.tau = np.nan if L is None or self.searching else 1 / (L or 1.0)  # L = 0: any step will do

    def next(self, point: Point, norm: float) -> float:
        """tau at this point, whose gradient has length `norm`."""
        if not self.searching:
            return self.tau
        ray = point.ray(-point.gradient)
        trial = self.tau / GROW if self.tau == self.tau else _first(ray, norm)
        while not _short_enough(ray, point.value, norm, trial):
            trial *= SHRINK
            if trial * norm <= 1e-300:
                raise Diverged("No gradient step is short enough to decrease the objective: is it convex and smooth?")
        self.tau = trial
        return trial


def _short_enough(ray: Ray, value: float, norm: float, tau: float) -> bool:
    decrease = tau / 2 * norm**2
    if decrease > NOISE * abs(value):
        return ray.value(tau) <= value - decrease  # false for an overflow, inf or nan
    return ray.slope(tau) <= 0


def _first(ray: Ray, norm: float) -> float:
    """One over the curvature along the gradient, from two slopes; a step of length 1 where it is straight."""
    t = min(1.0, 1.0 / norm)
    while not np.isfinite(slope := ray.slope(t)) and t > 0:
        t /= 10
    rise = slope + norm**2
    return t * norm**2 / rise if rise > 0.1 * norm**2 else 10 * t
