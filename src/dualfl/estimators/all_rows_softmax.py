"""A large softmax on all rows: L-BFGS, whose passes are its price; a Hessian of k outputs costs k^2/2 times as much.

With the ridge mu a gradient g proves |g|^2/(2 mu), or about that where intercepts are free (`proof`).

The moments of features are a metric that takes a sixth of the passes where their spectrum falls, as it does behind
a network. Where most rows are told apart and features are alike, the Hessian is the ridge and a few directions;
plain L-BFGS then takes a third of the passes, because the metric spreads what was one cluster. The first
passes tell which it is.

Dense rows with many classes are led by single precision (`objectives.single_precision`); what is proven is computed
in double precision, a block of rows at a time. Features are taken in units in which they are about as large as the
one of the intercept: bytes that took 182 passes take as many as their fractions do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dualfl import kernels
from dualfl.engines.best import SMALLEST
from dualfl.engines.progress import Bar
from dualfl.estimators.account import Account, Found
from dualfl.estimators.proof import FreeIntercept
from dualfl.estimators.solving import FitLimits
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.rounding import roundings
from dualfl.objectives.single_precision import SinglePrecision, blocks
from dualfl.problem import Problem
from dualfl.solvers.base import Solution
from dualfl.solvers.lbfgs import LBFGS
from dualfl.solvers.moment_metric import MetricName, mean_curvature
from dualfl.solvers.stopping import Progress, StopRule
from dualfl.typing import Array, frozen

TRIES, MOST_PASSES = 4, 2000  # of L-BFGS, each to a smaller gradient
TRIAL_PASSES = 6  # after which two metrics of L-BFGS are compared
PAIRS, FEWEST_PAIRS, PAIR_BYTES = 50, 5, 80e6  # that L-BFGS keeps: as many as fit
BALANCING = 8  # Newton steps on intercepts alone
MANY_CLASSES = 32  # from which on single precision leads
SIX_DIGITS = 1e-6  # of the first gradient, to which it does
SAMPLE = 2048  # rows that tell how large features are
LIKE_ONE = 4.0  # between this and its inverse a size is left as it is


@dataclass(frozen=True)
class Near(StopRule):
    """A gradient that proves the tolerance by the ridge, or has no more digits; `times` the former.

    Or, after a few passes, a value above that of a rival after as many.
    """

    ridge: float
    limits: FitLimits
    least: float
    times: float = 1.0
    rival: float = np.inf
    needs_value = True

    def met(self, now: Progress) -> bool:
        if now.iteration == TRIAL_PASSES and not now.value <= self.rival:
            return True
        goal = self.times * np.sqrt(2 * self.ridge * self.limits.tol * self.limits.scale(now.value))
        return bool(now.residual <= max(goal, self.least))


class ManyOutputs:
    """One fit."""

    begin: Array | None = None  # where it starts, if not at zero

    def __init__(self, f: LinearModel, l1: float, limits: FitLimits, silos: int, bar: Bar) -> None:
        self.unit = unit_of(f)
        self.f = f if self.unit == 1.0 else f.in_units(self.unit)
        self.limits, self.bar, self.account = limits, bar, Account(silos)
        self.pairs = int(np.clip(PAIR_BYTES / (16 * f.d), FEWEST_PAIRS, PAIRS))

    def search(self) -> Found | None:
        f, x = self.f, np.zeros(self.f.d)
        leader = SinglePrecision(f) if suits_single(f) else f
        energy, first = leader.value(x), float(np.linalg.norm(leader.gradient(x)))
        if self.limits.of_start:
            self.limits = replace(self.limits, least=abs(energy + self.limits.offset))
        x = x if self.begin is None else self.in_units(self.begin, 1 / self.unit)
        self.bar.update(self.account.note(energy))
        stop = Near(f.ridge, self.limits, 0.0 if leader is f else SIX_DIGITS * first, cap=MOST_PASSES)
        x, metric = self.led(leader, x, stop)
        for _ in range(TRIES):
            leader.forget()
            x = balanced(f, x)
            energy, off, gap = proven(f, x)
            if gap <= self.limits.tol * self.limits.scale(energy):
                return Found(self.in_units(x, self.unit), energy, off, gap)
            if not np.isfinite(energy) or len(self.account.rows) > self.limits.rounds:
                return None
            self.bar.update(self.account.note(energy))
            # about the square of the gradient is left; half of it for what the intercepts cost
            less = stop.times * min(0.3, np.sqrt(self.limits.tol * self.limits.scale(energy) / gap) / 2)
            leader, stop = f, replace(stop, times=less, least=0.0)
            x = self.solved(leader, metric, x, stop).x
        return None

    def led(self, f: LinearModel, x: Array, stop: Near) -> tuple[Array, MetricName]:
        """Where L-BFGS leads with the better metric, and which that is."""
        plain = self.solved(f, "none", x, replace(stop, cap=TRIAL_PASSES))
        with_metric = self.solved(f, "auto", x, replace(stop, rival=plain.value))
        if with_metric.value <= plain.value:
            return with_metric.x, "auto"
        return self.solved(f, "none", plain.x, stop).x, "none"

    def solved(self, f: LinearModel, metric: MetricName, x: Array, stop: StopRule) -> Solution:
        """Where L-BFGS leads; every gradient is an exchange."""
        before = f.cost.gradients
        found = LBFGS(self.pairs, metric).solve(f, x, stop)
        for _ in range(round(f.cost.gradients - before)):
            self.account.exchange(f.d + 2, f.d)
        return found

    def in_units(self, x: Array, unit: float) -> Array:
        W = self.f.matrix(x).copy()
        W[: self.f.design.X.shape[1]] *= unit
        return frozen(W.ravel())


def suits_single(f: LinearModel) -> bool:
    """Whether rows are dense and in memory, and their products are most of the time."""
    return isinstance(f.design.X, np.ndarray) and f.k >= MANY_CLASSES


def unit_of(f: LinearModel) -> float:
    """A power of two by which features are about as large as the one of an intercept that is free, or 1."""
    if f.free is None or isinstance(f.design.X, kernels.RowsOnDisk):
        return 1.0
    some = f.design.rows(np.arange(0, f.n, max(1, f.n // SAMPLE)))
    size = np.sqrt(max(float(np.mean(some.row_norms2())) - 1, 0.0) / max(f.design.D - 1, 1))
    if not 0 < size < np.inf or 1 / LIKE_ONE <= size <= LIKE_ONE:
        return 1.0
    return float(2.0 ** -np.round(np.log2(LIKE_ONE * size)))


def proven(f: LinearModel, x: Array) -> tuple[float, float, float]:
    """E at x, how far off it may be, and what it is above E* at most."""
    proof = FreeIntercept(Problem([f]))
    loss, _, off = proof.measured(x)
    kept = f.ridge_part(x)
    ridge = f.ridge / 2 * float(kept @ kept)
    rounding = off.value + roundings(f.d) * (abs(loss) + ridge)
    return loss + ridge, rounding, max(loss + ridge + rounding - proof.bound(x), rounding, SMALLEST)


def balanced(f: LinearModel, x: Array) -> Array:
    """x with the best intercepts for its coefficients: Newton's method on predictors, without a pass over the rows.

    A bound beside free intercepts loses as much as their gradient; that of the others counts by its square.
    """
    if f.free is None:
        return x
    W = f.matrix(x).copy()
    Z = f.design.forward(W)
    for _ in range(BALANCING):
        r, C = np.zeros(f.k), np.zeros((f.k, f.k))
        for block in blocks(f.n, f.k):
            given = f.loss, Z[block], f.y[block], f.s[block]
            r += kernels.residual(*given)[1].sum(axis=0)
            C += mean_curvature(*given)
        if float(np.abs(r).max()) <= roundings(f.n):
            break
        step = np.linalg.pinv(C, hermitian=True) @ r
        if not np.isfinite(step).all():
            return x
        W[-1] -= step
        Z -= step
    return frozen(W.ravel())
