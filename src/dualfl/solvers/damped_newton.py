"""Damped Newton (Boyd & Vandenberghe 2004, algorithm 9.5): the solver of reference solutions.

    s = H(x)^-1 g,    lambda^2 = <g, s>,    x+ = x - t s,
    t = 1, 1/2, 1/4, ... until  f(x - t s) <= f(x) - t lambda^2 / 4.

lambda^2/2 estimates f(x) - min f. Once it is within the rounding of f, values cannot judge a step any more: t = 1 is
taken unseen, and the iteration ends when such steps no longer shrink the gradient. H is factored by Cholesky up to
`dense` coefficients; beyond, the system is solved as in `newton_cg`, with all of the metric as preconditioner: on raw
pixels of MNIST (a condition of 1e8) E* then takes two minutes instead of more than twelve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dualfl.arguments import checked
from dualfl.errors import InputError
from dualfl.objectives.base import Objective
from dualfl.objectives.points import Point
from dualfl.solvers.base import HessianSolver, Solution, Watch
from dualfl.solvers.line_search import EPS, Plateau
from dualfl.solvers.moment_metric import MomentMetric, choose_metric
from dualfl.solvers.newton_cg import conjugate_gradients, forcing_term
from dualfl.solvers.stopping import StopRule
from dualfl.typing import Array

ALPHA, BETA = 0.25, 0.5
SHIFTS = (0.0, *(10.0**k for k in range(-14, 3)))  # of the largest entry of a diagonal
STRAIGHT = 1e6  # the length of a step where nothing curves
SHORTEST = EPS**2  # a shifted Hessian may make a step 1e14 times too long


@checked
@dataclass(frozen=True)
class DampedNewton(HessianSolver):
    """Newton's method with backtracking; `dense` is the largest d for which the Hessian is factored.

    With the rule `GradientNorm(0.0)` it runs to rounding level, which is then reported as capped.

    Parameters
    ----------
    dense : int, default 200
        The largest d for which the Hessian is factorised.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.solvers import DampedNewton
    >>> f = dualfl.Quadratic(np.diag([1.0, 4.0]), np.ones(2))
    >>> dualfl.minimise(f, solver=DampedNewton()).x.round(3)
    array([1.  , 0.25])
    """

    dense: int = 200

    def __post_init__(self) -> None:
        if self.dense < 0:
            raise InputError(f"dense must be >= 0 coefficients, but it is {self.dense}.")

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        watch, plateau = Watch(f, stop), Plateau(patience=2)
        point = self.start(f, warm)
        first = float(np.linalg.norm(point.gradient))
        metric: MomentMetric | None = None
        while not self.arrived(watch, point):
            g = point.gradient
            if plateau.reached(point, float(np.linalg.norm(g))):
                break
            if watch.iterations == 0 and f.d > self.dense:
                metric = choose_metric("full", f, self.name)
            s = _cholesky(f.hessian(point.x), g) if f.d <= self.dense else _by_cg(point, metric, first)
            decrement = float(g @ s)
            if not decrement > 0:
                break
            ray = point.ray(-s)
            t = 1.0
            if decrement > 1e3 * EPS * abs(point.value):
                while not ray.value(t) <= point.value - ALPHA * t * decrement and t > SHORTEST:
                    t *= BETA
            point = ray.point(t)
        else:
            return watch.at(point)
        watch.capped = True  # rounding leaves nothing to gain
        return watch.at(plateau.best or point)


def _cholesky(H: Array, g: Array) -> Array:
    """H^-1 g; a singular H (a free intercept of softmax) gets the least shift that makes it positive definite.

    An H that is zero, as on the straight pieces of Huber's loss, or that no shift helps, makes it a gradient step, long
    enough for the line search to choose from.
    """
    size = float(np.abs(H.diagonal()).max())
    for shift in SHIFTS if size > 0 else ():
        try:
            factor = cho_factor(H + shift * size * np.eye(len(H)) if shift else H)
        except LinAlgError:
            continue
        return np.asarray(cho_solve(factor, g))
    return STRAIGHT / float(np.linalg.norm(g)) * g


def _by_cg(point: Point, metric: MomentMetric | None, first: float) -> Array:
    norm = float(np.linalg.norm(point.gradient))
    solve = None if metric is None else metric.at(point)
    return conjugate_gradients(point.hessian_times, point.gradient, forcing_term(norm / first) * norm, solve)
