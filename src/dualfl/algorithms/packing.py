"""How second-order sums travel."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from dualfl.algorithms.messages import Quantised
from dualfl.objectives.moments import REMEMBERED, pairs
from dualfl.typing import Array

SHORT, LONGER = 16, 32  # bits
LEAST = -1000  # exponent of a step: what is smaller is nothing


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


def short(x: Array, bits: int = SHORT) -> Quantised:
    """x in 16 or 32 bits a number: multiples of one power of two, the smallest that the largest number allows."""
    top, whole = largest(x), np.int16 if bits == SHORT else np.int32
    if not top < np.inf:
        return Quantised(np.zeros(x.shape, dtype=whole), bits, np.nan)
    share, exponent = np.frexp(top)
    exponent += share > 1 - 2.0**-bits  # the largest would be rounded to one more than there is
    step = 2.0 ** max(int(exponent) - bits + 1, LEAST)
    return Quantised(np.rint(x / step).astype(whole), bits, step)


def largest(x: Array) -> float:
    """The largest number, whatever its sign, or NaN; no copy is made."""
    return float(np.maximum(np.max(x, initial=0.0), -np.min(x, initial=0.0)))


def part(means: SimpleNamespace, prefix: str) -> SimpleNamespace:
    """The sums whose names begin with a prefix, without it."""
    return SimpleNamespace(**{k.removeprefix(prefix): v for k, v in vars(means).items() if k.startswith(prefix)})
