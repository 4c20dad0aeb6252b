"""How second-order sums travel."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from dualfl.objectives.moments import pairs
from dualfl.typing import Array


def upper(H: Array) -> Array:
    """The upper triangle of a symmetric matrix, which is all that has to travel."""
    return np.asarray(H[pairs(len(H))])


def symmetric(triangle: Array, d: int) -> Array:
    """The matrix with this upper triangle."""
    H = np.zeros((d, d))
    H[pairs(d)] = triangle
    return np.asarray(H + np.triu(H, 1).T)


def part(means: SimpleNamespace, prefix: str) -> SimpleNamespace:
    """The sums whose names begin with a prefix, without it."""
    return SimpleNamespace(**{k.removeprefix(prefix): v for k, v in vars(means).items() if k.startswith(prefix)})
