"""What FISTA and POGM share: the split F = f + P into a smooth part and a part with a prox.

    min_x  F(x) = f(x) + P(x),     prox_{sP}(v) = argmin_x P(x) + |x - v|^2 / (2 s).

A plain smooth objective is the case P = 0, whose prox is the identity.
"""

from __future__ import annotations

import numpy as np

from dualfl.errors import NotSupported
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalised
from dualfl.objectives.points import Point
from dualfl.solvers.base import Solver, Watch
from dualfl.typing import Array


class Split:
    """F = f + P: the smooth f, the prox of P, and the strong convexity of either."""

    def __init__(self, F: Objective) -> None:
        self.penalised = F if isinstance(F, Penalised) else None
        self.f = F.smooth_part if isinstance(F, Penalised) else F
        self.mu, self.mu_f = F.mu, self.f.mu
        self.mu_P = F.mu - self.f.mu

    def prox(self, step: float, v: Array) -> Array:
        return v if self.penalised is None else self.penalised.prox(step, v)

    def steepest(self, point: Point) -> Array:
        """The smallest subgradient of F at a point of f: zero exactly at the minimiser."""
        if self.penalised is None:
            return point.gradient
        return self.penalised.steepest(point.x, point.gradient)

    def value(self, point: Point) -> float:
        return point.value + (0.0 if self.penalised is None else self.penalised.penalty_value(point.x))

    def done(self, watch: Watch, point: Point, residual: Array) -> bool:
        return watch.done(point.x, float(np.linalg.norm(residual)), lambda: self.value(point))

    def start(self, warm: Array | None) -> Point:
        """The warm start, moved into the domain of P: that is what a prox of step 0 does."""
        return self.f.at(self.prox(0.0, np.zeros(self.f.d) if warm is None else warm))


class ProximalSolver(Solver):
    """A solver that works with gradients of f and the prox of P."""

    def check(self, f: Objective) -> None:
        if isinstance(f, Penalised) and not f.smooth_part.smooth:
            raise NotSupported(
                f"{self.name} needs a smooth loss next to the penalty, and {f.smooth_part.name} in {f.name} has no "
                "gradient; take a smooth relative, such as SquaredHinge for Hinge or Huber for Absolute."
            )
        if not isinstance(f, Penalised):
            f.require_gradient(self.name)
