"""A lower bound of E* where the intercept is free: what two cuts prove together.

Let F be the mean loss and G_i, i = 1, 2, its gradients at two points. Convexity gives, for t in [0, 1],

    F(w, b)  >=  a + <G, (w, b)>,      a = sum_i t_i (F_i - <G_i, theta_i>),   G = sum_i t_i G_i,   t_1 + t_2 = 1.

A free intercept b has no curvature, so this says something only if the part of G that belongs to b is zero. Then

    E*  >=  a + min over w of <G_w, w> + (ridge/2)|w|^2 + l1 |w|_1.

At a minimiser one cut is enough. Near it, where G_b is not quite zero, the two are chosen so that theirs cancel:

* one output: at b + delta and b - delta. A small delta costs the bound delta^2; it must be larger than the error of b.
* softmax: at theta and at w = 0, where b may be log q for any distribution q, and G_b = q - p with the shares p of the
  classes. For G_b = r at theta the remedy is q = p - r (1 - t)/t, and t the least that keeps q positive.

Without an intercept one cut is all. Without a ridge, <G_w, w> + l1 |w|_1 is bounded below only if |G_w| <= l1; a third cut, F >= its least value row by row,
scales G down to that.

Rounding. A cut is off by at most off + <off_G, |y - theta|> (`objectives.rounding`): the part of theta is taken off its
height, the part of w is added to |G_w|. G_b never cancels for certain. One output: t is chosen twice, once with
G_b >= 0 for certain, which is good for all b >= 0, and once with G_b <= 0, for b <= 0; the lower bound counts. Softmax:
what is left of G_b, at most `left`, would be removed by a further cut at w = 0 of the weight 2 max(left/p). It exists,
and only what any such cut has is used: its height, an entropy, is not negative, and |G_w| is at most the columns' size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualfl.algorithms.cuts import below
from dualfl.algorithms.few_exchanges.dual_bound import FEW
from dualfl.objectives import L1, LinearModel, Loss, Softmax
from dualfl.objectives.average import Average
from dualfl.problem import Problem
from dualfl.typing import Array

STEPS = (1e-8, 1e-6, 1e-4)  # delta, relative to the intercept; the least that encloses the minimum counts


class Cut(NamedTuple):
    """F(y) >= height + <G, y> - <off, |y|>."""

    height: float
    G: Array
    off: Array

    def mixed(self, t: float, other: Cut) -> Cut:
        """(1 - t) of this one and t of the other."""
        parts = zip(((1 - t), t), (self, other))
        height = sum(w * (cut.height - FEW * abs(cut.height)) for w, cut in parts)
        G = (1 - t) * self.G + t * other.G
        off = (1 - t) * (self.off + FEW * np.abs(self.G)) + t * (other.off + FEW * np.abs(other.G))
        return Cut(float(height), G, np.asarray(off))


class FreeIntercept:
    """Bounds E* of one problem; counts the exchanges it takes, and the floats of all clients."""

    def __init__(self, problem: Problem) -> None:
        f: Any = problem.clients[0]
        self.ridge, self.loss = f.ridge, f.loss
        self.free = np.zeros(f.d, dtype=bool) if f.free is None else f.free
        self.l1 = problem.penalty.alpha if isinstance(problem.penalty, L1) else 0.0
        self.k = f.k
        # the loss alone, without the ridge
        bare = [_without_ridge(client) for client in problem.clients]
        self.F = Average(bare, problem.weights)
        self.N = len(bare)
        self.exchanges = self.floats_up = self.floats_down = 0

    def _count(self, exchanges: int, up: int, down: int) -> None:
        """Numbers that one client sends and gets."""
        self.exchanges += exchanges
        self.floats_up += self.N * up
        self.floats_down += self.N * down

    @staticmethod
    def applies(problem: Problem) -> bool:
        f = problem.clients[0]
        penalised = isinstance(f, LinearModel) and (f.ridge > 0 or problem.penalty is not None)
        return penalised and f.smooth and f.free is not None

    def bound(self, theta: Array) -> float:
        """A lower bound of E* from cuts near theta; -inf where they do not cancel."""
        if not self.free.any():
            cuts = [self.cut(theta)]
        else:
            cuts = self._softmax_cuts(theta) if isinstance(self.loss, Softmax) else self._shifted_cuts(theta)
        return min((self._least(cut) for cut in cuts), default=-np.inf)

    def _least(self, cut: Cut) -> float:
        """The minimum over w of a cut that does not depend on b, with the ridge and the l1 penalty, from below."""
        G, height = (np.abs(cut.G) + cut.off)[~self.free], cut.height
        if not (np.isfinite(height) and np.isfinite(G).all()):
            return -np.inf
        if self.ridge > 0:
            beyond = np.maximum(G - self.l1 * (1 - FEW), 0.0)
            price = float(beyond @ beyond) / (2 * self.ridge)
            return below(height - price, abs(height) + price, len(G))
        steepest = float(G.max(initial=0.0))
        s = min(1.0, self.l1 / steepest * (1 - FEW)) if steepest > 0 else 1.0
        least = self._row_by_row()
        return below(s * height + (1 - s) * least, abs(height) + abs(least), 8)

    def _row_by_row(self) -> float:
        """What no F is below: the least loss of every row, -l*(0). 0, but for counts and amounts."""
        if self.loss.nonnegative:
            return 0.0
        self._count(1, 1, 0)
        parts: Any = self.F.parts
        least = [-float(f.s @ self.loss.conjugate(np.zeros(f.n), f.y)) for f in parts]
        sizes = [float(f.s @ _sizes(self.loss, f.y)) for f in parts]
        many = max(f.n for f in parts) + len(parts)
        return below(float(np.dot(self.F.weights, least)), float(np.dot(self.F.weights, sizes)), many)

    def cut(self, theta: Array) -> Cut:
        value, G = self.F.value_gradient(theta)
        off = self.F.rounding(theta)
        size = np.abs(theta)
        height = value - float(G @ theta) - off.value - float(off.gradient @ size)
        return Cut(below(height, abs(value) + float(np.abs(G) @ size), len(theta)), G, off.gradient)

    def _shifted_cuts(self, theta: Array) -> list[Cut]:
        d = len(theta)
        self._count(1, 2 * len(STEPS) * (d + 3), d)  # all shifts are asked for at once
        for step in STEPS:
            delta = step * (1 + abs(float(theta[self.free][0])))
            low, high = (self.cut(theta + np.where(self.free, shift, 0.0)) for shift in (-delta, delta))
            left, right = float(low.G[self.free][0]), float(high.G[self.free][0])
            doubt = float(max(cut.off[self.free][0] for cut in (low, high))) + FEW * (abs(left) + abs(right))
            if left < -2 * doubt and right > 2 * doubt:
                width = right - left
                return [low.mixed((side * 2 * doubt - left) / width, high) for side in (-1.0, 1.0)]
        return []  # the best intercept is not yet between them

    def _softmax_cuts(self, theta: Array) -> list[Cut]:
        d = len(theta)
        self._count(2, 2 * (d + 3) + self.k, 2 * d)
        here = self.cut(theta)
        r = here.G[self.free]
        shares = np.full(self.k, 1 / self.k) - self.F.gradient(np.zeros(len(theta)))[self.free]
        if not (shares > 0).all():
            return []
        need = float((np.maximum(r, 0) / shares).max()) * 2  # twice the least, so that q keeps half of p
        t = need / (1 + need)
        cut = here
        if t > 0:
            q = shares - r * (1 - t) / t
            there = np.zeros(len(theta))
            there[self.free] = np.log(q / q.sum())
            cut = here.mixed(t, self.cut(there))
        left = 2 * float(((np.abs(cut.G) + cut.off)[self.free] / shares).max())
        if not left < 1:
            return []
        parts: Any = self.F.parts  # linear models
        sizes = sum(w * f.column_sizes for w, f in zip(self.F.weights, parts))
        more = left * np.repeat(np.asarray(sizes), self.k)
        return [Cut((1 - left) * cut.height, (1 - left) * cut.G, (1 - left) * cut.off + more)]


def _sizes(loss: Loss, y: Array) -> Array:
    """Of the terms of l*(0), which is made of y, log y, y log y and the logarithm of a parameter."""
    log = np.abs(np.log(np.where(y > 0, y, 1.0)))
    scale = abs(np.log(loss.parameter)) if loss.parameter > 0 else 0.0
    return np.asarray(4 * (1 + log + y * (1 + 2 * log + 2 * scale)))


def _without_ridge(f: Any) -> LinearModel:
    bare: LinearModel = f.fresh()
    bare.ridge = 0.0
    bare.mu = 0.0
    return bare
