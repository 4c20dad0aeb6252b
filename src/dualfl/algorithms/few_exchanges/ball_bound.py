"""What a dual point of a piecewise linear loss proves where R is a group penalty, with little ridge or none.

There R* is finite only inside of balls: |v_G| <= alpha for every group, and v_k = 0 for a free intercept. The dual
point of a minimiser is on the sphere of every group that is not zero, and in floating point a little outside. Scaling
all of it down costs that part of E. Moving it towards the centres costs next to nothing: as in `vertex_bound`, samples
that are between their bounds can be moved by y,

    a'_i = a_i - s_i room_i^2 z_i'y,      v' = v - G y,      |a'_i - a_i| <= room_i delta,   delta^2 = y'G y,

and y needs no more directions than there are groups: K y with one column v_G/|v_G| a group, so that K'G K is regular
with fewer samples between their bounds than coefficients, as it is here, where the penalty is round. Where there are
enough of them, v_G can be turned to theta_G as well, which saves alpha |theta_G| (1 - cos). The balls have an inside,
so v' is aimed at a point as far inside as rounding may be off; the intercept's v_k = 0 is reached exactly, as there. A
ridge m makes R* finite everywhere, but steep, and v_G belongs at alpha + m |theta_G|.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.algorithms.few_exchanges.self_concordance import Curvature, gain
from dualfl.algorithms.few_exchanges.vertex_moves import Moved, Room, height
from dualfl.objectives.rounding import roundings
from dualfl.solvers.definite import solve
from dualfl.typing import Array

EDGE, CLOSE = 0.5, 1e-6  # of alpha: as in `vertex_bound`
TIMES = 4  # how far inside is known only after the move, so it is made a few times

Aims = Callable[[Regulariser, Array, Array, Array], tuple[Any, Array]]


def proven(R: Regulariser, m: Any, th: Array, off: Array, room: Room) -> float:
    """The best bound of dual points that were moved into the balls; -inf if none could be."""
    if room.centre.any() and not R.flat[-1]:
        return -np.inf
    return max(moved_inside(R, m, th, off, room, aims) for aims in (towards_centres, towards_theta))


def moved_inside(R: Regulariser, m: Any, th: Array, off: Array, room: Room, aims: Aims) -> float:
    """The same for one kind of move."""
    free, best = R.flat, -np.inf
    doubt = off + np.abs(room.centre) * off[-1] + roundings(4) * np.abs(m.v)
    v, left = room.pulled(m.v), doubt
    for _ in range(TIMES):
        K, goal = aims(R, v, th, left)
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


def radius(R: Regulariser, th: Array, left: Array) -> Array:
    """How long v_G should be: as the slope of R at theta, and inside for certain, whatever it is off by."""
    assert R.group is not None
    ridge = float(R.m[R.penalised_at].min(initial=np.inf))
    return R.group.alpha * (1 - 2 * roundings(len(th) + 64)) - norms(R, left) + ridge * norms(R, th)


def to_be_moved(R: Regulariser, v: Array, th: Array, left: Array) -> Any:
    """Groups that may be outside, or belong on their sphere, because they are not zero."""
    assert R.group is not None
    size = norms(R, v)
    there = (norms(R, th) > 0) & (size >= EDGE * R.group.alpha)
    return (size > 0) & (there | (size > (1 - CLOSE) * radius(R, th, left)))


def towards_centres(R: Regulariser, v: Array, th: Array, left: Array) -> tuple[Any, Array]:
    """A direction for every group, and the free coordinates, as columns; and how far v is to be moved in them."""
    size, label = norms(R, v), labels(R)
    out = np.flatnonzero(to_be_moved(R, v, th, left))
    place = np.full(len(size), -1)
    place[out] = np.arange(len(out))
    rows, free = np.flatnonzero(R.penalised_at & (place[label] >= 0)), np.flatnonzero(R.flat)
    data = np.append(v[rows] / size[label[rows]], np.ones(len(free)))
    columns = np.append(place[label[rows]], len(out) + np.arange(len(free)))
    K = sparse.csc_array((data, (np.append(rows, free), columns)), shape=(len(v), len(out) + len(free)))
    return K, np.append((size - radius(R, th, left))[out], v[free])


def towards_theta(R: Regulariser, v: Array, th: Array, left: Array) -> tuple[Any, Array]:
    """All coordinates of these groups, and the free ones."""
    label, like = labels(R), np.where(norms(R, th)[labels(R)] > 0, th, v)
    size = norms(R, like)[label]
    w = np.maximum(radius(R, th, left), 0.0)[label] * like / np.where(size > 0, size, 1.0)
    rows = np.flatnonzero((R.penalised_at & to_be_moved(R, v, th, left)[label]) | R.flat)
    K = sparse.csc_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(len(v), len(rows)))
    return K, np.where(R.flat, v, v - w)[rows]


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
