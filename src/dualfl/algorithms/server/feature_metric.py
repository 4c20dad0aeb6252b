"""A first metric for L-BFGS from the second moments of the features: what makes words of any frequency alike.

The Hessian of a linear model of D features and k outputs is  sum_i (x_i x_i') (x) W_i + M.  Where features or outputs
are many it is too large to send; but most of its bad conditioning is that of the features. Clients send, once,

    "diagonal"    h_j  = (1/k) sum_i tr(W_i) x_ij^2 + M_j                       D numbers
    "features"    H    = (1/k) sum_i tr(W_i) x_i x_i' + diag(M)                 D (D + 1) / 2 numbers

at the start, and the server steps as if the Hessian were that, times the identity of the outputs. Secant pairs learn
the rest, and scale it. It only steers: no bound of E* depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.linalg import cho_solve, cholesky

from dualfl.algorithms.client_cost import MomentCost
from dualfl.algorithms.packing import symmetric, upper
from dualfl.solvers.definite import definite, units
from dualfl.typing import Array

Kind = Literal["none", "diagonal", "features"]
NONE = np.zeros(0)


def sums(f: MomentCost, x: Array, kind: Kind) -> dict[str, Any]:
    """What a client sends beside its gradient at x."""
    D = f.objective.shape[0]
    k = f.d // D
    ridge = np.broadcast_to(np.asarray(f.objective.convexity, dtype=float), (f.d,)).reshape(D, k).mean(axis=1)
    if kind == "diagonal":
        return {"h": f.column_moments(x)[0] / k + ridge}
    H = f.feature_moment(x) / k
    H[np.diag_indices(D)] += ridge
    return {"h": upper(H)}


def factor_of(h: Array, kind: Kind) -> Array:
    """What the server keeps of the sum: the diagonal, or a Cholesky factor in units in which the diagonal is 1."""
    if kind == "diagonal":
        return np.where(h > 0, h, 1.0)
    H = symmetric(h, round((np.sqrt(8 * len(h) + 1) - 1) / 2))
    unit = units(H)
    factor = cholesky(definite(H * unit * unit[:, None]), lower=True)
    return np.asarray(factor / unit[:, None])  # H = R R'


def solver_of(factor: Array) -> Callable[[Array], Array]:
    """v -> (metric)^-1 v."""
    D = len(factor)
    if factor.ndim == 1:
        return lambda v: (v.reshape(D, -1) / factor[:, None]).ravel()
    return lambda v: cho_solve((factor, True), v.reshape(D, -1), check_finite=False).ravel()
