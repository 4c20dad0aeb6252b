r"""FedPM: local Newton steps, and a mean of the models in which curvature is the weight.

H. Ishii, K. Niwa, H. Sawada, A. Fujino, N. Harada and R. Yokota, "FedPM: federated learning using second-order
optimization with preconditioned mixing of local parameters", AAAI 2026.

    x_j = x;   K times   x_j <- x_j - eta H_j^{-1} f_j'(x_j),    H_j = f_j''(x_j)
    x+  = (mean H_j)^{-1} mean H_j x_j                           with the H_j of the last local step

For K = 1 this is Newton's method on E. On quadratics it is exact in one round whatever K: local minimisers are mixed as
a meta-analysis does, by inverse variances. Otherwise K > 1 drifts: at theta* the local steps do not stand still.

Here a client sends H_j (x_j - x), and the server steps along the mean; the line search of GIANT, which the paper does
not have, takes a second exchange and makes K = 1 converge from anywhere. H_j travels as a triangle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.line_search import Searching, Server
from dualfl.algorithms.second_order.dense_hessian import at_most, finite, symmetric, upper
from dualfl.solvers.definite import solve
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    x: Array


@dataclass(frozen=True)
class FedPM(Searching):
    """FedPM: local Newton steps, averaged with curvature as the weight (Ishii et al.).

    Parameters
    ----------
    K : int, default 1
        Local Newton steps; more than 1 drifts.
    eta : float, default 1.0
        The local step.
    line_search : bool, default True
        Whether the server searches along the mixed direction.
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedPM(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    K: int = 1
    eta: float = 1.0
    line_search: bool = True
    mu: float = theory("mu", lambda k, a: k.mu)  # for the certificate only

    name = "fedpm"
    needs = frozenset({"gradient", "hessian"})
    grid: ClassVar = {"K": [1, 2, 5], "eta": [1.0, 0.5]}
    card = Card(
        "FedPM",
        2025,
        "Ishii, Niwa, Sawada, Fujino, Harada and Yokota",
        exchanges="2",
        up="2d + d (d + 1)/2 + 10",
        down="2d",
        rate="quadratic for K = 1; drifts for K > 1",
        paper="arXiv:2511.09100",
    )

    def check(self, k: Constants) -> None:
        at_most(self.name, k.d)
        self.require(self.K >= 1, "K", "it is a number of local steps, >= 1")
        self.require(0 < self.eta <= 1, "eta", "it must lie in (0, 1]")
        self.require(self.mu > 0, "mu", "it must be positive")

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d), -np.inf)

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, x=s.x)
        p = solve(symmetric(m.H, at.d), m.b)
        step = (yield from self.search(m.E, m.g, p)) if self.line_search else 1.0
        return Server(s.x - step * p, max(s.bound, self.lower_bound(at, self.mu, s.x, m)))

    @client_step
    def local(self, f: ClientCost, c: Any, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        H = finite(f.hessian(x))
        y = x - self.eta * solve(H, g)
        for _ in range(self.K - 1):
            H = finite(f.hessian(y))
            y = y - self.eta * solve(H, f.gradient(y))
        b = self.eta * g if self.K == 1 else H @ (x - y)
        return at.send(g=g, H=upper(H), b=b).also(**at.measured(f, x, E)), Local(x)
