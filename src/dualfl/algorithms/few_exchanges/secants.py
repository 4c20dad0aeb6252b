"""Secant pairs: what steps have taught of the curvature that a metric does not know."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dualfl.algorithms.coordinates import Coordinates
from dualfl.algorithms.two_loops import Vectors, first_loop, second_loop
from dualfl.typing import Array

CURVED = 1e-10  # of |s||y|, in coordinates without units: a pair with less curvature is rounding


def learnt(S: Vectors, Y: Vectors, step: Array, change: Array, at: Coordinates, memory: int) -> tuple[Vectors, Vectors]:
    """The newest pairs, this one among them if it has curvature."""
    if not step @ change > CURVED * at.norm(step) * at.slope(change):
        return S, Y
    return (*S, step)[-memory:], (*Y, change)[-memory:]


def two_loops(g: Array, S: Vectors, Y: Vectors, solve: Callable[[Array], Array]) -> Array:
    """The L-BFGS direction H g around H0^-1 = solve."""
    q, weights = first_loop(g, S, Y)
    p = second_loop(solve(q), S, Y, weights)
    return p if g @ p > 0 else solve(g)  # at rounding level a direction may point nowhere


def seen_from(origin: Array, S: Vectors, Y: Vectors) -> tuple[Vectors, Vectors]:
    """Pairs as they are for columns that have their zeros at `origin`."""
    if not origin.any():
        return S, Y
    moved = Coordinates(np.ones(len(origin)), origin)
    return tuple(moved.back(s[:, None])[:, 0] for s in S), tuple(moved.pull(y[:, None])[:, 0] for y in Y)


def updated(H: Array, m: Array, S: Vectors, Y: Vectors) -> Array:
    """H once BFGS's formula has taught it the pairs; m is curvature beside it, which acts on every step too.

    H + diag(m) stays positive semidefinite. A step along which it has no curvature at all only gains the pair's.
    """
    if not S:
        return H
    B = H + np.diag(m)
    unit = np.sqrt(np.maximum(np.diag(B), 0.0))
    unit = np.where(unit > 0, unit, 1.0)
    for step, change in zip(S, Y):
        y, Bs = change + m * step, B @ step
        if not step @ y > CURVED * float(np.linalg.norm(unit * step)) * float(np.linalg.norm(y / unit)):
            continue
        along = float(step @ Bs)
        B += np.outer(y, y / float(step @ y))
        if along > 0:
            B -= np.outer(Bs, Bs / along)
    return np.asarray((B + B.T) / 2 - np.diag(m))
