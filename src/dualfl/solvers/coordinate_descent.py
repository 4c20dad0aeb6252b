"""Coordinate descent for penalties that act on single coordinates: l1, elastic net, box, non-negativity.

Friedman, Hastie & Tibshirani, Regularization paths for generalized linear models via coordinate descent, J. Stat.
Softw. 33 (2010); the Newton steps around it: Lee, Sun & Saunders, Proximal Newton-type methods for minimizing
composite functions, SIAM J. Optim. 24 (2014). For F = f + P with P = sum_i l1_i |x_i| + (beta/2) x_i^2 + box:

    z   = argmin_z  <grad f(x), z - x> + (1/2) (z - x)'H(z - x) + (nu/2) |z - x|^2 + P(z)
    x  <- x + t (z - x),       t from a line search,

where H is the Hessian at x. The model is minimised one coordinate after the other,

    z_i <- clip(soft(z_i - m_i / Q_ii, l1_i / Q_ii), lo, hi),      Q = H + (nu + beta) I,   m = its slope at z,

and, since sweeps crawl where Q is badly conditioned, by a Newton step on the face they arrived at: the coordinates
that are neither zero nor at a bound. On a squared loss the model is F itself (nu = 0), and one iteration solves it.

Defaults. nu = 1e-3 L min(1, |r|/|r_0|), with the residual r: it keeps the model bounded where f is flat (Huber far
away) and vanishes fast enough for the quadratic rate. Dense Hessians bound the dimension by 4,000.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from dualfl import kernels
from dualfl.errors import NotSupported
from dualfl.objectives.base import Objective
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.losses import Squared
from dualfl.objectives.penalties import L1, BoxConstraint, ElasticNetPenalty, Penalised
from dualfl.objectives.points import Point
from dualfl.objectives.quadratic import Quadratic
from dualfl.objectives.tilted import Tilted
from dualfl.solvers.base import Solution, Watch
from dualfl.solvers.definite import EPS, solve
from dualfl.solvers.proximal import ProximalSolver, Split
from dualfl.solvers.stopping import StopRule
from dualfl.typing import Array

LARGEST = 4000
PATIENCE = 10  # Newton steps without a smaller residual, after which it is rounding
CHEAP, WAIT = 250, 10  # coordinates of a face that is cheap; how many times ten sweeps are waited for another
ROUNDS, SWEEPS = 100, 10  # how often, besides once a coordinate, a Newton step on a face, and sweeps before it
LITTLE = 1e-9  # of all that a model has fallen, which is not worth another round


@dataclass(frozen=True)
class Separable:
    """sum_i l1_i |x_i| + (beta_i/2) x_i^2 over lo <= x <= hi."""

    l1: Array
    beta: Array
    lo: Array
    hi: Array

    def slope(self, x: Array, p: Array) -> float:
        """The directional derivative of the penalty at x along p."""
        return float(np.where(x != 0, np.sign(x) * p, np.abs(p)) @ self.l1 + (self.beta * x) @ p)

    def steepest(self, x: Array, g: Array) -> Array:
        """The smallest element of g + the subdifferential without its beta term."""
        r = np.where(x != 0, g + self.l1 * np.sign(x), np.sign(g) * np.maximum(np.abs(g) - self.l1, 0.0))
        blocked = ((x <= self.lo) & (r > 0)) | ((x >= self.hi) & (r < 0))
        return np.where(blocked, 0.0, r)


@dataclass(frozen=True)
class CoordinateDescent(ProximalSolver):
    """Coordinate descent on the Gram matrix, inside proximal Newton steps if the loss is not squared.

    Examples
    --------
    >>> from dualfl.objectives import L1, LinearModel, Squared
    >>> from dualfl.solvers import GradientNorm
    >>> f = LinearModel(np.eye(2), np.array([3.0, 0.1]), Squared()) + L1(0.5)
    >>> CoordinateDescent().solve(f, None, GradientNorm(1e-10)).x
    array([2., 0.])
    """

    def check(self, f: Objective) -> None:
        super().check(f)
        separable(f)
        smooth = Split(f).f
        if "hessian" not in smooth.offers:
            raise NotSupported(f"CoordinateDescent needs a Hessian, and {smooth.name} has none; use FISTA.")
        if f.d > LARGEST:
            raise NotSupported(
                f"CoordinateDescent holds a dense Hessian and takes at most {LARGEST} coefficients, and {f.name} "
                f"has {f.d}; use FISTA."
            )

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        split, P, watch = Split(f), separable(f), Watch(f, stop)
        point = split.start(warm)
        exact = is_quadratic(split.f)
        H = split.f.hessian(point.x) if exact else None
        residual = split.steepest(point)
        norm = float(np.linalg.norm(residual))
        first, least, idle = norm or 1.0, np.inf, 0
        while not split.done(watch, point, residual):
            idle = 0 if norm < 0.9 * least else idle + 1
            least = min(least, norm)
            if idle > PATIENCE:
                watch.capped = True  # rounding leaves nothing to gain
                break
            Q = split.f.hessian(point.x) if H is None else H.copy()
            scale = split.f.L if np.isfinite(split.f.L) else float(Q.diagonal().max())
            nu = 0.0 if exact else 1e-3 * scale * min(1.0, norm / first)
            Q[np.diag_indices_from(Q)] += nu + P.beta
            # half a digit more than the model is worth; all digits where the model is F itself
            goal = 1e-12 * norm if exact else norm * min(0.1, norm / first)
            z = minimise_model(Q, Q @ point.x - point.gradient - P.beta * point.x, P, point.x, goal)
            point = _line_search(split, P, point, z)
            residual = split.steepest(point)
            norm = float(np.linalg.norm(residual))
        return watch.solution(point.x, residual, split.value(point))


def separable(f: Objective) -> Separable:
    """The penalty of f, coordinate by coordinate, or a sentence."""
    zero, infinite = np.zeros(f.d), np.full(f.d, np.inf)
    if not isinstance(f, Penalised):
        return Separable(zero, zero, -infinite, infinite)
    penalty, kept = f.penalty, np.ones(f.d) if f.free is None else np.where(f.free, 0.0, 1.0)
    if isinstance(penalty, L1):
        return Separable(penalty.alpha * kept, zero, -infinite, infinite)
    if isinstance(penalty, ElasticNetPenalty):
        return Separable(penalty.alpha * kept, penalty.beta * kept, -infinite, infinite)
    if isinstance(penalty, BoxConstraint):
        return Separable(
            zero, zero, np.where(kept > 0, penalty.lower, -np.inf), np.where(kept > 0, penalty.upper, np.inf)
        )
    raise NotSupported(
        f"CoordinateDescent takes L1, ElasticNetPenalty, BoxConstraint and NonNegative, and {f.name} couples "
        "coordinates; use FISTA or POGM."
    )


def is_quadratic(f: Objective) -> bool:
    base = f.base if isinstance(f, Tilted) else f
    return isinstance(base, Quadratic) or (isinstance(base, LinearModel) and isinstance(base.loss, Squared))


def minimise_model(Q: Array, q: Array, P: Separable, start: Array, goal: float) -> Array:
    """argmin z'Qz/2 - q'z + l1 |z| over the box, until the residual is at most `goal` or nothing falls any more.

    Where Q is singular, as with columns that sum to a constant, the l1 part alone decides along a line, and its slope
    is the same until a coordinate arrives at zero: there the residual stays while the value falls.
    """

    def value(z: Array, m: Array) -> float:
        return float((m - q) @ z / 2 + P.l1 @ np.abs(z))

    z = start.copy()
    m = Q @ z - q
    first = before = value(z, m)
    least, idle = np.inf, 0
    waited = 0
    for _ in range(ROUNDS + len(z)):
        zeros = z == 0
        kernels.cd_quadratic(Q, q, P.l1, P.lo, P.hi, z, m, SWEEPS, 0.0)
        # A step on a large face is dear, and worth it once sweeps no longer change which coordinates it has.
        waited = 0 if len(z) <= CHEAP or waited == WAIT or np.array_equal(zeros, z == 0) else waited + 1
        if waited == 0:
            face_step(Q, P, z, Q @ z - q)
        m = Q @ z - q
        residual, now = float(np.linalg.norm(P.steepest(z, m))), value(z, m)
        falls = before - now > LITTLE * abs(first - now) + EPS * float(np.abs(q) @ np.abs(z))
        idle = 0 if residual < 0.9 * least or falls else idle + 1
        least, before = min(least, residual), now
        if residual <= goal or idle >= 5:
            break
    return z


def face_step(Q: Array, P: Separable, z: Array, m: Array) -> None:
    """Newton on the coordinates that are neither zero (under an l1) nor at a bound, to the best point on the way.

    Along a line where Q is singular the step is as long as rounding allows, and the kinks of the l1 part end it.
    """
    face = np.flatnonzero(((z != 0) | (P.l1 == 0)) & (z > P.lo) & (z < P.hi))
    if not len(face):
        return
    x, l1 = z[face], P.l1[face]
    slopes = m[face] + l1 * np.sign(x)
    step = -solve(Q[np.ix_(face, face)], slopes)
    fall = -float(slopes @ step)
    if not 0 < fall < np.inf or not np.isfinite(step).all():
        return
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = np.where(step > 0, (P.hi[face] - x) / step, np.where(step < 0, (P.lo[face] - x) / step, np.inf))
        kinks = np.where((l1 > 0) & (x * step < 0), -x / step, np.inf)
    t, at_zero = best_on_the_way(fall, kinks, 2 * l1 * np.abs(step), min(1.0, float(bounds.min())))
    new = x + t * step
    # rounding must not leave the one that arrived a hair off
    if at_zero is not None:
        new[at_zero] = 0.0
    elif t == bounds.min():
        hit = int(np.argmin(bounds))
        new[hit] = (P.hi if step[hit] > 0 else P.lo)[face[hit]]
    z[face] = new


def quick_face_step(Q: Array, l1: float, z: Array, m: Array) -> None:
    """The same under one l1 and without a box: a tenth of the time, and nothing where Cholesky does not go through."""
    face = np.flatnonzero(z)
    if not len(face):
        return
    x = z[face]
    slopes = m[face] + l1 * np.sign(x)
    _, step, failed = lapack.dposv(Q[face][:, face], -slopes)
    fall = -float(slopes @ step)
    if failed or not 0 < fall < np.inf:
        return
    new = x + step
    if (new * x < 0).any():
        kinks = np.full(len(x), np.inf)
        np.divide(-x, step, out=kinks, where=x * step < 0)
        t, at_zero = best_on_the_way(fall, kinks, 2 * l1 * np.abs(step), 1.0)
        new = x + t * step
        if at_zero is not None:
            new[at_zero] = 0.0
    z[face] = new


def best_on_the_way(fall: float, kinks: Array, jumps: Array, end: float) -> tuple[float, int | None]:
    """argmin of a Newton step of length t <= end, whose slope (t - 1) fall jumps up at kinks; and the kink it is at."""
    risen = 0.0
    for i in np.argsort(kinks, kind="stable"):
        t = float(kinks[i])
        if t >= end:
            break
        if (t - 1) * fall + risen >= 0:  # before this kink already
            return max(1 - risen / fall, 0.0), None
        risen += float(jumps[i])
        if (t - 1) * fall + risen >= 0:
            return t, int(i)
    return min(max(1 - risen / fall, 0.0), end), None


def _line_search(split: Split, P: Separable, start: Point, z: Array) -> Point:
    """From x towards z: the first of t = 1, 1/2, ... at which F has fallen enough, or is still falling.

    Either is progress, for F is convex. Enough is F(x + t p) <= F(x) + 1e-4 t F'(x; p). Close to the minimiser values
    are equal up to rounding, and slopes decide: Hager and Zhang's F'(x + t p; p) <= 0.8 |F'(x; p)|.
    """
    x = start.x
    p = z - x
    ray = start.ray(p)

    def place(t: float) -> Array:
        """x + t p, with zeros and bounds of z exact."""
        return z if t == 1.0 else np.clip(x + t * p, P.lo, P.hi)

    def value(t: float) -> float:
        return ray.value(t) + (0.0 if split.penalised is None else split.penalised.penalty_value(place(t)))

    def slope(t: float) -> float:
        return ray.slope(t) + P.slope(place(t), p)

    first, fall, t = split.value(start), slope(0.0), 1.0
    noise = 1e-12 * abs(first)
    while t > 1e-12:
        now = value(t)
        if now <= first + 1e-4 * t * fall or slope(t) <= 0 or (now <= first + noise and slope(t) <= -0.8 * fall):
            break
        t /= 2
    return split.f.at(place(t))
