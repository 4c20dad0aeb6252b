r"""FedDyn: federated learning with dynamic regularisation.

D. A. E. Acar, Y. Zhao, R. Matas Navarro, M. Mattina, P. N. Whatmough and V. Saligrama, "Federated learning based on
dynamic regularization", ICLR 2021, Algorithm 1. The server sends theta to C clients, the set S; each of them

    x_j  = argmin f_j(x) - <g_j, x> + (alpha/2) |x - theta|^2
    g_j <- g_j - alpha (x_j - theta)                                     so that g_j = f_j'(x_j)
and the server
    h     <- h - alpha sum_{j in S} w_j (x_j - theta)                    so that h = sum_j w_j g_j, over ALL clients
    theta <- mean_{j in S} x_j - h/alpha

In h the sum is over S, but the weights are those among all clients (for equal ones it is divided by N, not by |S|).
With the mean over S, h is N/|S| times the mean gradient if all weights are equal, which slows down, and no multiple of
it if they are not: then the method ends at a wrong point.

Default. alpha = sqrt(mu L): with all clients the iteration is FedPD and FedDR with eta = 1/alpha, and this minimises
their contraction factor, sqrt(kappa)/(sqrt(kappa) + 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dualfl.algorithms.accuracy import douglas_rachford, exactly, gradient_scale, scheduled
from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    g: Array
    warm: Array | None
    scale: float


@dataclass(frozen=True)
class Server:
    theta: Array
    h: Array


@dataclass(frozen=True)
class FedDyn(Algorithm):
    """FedDyn: local problems with dynamic regularisation (Algorithm 1 of Acar et al.).

    Parameters
    ----------
    alpha : float, default sqrt(mu L)
        The penalty.
    C : int, default N
        How many clients take part in a round.
    accuracy : {'schedule', 'exact'}, default 'schedule'
        "schedule", local residuals that fall by `decay` a round, or "exact".
    decay : float, default (1 - (C/N) (1 - contraction factor))^1.5
        By which factor the accuracy of the local solves falls each round.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedDyn(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-6)
    True
    """

    alpha: float = theory("sqrt(mu L)", lambda k, a: np.sqrt(k.mu * k.L))
    C: int = theory("N", lambda k, a: k.N)
    accuracy: Literal["schedule", "exact"] = "schedule"
    decay: float = theory(
        "(1 - (C/N) (1 - contraction factor))^1.5",
        lambda k, a: (1 - a.C / k.N * (1 - douglas_rachford(1 / a.alpha, 1.0, k))) ** 1.5,
    )

    name = "feddyn"
    nonconvex = True
    needs = frozenset({"local"})
    strongly_convex = False
    grid: ClassVar = {"alpha": [10.0**m for m in range(-3, 6)]}
    card = Card(
        title="FedDyn",
        year=2021,
        reference="Acar, Zhao, Matas Navarro, Mattina, Whatmough and Saligrama",
        participation="any C",
        needs="convex",
        rate="sqrt(kappa) log(1/eps)",
        accelerated=True,
        paper="arXiv:2111.04263",
    )

    def check(self, k: Constants) -> None:
        self.require(self.alpha > 0, "alpha", "it must be positive")
        self.require(1 <= self.C <= k.N, "C", f"it must lie between 1 and the number of clients, {k.N}")
        self.require(0 < self.decay <= 1, "decay", "it must lie in (0, 1]")
        self.require(self.accuracy in ("schedule", "exact"), "accuracy", 'it is "schedule" or "exact"')

    def start(self, at: Place) -> Server:
        return Server(theta=np.zeros(at.d), h=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, to=at.cohort(self.C), theta=s.theta)
        h = s.h - self.alpha * (m.x - m.mass * s.theta)
        return Server(theta=m.x / m.mass - h / self.alpha, h=h)

    def model(self, s: Server) -> Array:
        return s.theta

    def client(self, f: ClientCost, at: Place) -> Local:
        return Local(g=np.zeros(at.d), warm=None, scale=gradient_scale(f))

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, theta: Array) -> tuple[Upload, Local]:
        stop = exactly(c.scale) if self.accuracy == "exact" else scheduled(c.scale, self.decay, at.round)
        y = f.local(self.alpha, self.alpha * theta + c.g, warm=c.warm, stop=stop)
        return at.send(x=y.x), Local(g=c.g - self.alpha * (y.x - theta), warm=y.warm, scale=c.scale)
