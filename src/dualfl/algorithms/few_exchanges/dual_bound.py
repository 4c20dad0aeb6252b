"""Lower bounds of E* = min loss + R from dual points of the losses, whatever was rounded on the way.

A dual point a of the losses with its sums ab and v (regulariser.py) proves  E* >= ab - R*(v). What the server has of v
is off by rounding, coordinate by coordinate by at most `off`, so it takes

    E*  >=  ab - max of R*(v') over |v' - v| <= off.

R* is convex and a sum over coordinates (or groups), so the maximum is at an end of every interval (for a group: at the
largest norm). Where R has no curvature R* is finite only if |v_k| + off_k <= l1, so a dual point on the edge of that
domain, as that of a minimiser is, has to be scaled down by a hair: s a is a dual point for 0 <= s <= 1.

A free intercept b allows no v_k at all but 0, and rounding never leaves 0. But loss(y) >= ab - v'y, so a dual point
with v_k <= 0 for certain is good for all y with b >= 0, and one with v_k >= 0 for certain for b <= 0: two dual points
that differ by a few roundings, and the lower of their bounds.

`off` for sums over rows is  K u P c_k  as in `objectives.rounding`: clients send c_k^2 once and (K u P)^2 with a dual
point, and by Cauchy and Schwarz the means of these two bound the mean of their product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl.algorithms.cuts import below
from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.objectives.rounding import UNIT, of_mean, roundings
from dualfl.typing import Array

FEW = 8 * UNIT
LEAN, BALANCED = 5, 16  # roundings; balancing a free intercept costs up to ten of them
MEAN = 64  # roundings of a mean over silos, for what is not known to be exact


@dataclass(frozen=True)
class Doubt:
    """What the server knows of the rounding errors of sums over rows."""

    sizes2: Array  # mean of c_k^2
    grid: float  # of what travels
    silos: int

    def off(self, spread: float, v: Array, more: Array | float = 0.0) -> Array:
        """How far off v may be, coordinate by coordinate; `more`: sizes of what was added to it besides."""
        own = np.sqrt(max(float(spread), 0.0) * np.maximum(self.sizes2, 0.0)) + self.grid
        return np.asarray(of_mean(self.silos) * own * (1 + 1e-6) + FEW * (np.abs(v) + more))


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def conjugate_above(R: Regulariser, v: Array, off: Array) -> float:
    """The largest R*(v') for |v' - v| <= off, from above."""
    w, off = v + R.c, off + FEW * (np.abs(v) + np.abs(R.c))
    if R.group is not None:
        return _groups_above(R, w, off)
    # elsewhere the maximum is at z = 0; of a million coordinates with an l1 penalty that leaves the few that are not 0
    beyond = np.flatnonzero((np.abs(w) + off > R.P.l1) | (R.P.lo > 0) | (R.P.hi < 0))
    m, l1, lo, hi = (part[beyond] for part in (R.m, R.P.l1, R.P.lo, R.P.hi))
    values, size = [], 0.0
    for end in (w[beyond] + off[beyond], w[beyond] - off[beyond]):
        rest = np.sign(end) * np.maximum(np.abs(end) - l1, 0.0)
        z = np.clip(np.where(rest != 0, rest / m, 0.0), lo, hi)
        if not np.isfinite(z).all():
            return np.inf
        parts = end * z, m * z * z / 2, l1 * np.abs(z)
        values.append(parts[0] - parts[1] - parts[2])
        size = max(size, float(sum(np.abs(part).sum() for part in parts)))
    return float(np.maximum(*values).sum()) + roundings(len(w) + MEAN) * size


def _groups_above(R: Regulariser, w: Array, off: Array) -> float:
    """R*(w) = sum_G max(|w_G| - alpha, 0)^2/(2 m); coordinates outside of all groups are free."""
    assert R.group is not None and R.penalised is not None
    inside, shape = R.penalised_at, R.penalised.shape
    norms = sum(R.group._norms(np.where(inside, part, 0.0).reshape(shape))[0] for part in (w, off))
    beyond = np.maximum(norms * (1 + roundings(len(w) + MEAN)) - R.group.alpha, 0.0)
    m = float(R.m[inside].min(initial=np.inf))
    if m == 0 and (beyond > 0).any():
        return np.inf
    grouped = float(beyond @ beyond) / (2 * m) if m > 0 else 0.0
    free = (np.abs(w) + off)[~inside]
    if ((R.m[~inside] == 0) & (free > 0)).any():
        return np.inf
    outside = float(np.sum(np.where(free > 0, free**2 / (2 * R.m[~inside]), 0.0)))
    return (grouped + outside) * (1 + roundings(len(w) + MEAN))


def largest_scale(R: Regulariser, v: Array, off: Array) -> float:
    """The largest s in [0, 1] for which R* is surely finite at s v, for c = 0; 0 if there is none."""
    if conjugate_above(R, v, off) < np.inf:
        return 1.0
    reach = np.abs(v) + off + FEW * np.abs(v)
    if R.group is not None:
        assert R.penalised is not None
        inside = R.penalised_at
        if ((R.m == 0) & ~inside & (reach > 0)).any():
            return 0.0
        parts = [np.where(inside, part, 0.0).reshape(R.penalised.shape) for part in (v, off + FEW * np.abs(v))]
        norm = float(np.max(R.group._norms(parts[0])[0] + R.group._norms(parts[1])[0]))
        return min(1.0, R.group.alpha / (norm * (1 + roundings(len(v)))))
    P = R.P
    up = (R.m == 0) & ~np.isfinite(P.hi) & (v + off > P.l1)
    down = (R.m == 0) & ~np.isfinite(P.lo) & (v - off < -P.l1)
    room = np.where(up | down, P.l1 / np.maximum(reach, 1e-300), 1.0)
    return float(min(1.0, room.min())) * (1 - FEW)


def lower_bound(R: Regulariser, ab: float, v: Array, off: Array) -> float:
    """The best of  s ab - R*(s v)  over 0 <= s <= 1: a lower bound of E* whatever s is."""
    if R.c.any():
        return at_scale(R, ab, v, off, 1.0)
    high = largest_scale(R, v, off)

    def slope(s: float) -> float:
        return ab - float(v @ R._dual(s * v)[1])

    if slope(high) < 0:
        low = 0.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) > 0 else (low, middle)
        high = low
    return max(at_scale(R, ab, v, off, high), at_scale(R, ab, v, off, 0.0))


def at_scale(R: Regulariser, ab: float, v: Array, off: Array, s: float) -> float:
    value = s * ab - conjugate_above(R, s * v, s * off)
    return below(value, s * abs(ab) + abs(value), 4) if np.isfinite(value) else -np.inf


def leaning(R: Regulariser, x: Array, off: Array, outputs: int = 1) -> Array:
    """The gradient of the losses that a step from x should aim at, beyond what R asks for, so that it proves something.

    Where R is flat and bounded on one side only, R* is finite on one side of 0, and 0 is where a minimiser leads. Where
    it has an l1 or a group penalty and no ridge, a minimiser leads to the edge of a box or a ball outside of which R*
    is infinite. A slope of a few roundings to the right side costs as little. The outputs of a softmax can all move
    together, at no cost: there a bound on one side binds nothing, and a slope to that side would lead to infinity.
    """
    P, flat, lean = R.P, R.m == 0, BALANCED if R.flat.any() else LEAN
    if R.group is not None:
        assert R.penalised is not None
        grouped = np.where(R.penalised_at & flat, x, 0.0).reshape(R.penalised.shape)
        wide = (-1, *(1,) * (grouped.ndim - 1))
        norms, errors = (R.group._norms(part)[1].reshape(wide) for part in (grouped, off.reshape(grouped.shape)))
        return np.asarray(lean * errors * grouped / np.where(norms > 0, norms, 1.0)).ravel()
    low, high = np.isfinite(P.lo), np.isfinite(P.hi)
    one_sided = np.where(low & ~high, 1.0, np.where(high & ~low, -1.0, 0.0)) if outputs == 1 else 0.0
    side = np.where(P.l1 > 0, np.sign(x), one_sided)
    return np.asarray(np.where(flat, side * lean * off, 0.0))


# -- a free intercept ------------------------------------------------------------------------------------


def tipped(plus: float, minus: float, off: float) -> list[tuple[float, float]]:
    """Scales (up, down) of the terms of either sign of v_k = plus - minus: once v_k <= 0 for certain, once v_k >= 0;
    none if rounding may have made up the smaller sum."""
    tip = 4 * off + FEW * (plus + minus)  # plus is off by `off` at most, and minus, a difference, by twice that
    if not min(plus, minus) > tip:
        return []
    up, down = min(1.0, minus / plus), min(1.0, plus / minus)
    return [(max(up - tip / plus, 0.0), down), (up, max(down - tip / minus, 0.0))]
