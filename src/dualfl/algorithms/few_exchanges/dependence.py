"""Columns that are others, exactly: x_k = c x_l in every row of every client, or x_k = 0.

Where such columns are not regularised E does not change along e_k - c e_l, so a Hessian is singular and no bound of it
is left. In floating point a server cannot tell this from columns that are nearly dependent, whose minimiser is far out.
So it only guesses, from a Gram matrix of all columns, and the clients look: they compare numbers bit by bit, and answer
with 0 for every guess that is true of all their rows. Guessed are equal columns (c = 1, or -1), multiples of a column
of ones, and columns of zeros (l = -1); others that are dependent in fact are not found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dualfl.kernels import Design
from dualfl.objectives import moments
from dualfl.typing import Array

ALIKE = 1e-12  # how far from 1 the cosine of equal columns may be
NONE = np.zeros((0, 3))


def guessed(G: Array, free: Any) -> Array:
    """(k, l, c) for columns that may be c times another one that is `free` of any ridge, as they are themselves; beside
    the last one, usually an intercept, they need not be."""
    h = np.sqrt(np.maximum(np.diag(G), 0.0))
    found: list[tuple[float, float, float]] = []
    gone: set[int] = set()
    D = len(G)
    for k in range(D):
        if free[k] and h[k] == 0:
            found.append((float(k), -1.0, 0.0))
            gone.add(k)
    for k in range(D - 1):
        if k in gone:
            continue
        for other in (D - 1, *range(k + 1, D - 1)) if free[k] else (D - 1,):
            if not free[other] or other in gone or not abs(G[k, other]) >= (1 - ALIKE) * h[k] * h[other]:
                continue
            c = float(f"{G[k, other] / G[other, other]:.12g}")
            if other == D - 1 or abs(abs(c) - 1) <= ALIKE:
                found.append((float(k), float(other), c if other == D - 1 else float(np.sign(c))))
                gone.add(k)
                break
    return np.array(found).reshape(-1, 3)


def unlike(design: Design, guesses: Array) -> Array:
    """0 for every guess that holds in all rows, 1 for others."""
    answer = np.zeros(len(guesses))
    for _, block in moments.blocks(design, design.D):
        for i, (k, other, c) in enumerate(guesses):
            column = block[:, int(k)]
            same = column == (c * block[:, int(other)] if other >= 0 else 0.0)
            ones = other < 0 or abs(c) == 1 or bool((block[:, int(other)] == 1).all())  # else c x_l is rounded
            answer[i] = max(answer[i], float(not (ones and bool(np.all(same)))))
    return answer


def joined(x: Array, copies: Array) -> Array:
    """A model, one row a feature, that predicts the same without these columns."""
    x = np.array(x)
    for k, other, c in copies:
        if other >= 0:
            x[int(other)] += c * x[int(k)]
        x[int(k)] = 0.0
    return x


def proven(guesses: Array, answers: Array) -> Array:
    """The guesses that all clients agree with."""
    return np.asarray(guesses[np.asarray(answers) == 0])
