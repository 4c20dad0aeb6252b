"""Semismooth Newton steps on the dual of a piecewise linear loss plus ridge: what finishes SDCA.

A proximal point step on the dual from alpha (Rockafellar 1976; with a semismooth Newton method inside: Li, Sun & Toh,
A highly efficient semismooth Newton augmented Lagrangian method, SIAM J. Optim. 28 (2018)),

    alpha+ = argmax over the box of  D(a) - sum_i s_i (a_i - alpha_i)^2 / (2 sigma),

is found by minimising over theta the smooth function that it is the dual of,

    phi(theta) = (lam/2) |theta|^2 - <c, theta> + sum_i s_i M_i(x_i' theta),
    M_i(z)     = max over a in [lo, hi] of  a (b_i - q_i z) - eps |a| - (a - alpha_i)^2 / (2 sigma),
    a_i(z)     = clip(soft(alpha_i + sigma (b_i - q_i z), sigma eps), lo, hi),

    phi' = lam theta - c - sum_i s_i q_i a_i x_i,      phi'' = lam I + sigma sum over J of s_i q_i^2 x_i x_i',

where J are the rows with a_i strictly inside. phi is piecewise quadratic, so Newton ends after few steps; the linear
system has the size min(|J|, d). sigma grows from step to step, as the dual is a quadratic programme, on which proximal
points arrive after finitely many steps; it falls back when phi gets too close to its kinks for Newton.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dualfl.errors import InputError
from dualfl.kernels import Design
from dualfl.objectives.work import Cost
from dualfl.typing import Array

SYSTEM = 3000  # the largest linear system to factorise
NUMBERS = 1 << 26  # and the most float64 numbers to hold for it
STEPS, INNER = 15, 30
SMALL = 1e-6  # the part of the gap to which a proximal point is found
SHORT = 1e-5  # steps shorter than this lead nowhere


@dataclass(frozen=True)
class DualProblem:
    """min over theta of sum_i s_i max_a (a (b_i - q_i x_i'theta) - eps |a|) + (lam/2)|theta|^2 - <c, theta>."""

    design: Design
    q: Array
    b: Array
    lo: float | Array
    hi: float | Array
    eps: float
    s: Array
    lam: float
    c: Array

    @property
    def n(self) -> int:
        return self.design.n

    def start(self, warm: Array | None) -> Array:
        if warm is None:
            return np.zeros(self.n)
        if warm.shape != (self.n,):
            raise InputError(
                f"A warm start of SDCA is one dual variable for each of the {self.n} rows, but its shape is "
                f"{warm.shape}; hand in the `warm` of an earlier solution."
            )
        return np.clip(warm, self.lo, self.hi)

    def theta(self, alpha: Array) -> Array:
        pull = self.design.backward((self.s * self.q * alpha)[:, None])[:, 0]
        return np.asarray((self.c + pull) / self.lam)

    def margins(self, theta: Array) -> Array:
        """u_i = b_i - q_i x_i' theta."""
        return np.asarray(self.b - self.q * self.design.forward(theta[:, None])[:, 0])

    def look(self, alpha: Array) -> Look:
        """Everything that alpha says, in one pass over the rows."""
        theta = self.theta(alpha)
        u = self.margins(theta)
        loss = np.maximum(self.hi * (u - self.eps), self.lo * (u + self.eps))
        if self.eps > 0:
            loss = np.maximum(loss, 0.0)
        terms = np.maximum(loss - alpha * u + self.eps * np.abs(alpha), 0.0)  # below zero only by rounding
        value = float(self.s @ loss + self.lam / 2 * (theta @ theta) - self.c @ theta)
        return Look(alpha, theta, value, float(self.s @ terms))


@dataclass(frozen=True)
class Look:
    """A dual point, theta(alpha), F there, and the gap F - D."""

    alpha: Array
    theta: Array
    value: float
    gap: float


def newton(p: DualProblem, start: Look, cost: Cost) -> Look:
    """The best of a few proximal point steps; the start itself if none is better, or the systems are too large."""
    curvature = float((p.s * p.q**2 * p.design.row_norms2()).max()) / p.lam
    if not curvature > 0:
        return start
    here = best = start
    sigma, grow = 10.0 / curvature, 10.0
    for _ in range(STEPS):
        alpha = _proximal_point(p, here, sigma, SMALL * best.gap, cost)
        if alpha is None:  # too bold: a smaller sigma makes phi smoother
            sigma, grow = sigma / (3 * grow), np.sqrt(grow)
            continue
        here = p.look(alpha)
        cost.passes += 1
        best = min(best, here, key=lambda look: look.gap)
        if best.gap <= 1e-15 * abs(best.value):
            break
        sigma *= grow
    return best


def _proximal_point(p: DualProblem, start: Look, sigma: float, small: float, cost: Cost) -> Array | None:
    """alpha+ up to a gap of phi that is small, or None if Newton's method does not get there soon."""
    alpha, theta = start.alpha, start.theta
    u = p.margins(theta)
    for _ in range(INNER):
        a = _best(p, alpha, u, sigma)
        g = p.lam * (theta - p.theta(a))
        cost.passes += 1
        if g @ g <= 2 * p.lam * small:
            return a
        inside = np.flatnonzero((a > p.lo) & (a < p.hi) & ((a != 0) | (p.eps == 0)) & (p.s > 0))
        if not fits(len(inside), p.design.D):
            return None
        try:
            direction = _direction(p, inside, sigma, g, cost)
        except LinAlgError:  # collinear columns against a lam that is rounding beside them
            return None
        v = -p.q * p.design.forward(direction[:, None])[:, 0]
        t = _step(p, alpha, theta, direction, u, v, sigma)
        if t < SHORT:
            return None
        theta, u = theta + t * direction, u + t * v
    return None


def fits(m: int, d: int) -> bool:
    """Whether a linear system of m rows in d dimensions is worth the memory."""
    return min(m, d) <= SYSTEM and m * d <= NUMBERS


def _best(p: DualProblem, alpha: Array, u: Array, sigma: float) -> Array:
    a = alpha + sigma * u
    if p.eps > 0:
        a = np.sign(a) * np.maximum(np.abs(a) - sigma * p.eps, 0.0)
    return np.clip(a, p.lo, p.hi)


def _direction(p: DualProblem, inside: npt.NDArray[np.intp], sigma: float, g: Array, cost: Cost) -> Array:
    """-(lam I + A'A)^{-1} g, A = sqrt(sigma s) q x_i' for the rows inside; by the smaller of the two systems."""
    m, d = len(inside), len(g)
    if m == 0:
        return -g / p.lam
    cost.hessian_products += min(m, d)
    cost.passes += m / p.n
    A = _dense(p.design, inside) * (np.sqrt(sigma * p.s[inside]) * p.q[inside])[:, None]
    if d <= m:
        return -np.asarray(cho_solve(cho_factor(A.T @ A + p.lam * np.eye(d)), g))
    K = cho_factor(A @ A.T + p.lam * np.eye(m))
    return -(g - A.T @ cho_solve(K, A @ g)) / p.lam


def _dense(design: Design, rows: npt.NDArray[np.intp]) -> Array:
    block: Any = design.X[rows]
    block = block.toarray() if hasattr(block, "toarray") else block
    A = np.ones((len(rows), design.D))
    A[:, : block.shape[1]] = design.scale * block.astype(np.float64)
    return A


def _step(p: DualProblem, alpha: Array, theta: Array, direction: Array, u: Array, v: Array, sigma: float) -> float:
    """The first of 1, 1/2, ... at which phi climbs no more than half as steeply as it fell at 0."""
    weights = p.s * v
    linear, quadratic = float((p.lam * theta - p.c) @ direction), p.lam * float(direction @ direction)

    def slope(t: float) -> float:
        return linear + t * quadratic + float(_best(p, alpha, u + t * v, sigma) @ weights)

    t, fall = 1.0, slope(0.0)
    while slope(t) > -fall / 2 and t >= SHORT:
        t /= 2
    return t
