"""Dual points of piecewise linear losses that are moved, and what they prove then; why, is told in `vertex_bound`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualfl.algorithms.cuts import below
from dualfl.algorithms.few_exchanges.dual_bound import FEW, Doubt, conjugate_above
from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.algorithms.packing import symmetric
from dualfl.objectives.rounding import of_mean, roundings
from dualfl.typing import Array


class Room(NamedTuple):
    """G, the roots of its diagonal, what its entries may be off (see `self_concordance`), and its centre."""

    G: Array
    h: Array
    e: Array
    centre: Array
    grid: float
    silos: int

    @staticmethod
    def of(m: Any, centre: Array, doubt: Doubt) -> Room:
        G = symmetric(m.room, len(m.v))
        e = np.sqrt(float(m.rough) * (np.maximum(m.own_room, 0.0) + doubt.grid))
        e = of_mean(doubt.silos) * (e + np.abs(centre) * e[-1]) * (1 + 1e-6)
        if doubt.grid:  # each entry is off by the grid, too
            e = e + doubt.grid * len(e) / np.sqrt(np.maximum(np.diag(G), 1e-300))
        return Room(G, np.sqrt(np.maximum(np.diag(G), 1e-300)), e, centre, doubt.grid, doubt.silos)

    def pulled(self, d: Array) -> Array:
        """Sums of the centred features."""
        return np.asarray(d - self.centre * d[-1])

    def doubtful(self, y: Array) -> Array:
        """How far off G y may be."""
        size = np.abs(y)
        along, doubt = float(self.h @ size), float(self.e @ size)
        return np.asarray(self.e * along + self.h * doubt + self.e * doubt + roundings(len(y)) * self.h * along)


class Moved(NamedTuple):
    """A dual point that was moved: v_F is w_F, and v elsewhere by `by`, give or take `left`."""

    F: Any
    w: Array
    by: Array
    left: Array
    delta: float
    silos: int


def height(R: Regulariser, m: Any, th: Array, off: Array, to: Moved) -> float:
    """a'Sb + (v' - v)'theta - delta comp - R*(v'), from below."""
    F, w, size = to.F, to.w, np.abs(th)
    exact = F & (R.m > 0)  # where R is flat R* is 0 on its edges, and at an end of a box w times it
    v = np.where(exact, w, np.where(F, 0.0, m.v - to.by))
    price = conjugate_above(R, v, np.where(F, 0.0, off + to.left + FEW * (np.abs(m.v) + np.abs(to.by))))
    ends = np.where(w > 0, R.P.hi, R.P.lo)
    flat = F & ~exact & np.isfinite(ends) & (w != 0)
    held = float(np.sum(w[flat] * ends[flat]))
    ab = float(m.ab) - roundings(to.silos) * abs(float(m.ab))
    lost = to.delta * (float(m.comp) * (1 + 1e-6) + roundings(len(th)) * (abs(ab) + float(np.abs(m.v) @ size)))
    lost += float(to.left @ size)
    top = ab - float(to.by @ th) - held
    sizes = abs(ab) + float(np.abs(to.by) @ size) + abs(held) + abs(price)
    return below(top - price - lost, sizes + lost, len(th) + 8)
