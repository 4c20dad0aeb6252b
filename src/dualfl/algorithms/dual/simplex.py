"""min over the simplex of (1/2) b'Gb - c'b: the small quadratic program of a bundle method.

Accelerated projected gradients find most of the support, an equality-constrained solve on the support polishes, and
vertices that would still lower the value join it one by one (P. Wolfe, "Finding the nearest point in a polytope",
1976). Any point of the simplex gives a valid lower bound (`cuts.proven` computes it), so accuracy is a matter of speed
and never of truth; but who goes where an inexact minimiser is goes elsewhere whenever something else is rounded.
What is too large to be squared is left where it starts.
"""

from __future__ import annotations

import numpy as np

from dualfl.typing import Array

FLAT = 1e-14  # of the sizes of G and c: a descent below it is rounding


def project(v: Array) -> Array:
    """The nearest point of the simplex (Held, Wolfe and Crowder, 1974)."""
    v = v - v.max()  # the same for all changes nothing, and beside 1e17 the 1 below would be lost
    u = np.sort(v)[::-1]
    excess = (np.cumsum(u) - 1) / np.arange(1, v.size + 1)
    threshold = float(excess[np.nonzero(u > excess)[0][-1]])
    return np.maximum(v - threshold, 0.0)


def minimise_on_simplex(G: Array, c: Array, start: Array | None = None, iterations: int = 500) -> Array:
    """The minimiser, as exactly as rounding permits in the usual case."""
    b = y = np.full(c.size, 1 / c.size) if start is None else project(start)
    if not (np.isfinite(G).all() and np.isfinite(c).all()):
        return b
    L = max(float(np.linalg.eigvalsh(G)[-1]), 1e-300)
    t = 1.0
    for _ in range(iterations):
        following = project(y - (G @ y - c) / L)
        if (y - following) @ (following - b) > 0:  # restart: the momentum points uphill
            y, t = b, 1.0
            continue
        t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
        y = following + (t - 1) / t_next * (following - b)
        b, t = following, t_next
    return settled(G, c, polished(G, c, b))


def settled(G: Array, c: Array, b: Array) -> Array:
    """The minimiser, from a point near it: the vertex with the steepest descent joins until none descends."""
    size = float(np.abs(G.diagonal()).max() + np.abs(c).max())
    for _ in range(2 * b.size):
        slopes = G @ b - c
        j = int(np.argmin(slopes))
        descent = float(b @ slopes - slopes[j])
        if not descent > FLAT * size:
            break
        step = -b
        step[j] += 1.0
        curvature = float(step @ G @ step)
        b = polished(G, c, b + (min(descent / curvature, 1.0) if curvature > 0 else 1.0) * step)
    return b


def polished(G: Array, c: Array, b: Array) -> Array:
    """The exact minimiser on the support of b, moved to as far as the simplex allows, again and again."""
    size = max(float(np.abs(G.diagonal()).max()), 1e-300)
    for _ in range(b.size):
        support = np.flatnonzero(b > 1e-12)
        here, step = b[support], _step(G[np.ix_(support, support)], c[support], b[support], size)
        with np.errstate(divide="ignore"):
            limits = np.where(step < 0, -here / np.where(step < 0, step, 1.0), np.inf)
        block = int(np.argmin(limits))
        moved = np.maximum(here + min(limits[block], 1.0) * step, 0.0)
        if limits[block] <= 1.0:
            moved[block] = 0.0
        if not 0 < moved.sum() < np.inf:
            break
        b = np.zeros(b.size)
        b[support] = moved / moved.sum()
        if limits[block] > 1.0:
            break
    return b


def _step(G: Array, c: Array, b: Array, size: float) -> Array:
    """To the minimiser on sum b = 1; where dependent cuts let the value fall for ever, a long way down."""
    k = b.size
    system = np.zeros((k + 1, k + 1))
    system[:k, :k] = G
    system[:k, k] = system[k, :k] = size  # the multiplier in units of its own, so that the system is well scaled
    slopes = c - G @ b
    right = np.append(slopes - b @ slopes, 0.0)  # the multiplier is known but for rounding
    found = np.linalg.lstsq(system, right, rcond=None)[0]
    left = right - system @ found  # what no solution explains is a direction along which G does not curve
    if float(np.linalg.norm(left)) > 1e-9 * float(np.linalg.norm(right)) and np.ptp(left[:k]) > 0:
        return np.asarray(left[:k] - left[:k].mean()) * (2 * k / np.ptp(left[:k]))
    return np.asarray(found[:k])
