"""min over the simplex of (1/2) b'Gb - c'b: the small quadratic program of a bundle method.

Accelerated projected gradients find the support, an equality-constrained solve on the support polishes. Any point of
the simplex gives a valid lower bound (`cuts.proven` computes it), so accuracy is a matter of speed and never of truth.
What is too large to be squared is left where it starts.
"""

from __future__ import annotations

import numpy as np

from dualfl.typing import Array


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
    return polished(G, c, b)


def polished(G: Array, c: Array, b: Array) -> Array:
    """The exact minimiser on the support of b, moved to as far as the simplex allows; never worse than b."""
    for _ in range(b.size):
        support = np.nonzero(b > 1e-12)[0]
        k = support.size
        system = np.zeros((k + 1, k + 1))
        system[:k, :k] = G[np.ix_(support, support)]
        system[:k, k] = system[k, :k] = 1.0
        right = np.append(c[support], 1.0)
        step = np.linalg.lstsq(system, right, rcond=None)[0][:k] - b[support]
        down = step < 0
        limit = np.min(-b[support][down] / step[down], initial=1.0)
        moved = b.copy()
        moved[support] = np.maximum(b[support] + min(limit, 1.0) * step, 0.0)
        if not moved.sum() > 0:
            return b
        moved /= moved.sum()
        if not value(G, c, moved) < value(G, c, b):
            return b
        b = moved
        if limit >= 1.0:
            return b
    return b


def value(G: Array, c: Array, b: Array) -> float:
    return float(b @ G @ b / 2 - c @ b)
