"""What methods share that hold d x d matrices."""

from __future__ import annotations

import numpy as np

from dualfl.errors import Diverged, InputError
from dualfl.typing import Array

LARGEST = 2000


def at_most(name: str, d: int) -> None:
    """Refuse problems whose Hessians are too large to hold."""
    if d > LARGEST:
        raise InputError(
            f"{name} keeps d x d numbers, and d = {d} is above {LARGEST}; use giant, disco or lbfgs instead."
        )


def finite(H: Array) -> Array:
    if not np.isfinite(H).all():
        raise Diverged("the Hessian overflows; a step without a line search was too long for this loss")
    return H


def upper(H: Array) -> Array:
    """The upper triangle, which is what travels of a symmetric matrix."""
    triangle: Array = H[np.triu_indices(len(H))]
    return triangle


def symmetric(triangle: Array, d: int) -> Array:
    """The symmetric matrix with this upper triangle."""
    H = np.zeros((d, d))
    H[np.triu_indices(d)] = triangle
    return H + np.triu(H, 1).T
