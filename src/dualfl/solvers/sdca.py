"""SDCA: dual coordinate ascent for losses with kinks and a ridge.

Shalev-Shwartz & Zhang, Stochastic dual coordinate ascent methods for regularized loss minimization, J. Mach. Learn.
Res. 14 (2013). With l_i(z) = max over a in [lo, hi] of a (b_i - q_i z) - eps |a|, the local problem and its dual are

    min_theta  F(theta) = sum_i s_i l_i(x_i' theta) + (lam/2) |theta|^2 - <c, theta>
    max_alpha  D(alpha) = sum_i s_i (alpha_i b_i - eps |alpha_i|) - (lam/2) |theta(alpha)|^2,   lo <= alpha <= hi,
               theta(alpha) = (c + sum_i s_i alpha_i q_i x_i) / lam.

An epoch visits the rows in a random order and maximises D exactly in one alpha_i after the other. At theta(alpha),

    F - D = sum_i s_i (l_i(z_i) - alpha_i (b_i - q_i z_i) + eps |alpha_i|),      z_i = x_i' theta(alpha),

a sum of terms >= 0, so the gap is known to the last digit. It is computed after every epoch from a theta that is
built from alpha afresh: rounding does not accumulate. -c + lam theta - sum_i s_i alpha_i q_i x_i = 0 exactly, so the
residual is zero, and the gap is the slack.

Coordinate ascent finds quickly which rows lie at a bound, and then crawls if lam is small. So after every `newton`
epochs without a tenfold smaller gap, semismooth Newton steps on the dual (dual_newton.py) are tried, and kept if they
at least halve the smallest gap so far. Between two of them D never falls, so SDCA's own convergence is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl import kernels
from dualfl.arguments import checked
from dualfl.errors import InputError, NotSupported
from dualfl.kernels import Design
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalised
from dualfl.solvers.base import Solution, Solver, Watch
from dualfl.solvers.dual_newton import DualProblem, newton
from dualfl.solvers.row_view import RowView, check_seed, generator, rows_of
from dualfl.solvers.stopping import StopRule
from dualfl.typing import Array

ROUNDING = 4 * float(np.finfo(float).eps)  # a gap below this part of F is rounding of the predictors


@checked
@dataclass(frozen=True)
class SDCA(Solver):
    """Dual coordinate ascent: hinge, absolute, quantile or epsilon-insensitive loss with a ridge.

    One iteration is one epoch. `Solution.warm` is alpha; handed back, it continues where it ended.

    Parameters
    ----------
    seed : int, default 0
        The seed of the order in which rows are visited.
    newton : int, default 10
        After how many epochs of slow progress Newton steps on the dual are tried; 0 is never.

    Examples
    --------
    >>> from dualfl.objectives import Absolute, LinearModel
    >>> from dualfl.solvers import PrimalDualGap
    >>> f = LinearModel(np.ones((3, 1)), np.array([1.0, 2.0, 9.0]), Absolute(), ridge=1e-3)
    >>> SDCA().solve(f, None, PrimalDualGap(1e-12)).x.round(8)
    array([2.])
    """

    seed: int = 0
    newton: int = 10

    def __post_init__(self) -> None:
        check_seed(self.name, self.seed)
        if self.newton < 0:
            raise InputError(f"SDCA's newton must be a number of epochs >= 0, but it is {self.newton}.")

    def check(self, f: Objective) -> None:
        if isinstance(f, Penalised):
            raise NotSupported(
                f"SDCA takes a ridge and no other penalty, and it was given {f.name}; {f._instead()} on a smooth loss."
            )
        rows = rows_of(f)
        if rows is None or "dual" not in f.offers:
            raise NotSupported(
                f"SDCA takes a linear model with hinge, absolute, quantile or epsilon-insensitive loss, and "
                f"{f.name} is not one; use LBFGS."
            )
        f.require_strong_convexity("SDCA")
        inner = rows.ridge[:-1] if rows.model.design.intercept else rows.ridge
        if np.ptp(inner) > 0:
            raise NotSupported(
                f"SDCA takes one ridge for all features, and the tilt of {f.name} makes it vary from "
                f"{inner.min():g} to {inner.max():g}; give `a` as one number."
            )

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        rows = rows_of(f)
        assert rows is not None, "check() comes first"
        problem, unscale = dual_problem(rows)
        cost, n = rows.model.cost, problem.n
        norms2, rng = problem.design.row_norms2(), generator(self.seed)
        lo, hi = np.full(n, problem.lo), np.full(n, problem.hi)

        watch = Watch(f, stop)
        now = problem.look(problem.start(warm))
        cost.passes += 1
        best, tenth, before = now.gap, now.gap, np.inf
        slow = 0  # epochs since the gap last fell to a tenth
        while not watch.done(now.theta * unscale, 0.0, now.value, slack=now.gap):
            if max(now.gap, before) <= ROUNDING * abs(now.value):
                watch.capped = True  # twice, so that rules on the change of F have had their say
                break
            before = now.gap
            alpha, theta = now.alpha.copy(), now.theta.copy()
            kernels.sdca_epoch(
                problem.design, problem.q, problem.b, lo, hi, problem.eps, problem.s,
                alpha, theta, problem.lam, norms2, rng.permutation(n),
            )  # fmt: skip
            now = problem.look(alpha)
            cost.gradients += 1
            cost.passes += 2
            slow += 1
            if self.newton and slow >= self.newton:
                better = newton(problem, now, cost)
                now = better if better.gap <= best / 2 else now
                slow, tenth = 0, now.gap
            if now.gap <= tenth / 10:
                slow, tenth = 0, now.gap
            best = min(best, now.gap)
        return watch.solution(now.theta * unscale, np.zeros(f.d), now.value, slack=now.gap, warm=now.alpha)


def dual_problem(rows: RowView) -> tuple[DualProblem, Array]:
    """The problem with one lam for all coordinates, and the factors that lead back to the model.

    An intercept whose ridge is lam/g^2 is g times a coordinate with ridge lam. Rather than multiply the column of ones
    by g, the features are divided by it and q is multiplied: no data are copied.
    """
    model, design = rows.model, rows.model.design
    box = model.loss.box(model.y)
    lam, q, unscale = float(rows.ridge[0]), box.q, np.ones(design.D)
    if design.intercept and rows.ridge[-1] != lam:
        g = float(np.sqrt(lam / rows.ridge[-1]))
        unscale[-1] = g
        design = Design(design.X, scale=design.scale / g, intercept=True)
        q = q * g
    problem = DualProblem(design, q, box.b, box.lo, box.hi, box.eps, model.s, lam, unscale * rows.c)
    return problem, unscale
