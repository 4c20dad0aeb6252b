"""The secant pairs of L-BFGS, and the inverse Hessian that they make of a metric.

    two loops:  q = g;  newest to oldest: a_i = <s_i, q>/<s_i, y_i>, q -= a_i y_i;
                r = H_0 q;  oldest to newest: r += (a_i - <y_i, r>/<s_i, y_i>) s_i.

The loops are kernels: between so short vectors an interpreter would spend half of a local solve.
"""

from __future__ import annotations

import numpy as np

from dualfl import kernels
from dualfl.solvers.moment_metric import Solve
from dualfl.typing import Array

CURVED = 1e-14  # times |s| |y|: below, <s, y> is rounding


class Pairs:
    """The newest `memory` pairs s = x+ - x, y = grad f(x+) - grad f(x), in a ring."""

    def __init__(self, memory: int, d: int) -> None:
        self.S, self.Y = np.empty((memory, d)), np.empty((memory, d))
        self.sy, self.parts = np.empty(memory), np.empty(memory)
        self.count, self.newest = 0, 0

    def __len__(self) -> int:
        return self.count

    def clear(self) -> None:
        self.count = 0

    def add(self, s: Array, y: Array) -> None:
        """Remember a pair, unless rounding has made it worthless."""
        sy = float(s @ y)
        if not sy > CURVED * float(np.linalg.norm(s) * np.linalg.norm(y)):
            return
        self.newest = (self.newest + 1) % len(self.sy)
        self.S[self.newest], self.Y[self.newest], self.sy[self.newest] = s, y, sy
        self.count = min(self.count + 1, len(self.sy))

    def inverse_hessian(self, g: Array, H0: Solve | None) -> Array:
        """H g; without a metric H_0 is <s, y>/<y, y> of the newest pair."""
        q = np.array(g)
        ring = self.S, self.Y, self.sy, self.count, self.newest, self.parts
        kernels.pairs_older(*ring, q)
        if H0 is not None:
            q = H0(q)
        elif self.count:
            y = self.Y[self.newest]
            q *= self.sy[self.newest] / float(y @ y)
        kernels.pairs_newer(*ring, q)
        return q
