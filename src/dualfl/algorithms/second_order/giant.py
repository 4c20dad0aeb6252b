"""GIANT: globally improved approximate Newton direction.

S. Wang, F. Roosta-Khorasani, P. Xu and M. W. Mahoney, "GIANT: globally improved approximate Newton method for
distributed optimization", 2018.

    g = E'(x)                                   first exchange
    p = mean_j H_j(x)^{-1} g                    second; each client by conjugate gradients
    E(x - t p) for t = 1, 1/4, 1/16, ...        third, see `line_search`

Since the mean of inverses is at least the inverse of the mean, the unit step can overshoot, and on unlike clients it
diverges without the line search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.line_search import Searching, Server
from dualfl.algorithms.second_order.conjugate_gradients import conjugate_gradients
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    x: Array


@dataclass(frozen=True)
class GIANT(Searching):
    """GIANT: the mean of the clients' Newton directions, with a line search; `accuracy` is that of the local systems.

    Parameters
    ----------
    accuracy : float, default 0.0001
        How exactly clients solve their problems.
    line_search : bool, default True
        Whether a further exchange searches along the direction.
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.GIANT(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    accuracy: float = 1e-4
    line_search: bool = True
    mu: float = theory("mu", lambda k, a: k.mu, zero=True)  # for the certificate only

    name = "giant"
    needs = frozenset({"gradient", "hessian"})
    grid: ClassVar = {"accuracy": [1e-1, 1e-2, 1e-4]}
    card = Card(
        "GIANT",
        2018,
        "Wang, Roosta-Khorasani, Xu and Mahoney",
        exchanges="3",
        up="2d + 10",
        down="3d",
        rate="local linear-quadratic; faster the more alike the clients",
        paper="arXiv:1709.03528",
    )

    def check(self, k: Constants) -> None:
        self.require(0 < self.accuracy < 1, "accuracy", "it must lie in (0, 1)")

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d), -np.inf)

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.remember, x=s.x)
        g, E = m.g, m.E
        p = (yield ask(self.newton, g=g)).p
        step = (yield from self.search(E, g, p)) if self.line_search else 1.0
        return Server(s.x - step * p, max(s.bound, self.lower_bound(at, self.mu, s.x, m)))

    @client_step
    def remember(self, f: ClientCost, c: Any, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        return at.send(g=g).also(**at.measured(f, x, E)), Local(x)

    @client_step
    def newton(self, f: ClientCost, c: Local, at: Place, g: Array) -> tuple[Upload, Local]:
        p = conjugate_gradients(lambda v: f.hessian_times(c.x, v), g, self.accuracy, most=200)
        return at.send(p=p), c
