"""A client's own minimiser, the same whatever the units of its columns, and with a free intercept wherever their zeros.

The mean of these minimisers is a start for a server that has seen nothing yet (DualFL's first round). A client with few
rows, or with one label, can fit them far too well, so each coefficient gets at least `SHARE` of its own curvature at
zero as a ridge; in the coordinates of `coordinates`, hence without units. Newton's method with a whole Hessian is for
models that are small enough to send one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dualfl.algorithms.few_exchanges.coordinates import chosen
from dualfl.algorithms.few_exchanges.straight_pieces import STRAIGHT
from dualfl.solvers.definite import solve
from dualfl.typing import Array

SHARE = 4e-3
STEPS, ACCURACY, ARMIJO, SHORTEST = 30, 1e-6, 1e-4, 1e-9


@np.errstate(over="ignore", invalid="ignore")
def own_minimiser(f: Any, C: Array, S: Array) -> Array:
    """argmin of f and a little ridge, from zero; C (x) S is the Hessian there, but for the ridge."""
    D, k, curved = len(C), len(S), float(np.abs(S).max())
    M = np.broadcast_to(np.asarray(f.convexity, dtype=float), (f.d,)).reshape(D, k)
    at = chosen(C, M, curved, whole=True)
    data = curved * np.diag(at.moment(C))
    extra = np.maximum(SHARE * data[:, None] - M * at.scale[:, None] ** 2, 0.0)

    def energy(x: Array) -> float:
        return float(f.value(x)) + float((extra * at.back(x.reshape(D, k)) ** 2).sum()) / 2

    x = np.zeros(f.d)
    E = energy(x)
    for _ in range(STEPS):
        z = at.back(x.reshape(D, k))
        g = at.pull(f.gradient(x).reshape(D, k)) + extra * z
        half = at.pull(f.newton_hessian(x, STRAIGHT).reshape(D, -1)).reshape(D * k, D * k)
        H = at.pull(half.T.reshape(D, -1)).reshape(D * k, D * k)  # symmetric, so the other side is the other half
        p = solve(H + np.diag(extra.ravel()), g.ravel())
        decrement, t = float(g.ravel() @ p), 1.0
        step = at.to(p.reshape(D, k)).ravel()
        if not (np.isfinite(step).all() and decrement > ACCURACY * abs(E)):
            break
        while t > SHORTEST and not energy(x - t * step) <= E - ARMIJO * t * decrement:
            t /= 2
        if t <= SHORTEST:
            break
        x = x - t * step
        E = energy(x)
    return x
