"""FISTA: proximal gradient steps from extrapolated points.

Beck & Teboulle, A fast iterative shrinkage-thresholding algorithm for linear inverse problems, SIAM J. Imaging
Sci. 2 (2009). Momentum with strong convexity: Chambolle & Pock, An introduction to continuous optimization for
imaging, Acta Numerica 25 (2016), Algorithm 5. Restart: O'Donoghue & Candes, Adaptive restart for accelerated
gradient schemes, Found. Comput. Math. 15 (2015). Steps that also grow: Calatroni & Chambolle, Backtracking strategies
for accelerated descent methods with smooth composite objectives, SIAM J. Optim. 29 (2019).

For F = f + P, with mu = mu_f + mu_P, a step tau <= 1/L, t_0 = 1 and y_0 = x_0:

    x_{k+1} = prox_{tau P}(y_k - tau grad f(y_k))
    q       = tau mu / (1 + tau mu_P),      r = tau_k / tau_{k+1}   (1 for a fixed step)
    t_{k+1} = (1 - q r t_k^2 + sqrt((1 - q r t_k^2)^2 + 4 r t_k^2)) / 2
    beta    = (t_k - 1)/t_{k+1} * (1 + tau mu_P - t_{k+1} tau mu) / (1 - tau mu_f)
    y_{k+1} = x_{k+1} + beta (x_{k+1} - x_k)

which is Beck and Teboulle's t_{k+1} = (1 + sqrt(1 + 4 t_k^2))/2, beta = (t_k - 1)/t_{k+1} for mu = 0.

Defaults. tau = 1/L where L is finite; otherwise backtracking finds it. Restart is on: it costs one inner product and
finds the strong convexity that F has near its minimiser, often far more than mu.

Stopping. The gradient mapping (y_k - x_{k+1})/tau costs nothing and is a subgradient of F at x_{k+1} up to a
factor of two; when it is small enough, the smallest subgradient at x_{k+1} itself is computed, and decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl.arguments import checked
from dualfl.objectives.base import Objective
from dualfl.objectives.points import Point
from dualfl.solvers.base import Solution, Watch
from dualfl.solvers.proximal import ProximalSolver, Split
from dualfl.solvers.stopping import StopRule
from dualfl.typing import Array, sealed

SHRINK, GROW = 0.5, 0.9  # the step tries to grow by 1/GROW every iteration, and shrinks by SHRINK until it fits
NOISE = 1e-9  # a predicted decrease below NOISE |f| is not tested: the difference of two values drowns in rounding


@checked
@dataclass(frozen=True)
class FISTA(ProximalSolver):
    """Accelerated proximal gradient with adaptive restart.

    Parameters
    ----------
    restart : bool, default True
        Whether to forget the momentum when it points uphill.
    backtracking : bool, optional
        Whether to search for the step; None does so only if L is infinite.

    Examples
    --------
    >>> from dualfl.objectives import L1, Quadratic
    >>> from dualfl.solvers import GradientNorm
    >>> f = Quadratic(np.diag([1.0, 4.0]), np.array([3.0, 0.5])) + L1(1.0)
    >>> FISTA().solve(f, None, GradientNorm(1e-10)).x.round(8)
    array([2., 0.])
    """

    restart: bool = True
    backtracking: bool | None = None

    @np.errstate(over="ignore", invalid="ignore")  # too long a step ends as Diverged, not in warnings
    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        split, watch = Split(f), Watch(f, stop)
        at_x = at_y = split.start(warm)
        residual = split.steepest(at_x)
        if split.done(watch, at_x, residual):
            return watch.solution(at_x.x, residual, split.value(at_x))

        def exact() -> float:
            return float(np.linalg.norm(split.steepest(at_x)))

        def value() -> float:
            return split.value(at_x)

        search = not np.isfinite(split.f.L) if self.backtracking is None else self.backtracking
        tau, t = self._first_step(split, at_x), 1.0
        while True:
            x, y, last = at_x.x, at_y.x, tau
            if search:
                tau = self._fitting_step(split, at_y, tau / GROW)
            x_new = sealed(split.prox(tau, y - tau * at_y.gradient))
            at_x = split.f.at(x_new)
            mapping = float(np.linalg.norm(y - x_new)) / tau
            if watch.done_about(x_new, mapping, exact, value):
                return watch.solution(x_new, split.steepest(at_x), split.value(at_x))

            if self.restart and (y - x_new) @ (x_new - x) > 0:
                t, at_y = 1.0, at_x
                continue
            t, beta = momentum(split, t, tau, last / tau)
            at_y = split.f.at(sealed(x_new + beta * (x_new - x))) if beta else at_x
            if search and not np.isfinite(at_y.value):  # extrapolated out of the numbers
                t, at_y = 1.0, at_x

    @staticmethod
    def _first_step(split: Split, start: Point) -> float:
        L = split.f.L
        if np.isfinite(L):
            return 1.0 / L if L > 0 else 1.0
        norm = float(np.linalg.norm(start.gradient))
        return max(1.0, float(np.linalg.norm(start.x))) / norm if norm > 0 else 1.0

    @staticmethod
    def _fitting_step(split: Split, at_y: Point, tau: float) -> float:
        """The first of tau, tau/2, ... with f(x) <= f(y) + <grad f(y), x - y> + |x - y|^2/(2 tau)."""
        y, g = at_y.x, at_y.gradient
        while tau > 1e-300:
            move = split.prox(tau, y - tau * g) - y
            bend = float(move @ move) / (2 * tau)
            if bend <= NOISE * abs(at_y.value):
                return tau * GROW  # too small to test: keep the step as it was, never longer
            if split.f.value(y + move) <= at_y.value + float(g @ move) + bend:
                return tau
            tau *= SHRINK
        return tau


def momentum(split: Split, t: float, tau: float, r: float) -> tuple[float, float]:
    """t_{k+1} and beta of the formulas above."""
    q = tau * split.mu / (1 + tau * split.mu_P)
    linear = 1 - q * r * t * t
    new = (linear + np.sqrt(linear * linear + 4 * r * t * t)) / 2
    left = 1 - tau * split.mu_f
    if left <= 0:  # perfectly conditioned: the plain step is exact
        return 1.0, 0.0
    beta = (t - 1) / new * (1 + tau * split.mu_P - new * tau * split.mu) / left
    return float(new), float(min(max(beta, 0.0), 1.0))
