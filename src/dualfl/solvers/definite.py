"""Linear systems whose matrix is positive definite but for rounding."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dualfl.typing import Array

EPS = float(np.finfo(float).eps)


def solve(Q: Array, q: Array) -> Array:
    """Q^{-1} q for a positive semidefinite Q, by the smallest shift of its diagonal that lets Cholesky through."""
    unit = units(Q)
    factor = factorised(Q * unit * unit[:, None])[1]
    return np.asarray(unit * cho_solve(factor, unit * q))


def definite(Q: Array) -> Array:
    """Q, its diagonal raised by as little as makes it positive definite in floating point."""
    return factorised(Q)[0]


def factorised(Q: Array) -> tuple[Array, tuple[Array, bool]]:
    """The same, and its Cholesky factor.

    Each entry by the same share of itself: columns may be in units that differ by many orders, and what is nothing to
    one would be all of another.
    """
    diagonal = np.diag(Q)
    for shift in (0.0, 1e-15, 1e-13, 1e-11, 1e-9, 1e-6, 1.0):
        shifted = Q + np.diag(np.where(diagonal > 0, shift * diagonal, 1.0)) if shift else Q
        try:
            factor = cho_factor(shifted)
        except LinAlgError:
            continue
        if float(np.min(np.diag(factor[0]))) > 0:
            return shifted, factor
    shifted = Q + 2 * (float(np.abs(Q).sum(axis=1).max()) or 1.0) * np.eye(len(Q))  # Gershgorin: whatever Q is
    return shifted, cho_factor(shifted)


def units(Q: Array) -> Array:
    """u with a unit diagonal of uQu, where Q has one."""
    diagonal = np.diag(Q)
    return np.asarray(1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)))


def independence(Q: Array) -> float:
    """How well a Gram matrix tells its columns apart: its smallest eigenvalue once its diagonal is 1; 0 if not at all.

    With a unit diagonal the entries are known to a few EPS, and eigenvalues to d times that. Below 100 d EPS rounding
    may have made the smallest one up; above, Cholesky goes through without a shift.
    """
    h = np.sqrt(np.maximum(np.diag(Q), 0.0))
    if not (h > 0).all():
        return 0.0
    least = float(np.linalg.eigvalsh(Q / np.outer(h, h)).min(initial=1.0))
    return least if least > 100 * len(Q) * EPS else 0.0
