"""The lasso on all rows: coordinate descent on the columns that matter, and a proof that costs no pass of its own.

    E(w, b) = L(w, b) + l1 |w|_1,       L = sum_i s_i (x_i'w + b - y_i)^2/2,     sum_i s_i = 1

One pass over the rows gives L and its gradient g at a point. Columns with |g_k| > l1 want to move. The worst of them
join those that are not zero, the sums over this working set (`Design.block`) make a small lasso, and its solution is
the next point. The set has room for as many columns again as are not zero, so it grows fast and is never far too large.

Proof. The residuals of the point, times any 0 <= t <= 1, are a dual point, so for all (v, c)

    L(v, c)  >=  t (L - g'x) + t (1 - t) L + t (g_w'v + g_b c),

and E* >= t (L - g'x) + t (1 - t) L - t |g_b| B, if t |g_k| <= l1 for all columns and the best intercept is within B. It
is the mean of y - x'w, and l1 |w*|_1 <= E, so B = |y| + C E/l1 will do, with |y|^2 = sum_i s_i y_i^2 and C^2 the sum of
all squares. Rounding is that of `objectives.rounding`, with C for the size of every column: g may be off by K u P C,
which is nothing beside l1, and no pass over the rows is spent on being more exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dualfl.algorithms.cuts import below
from dualfl.algorithms.few_exchanges.dual_bound import FEW
from dualfl.engines.best import SMALLEST
from dualfl.engines.progress import Bar
from dualfl.estimators.account import Account, Found
from dualfl.estimators.solving import FitLimits
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.rounding import roundings
from dualfl.solvers.coordinate_descent import Separable, minimise_model
from dualfl.typing import Array

FIRST = 20  # columns of the first working set, at most
LARGEST = 2000  # columns of any
PASSES = 60
TIGHT = 1e-2  # of the tolerance, to which a small lasso is solved

Index = npt.NDArray[np.intp]


class Place(NamedTuple):
    """A point with what one pass over the rows tells of it."""

    x: Array
    loss: float
    g: Array
    spread: float  # P: the root of the weighted mean of the squared residuals


class Lasso:
    """One fit."""

    def __init__(self, f: LinearModel, l1: float, limits: FitLimits, silos: int, bar: Bar) -> None:
        self.f, self.l1, self.limits, self.bar, self.account = f, l1, limits, bar, Account(silos)
        self.held = np.full(f.d, l1)  # the l1 strength of each coefficient
        if f.free is not None:
            self.held[f.free] = 0.0
        self.K = roundings(f.n + f.d)
        squares = float(f.s @ f.design.row_norms2())
        self.C = float(np.sqrt(max(squares, 1.0))) * (1 + 2 * roundings(f.n + f.d))
        self.Y = float(np.sqrt(f.s @ f.y**2)) * (1 + roundings(f.n))

    def search(self) -> Found | None:
        """The fit with its proof; None where rounding stands against it, or too many columns matter."""
        place = self.at(np.zeros(self.f.d))
        for _ in range(min(PASSES, self.limits.rounds)):
            energy = place.loss + self.penalty(place.x)
            gap, off = self.gap(place, energy)
            if gap <= self.limits.tol * self.limits.scale(energy):
                return Found(place.x, energy, off, gap)
            self.bar.update(self.account.note(energy))
            chosen = self.chosen(place)
            if len(chosen) > LARGEST or not np.isfinite(energy):
                return None
            self.account.exchange(len(chosen) * (len(chosen) + 1) // 2 + self.f.d + 2, self.f.d)
            place = self.at(self.solved(place, chosen))
        return None

    def at(self, x: Array) -> Place:
        f = self.f
        loss, G, Z = f.design.value_gradient(x[:, None], f.loss, f.y, f.s)
        return Place(x, loss, G[:, 0], float(np.sqrt(f.s @ np.square(Z[:, 0] - f.y))))

    def penalty(self, x: Array) -> float:
        return float(self.held @ np.abs(x))

    def chosen(self, place: Place) -> Index:
        """The working set: what is not zero, and as many again, or a few, of what wants to move most."""
        size = np.abs(place.g)
        kept = (place.x != 0) | (self.held == 0)
        wants = np.flatnonzero(~kept & (size > self.held))
        room = max(FIRST, int(kept.sum()))
        if len(wants) > room:
            wants = wants[np.argpartition(-size[wants], room)[:room]]
        kept[wants] = True
        return np.flatnonzero(kept)

    def solved(self, place: Place, chosen: Index) -> Array:
        """The minimiser over these columns."""
        Q, x, g = self.f.design.block(self.f.s, chosen), place.x[chosen], place.g[chosen]
        infinite = np.full(len(chosen), np.inf)
        P = Separable(self.held[chosen], np.zeros(len(chosen)), -infinite, infinite)
        goal = TIGHT * self.limits.tol * float(np.linalg.norm(P.steepest(x, g)))
        z = place.x.copy()
        z[chosen] = minimise_model(Q, Q @ x - g, P, x, goal)
        return z

    def gap(self, place: Place, energy: float) -> tuple[float, float]:
        """What E is above E* at most, rounding included, and how far off E may be."""
        x, L, g, P = place
        d, free = len(x), self.held == 0
        length, off_g = float(np.abs(x).sum()), self.K * P * self.C
        off = self.K * (L + P * self.C * length) + (self.K * self.C * length) ** 2 / 2
        sizes = float(np.abs(g) @ np.abs(x)) + L
        conjugate = float(g @ x) - L + off + off_g * length + roundings(d) * sizes
        steepest = float(np.abs(g[~free]).max(initial=0.0)) + off_g
        least = max(L - off, 0.0)
        t = min(1.0, self.l1 / steepest * (1 - FEW)) if steepest > 0 else 1.0
        t = min(t, max((least - conjugate) / (2 * least), 0.0)) if least > 0 else t  # the best one, if it is less
        width = (self.Y + self.C * (energy + off) / self.l1) * (1 + FEW)
        price = (float(np.abs(g[free]).sum()) + off_g) * width if free.any() else 0.0
        height = -t * conjugate + t * (1 - t) * least - t * price
        bound = below(height, t * (abs(conjugate) + least + price), 8)
        off += roundings(d) * (energy + L)
        return max(energy + off - bound, off, SMALLEST), off
