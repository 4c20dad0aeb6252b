"""min over the simplex of (1/2) b'Gb - c'b: the small quadratic program of a bundle method.

A primal-dual interior point method with Mehrotra's predictor and corrector (S. Mehrotra, "On the implementation of a
primal-dual interior point method", 1992), on

    G b - c + lam 1 - s = 0,     1'b = 1,     b_i s_i = t  ->  0,          b, s > 0.

Cuts depend on each other near the minimum, so G is singular, and active sets go astray among them. Here G + diag(s/b)
is what is solved with, and it takes some fifteen solves whatever the cuts are. Any point of the simplex gives a valid
lower bound (`cuts.proven` computes it), so accuracy is a matter of speed and never of truth; but who goes where an
inexact minimiser is goes elsewhere whenever something else is rounded. What is too large to be squared is left alone.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dualfl.solvers.definite import EPS
from dualfl.typing import Array

MOST = 60  # solves
INSIDE = 0.995  # of the way to the nearest bound
TINY = 1e-300  # stands for the least number above 0


def minimise_on_simplex(G: Array, c: Array) -> Array:
    """The minimiser, as exactly as rounding permits."""
    b = np.full(c.size, 1 / c.size)
    size = sizes(G, c)
    if not 0 < size < np.inf:
        return b
    G, c = G / size, c / size
    slopes = G @ b - c
    lam = 1 - float(slopes.min())
    s = slopes + lam
    best, least = b, left_over(G, c, b)
    for _ in range(MOST):
        step = _step(G, c, b, lam, s)
        if step is None or not least > EPS / 2:
            break
        b, lam, s = step
        left = left_over(G, c, b)
        best, least = (b, left) if left < least else (best, least)
    return best


def left_over(G: Array, c: Array, b: Array) -> float:
    """By how much the value may still fall, at most."""
    slopes = G @ b - c
    return float(b @ slopes - slopes.min())


def sizes(G: Array, c: Array) -> float:
    return float(np.abs(G).max() + np.abs(c).max())


def _step(G: Array, c: Array, b: Array, lam: float, s: Array) -> tuple[Array, float, Array] | None:
    """The next b, lam and s; None where rounding leaves no way to go."""
    K = G + np.diag(s / b + EPS)  # rounding may have made G indefinite
    try:
        factor = cho_factor(K, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    of_one = cho_solve(factor, np.ones(b.size), check_finite=False)
    residual, t = G @ b - c + lam - s, float(b @ s) / b.size

    def towards(products: Array) -> tuple[Array, float, Array]:
        """Newton's step by which b_i s_i changes by `products`, and all else is fulfilled."""
        free = cho_solve(factor, products / b - residual, check_finite=False)
        dlam = (float(free.sum()) - (1 - float(b.sum()))) / float(of_one.sum())
        db = free - dlam * of_one
        return db, dlam, (products - s * db) / b

    db, _, ds = towards(-b * s)
    reached = float((b + _room(b, db) * db) @ (s + _room(s, ds) * ds)) / b.size
    db, dlam, ds = towards((reached / t) ** 3 * t - b * s - db * ds)
    length = INSIDE * min(_room(b, db), _room(s, ds))
    b, s = np.maximum(b + length * db, TINY), np.maximum(s + length * ds, TINY)
    if not (np.isfinite(b).all() and np.isfinite(s).all()):
        return None
    return b / b.sum(), lam + length * dlam, s


def _room(x: Array, step: Array) -> float:
    """How much of the step leaves x at or above 0, at most all of it."""
    falls = step < 0
    return float(min(1.0, np.min(x[falls] / -step[falls], initial=np.inf)))
