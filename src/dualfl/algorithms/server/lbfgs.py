"""L-BFGS at the server: the clients send value and gradient, everything else happens at the server.

D. C. Liu and J. Nocedal, "On the limited memory BFGS method for large scale optimization", 1989.

    p = H g by the two-loop recursion over the last pairs (s, y) = (x+ - x, g+ - g), first metric s'y/y'y (at first 1/L)
    x+ = x - t p,  t by bisection for the weak Wolfe conditions

        E(x - t p) <= E(x) - 1e-4 t <g, p>,           <E'(x - t p), p> <= 0.9 <g, p>

Every trial is one exchange. A pair with s'y too small against |s||y| is left out, so the metric stays positive.
With a `metric` G of the features (see `feature_metric`) the first metric is G^-1 instead, times s'y/y'G^-1 y.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.client_cost import MomentCost
from dualfl.algorithms.contract import (
    Algorithm,
    Ask,
    Card,
    Constants,
    Means,
    Place,
    Round,
    State,
    Upload,
    ask,
    client_step,
    theory,
)
from dualfl.algorithms.server.feature_metric import NONE, Kind, factor_of, solver_of, sums
from dualfl.algorithms.two_loops import first_loop, second_loop
from dualfl.typing import Array

ARMIJO, WOLFE = 1e-4, 0.9
TRIALS = 30


@dataclass(frozen=True)
class Server:
    x: Array
    E: float
    g: Array
    S: tuple[Array, ...]
    Y: tuple[Array, ...]
    bound: float
    G: Array  # the metric of the features: its diagonal, or its Cholesky factor


@dataclass(frozen=True)
class ServerLBFGS(Algorithm):
    """L-BFGS at the server: clients send values and gradients, and the server learns the curvature from them.

    Parameters
    ----------
    memory : int, default 30
        How many pairs are kept.
    scale : float, default 1 / L
        The length of the first step.
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.
    metric : {'none', 'diagonal', 'features'}, default 'none'
        What clients tell of the second moments of their features with the first gradient: nothing, one number a
        feature, or all pairs of features.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.ServerLBFGS(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    memory: int = 30
    scale: float = theory("1 / L", lambda k, a: 1 / k.L)  # of the first step
    mu: float = theory("mu", lambda k, a: k.mu, zero=True)  # for the certificate only
    metric: Kind = "none"

    name = "lbfgs"
    strongly_convex = False
    no_certificate = "E is not strongly convex"
    grid: ClassVar = {"memory": [5, 10, 30, 60]}
    card = Card(
        "L-BFGS at the server",
        1989,
        "Liu and Nocedal",
        exchanges="1 a trial",
        up="d + 3",
        needs="smooth",
        rate="linear",
        paper="doi:10.1007/BF01589116",
    )

    additive = True

    def check(self, k: Constants) -> None:
        self.require(self.memory >= 1, "memory", "it must be at least 1 pair")
        self.require(0 < self.scale < np.inf, "scale", "it must be positive")
        self.require(
            self.metric in ("none", "diagonal", "features"), "metric", 'it is "none", "diagonal" or "features"'
        )

    def start(self, at: Place) -> Round:
        x = np.zeros(at.d)
        m = yield ask(self.value_gradient if self.metric == "none" else self.first, x=x)
        G = NONE if self.metric == "none" else factor_of(m.h, self.metric)
        return Server(x, m.E, m.g, (), (), self.lower_bound(at, self.mu, x, m), G)

    def round(self, s: Server, at: Place) -> Round:
        solve = solver_of(s.G) if s.G.size else None
        p = two_loop(s.g, s.S, s.Y, self.scale, solve)
        if not s.g @ p > 0:  # at rounding level a direction may point nowhere
            p = self.scale * s.g if solve is None else solve(s.g)
        x, m = yield from self.line_search(s, p)
        step, change = x - s.x, m.g - s.g
        S, Y = s.S, s.Y
        if step @ change > 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
            S, Y = (*S, step)[-self.memory :], (*Y, change)[-self.memory :]
        return Server(x, m.E, m.g, S, Y, max(s.bound, self.lower_bound(at, self.mu, x, m)), s.G)

    def line_search(self, s: Server, p: Array) -> Generator[Ask, Means, tuple[Array, Any]]:
        """Bisection for the weak Wolfe conditions; the best point seen if rounding ends it."""
        slope, low, high, t = float(s.g @ p), 0.0, np.inf, 1.0
        best = (s.x, Means(E=s.E, g=s.g, off=np.inf, off_g=np.inf))  # its bound is known
        for _ in range(TRIALS):
            x = s.x - t * p
            m = yield ask(self.value_gradient, x=x)
            if m.E < best[1].E or np.linalg.norm(m.g) < 0.1 * np.linalg.norm(best[1].g):
                best = (x, m)
            if not m.E <= s.E - ARMIJO * t * slope:
                if abs(m.E - s.E) <= 1e-14 * abs(s.E) and np.linalg.norm(m.g) <= np.linalg.norm(s.g):
                    return x, m  # energies no longer tell; gradients still do
                high = t
            elif m.g @ p > WOLFE * slope:
                low = t
            else:
                return x, m
            t = (low + high) / 2 if high < np.inf else 2 * t
        return best

    @client_step
    def first(self, f: MomentCost, c: State, at: Place, x: Array) -> tuple[Upload, State]:
        """Value and gradient, and what the metric needs."""
        sent, c = self.value_gradient(f, c, at, x)
        return sent.also(**sums(f, x, self.metric)), c

    def model(self, s: Server) -> Array:
        return s.x

    def bound(self, s: Server) -> float:
        return s.bound


def two_loop(
    g: Array, S: tuple[Array, ...], Y: tuple[Array, ...], scale: float, solve: Callable[[Array], Array] | None = None
) -> Array:
    """H g for the L-BFGS metric of these pairs, around the inverse of a metric if there is one."""
    if not S:
        return scale * g if solve is None else solve(g)
    q, weights = first_loop(g, S, Y)
    q, y = (q, Y[-1]) if solve is None else (solve(q), solve(Y[-1]))
    q *= (S[-1] @ Y[-1]) / (Y[-1] @ y)
    return second_loop(q, S, Y, weights)
