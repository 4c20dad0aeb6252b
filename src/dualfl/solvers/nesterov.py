"""Nesterov's accelerated gradient (Nesterov 1983; 2004, scheme 2.2.9), with restart (O'Donoghue & Candes 2015).

    y_{k+1} = x_k - tau grad f(x_k),      x_{k+1} = y_{k+1} + beta_k (y_{k+1} - y_k),      tau = 1/L.

mu > 0 known:   beta = (1 - sqrt(q))/(1 + sqrt(q)),  q = mu/L;  the error falls like (1 - sqrt(q))^k.
otherwise:      beta_k = (t_k - 1)/t_{k+1},  t_{k+1} = (1 + sqrt(1 + 4 t_k^2))/2,  t_0 = 1;  an error of
                order 1/k^2, and linear convergence because t goes back to 1 whenever <grad f(x_k), y_{k+1} - y_k> > 0.

Where L is infinite, tau comes from backtracking, and as q is then unknown, beta from t_k.
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
class Nesterov(SmoothSolver):
    """Accelerated gradient; `adaptive=True` ignores a known mu, which pays if it is far too small.

    Parameters
    ----------
    adaptive : bool, default False
        Whether a known mu is ignored and searched for.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.solvers import Nesterov
    >>> f = dualfl.Quadratic(np.diag([1.0, 4.0]), np.ones(2))
    >>> dualfl.minimise(f, solver=Nesterov()).x.round(3)
    array([1.  , 0.25])
    """

    adaptive: bool = False

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        watch, steps = Watch(f, stop), Steps(f.L)
        constant = f.mu > 0 and not steps.searching and not self.adaptive
        root_q = np.sqrt(f.mu / f.L) if constant else 0.0
        point = self.start(f, warm)
        y, t = point.x, 1.0
        while not self.arrived(watch, point):
            g = point.gradient
            before = steps.tau
            tau = steps.next(point, float(np.linalg.norm(g)))
            y_next = point.x - tau * g
            if constant:
                beta = (1 - root_q) / (1 + root_q)
            else:
                # a step that has changed enters as t_{k+1}^2 - t_{k+1} = (tau_k / tau_{k+1}) t_k^2
                ratio = before / tau if before == before else 1.0
                if g @ (y_next - y) > 0:
                    t, ratio = 1.0, 1.0
                t_next = (1 + np.sqrt(1 + 4 * ratio * t * t)) / 2
                beta, t = (t - 1) / t_next, t_next
            y, point = y_next, f.at(sealed(y_next + beta * (y_next - y)))
        return watch.at(point)
