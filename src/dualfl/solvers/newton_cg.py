"""Newton-CG: inexact Newton (Dembo, Eisenstat & Steihaug 1982) with conjugate gradients on Hessian products.

    H(x_k) p_k = -g_k + r_k,   |r_k| <= eta_k |g_k|,   eta_k = min(0.1, sqrt(|g_k|/|g_0|)),     g = grad f,
    x_{k+1}    = x_k + t_k p_k,      t_k by a line search on the cached ray.

This forcing term makes the convergence superlinear of order 3/2 without solving the first systems well. CG on a
linear model is preconditioned by the Gram metric (see `metric`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dualfl.arguments import checked
from dualfl.errors import InputError
from dualfl.objectives.base import Objective
from dualfl.solvers.base import HessianSolver, Solution, Watch
from dualfl.solvers.line_search import Plateau, search
from dualfl.solvers.moment_metric import MetricName, Solve, check_metric, choose_metric
from dualfl.solvers.stopping import StopRule
from dualfl.typing import Array


@checked
@dataclass(frozen=True)
class NewtonCG(HessianSolver):
    """Inexact Newton.

    Parameters
    ----------
    forcing : float, default 0.1
        The largest eta_k, in (0, 1).
    metric : MetricName, default 'auto'
        The preconditioner of CG; "gram", "full", "none" or "auto".

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.solvers import NewtonCG
    >>> f = dualfl.Quadratic(np.diag([1.0, 4.0]), np.ones(2))
    >>> dualfl.minimise(f, solver=NewtonCG()).x.round(3)
    array([1.  , 0.25])
    """

    forcing: float = 0.1
    metric: MetricName = "auto"

    def __post_init__(self) -> None:
        if not 0 < self.forcing < 1:
            raise InputError(f"forcing must lie in (0, 1), but it is {self.forcing}.")
        check_metric(self.metric)

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        watch, plateau = Watch(f, stop), Plateau(patience=5)
        point = self.start(f, warm)
        first = float(np.linalg.norm(point.gradient))
        metric = None
        while not self.arrived(watch, point):
            g = point.gradient
            norm = float(np.linalg.norm(g))
            if plateau.reached(point, norm):
                break
            if watch.iterations == 0:
                metric = choose_metric(self.metric, f, self.name)
            eta = forcing_term(norm / first, self.forcing)
            solve = None if metric is None else metric.at(point)
            p = conjugate_gradients(point.hessian_times, -g, eta * norm, solve)
            ray = point.ray(p)
            step = search(f.cost, ray, point.value, float(g @ p))
            if step is None:
                break
            point = ray.point(step)
        else:
            return watch.at(point)
        watch.capped = True  # rounding leaves nothing to gain
        return watch.at(plateau.best or point)


def forcing_term(shrunk: float, most: float = 0.1) -> float:
    """eta_k for a gradient that has shrunk by this factor."""
    return min(most, float(np.sqrt(shrunk)))


def conjugate_gradients(
    times: Callable[[Array], Array], b: Array, tolerance: float, precondition: Solve | None = None
) -> Array:
    """x with |b - H x| <= tolerance for a positive definite H (Hestenes & Stiefel 1952), as far as rounding allows.

    Where H turns out to be singular along a direction, the search ends with what it has; <b, x> > 0 in any case.
    """
    x, r = np.zeros_like(b), np.array(b)
    z = r if precondition is None else precondition(r)
    d, rz = z, float(r @ z)
    best = np.inf
    for _ in range(2 * len(b) + 10):
        Hd = times(d)
        curvature = float(d @ Hd)
        if not curvature > 0:
            return x if x.any() else z
        x = x + rz / curvature * d
        r = r - rz / curvature * Hd
        norm = float(np.linalg.norm(r))
        if norm <= tolerance or norm > 1e4 * best:
            break
        best = min(best, norm)
        z = r if precondition is None else precondition(r)
        rz, before = float(r @ z), rz
        d = z + rz / before * d
    return x
