"""The interior point side of piecewise linear losses: per-sample variables, and the sums that describe them.

Every loss is a sum of pieces  max over a in [lo, hi] of a u,  u = b - q x'theta:  hinge, absolute and quantile losses
have one piece, and the epsilon-insensitive loss has two, max(|r| - eps, 0) = max(r - eps, 0) + max(-r - eps, 0).
With p = hi - a, q = a - lo, the central path of parameter t is

    q s = t,    p xi = t,    xi - s = u,

xi and s being the slopes of the barrier. Near it, (xi, s) are chosen with xi - s = u exactly and xi s = t^2/(p q), and
the linearised system, in which xi and s are eliminated, says

    da = D (u_new - t/p + t/q),        D = 1/(xi/p + s/q).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualfl.objectives.linear import LinearModel
from dualfl.typing import Array

TINY = 1e-15


class Pieces(NamedTuple):
    """Arrays of pieces by rows; lo and hi one number a piece."""

    q: Array
    b: Array
    lo: Array
    hi: Array

    @property
    def width(self) -> Array:
        return self.hi - self.lo

    def margins(self, z: Array) -> Array:
        """u of every piece, for predictors z."""
        return self.b - self.q * z

    def loss(self, u: Array) -> Array:
        return np.maximum(self.lo * u, self.hi * u)


def pieces(model: LinearModel) -> Pieces:
    """The pieces of a model's loss. A term -eps |a| splits a into a part in [0, hi] and one in [0, -lo]."""
    q, b, lo, hi, eps = model.loss.box(model.y)
    if eps == 0:
        return Pieces(q[None], b[None], np.array([[lo]]), np.array([[hi]]))
    return Pieces(np.stack([q, -q]), np.stack([b - eps, -b - eps]), np.zeros((2, 1)), np.array([[hi], [-lo]]))


def first(P: Pieces, u: Array, t: float) -> Array:
    """Dual variables to begin with: the smoothed slope of the loss, well inside the box."""
    w = P.width
    a = P.lo + w * (0.5 + u / (2 * np.sqrt(u * u + (4 * t / w) ** 2)))
    return np.asarray(np.clip(a, P.lo + 1e-3 * w, P.hi - 1e-3 * w))


def central(P: Pieces, u: Array, t: float) -> Array:
    """The dual variables of the central path at u: argmax of a u + t log(a - lo) + t log(hi - a)."""
    half = P.width / 2
    off = u * half**2 / (t + np.sqrt(t * t + (u * half) ** 2))
    return np.asarray(np.clip(P.lo + half + off, P.lo + TINY * P.width, P.hi - TINY * P.width))


def smoothed(P: Pieces, u: Array, t: float) -> Array:
    """The loss with a barrier, max over a of a u + t log((a - lo)(hi - a)/(w/2)^2), per piece."""
    a = central(P, u, t)
    return np.asarray(a * u + t * (np.log(a - P.lo) + np.log(P.hi - a) - 2 * np.log(P.width / 2)))


def metric(P: Pieces, u: Array, a: Array, t: float) -> Array:
    """D, with the slopes that fit u exactly."""
    p, q = np.maximum(P.hi - a, TINY), np.maximum(a - P.lo, TINY)
    c = t * t / (p * q)
    R = np.sqrt(u * u + 4 * c)
    large = (np.abs(u) + R) / 2
    small = c / large  # not by a difference: the two may be 1e15 apart
    xi, s = np.where(u > 0, large, small), np.where(u > 0, small, large)
    return np.asarray(1 / (xi / p + s / q))


def advance(P: Pieces, u: Array, a: Array, D: Array, t: float, keep: float) -> tuple[Array, Array]:
    """The new dual variables, moved by at most `keep` of the way to either bound, and what Newton's method wanted."""
    p, q = np.maximum(P.hi - a, TINY), np.maximum(a - P.lo, TINY)
    wanted = a + D * (u - t / p + t / q)
    return np.clip(wanted, a - keep * q, a + keep * p), wanted
