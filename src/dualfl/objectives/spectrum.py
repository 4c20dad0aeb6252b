"""The largest eigenvalue of a positive semidefinite operator, from above.

A Lanczos iteration (Lanczos 1950) approaches it from below. The bound from above comes from the residual once
that is tiny, and otherwise from Kuczynski & Wozniakowski (1992): after k steps from a random start in R^d the
Ritz value theta satisfies, with probability at least 1 - p,

    lambda_max <= theta / (1 - eps),     eps = (log(1.648 sqrt(d) / p) / (2 k - 1))^2,

whatever the spectrum. A power iteration can stop per cents too low when eigenvalues lie close together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh_tridiagonal

from dualfl.typing import Array

STEPS = 64
TOLERANCE = 1e-6  # of the residual, relative; far smaller than the start's part in the top eigenvector
FAILURE = 1e-9  # the p above
ROUNDING = 1 + 1e-10


def largest_eigenvalue(times: Callable[[Array], Array], d: int, trace: float = np.inf) -> float:
    """A bound of lambda_max of the d x d operator v -> times(v), at most `trace`; the start is fixed.

    >>> round(largest_eigenvalue(lambda v: np.array([1.0, 2.0, 5.0]) * v, 3), 6)
    5.0
    """
    v, before = np.random.default_rng(0).standard_normal(d), np.zeros(d)
    v /= np.linalg.norm(v)
    w = times(v)
    unit = float(np.abs(w).max())  # of all that follows, so that squares neither overflow nor vanish
    if unit == 0.0 or not np.isfinite(unit):
        return 0.0 if unit == 0.0 else trace
    diagonal: list[float] = []
    beside: list[float] = []
    for _ in range(STEPS):
        w = w / unit
        diagonal.append(float(v @ w))
        w -= diagonal[-1] * v + (beside[-1] * before if beside else 0.0)
        norm = float(np.linalg.norm(w))
        values, vectors = eigh_tridiagonal(np.array(diagonal), np.array(beside))
        top, residual = float(values[-1]), norm * abs(float(vectors[-1, -1]))
        if residual <= TOLERANCE * top:
            return min(trace, unit * (top + residual)) * ROUNDING
        beside.append(norm)
        before, v = v, w / norm
        w = times(v)
    eps = float(np.log(1.648 * np.sqrt(d) / FAILURE) / (2 * STEPS - 1)) ** 2
    return min(trace, unit * top / (1 - eps)) * ROUNDING
