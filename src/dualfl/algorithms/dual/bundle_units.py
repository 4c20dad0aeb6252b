"""The coordinates in which a bundle works, and what its cuts prove there.

z has the ridge 1 wherever there is one, and elsewhere columns of size 1; beside an intercept without a ridge columns
are centred (`coordinates`). On (X T, T'MT) and on (X, M), M the ridge and T diagonal or a shift, cuts are the same.

Cuts. A point was chosen as z, and E measured at x, what rounding made of the theta that belongs to z. With delta the
difference of the two a cut at x is one at z that is too high by at most

    |<E'(x), delta>| + |delta|_M |y - z|.

An intercept without a ridge. Cuts k with weights b_k prove E(y) >= q(y), whose slope in the intercept, sum_k b_k r_k,
is never quite 0, so that q has no minimum. Take two sets of weights, one with a slope > 0 and one with a slope < 0,
both by more than errors can be, and any intercept b0. Where y's is above b0 the first proves at least q(y with b0), and
where it is below the second does. A set that leans to the wrong side gets a little of the cut that costs least.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dualfl.algorithms.coordinates import CANCELLED, Coordinates
from dualfl.algorithms.cuts import Cut, mean_cut, proven
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalised
from dualfl.objectives.rounding import UNIT, roundings
from dualfl.solvers.row_view import rows_of
from dualfl.typing import Array

SURE = 2.0**-40  # of a ridge: what is less is rounding of its mean over clients


@dataclass(frozen=True)
class Units:
    """theta = scale z, less the centres for the last one; ridge is 1 where z has one, and 0 elsewhere."""

    scale: Array
    centre: Array
    ridge: Array

    @cached_property
    def map(self) -> Coordinates:
        return Coordinates(self.scale, self.centre)

    @staticmethod
    def chosen(M: Array, own: Array, cross: Array, grid: float) -> Units:
        """From the ridge, and of the columns their second moments and their products with the last one."""
        sure = (1 - SURE) * M - 2 * grid
        ridge, centre = (sure > 0).astype(float), np.zeros(len(M))
        if not ridge[-1] and cross[-1] > 0:
            centre[:-1] = cross[:-1] / cross[-1]
        data = np.maximum(own - centre**2 * cross[-1], CANCELLED * own)
        size = np.where(ridge > 0, sure, data)
        return Units(1 / np.sqrt(np.where(size > 0, size, 1.0)), centre, ridge)

    def to(self, Z: Array) -> Array:
        """The thetas of the rows of Z."""
        return np.ascontiguousarray(self.map.to(Z.T).T)

    def pull(self, g: Array) -> Array:
        """The slope in z from that in theta."""
        return self.map.pull(g[:, None])[:, 0]

    def length(self, e: Array) -> float:
        """How long, in z, a slope is whose coordinates in theta are at most e."""
        return float(np.linalg.norm(self.scale * (e + np.abs(self.centre) * e[-1])))

    def cut(self, z: Array, E: float, g: Array, off: float, off_g: float, silos: int) -> Cut:
        """The cut at z of what so many silos measured at its theta."""
        x = np.abs(self.to(z[None])[0])
        delta = 2 * UNIT * x
        delta[-1] += roundings(len(z)) * float(np.abs(self.centre) @ x)
        lost = float(np.abs(g) @ delta)
        turned = float(np.linalg.norm(self.ridge * delta / self.scale)) + 4 * UNIT * self.length(np.abs(g))
        return mean_cut(z, E, self.pull(g), off + 2 * lost, off_g + 2 * turned, silos)


def columns(f: Objective, g: Array, least: int) -> tuple[Array, Array]:
    """Second moments of the columns, and their products with the last one if that is an intercept.

    A client with fewer rows than `least` has its slope g stand for them, which it sends anyway.
    """
    rows = rows_of(f.smooth_part if isinstance(f, Penalised) else f)
    if rows is None:
        return np.ones(f.d), np.zeros(f.d)
    model, one = rows.model, rows.model.k == 1 and rows.model.design.intercept
    if model.n < least:
        return g * g, g * g[-1] if one else np.zeros(f.d)
    own = np.repeat(model.column_sizes**2, model.k)
    return own, model.design.backward(model.s[:, None])[:, 0] if one else np.zeros(f.d)


def lower_bound(
    units: Units, Z: Array, S: Array, E: Array, off: Array, off_g: Array, beta: Array, target: Array
) -> float:
    """What cuts prove of E* with these weights."""
    cuts = [Cut(*one) for one in zip(Z, E, S, off, off_g)]
    free = np.flatnonzero(units.ridge == 0)
    if not len(free):
        return proven(1.0, cuts, beta)
    if len(free) > 1:
        return -np.inf
    (k,) = free
    steps = target - Z
    heights = E + np.einsum("ij,ij->i", S, steps) + np.einsum("ij,ij->i", steps, units.ridge * steps) / 2
    reduced = [without(cut, k, float(target[k])) for cut in cuts]
    bounds = []
    for side in (1.0, -1.0):
        surely = side * S[:, k] - 2 * off_g - 2 * roundings(len(E)) * np.abs(S[:, k])
        weights = leaning(beta, surely, heights)
        bounds.append(-np.inf if weights is None else proven(1.0, reduced, weights))
    return min(bounds)


def leaning(beta: Array, surely: Array, heights: Array) -> Array | None:
    """Weights near beta whose slope, of which each cut has at least `surely`, is above 0; None if there are none."""
    now = float(beta @ surely)
    if now > 0:
        return beta
    able = surely > 0
    if not able.any():
        return None
    share = np.where(able, -now / np.where(able, surely - now, 1.0), 1.0) * (1 + 1e-9)
    j = int(np.argmin(np.where(able, share * (float(beta @ heights) - heights), np.inf)))
    weights = (1 - min(share[j], 1.0)) * beta
    weights[j] += min(share[j], 1.0)
    return weights


def without(cut: Cut, k: int, at: float) -> Cut:
    """The same in all other coordinates, where coordinate k is `at`."""
    x, E, g, off, off_g = cut
    step = at - float(x[k])
    lost = off_g * abs(step) + 4 * UNIT * (abs(E) + abs(float(g[k])) * (abs(step) + abs(float(x[k]))))
    return Cut(np.delete(x, k), E + float(g[k]) * step, np.delete(g, k), off + lost, off_g)
