"""What a dual point of a piecewise linear loss proves where R is a group penalty without a ridge.

There R* is finite only inside of balls: |v_G| <= alpha for every group, and v_k = 0 for a free intercept. The dual
point of a minimiser is on the sphere of every group that is not zero, and in floating point a little outside. Scaling
all of it down costs that part of E. Moving it towards the centres costs next to nothing: as in `vertex_bound`, samples
that are between their bounds can be moved by y,

    a'_i = a_i - s_i room_i^2 z_i'y,      v' = v - G y,      |a'_i - a_i| <= room_i delta,   delta^2 = y'G y,

and y needs no more directions than there are groups: K y with one column v_G/|v_G| a group, so that K'G K is regular
with fewer samples between their bounds than coefficients, as it is here, where the penalty is round. The balls have an
inside, so v' is aimed at a point as far inside as rounding may be off; the intercept's v_k = 0 is reached exactly, as
there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.algorithms.few_exchanges.self_concordance import Curvature, gain
from dualfl.algorithms.few_exchanges.vertex_moves import Moved, Room, height
from dualfl.objectives.rounding import roundings
from dualfl.solvers.definite import solve
from dualfl.typing import Array

TIMES = 4  # how far inside is known only after the move, so it is made a few times


def proven(R: Regulariser, m: Any, th: Array, off: Array, room: Room) -> float:
    """The best bound of dual points that were moved into the balls; -inf if none could be."""
    free, best = R.flat, -np.inf
    if room.centre.any() and not free[-1]:
        return -np.inf
    doubt = off + np.abs(room.centre) * off[-1] + roundings(4) * np.abs(m.v)
    v, left = room.pulled(m.v), doubt
    for _ in range(TIMES):
        K, goal = aims(R, v, left)
        if not K.shape[1]:
            return best
        y = np.asarray(K @ solve(np.asarray(K.T @ (K.T @ room.G).T), goal))
        Gy, error = room.G @ y, room.doubtful(y)
        more = 0.0
        if free.any():  # what is left of v_k there is moved by a step of which only the length is known
            block = Curvature(room.G[np.ix_(free, free)], room.e[free], 0.0, 0.0)
            rest = (np.abs(v - Gy) + error + doubt)[free]
            more = float(np.sqrt(gain(block, np.zeros(len(rest)), rest).decrement))
        delta = (float(np.sqrt(max(float(y @ Gy), 0.0) + float(np.abs(y) @ error))) + more) * (1 + 1e-6)
        if not delta < 1:
            return best
        moved = error + room.h * more * (1 + 1e-6) + np.abs(room.centre) * (off[-1] + roundings(4) * abs(m.v[-1]))
        by = np.where(free, m.v, Gy + room.centre * m.v[-1])
        to = Moved(free, np.zeros(len(v)), by, np.where(free, off, moved), delta, room.silos)
        best = max(best, height(R, m, th, off, to))
        left = doubt + moved + roundings(16) * (np.abs(v) + np.abs(Gy)) + sideways(R, v, Gy)
    return best


def aims(R: Regulariser, v: Array, left: Array) -> tuple[Any, Array]:
    """Directions in which v has to be moved, as columns, and how far: towards the centres of balls, and free ones."""
    assert R.group is not None
    size, wide = norms(R, v), norms(R, left)
    beyond = size * (1 + roundings(len(v) + 64)) + wide - R.group.alpha * (1 - roundings(len(v) + 64))
    label = labels(R)
    out = np.flatnonzero((beyond > 0) & (size > 0))
    place = np.full(len(size), -1)
    place[out] = np.arange(len(out))
    rows = np.flatnonzero(R.penalised_at & (place[label] >= 0))
    free = np.flatnonzero(R.flat)
    data = np.append(v[rows] / size[label[rows]], np.ones(len(free)))
    columns = np.append(place[label[rows]], len(out) + np.arange(len(free)))
    K = sparse.csc_array((data, (np.append(rows, free), columns)), shape=(len(v), len(out) + len(free)))
    return K, np.append(beyond[out], v[free])


def sideways(R: Regulariser, v: Array, Gy: Array) -> Array:
    """How much longer v_G - (G y)_G is than its part along v_G, spread over the group."""
    size, label = norms(R, v), labels(R)
    unit = np.where(R.penalised_at & (size[label] > 0), v / np.where(size[label] > 0, size[label], 1.0), 0.0)
    along = np.bincount(label, unit * Gy, len(size))
    aside = norms(R, Gy - along[label] * unit)
    longer = aside**2 / np.where(size > 0, size, np.inf)
    members = np.bincount(label, R.penalised_at, len(size))
    return np.asarray((longer / np.sqrt(np.maximum(members, 1.0)))[label])


def labels(R: Regulariser) -> Any:
    """The group of every coefficient."""
    assert R.group is not None and R.penalised is not None
    rows = R.penalised.shape[0]
    found = np.arange(rows) if R.group.groups is None else R.group._labels
    return np.repeat(found, len(R.M) // rows)


def norms(R: Regulariser, v: Array) -> Array:
    """Of every group."""
    assert R.group is not None and R.penalised is not None
    return np.asarray(R.group._norms(np.where(R.penalised_at, v, 0.0).reshape(R.penalised.shape))[0])
