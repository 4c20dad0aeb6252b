"""AOGM: the optimised gradient method with adaptive restart (Kim & Fessler 2016, 2018), the solver of the paper.

    y_{k+1} = x_k - tau grad f(x_k),
    t_{k+1} = (1 + sqrt(1 + 4 t_k^2))/2,      t_0 = 1,  y_0 = x_0,
    x_{k+1} = y_{k+1} + (t_k - 1)/t_{k+1} (y_{k+1} - y_k) + t_k/t_{k+1} (y_{k+1} - x_k).

The last term is what Nesterov's method does not have; it halves the worst case: without restart
f(y_{k+1}) - min f <= L |x_0 - x*|^2 / (4 t_k^2). Restart: t_k = 1 whenever <grad f(x_k), y_{k+1} - y_k> > 0, decided
on the gradient because differences of values drown in rounding.

The step tau comes from full backtracking (see `steps`), which is how the paper runs it, or is 1/L. After a change of
tau, t_{k+1}^2 - t_{k+1} = (tau_k/tau_{k+1}) t_k^2. We know of no proof for OGM with a variable step; restart keeps
it honest. The modified last step of OGM is left out: it needs the number of iterations in advance.
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
class AOGM(SmoothSolver):
    """The optimised gradient method.

    Parameters
    ----------
    backtracking : bool, default True
        Search the step; False takes 1/L, which saves half a pass an iteration if L is known and tight.
    restart : bool, default True
        Adaptive restart; without it the method does not profit from strong convexity.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.solvers import AOGM
    >>> f = dualfl.Quadratic(np.diag([1.0, 4.0]), np.ones(2))
    >>> dualfl.minimise(f, solver=AOGM()).x.round(3)
    array([1.  , 0.25])
    """

    backtracking: bool = True
    restart: bool = True

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        watch = Watch(f, stop)
        steps = Steps(None if self.backtracking else f.L)
        point = self.start(f, warm)
        y, t = point.x, 1.0
        while not self.arrived(watch, point):
            x, g = point.x, point.gradient
            before = steps.tau
            tau = steps.next(point, float(np.linalg.norm(g)))
            ratio = before / tau if before == before else 1.0
            y_next = x - tau * g
            if self.restart and g @ (y_next - y) > 0:
                t, ratio = 1.0, 1.0
            t_next = (1 + np.sqrt(1 + 4 * ratio * t * t)) / 2
            x_next = y_next + (t - 1) / t_next * (y_next - y) + t / t_next * (y_next - x)
            y, t, point = y_next, t_next, f.at(sealed(x_next))
        return watch.at(point)
