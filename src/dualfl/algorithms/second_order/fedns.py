r"""FedNS: Newton's method with sketched square roots of the clients' Hessians.

J. Li, Y. Liu, W. Wang, H. Wu and W. Wang, "FedNS: a fast sketching Newton-type algorithm for federated learning", AAAI
2024. Every round each client draws a Gaussian k x d matrix S_j with E S_j'S_j = I and sends k rows:

    B_j = S_j (f_j''(x) - mu I)^{1/2},       H = mu I + mean_j B_j'B_j,       x+ = x - eta H^{-1} E'(x)

mean H = E''(x), and the rows of all clients together, N k, are to be a few times d. For fewer H is too small in some
directions and the step too long there, so that eta = 1 diverges; the line search of GIANT finds a shorter step. The
authors' program has none, and counts d floats a round; the k x d sketch does travel, and is counted here.

Defaults. k = ceil(4 d/N), with the line search. Limits: a client takes a root of a d x d matrix every round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.line_search import Searching, Server
from dualfl.algorithms.messages import LowRank
from dualfl.algorithms.second_order.dense_hessian import at_most, finite
from dualfl.solvers.definite import solve
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    x: Array


@dataclass(frozen=True)
class FedNS(Searching):
    """FedNS: Newton's method with sketched square roots of the clients' Hessians (Li, Liu, Wang, Wu and Wang).

    Parameters
    ----------
    k : int, default ceil(4 d / N)
        Rows of a client's sketch.
    eta : float, default 1.0
        The step, if there is no line search.
    line_search : bool, default True
        Whether the step is searched for, by a second exchange.
    mu : float, default mu
        What the server adds to the sketch, at most the strong convexity of the clients.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedNS(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    k: int = theory("ceil(4 d / N)", lambda k, a: int(np.ceil(4 * k.d / k.N)))
    eta: float = 1.0
    line_search: bool = True
    mu: float = theory("mu", lambda k, a: k.mu)

    name = "fedns"
    needs = frozenset({"gradient", "hessian"})
    grid: ClassVar = {"k": [5, 10, 20, 50]}
    card = Card(
        "FedNS",
        2024,
        "Li, Liu, Wang, Wu and Wang",
        exchanges="2",
        up="d + k (d + 1) + 10 (the authors count d)",
        down="2d",
        rate="linear, the faster the larger k N/d",
        deterministic=False,
        paper="arXiv:2401.02734",
    )

    def check(self, k: Constants) -> None:
        at_most(self.name, k.d)
        self.require(self.k >= 1, "k", "it is a number of rows, >= 1")
        self.require(0 < self.eta < np.inf, "eta", "it must be positive")
        bad = self.mu > k.mu * (1 + 1e-12)
        self.require(self.mu > 0 and not bad, "mu", f"it must lie in (0, mu], and the clients have mu = {k.mu:.3g}")

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d), -np.inf)

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.sketch, x=s.x)
        p = solve(m.H + self.mu * np.eye(at.d), m.g)
        step = (yield from self.search(m.E, m.g, p)) if self.line_search else self.eta
        return Server(s.x - step * p, max(s.bound, self.lower_bound(at, self.mu, s.x, m)))

    @client_step
    def sketch(self, f: ClientCost, c: Any, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        values, V = eigh(finite(f.hessian(x)))
        S = at.rng("sketch").standard_normal((self.k, at.d)) / np.sqrt(self.k)
        B = (S @ V * np.sqrt(np.maximum(values - self.mu, 0.0))) @ V.T
        H = LowRank(np.ones(self.k), np.ascontiguousarray(B.T))
        return at.send(g=g, H=H).also(**at.measured(f, x, E)), Local(x)
