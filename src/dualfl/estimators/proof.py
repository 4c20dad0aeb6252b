"""A lower bound of E* where the intercept is free: what two cuts prove together.

Let F be the mean loss and G_i, i = 1, 2, its gradients at two points. Convexity gives, for t in [0, 1],

    F(w, b)  >=  a + <G, (w, b)>,      a = sum_i t_i (F_i - <G_i, theta_i>),   G = sum_i t_i G_i,   t_1 + t_2 = 1.

A free intercept b has no curvature, so this says something only if the part of G that belongs to b is zero. Then

    E*  >=  a + min over w of <G_w, w> + (ridge/2)|w|^2 + l1 |w|_1.

At a minimiser one cut is enough. Near it, where G_b is not quite zero, the two are chosen so that theirs cancel:

* one output: at b + delta and b - delta. A small delta costs the bound delta^2; it must be larger than the error of b.
* softmax: at theta and at w = 0, where b may be log q for any distribution q, and G_b = q - p with the shares p of the
  classes. For G_b = r at theta the remedy is q = p - r (1 - t)/t, and t the least that keeps q positive.

Without a ridge, <G_w, w> + l1 |w|_1 is bounded below only if |G_w| <= l1; a third cut, F >= 0, scales G down to that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualfl.objectives import L1, LinearModel, Softmax
from dualfl.objectives.average import Average
from dualfl.problem import Problem
from dualfl.typing import Array

STEPS = (1e-8, 1e-6, 1e-4)  # delta, relative to the intercept; the least that encloses the minimum counts


class Cut(NamedTuple):
    """F(theta) >= height + <G, theta>."""

    height: float
    G: Array


class FreeIntercept:
    """Bounds E* of one problem; counts the exchanges it takes, and the floats of all clients."""

    def __init__(self, problem: Problem) -> None:
        f: Any = problem.clients[0]
        self.ridge, self.free, self.loss = f.ridge, f.free, f.loss
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
        pair = self._softmax_pair(theta) if isinstance(self.loss, Softmax) else self._shifted_pair(theta)
        if pair is None:
            return -np.inf
        t, one, two = pair
        height = (1 - t) * one.height + t * two.height
        G = ((1 - t) * one.G + t * two.G)[~self.free]
        if self.ridge > 0:
            beyond = np.maximum(np.abs(G) - self.l1, 0.0)
            return float(height - beyond @ beyond / (2 * self.ridge))
        steepest = float(np.abs(G).max(initial=0.0))
        return height * min(1.0, self.l1 / steepest) if steepest > 0 else height

    def cut(self, theta: Array) -> Cut:
        value, G = self.F.value_gradient(theta)
        return Cut(value - float(G @ theta), G)

    def _shifted_pair(self, theta: Array) -> tuple[float, Cut, Cut] | None:
        d = len(theta)
        self._count(1, 2 * len(STEPS) * (d + 1), d)  # all shifts are asked for at once
        for step in STEPS:
            delta = step * (1 + abs(float(theta[self.free][0])))
            low, high = (self.cut(theta + np.where(self.free, shift, 0.0)) for shift in (-delta, delta))
            left, right = float(low.G[self.free][0]), float(high.G[self.free][0])
            if left < 0 < right:
                return left / (left - right), low, high
        return None  # the best intercept is not yet between them

    def _softmax_pair(self, theta: Array) -> tuple[float, Cut, Cut] | None:
        d = len(theta)
        self._count(2, 2 * (d + 1) + self.k, 2 * d)
        here = self.cut(theta)
        r = here.G[self.free]
        shares = np.full(self.k, 1 / self.k) - self.F.gradient(np.zeros(len(theta)))[self.free]
        if not (shares > 0).all():
            return None
        need = float((np.maximum(r, 0) / shares).max()) * 2  # twice the least, so that q keeps half of p
        t = need / (1 + need)
        if t == 0:
            return 0.0, here, here
        q = shares - r * (1 - t) / t
        there = np.zeros(len(theta))
        there[self.free] = np.log(q / q.sum())
        return t, here, self.cut(there)


def _without_ridge(f: Any) -> LinearModel:
    bare: LinearModel = f.fresh()
    bare.ridge = 0.0
    bare.mu = 0.0
    return bare
