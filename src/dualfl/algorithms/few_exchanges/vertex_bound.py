"""What a dual point of a piecewise linear loss proves where R has no curvature, whatever rounding leaves of its sums.

There R* is finite only on a face: v = Z'Sa must be 0 for a coefficient that is free, at most l1 in size for one with an
l1 penalty, and a dual point in floating point is always beside it. But another one is near that is on it exactly. Let
F be the coordinates that have to be moved, by d = v_F - w_F, and take room_i >= 0 at most the distance of a_i from its
bounds, and

    G = sum_i (s_i room_i)^2 z_i z_i',        a'_i = a_i - s_i room_i^2 z_iF' G_FF^-1 d.

Then v'_F = w_F, and by Cauchy and Schwarz |a'_i - a_i| <= room_i delta, delta = |d| in the norm of G_FF^-1: a' is in its
box if delta <= 1. Other coordinates move by at most sqrt(G_kk) delta. With u = b - Z theta for any theta, and
room_i |u_i| <= l_i - a_i u_i, of which comp is the mean,

    E*  >=  a'Sb - R*(v')  >=  a'Sb + (v' - v)'theta - delta comp - R*(v').

At a vertex as many samples are between their bounds as coefficients are not determined by R, so G_FF is regular, and
what is lost is comp and a residual, not a share of E. `self_concordance` has the rounding errors of such norms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dualfl.algorithms.cuts import below
from dualfl.algorithms.few_exchanges.dual_bound import FEW, Doubt, conjugate_above
from dualfl.algorithms.few_exchanges.packing import symmetric
from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.algorithms.few_exchanges.self_concordance import Curvature, gain
from dualfl.objectives.rounding import of_mean, roundings
from dualfl.typing import Array

EDGE = 0.5  # of l1: a slope that large, where the coefficient is not 0, belongs on the edge
CLOSE = 1e-6  # of l1: as close to the edge as this, a slope is moved there anyway


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def proven(R: Regulariser, m: Any, th: Array, doubt: Doubt, spread: float) -> float:
    """The bound from the sums m of a dual point, at theta; -inf where it says nothing."""
    if R.group is not None or R.c.any():
        return -np.inf
    off = doubt.off(spread, m.v)
    F, w = faces(R, m.v, off, th)
    d, many = np.where(F, m.v - w, 0.0), of_mean(doubt.silos)
    G = symmetric(m.room, len(th))
    delta = 0.0
    if F.any():
        error = many * np.sqrt(np.maximum(m.own_room, 0.0)) * (1 + 1e-6)
        block = Curvature(G[np.ix_(F, F)], error[F] + doubt.grid, 0.0, 0.0)
        delta = float(np.sqrt(gain(block, d[F], off[F]).decrement))
    if not delta < 1:
        return -np.inf
    moved = np.where(F, 0.0, np.sqrt(np.maximum(np.diag(G), 0.0)) * delta * (1 + 1e-6))
    price = conjugate_above(R, np.where(F, 0.0, m.v), np.where(F, 0.0, off + moved))
    ends = np.where(w > 0, R.P.hi, R.P.lo)
    held = float(
        np.sum(np.where(F & np.isfinite(ends) & (R.P.l1 == 0), w * np.where(np.isfinite(ends), ends, 0.0), 0.0))
    )
    size = np.abs(th)
    ab = float(m.ab) - roundings(doubt.silos) * abs(float(m.ab))
    lost = delta * (float(m.comp) * (1 + 1e-6) + roundings(len(th)) * (abs(ab) + float(np.abs(m.v) @ size)))
    lost += float(np.where(F, off, moved) @ size)
    height = ab - float(d @ th) - held
    sizes = abs(ab) + float(np.abs(d) @ size) + abs(held) + abs(price)
    return below(height - price - lost, sizes + lost, len(th) + 8)


def faces(R: Regulariser, v: Array, off: Array, th: Array) -> tuple[Any, Array]:
    """Which coordinates have to be moved, and where to."""
    P, bare = R.P, R.m == 0
    sloped = bare & (P.l1 > 0)
    there = sloped & (((th != 0) & (np.abs(v) >= EDGE * P.l1)) | (np.abs(v) + off >= (1 - CLOSE) * P.l1))
    side = np.where((th != 0) & (np.abs(v) >= EDGE * P.l1), np.sign(th), np.sign(v))
    low = bare & np.isfinite(P.lo) & ~np.isfinite(P.hi) & (v + off + FEW * np.abs(v) > 0)
    high = bare & np.isfinite(P.hi) & ~np.isfinite(P.lo) & (v - off - FEW * np.abs(v) < 0)
    return R.flat | there | low | high, np.where(there, side * P.l1, 0.0)
