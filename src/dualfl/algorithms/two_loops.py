"""The two loops of L-BFGS (Liu and Nocedal, 1989), apart: what stands between them is the first metric.

q = g;        newest to oldest:  a_i = <s_i, q>/<s_i, y_i>,  q -= a_i y_i
p = H0^-1 q;  oldest to newest:  p += (a_i - <y_i, p>/<s_i, y_i>) s_i
"""

from __future__ import annotations

import numpy as np

from dualfl.typing import Array

Vectors = tuple[Array, ...]


def first_loop(g: Array, S: Vectors, Y: Vectors) -> tuple[Array, list[float]]:
    """What is left of g when the pairs have taken their part, newest first, and how much that was."""
    q, weights = np.array(g), []
    for s, y in zip(reversed(S), reversed(Y)):
        weights.append(float(s @ q) / float(s @ y))
        q -= weights[-1] * y
    return q, weights


def second_loop(p: Array, S: Vectors, Y: Vectors, weights: list[float]) -> Array:
    """The direction, from what the first metric made of q."""
    p = np.array(p)
    for s, y, a in zip(S, Y, reversed(weights)):
        p += (a - float(y @ p) / float(s @ y)) * s
    return p
