"""Conjugate gradients for a client's own linear systems (Hestenes and Stiefel, 1952)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dualfl.typing import Array


def conjugate_gradients(apply: Callable[[Array], Array], b: Array, tolerance: float, most: int) -> Array:
    """v with |A v - b| <= tolerance |b|, for a symmetric positive definite A given by its products."""
    v, r = np.zeros_like(b), b.copy()
    p, rr = r, float(r @ r)
    goal = (tolerance**2) * rr
    for _ in range(most):
        if rr <= goal:
            break
        Ap = apply(p)
        curvature = float(p @ Ap)
        if not curvature > 0:  # rounding, or an accuracy that no residual of doubles can meet
            break
        a = rr / curvature
        v = v + a * p
        r = r - a * Ap
        rr, old = float(r @ r), rr
        p = r + rr / old * p
    return v
