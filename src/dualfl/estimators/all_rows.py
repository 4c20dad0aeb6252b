"""A fit in one process, without messages: Newton's method on all rows, and a proof.

Where only sums over rows would travel, a sum does not care how rows are grouped, and in one process nobody needs to be
asked. Then a fit is what follows, and nothing else; what silos would have sent is counted as if they had.

    x  <-  argmin_z  <g, z - x> + (z - x)'H(z - x)/2 + l1 |z|_1          g, H: gradient and Hessian of the smooth part

E(z) is measured, and a step that does not keep 1e-4 of what it promises is shortened along its ray. Without an l1
penalty the Hessian proves how near x is (`self_concordance`, in coordinates in which H has a unit diagonal). The bound
of E* is then known, and the Newton step from x is taken as well: what it leaves is about the square of what was left.
With an l1 penalty duality proves it (`estimators.proof`); a lasso has a way of its own (`all_rows_lasso`), many sparse
columns have theirs (`all_rows_sparse`), and a large softmax goes by L-BFGS (`all_rows_softmax`).

Whoever is not done with that, because columns depend on each other, classes are separable, or rounding stands against
it, is returned to the algorithms of the library, which know more ways: `minimised` says None.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs  # SciPy's own functions check what is known here

from dualfl import kernels
from dualfl.algorithms.contract import Algorithm
from dualfl.algorithms.few_exchanges.one_shot import OneShot
from dualfl.algorithms.few_exchanges.prox_newton import ProxNewton
from dualfl.algorithms.few_exchanges.self_concordance import Curvature, gain, lower_bound
from dualfl.algorithms.few_exchanges.sketched_metric import EXACT
from dualfl.algorithms.few_exchanges.sketched_newton import SketchedNewton
from dualfl.algorithms.server import ServerLBFGS
from dualfl.engines.best import SMALLEST
from dualfl.engines.history import History
from dualfl.engines.progress import Bar
from dualfl.engines.result import Result
from dualfl.estimators.account import Account, Found
from dualfl.estimators.all_rows_lasso import Lasso
from dualfl.estimators.all_rows_softmax import FEWEST_PAIRS, PAIR_BYTES, ManyOutputs, balanced
from dualfl.estimators.all_rows_sparse import by_columns, goal_at, minimise, working_set
from dualfl.estimators.proof import FreeIntercept
from dualfl.estimators.solving import FitLimits
from dualfl.objectives import L1, Squared
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.losses import Huber, Softmax, SquaredHinge
from dualfl.objectives.points import Point
from dualfl.objectives.rounding import roundings
from dualfl.problem import Problem
from dualfl.solvers.coordinate_descent import Separable, minimise_model
from dualfl.typing import Array, frozen

ARMIJO = 1e-4
RAY = tuple(2.0**-i for i in range(1, 31))
STEPS = 40  # a problem that takes more is not one for this
CLOSE = 1e-3  # of E: with such a decrement a proof is worth trying
WIDEST = 2000  # coefficients of a squared loss


def suits(f: LinearModel, l1: float) -> bool:
    """Whether one of these methods is the way to go."""
    loss = f.loss
    if isinstance(loss, Softmax):
        return l1 == 0 and f.ridge > 0 and f.d <= PAIR_BYTES / (16 * FEWEST_PAIRS)
    if f.k > 1 or not loss.smooth or loss.self_concordance is None or isinstance(loss, Huber | SquaredHinge):
        return False
    if is_lasso(f, l1):
        return True
    if l1 and not loss.nonnegative:
        return False  # the proof is another one there
    return is_sparse_l1(f, l1) or (f.d <= WIDEST if isinstance(loss, Squared) else is_narrow(f))


def is_narrow(f: LinearModel) -> bool:
    """Whether there is room for a Hessian."""
    return f.d * (f.d + 1) // 2 <= EXACT


def is_sparse_l1(f: LinearModel, l1: float) -> bool:
    """Whether Newton's models are minimised column by column."""
    curved = not isinstance(f.loss, Squared)
    return curved and l1 > 0 and f.k == 1 and f.ridge == 0 and not is_narrow(f) and kernels.is_sparse(f.design.X)


def is_lasso(f: LinearModel, l1: float) -> bool:
    return isinstance(f.loss, Squared) and l1 > 0 and f.ridge == 0


def is_small_softmax(f: LinearModel) -> bool:
    """Whether the Hessian of all outputs is small; adding to all outputs changes nothing, so there is one less."""
    D, m = f.design.D, f.k - 1
    return isinstance(f.loss, Softmax) and D * (D + 1) // 2 * (m * (m + 1) // 2) <= EXACT


def minimised(f: LinearModel, l1: float, limits: FitLimits, silos: int, begin: Array | None = None) -> Result | None:
    """The fit with its proof; None if this is not the way to it. A softmax may begin elsewhere than at zero."""
    method = method_of(f, l1)
    how = (
        FewOutputs
        if is_small_softmax(f)
        else ManyOutputs
        if f.k > 1
        else Lasso
        if is_lasso(f, l1)
        else SparseL1
        if is_sparse_l1(f, l1)
        else WithL1
        if l1
        else Smooth
    )
    quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore")
    with quiet, Bar(method.name, limits.rounds, limits.progress) as bar:
        fit = how(f, l1, limits, silos, bar)
        if begin is not None and isinstance(fit, FewOutputs | ManyOutputs):
            fit.begin = begin
        found = fit.search()
        if found is None:
            return None
        bar.update(fit.account.note(found.energy, found.gap))
    rows, what = fit.account.rows, f" and {L1(l1)}" if l1 else ""
    why = f"{f.loss} loss with {f.d:,} coefficients{what} by sums over all rows, in this process"
    return Result(
        theta=frozen(found.x), shape=f.shape, energy=found.energy, certificate=found.gap, certificate_reason="",
        stopped="tol", algorithm=method, constants=None, history=History(rows, [[0] * silos for _ in rows]), state=None,
        silos=[], choice=f"auto runs {method.name}: {why}.", rounding=found.rounding,
    )  # fmt: skip


def method_of(f: LinearModel, l1: float) -> Algorithm:
    """What the library calls it."""
    if f.k > 1 and not is_small_softmax(f):
        return ServerLBFGS()
    if isinstance(f.loss, Squared) and f.d <= WIDEST:
        return OneShot(least_rows=1)
    return ProxNewton(race=False, least_rows=1) if l1 else SketchedNewton(local=False, least_rows=1)


class Smooth:
    """Newton's method, and a proof by the Hessian."""

    def __init__(self, f: LinearModel, l1: float, limits: FitLimits, silos: int, bar: Bar) -> None:
        self.f, self.l1, self.limits, self.bar = f, l1, limits, bar
        self.M = np.broadcast_to(np.asarray(f.convexity, dtype=float), (f.d,))
        self.account = Account(silos)

    def search(self) -> Found | None:
        """Newton's steps, until a proof says that they are enough."""
        point, before, H = self.f.at(self.start()), np.inf, None
        energy, constant = self.energy(point), isinstance(self.f.loss, Squared)
        for _ in range(min(STEPS, self.limits.rounds)):
            if not np.isfinite(energy) or not energy < before:
                return None
            self.bar.update(self.account.note(energy))
            H = self.hessian(point.x) if H is None or not constant else H
            step = self.step(point, H)
            if step is None:
                return None
            self.count()
            trial, promised = step
            bound = -np.inf if constant else self.bound(point, energy, promised)
            before = energy
            there = self.moved(point, energy, trial, promised)
            if there is None:
                return None
            point, energy = there
            if constant:  # the sums of one point tell of all
                again = self.step(point, H)
                bound = -np.inf if again is None else self.bound(point, energy, again[1])
            if (found := self.proven(point, energy, bound)) is not None:
                return found
        return None

    def count(self) -> None:
        """What silos would have sent for a step: a value, a gradient and a Hessian."""
        self.account.exchange(self.f.d * (self.f.d + 3) // 2 + 4, self.f.d)

    def proven(self, point: Point, energy: float, bound: float) -> Found | None:
        """What the bound says of this point, if that is enough."""
        if not bound > -np.inf:
            return None
        off = self.f.rounding(point.x).value + roundings(len(point.x)) * self.penalty(point.x)
        gap = max(energy + off - bound, off, SMALLEST)
        return Found(point.x, energy, off, gap) if gap <= self.limits.tol * self.limits.scale(energy) else None

    def penalty(self, x: Array) -> float:
        return 0.0

    def energy(self, point: Point) -> float:
        return point.value

    def start(self) -> Array:
        """Zero, or where parabolas lead that touch the losses where targets suggest."""
        sums = self.f.working_sums()
        if sums is None:
            return np.zeros(self.f.d)
        H, q = sums
        H.ravel()[:: len(H) + 1] += self.M
        scaled = unit_diagonal(H)
        if scaled is None:
            return np.zeros(self.f.d)
        h, L = scaled
        return np.asarray(dpotrs(L, q / h, lower=True)[0] / h)

    def hessian(self, x: Array) -> Array:
        squared = isinstance(self.f.loss, Squared)  # whose curvature is 1
        H = self.f.design.gram(self.f.s if squared else self.f.newton_curvatures(x, 0.0)[0, 0])
        H.ravel()[:: len(H) + 1] += self.M
        return H

    def step(self, point: Point, H: Array) -> tuple[Array, float] | None:
        """Where Newton leads, and what the slope promises of it."""
        scaled = unit_diagonal(H)
        if scaled is None:
            return None
        self.h, L = scaled
        self.S = H / np.outer(self.h, self.h)
        half = dtrtrs(L, point.gradient / self.h, lower=True)[0]
        back = dtrtrs(L, half, lower=True, trans=True)[0]
        return point.x - back / self.h, -float(half @ half)

    def bound(self, point: Point, energy: float, promised: float) -> float:
        """What the Hessian at this point proves of E*; -inf while that is nothing, or not worth the while."""
        if not -promised <= CLOSE * self.limits.scale(energy):
            return -np.inf
        f, x, h = self.f, point.x, self.h
        off, K = f.rounding(x), roundings(f.n + 2 * f.design.D)
        reach, far = self.reach(x) if f.loss.self_concordance else (0.0, 0.0)  # a squared loss has one curvature
        r, off_r = point.gradient / h, (off.gradient + roundings(2) * np.abs(point.gradient)) / h
        direct = np.full(len(h), np.sqrt(K))  # entries of S are off by K, of diagonals that are 1
        found = gain(Curvature(self.S, np.zeros(len(h)), min(2 * K * far, 1.0), reach, direct=direct), r, off_r)
        return lower_bound(energy - off.value, abs(energy) + off.value, found, 8)

    def reach(self, x: Array) -> tuple[float, float]:
        """How fast curvature may change in the metric of the Hessian, and how large predictors are at most."""
        f, extents = self.f, self.f.design.extents
        assert f.loss.self_concordance is not None
        far = float(extents @ np.abs(x)) + (0.0 if f.offset is None else float(np.abs(f.offset).max()))
        return f.loss.self_concordance * float(np.linalg.norm(extents / self.h)) * (1 + 1e-6), far

    def moved(self, point: Point, energy: float, trial: Array, promised: float) -> tuple[Point, float] | None:
        """The trial, or the best point of the ray that leads to it."""
        there = self.f.at(trial)
        _ = there.gradient  # in one pass with the value
        now = self.energy(there)
        if now <= energy + ARMIJO * promised or abs(promised) <= 1e-13 * abs(energy):
            return there, now
        ray, p = point.ray(trial - point.x), trial - point.x
        values = ray.values(RAY) + np.array([self.penalty(point.x + t * p) for t in RAY])
        best = int(np.nanargmin(np.where(np.isfinite(values), values, np.inf)))
        if not values[best] < energy:
            return None
        there = self.f.at(point.x + RAY[best] * p)
        return there, self.energy(there)


class WithL1(Smooth):
    """The same with an l1 penalty in Newton's model, and a proof by duality."""

    def __init__(self, f: LinearModel, l1: float, limits: FitLimits, silos: int, bar: Bar) -> None:
        super().__init__(f, l1, limits, silos, bar)
        zero, infinite = np.zeros(f.d), np.full(f.d, np.inf)
        held = np.full(f.d, l1) if f.free is None else np.where(f.free, 0.0, l1)
        self.P = Separable(held, zero, -infinite, infinite)

    def penalty(self, x: Array) -> float:
        return float(self.P.l1 @ np.abs(x))

    def energy(self, point: Point) -> float:
        return point.value + self.penalty(point.x)

    def start(self) -> Array:
        return np.zeros(self.f.d)

    def step(self, point: Point, H: Array) -> tuple[Array, float] | None:
        if not (np.diag(H) > 0).all():
            return None
        g, x = point.gradient, point.x
        slope = float(np.linalg.norm(self.P.steepest(x, g)))
        goal = (1e-12 if isinstance(self.f.loss, Squared) else 1e-3) * slope
        z = minimise_model(H, H @ x - g, self.P, x, goal)
        return z, min(float(g @ (z - x)) + self.penalty(z) - self.penalty(x), 0.0)

    def bound(self, point: Point, energy: float, promised: float) -> float:
        """Whether it is worth the while; the next point is the one of which something is proven."""
        squared = isinstance(self.f.loss, Squared)
        return energy if squared or -promised <= CLOSE * self.limits.scale(energy) else -np.inf

    def proven(self, point: Point, energy: float, bound: float) -> Found | None:
        if not bound > -np.inf:
            return None
        bound = FreeIntercept(Problem([self.f], penalty=L1(self.l1))).bound(point.x)
        return super().proven(point, energy, bound)


class SparseL1(WithL1):
    """The same for many sparse columns: no Hessian, but the columns that matter."""

    def __init__(self, f: LinearModel, l1: float, limits: FitLimits, silos: int, bar: Bar) -> None:
        super().__init__(f, l1, limits, silos, bar)
        self.transposed, self.asked = by_columns(f.design), 0

    def hessian(self, x: Array) -> Array:
        """The weights of rows in it."""
        return np.asarray(self.f.newton_curvatures(x, 0.0)[0, 0])

    def step(self, point: Point, H: Array) -> tuple[Array, float] | None:
        x, g = point.x, point.gradient
        violation = float(np.abs(self.P.steepest(x, g)).max())
        chosen = np.flatnonzero((x != 0) | (np.abs(g) > self.P.l1) | (self.P.l1 == 0))
        columns = working_set(self.transposed, self.f.design, chosen, H, self.P.l1)
        z = x.copy()
        z[chosen] = minimise(columns, g[chosen], x[chosen], goal_at(violation, self.l1, self.limits.tol))
        self.asked = len(chosen)
        return z, min(float(g @ (z - x)) + self.penalty(z) - self.penalty(x), 0.0)

    def count(self) -> None:
        """A gradient says which columns matter; their sums come with the next exchange."""
        self.account.exchange(self.f.d + 2, self.f.d)
        self.account.exchange(self.asked * (self.asked + 1) // 2, self.asked)

    def bound(self, point: Point, energy: float, promised: float) -> float:
        return energy

    def proven(self, point: Point, energy: float, bound: float) -> Found | None:
        """A proof, if one will do: E* is about t (L - g'x), if t |g_k| <= l1."""
        steepest = float(np.abs(point.gradient[self.P.l1 > 0]).max(initial=0.0))
        t = min(1.0, self.l1 / steepest) if steepest > 0 else 1.0
        about = energy - t * (point.value - float(point.gradient @ point.x))
        return super().proven(point, energy, bound) if about <= self.limits.tol * self.limits.scale(energy) else None


class FewOutputs(Smooth):
    """A small softmax: Newton's method, and a proof by the ridge."""

    begin: Array | None = None

    def start(self) -> Array:
        if self.limits.of_start:
            at_zero = abs(self.f.value(np.zeros(self.f.d)) + self.limits.offset)
            self.limits = replace(self.limits, least=at_zero)
        return super().start() if self.begin is None else self.begin

    def hessian(self, x: Array) -> Array:
        H, k = self.f.hessian(x), self.f.k
        if self.f.free is not None:  # adding to all intercepts changes nothing, and costs something here
            H[-k:, -k:] += float(np.trace(H[-k:, -k:])) / k**2
        return H

    def bound(self, point: Point, energy: float, promised: float) -> float:
        """Whether it is worth the while; the next point is the one of which something is proven."""
        return energy if -promised <= CLOSE * self.limits.scale(energy) else -np.inf

    def proven(self, point: Point, energy: float, bound: float) -> Found | None:
        if not bound > -np.inf:
            return None
        x = balanced(self.f, point.x)
        energy = self.f.value(x)
        return super().proven(self.f.at(x), energy, FreeIntercept(Problem([self.f])).bound(x))


def unit_diagonal(H: Array) -> tuple[Array, Array] | None:
    """The roots h of the diagonal, and Cholesky's factor of H/hh'; None if H is not definite."""
    diagonal = np.diag(H)
    if not (np.isfinite(H).all() and (diagonal > 0).all()):
        return None
    h = np.sqrt(diagonal)
    L, failed = dpotrf(H / np.outer(h, h), lower=True, clean=False)
    return None if failed else (h, L)
