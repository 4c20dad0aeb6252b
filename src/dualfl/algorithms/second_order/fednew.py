r"""FedNew: Newton's direction by one step of ADMM a round.

A. Elgabli, C. B. Issaid, A. S. Bedi, K. Rajawat, M. Bennis and V. Aggarwal, "FedNew: a communication-efficient and
privacy-preserving Newton-type method for federated learning", ICML 2022. The direction y of (E'' + alpha I) y = E'(x)
minimises mean_j of y'(H_j + alpha I)y/2 - g_j'y; ADMM splits it among the clients, and takes one step a round:

    y_j    = (H_j + (alpha + rho) I)^{-1} (g_j - lam_j + rho y),     g_j = f_j'(x)
    y     <- mean y_j,      x <- x - y                                                             (the exchange)
    lam_j <- lam_j + rho (y_j - y)

so that mean lam_j = 0 and, at the optimum, lam_j = f_j'(theta*) and y = 0. Only y_j travels, no gradient and no
Hessian; a client finds y in the difference of two x. H_j = f_j''(x) is renewed every `period` rounds, or, with
period = 0, taken where it starts, as in the authors' cheapest version.

Defaults. rho = sqrt(mu L), the penalty of ADMM for such Hessians, and alpha = sqrt(mu L), because x moves before ADMM
has settled. The paper gives no formula for them; both have a grid. period = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.second_order.dense_hessian import at_most, finite
from dualfl.solvers.definite import solve
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    x: Array  # of the last round
    y: Array  # y_j as it was sent
    lam: Array
    H: Array


@dataclass(frozen=True)
class Server:
    x: Array


@dataclass(frozen=True)
class FedNew(Algorithm):
    """FedNew: Newton's direction by one step of ADMM a round (Elgabli et al.).

    Parameters
    ----------
    alpha : float, default sqrt(mu L)
        The damping of Newton's direction.
    rho : float, default sqrt(mu L)
        The penalty of ADMM.
    period : int, default 1
        After how many rounds a Hessian is renewed; 0 is never.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedNew(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    alpha: float = theory("sqrt(mu L)", lambda k, a: np.sqrt(k.mu * k.L), zero=True)
    rho: float = theory("sqrt(mu L)", lambda k, a: np.sqrt(k.mu * k.L))
    period: int = 1

    name = "fednew"
    needs = frozenset({"gradient", "hessian"})
    grid: ClassVar = {"alpha": [10.0**m for m in range(-4, 3)], "rho": [10.0**m for m in range(-4, 3)]}
    card = Card(
        "FedNew",
        2022,
        "Elgabli, Issaid, Bedi, Rajawat, Bennis and Aggarwal",
        rate="linear, by alpha and rho",
        paper="arXiv:2206.08829",
    )

    def check(self, k: Constants) -> None:
        at_most(self.name, k.d)
        self.require(0 <= self.alpha < np.inf, "alpha", "it must be >= 0")
        self.require(0 < self.rho < np.inf, "rho", "it must be positive")
        self.require(self.period >= 0, "period", "it is a number of rounds, or 0 for never")

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.direction, x=s.x)
        return Server(s.x - m.y)

    def model(self, s: Server) -> Array:
        return s.x

    def client(self, f: ClientCost, at: Place) -> Local:
        zero = np.zeros(at.d)
        return Local(zero, zero, zero, np.zeros((at.d, at.d)))

    @client_step
    def direction(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        y = c.x - x
        lam = c.lam + self.rho * (c.y - y)
        renewed = at.round == 0 or (self.period > 0 and at.round % self.period == 0)
        H = finite(f.hessian(x)) if renewed else c.H
        own = solve(H + (self.alpha + self.rho) * np.eye(at.d), f.gradient(x) - lam + self.rho * y)
        return at.send(y=own), Local(x, own, lam, H)
