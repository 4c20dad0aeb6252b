"""How second-order sums travel."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from dualfl.objectives.moments import REMEMBERED, pairs
from dualfl.typing import Array


def upper(H: Array) -> Array:
    """The upper triangle of a symmetric matrix, which is all that has to travel."""
    if len(H) > REMEMBERED:
        return np.concatenate([row[i:] for i, row in enumerate(H)])
    return np.asarray(H[pairs(len(H))])


def symmetric(triangle: Array, d: int) -> Array:
    """The matrix with this upper triangle."""
    H = np.empty((d, d))
    if d <= REMEMBERED:
        a, b = pairs(d)
        H[a, b] = H[b, a] = triangle
        return H
    first = 0
    for i in range(d):  # row by row: indices would be larger than the matrix
        H[i, i:] = H[i:, i] = triangle[first : first + d - i]
        first += d - i
    return H


def part(means: SimpleNamespace, prefix: str) -> SimpleNamespace:
    """The sums whose names begin with a prefix, without it."""
    return SimpleNamespace(**{k.removeprefix(prefix): v for k, v in vars(means).items() if k.startswith(prefix)})
