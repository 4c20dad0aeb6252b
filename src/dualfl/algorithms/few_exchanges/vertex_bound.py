"""What a dual point of a piecewise linear loss proves where R has no curvature, whatever rounding leaves of its sums.

There R* is finite only on a face: v = Z'Sa must be 0 for a coefficient that is free, at most l1 in size for one with an
l1 penalty, and a dual point in floating point is always beside it. But another one is near that is on it exactly. Let
F be the coordinates that have to be moved, by d = v_F - w_F, and take room_i >= 0 at most the distance of a_i from its
bounds, and

    G = sum_i (s_i room_i)^2 z_i z_i',        a'_i = a_i - s_i room_i^2 z_iF' G_FF^-1 d.

Then v'_F = w_F, and by Cauchy and Schwarz |a'_i - a_i| <= room_i delta, delta = |d| in the norm of G_FF^-1: a' is in
its box if delta <= 1. Other coordinates move by at most sqrt(G_kk) delta. With u = b - Z theta for any theta, and
room_i |u_i| <= l_i - a_i u_i, of which comp is the mean,

    E*  >=  a'Sb - R*(v')  >=  a'Sb + (v' - v)'theta - delta comp - R*(v').

At a vertex as many samples are between their bounds as coefficients are not determined by R, so G_FF is regular, and
what is lost is comp and a residual, not a share of E. `self_concordance` has the rounding errors of such norms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dualfl.algorithms.few_exchanges import ball_bound
from dualfl.algorithms.few_exchanges.dependence import NONE
from dualfl.algorithms.few_exchanges.dual_bound import FEW, Doubt
from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.algorithms.few_exchanges.self_concordance import Curvature, gain
from dualfl.algorithms.few_exchanges.vertex_moves import Moved, Room, height
from dualfl.objectives.rounding import roundings
from dualfl.solvers.definite import solve
from dualfl.typing import Array

EDGE = 0.5  # of l1: a slope that large, where the coefficient is not 0, belongs on the edge
CLOSE = 1e-6  # of l1: as close to the edge as this, a slope is moved there anyway
APART = 1e-7  # of the diagonal of G, that a coordinate must have on its own to be moved


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def proven(
    R: Regulariser, m: Any, th: Array, doubt: Doubt, spread: float, centre: Array, copies: Array = NONE
) -> float:
    """The bound from the sums m of a dual point, at theta; -inf where it says nothing.

    G is that of the features x_k - centre_k x_D; `centre` is 0 unless the last coefficient is free. `copies` are
    columns that are others (see `dependence`): v_k = c v_l, so they follow.
    """
    if R.c.any():
        return -np.inf
    off = doubt.off(spread, m.v)
    room = Room.of(m, centre, doubt)
    if R.group is not None:
        return ball_bound.proven(R, m, th, off, room)
    must, w = followed(copies, *edges(R, m.v, off, th))
    may, slope = followed(copies, *slopes(R, m.v, off, th))
    alone = np.ones(len(th), dtype=bool)
    alone[copies[:, 0].astype(int)] = False
    best = moved_to(R, m, th, off, room, must, w, alone)
    if (may & ~must).any():
        order = np.argsort(-(np.abs(m.v - slope) + off) / room.h * (1 + 1e6 * must), kind="stable")
        F = independent(room.G, order[(may & alone)[order]])
        F = followed(copies, F | (may & ~alone), slope)[0]
        if F[must].all():
            best = max(best, moved_to(R, m, th, off, room, F, slope, alone))
    return best


def followed(copies: Array, F: Any, w: Array) -> tuple[Any, Array]:
    """With copies that go where their columns go; those whose columns are not moved are not either."""
    F, w = F.copy(), w.copy()
    for k, other, c in copies:
        if other >= 0:
            F[int(k)], w[int(k)] = F[int(k)] and F[int(other)], c * w[int(other)]
        else:
            w[int(k)] = 0.0
    return F, w


def independent(G: Array, order: Any) -> Any:
    """As many of these coordinates, in this order, as G tells apart."""
    h = np.sqrt(np.maximum(np.diag(G), 1e-300))
    S = G / np.outer(h, h)
    F = np.zeros(len(G), dtype=bool)
    least = APART
    while least < 1:
        F[:] = False
        F[pivots(S, order, least)] = True
        if not F.any() or np.linalg.eigvalsh(S[np.ix_(F, F)])[0] > APART:
            return F
        least *= 10  # an eigenvalue can be smaller than every pivot
    F[:] = False
    return F


def pivots(S: Array, order: Any, least: float) -> Any:
    """Those of these coordinates that have more than `least` beside the ones before them: Cholesky's method."""
    rest = S[np.ix_(order, order)].copy()
    kept = np.zeros(len(order), dtype=bool)
    for j in range(len(order)):
        kept[j] = rest[j, j] > least
        if kept[j]:
            column = rest[j + 1 :, j]
            rest[j + 1 :, j + 1 :] -= np.outer(column, column / rest[j, j])
    return order[kept]


def moved_to(R: Regulariser, m: Any, th: Array, off: Array, room: Room, F: Any, w: Array, alone: Any) -> float:
    """The bound of the dual point that has v_F = w_F.

    In two steps: y = G^-1 d as it is computed moves v by G y, of which the server knows all but errors; what they leave
    is moved as above, by a step of which only the length is known.
    """
    d, y, shift = np.where(F, m.v - w, 0.0), np.zeros(len(th)), np.zeros(len(th))
    delta, left = 0.0, np.zeros(len(th))
    move = F & alone
    if move.any():
        if room.centre.any() and not F[-1]:
            return -np.inf
        goal, doubt = room.pulled(d), off + np.abs(room.centre) * off[-1] + roundings(4) * np.abs(d)
        block = room.G[np.ix_(move, move)]
        y[move] = solve(block, goal[move])
        Gy, error = room.G @ y, room.doubtful(y)
        rest = (np.abs(goal - Gy) + error + doubt)[move]
        second = gain(Curvature(block, room.e[move], 0.0, 0.0), np.zeros(int(move.sum())), rest)
        first, more = (
            float(np.sqrt(max(float(y @ Gy), 0.0) + float(np.abs(y) @ error))),
            float(np.sqrt(second.decrement)),
        )
        delta, left = (first + more) * (1 + 1e-6), error + room.h * more * (1 + 1e-6)
        shift = Gy + room.centre * d[-1]
        left = left + np.abs(room.centre) * (off[-1] + roundings(4) * np.abs(d[-1]))
    if not delta < 1:
        return -np.inf
    return height(R, m, th, off, Moved(F, w, np.where(F, d, shift), np.where(F, off, left), delta, room.silos))


def slopes(R: Regulariser, v: Array, off: Array, th: Array) -> tuple[Any, Array]:
    """All coordinates where R has a slope at theta, and that slope: it saves what a little ridge makes of errors."""
    F, w = edges(R, v, off, th)
    P = R.P
    inside = (th > P.lo) & (th < P.hi) & ((th != 0) | (P.l1 == 0))
    return F | inside, np.where(inside, R.m * th + P.l1 * np.sign(th), w)


def edges(R: Regulariser, v: Array, off: Array, th: Array) -> tuple[Any, Array]:
    """The coordinates that have to be moved, and where to."""
    P, bare = R.P, R.m == 0
    sloped = bare & (P.l1 > 0)
    there = sloped & (((th != 0) & (np.abs(v) >= EDGE * P.l1)) | (np.abs(v) + off >= (1 - CLOSE) * P.l1))
    side = np.where((th != 0) & (np.abs(v) >= EDGE * P.l1), np.sign(th), np.sign(v))
    low = bare & np.isfinite(P.lo) & ~np.isfinite(P.hi) & (v + off + FEW * np.abs(v) > 0)
    high = bare & np.isfinite(P.hi) & ~np.isfinite(P.lo) & (v - off - FEW * np.abs(v) < 0)
    return R.flat | there | low | high, np.where(there, side * P.l1, 0.0)
