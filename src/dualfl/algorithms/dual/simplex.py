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

FLAT, ROUGH = 1e-14, 1e-12  # of the sizes of G and c: a descent below it is rounding, or as good as that
PATIENCE = 100  # vertices in a row that join and leave no less to descend: rounding of dependent cuts


def project(v: Array) -> Array:
    """The nearest point of the simplex (Held, Wolfe and Crowder, 1974)."""
    v = v - v.max()  # the same for all changes nothing, and beside 1e17 the 1 below would be lost
    u = np.sort(v)[::-1]
    excess = (np.cumsum(u) - 1) / np.arange(1, v.size + 1)
    threshold = float(excess[np.nonzero(u > excess)[0][-1]])
    return np.maximum(v - threshold, 0.0)


def minimise_on_simplex(G: Array, c: Array, start: Array | None = None, iterations: int = 500) -> Array:
    """The minimiser, as exactly as rounding permits in the usual case."""
    middle = np.full(c.size, 1 / c.size)
    first = middle if start is None else project(start)
    if not (np.isfinite(G).all() and np.isfinite(c).all()):
        return first
    b = settled(G, c, polished(G, c, descended(G, c, first, iterations)))
    if start is not None and left_over(G, c, b) > ROUGH * sizes(G, c):  # stuck among dependent cuts: from elsewhere
        other = settled(G, c, polished(G, c, descended(G, c, middle, iterations)))
        b = min(b, other, key=lambda one: left_over(G, c, one))
    return b


def descended(G: Array, c: Array, b: Array, iterations: int) -> Array:
    """Accelerated projected gradients."""
    y, t = b, 1.0
    L = max(float(np.linalg.eigvalsh(G)[-1]), 1e-300)
    for _ in range(iterations):
        following = project(y - (G @ y - c) / L)
        if (y - following) @ (following - b) > 0:  # restart: the momentum points uphill
            y, t = b, 1.0
            continue
        t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
        y = following + (t - 1) / t_next * (following - b)
        b, t = following, t_next
    return b


def left_over(G: Array, c: Array, b: Array) -> float:
    """By how much the value may still fall, at most."""
    slopes = G @ b - c
    return float(b @ slopes - slopes.min())


def sizes(G: Array, c: Array) -> float:
    return float(np.abs(G.diagonal()).max() + np.abs(c).max())


def settled(G: Array, c: Array, b: Array) -> Array:
    """The minimiser, from a point near it: the vertex with the steepest descent joins until none descends."""
    size = sizes(G, c)
    best, least, idle = b, np.inf, 0
    for _ in range(2 * b.size):
        slopes = G @ b - c
        j = int(np.argmin(slopes))
        descent = float(b @ slopes - slopes[j])
        best, least, idle = (b, descent, 0) if descent < least else (best, least, idle + 1)
        if not descent > FLAT * size or idle == PATIENCE:
            break
        step = -b
        step[j] += 1.0
        curvature = float(step @ G @ step)
        b = polished(G, c, b + (min(descent / curvature, 1.0) if curvature > 0 else 1.0) * step)
    return best


def polished(G: Array, c: Array, b: Array) -> Array:
    """The exact minimiser on the support of b, or what is left of it where that leads out of the simplex."""
    size = max(float(np.abs(G.diagonal()).max()), 1e-300)
    for _ in range(2 * b.size):
        support = np.flatnonzero(b > 1e-12)
        here, inner = b[support], G[np.ix_(support, support)]
        step, last = _step(inner, c[support], here, size)
        descent, curvature = float((c[support] - inner @ here) @ step), float(step @ inner @ step)
        if not descent > 0:
            break
        limits = np.where(step < 0, here / np.maximum(-step, 1e-300), np.inf)
        block = int(np.argmin(limits))
        length = min(descent / curvature if curvature > 0 else np.inf, float(limits[block]))
        moved = np.maximum(here + length * step, 0.0)
        blocked = length == limits[block]
        if blocked:
            moved[block] = 0.0
        if not 0 < moved.sum() < np.inf:
            break
        b = np.zeros(b.size)
        b[support] = moved / moved.sum()
        if last and not blocked:
            break
    return b


def _step(G: Array, c: Array, b: Array, size: float) -> tuple[Array, bool]:
    """A way to the minimiser on sum b = 1, and whether it leads there: among dependent cuts there may be none."""
    k = b.size
    system = np.zeros((k + 1, k + 1))
    system[:k, :k] = G
    system[:k, k] = system[k, :k] = size  # the multiplier in units of its own, so that the system is well scaled
    slopes = c - G @ b
    right = np.append(slopes - b @ slopes, 0.0)  # the multiplier is known but for rounding
    found = np.linalg.lstsq(system, right, rcond=None)[0]
    left = (right - system @ found)[:k]  # what no solution explains: a direction along which G hardly curves
    if float(np.linalg.norm(left)) > 1e-9 * float(np.linalg.norm(right)):
        return np.asarray(left - left.mean()), False
    return np.asarray(found[:k] - found[:k].mean()), True
