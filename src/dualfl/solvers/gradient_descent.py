"""Gradient descent (Cauchy 1847).

    x_{k+1} = x_k - tau_k grad f(x_k),     tau_k = 1/L.

Where L is infinite (Poisson) or not known, tau_k is found by backtracking. With 1/L the error falls at least like
(1 - mu/L)^k; 2/(L + mu) would be better by a factor of two in k on the worst quadratic, and needs mu.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl.arguments import checked
from dualfl.objectives.base import Objective
from dualfl.solvers.base import SmoothSolver, Solution, Watch
from dualfl.solvers.steps import Steps
from dualfl.solvers.stopping import StopRule
from dualfl.typing import Array, sealed


@checked
@dataclass(frozen=True)
class GradientDescent(SmoothSolver):
    """Gradient descent with step 1/L, or with backtracking if that is asked for or L is infinite.

    Parameters
    ----------
    backtracking : bool, default False
        Whether the step is searched for.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.solvers import GradientDescent
    >>> f = dualfl.Quadratic(np.diag([1.0, 4.0]), np.ones(2))
    >>> dualfl.minimise(f, solver=GradientDescent()).x.round(3)
    array([1.  , 0.25])
    """

    backtracking: bool = False

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        watch = Watch(f, stop)
        steps = Steps(None if self.backtracking else f.L)
        point = self.start(f, warm)
        while not self.arrived(watch, point):
            g = point.gradient
            tau = steps.next(point, float(np.linalg.norm(g)))
            point = f.at(sealed(point.x - tau * g))
        return watch.at(point)
