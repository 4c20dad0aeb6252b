r"""FedPD: a primal-dual method, one augmented Lagrangian a client.

X. Zhang, M. Hong, S. Dhople, W. Yin and Y. Liu, "FedPD: A federated learning framework with adaptivity to non-iid
data", IEEE Transactions on Signal Processing 69 (2021), Algorithm 1.

    x_j       = argmin f_j(x) + <lambda_j, x - x0_j> + |x - x0_j|^2/(2 eta)
    lambda_j <- lambda_j + (x_j - x0_j)/eta
    v_j       = x_j + eta lambda_j                                              (with the new lambda_j)
    with probability 1 - p:  theta = sum_j w_j v_j,  x0_j = theta               (the exchange; the coin is common)
    otherwise:               x0_j = v_j                                         (no communication)

An exact solve gives lambda_j = -f_j'(x_j). With p = 0 this is ADMM on the consensus problem,
the same iteration as FedDR with relaxation 1 and FedDyn with alpha = 1/eta.

Defaults. eta = 1/sqrt(mu L) minimises the contraction factor, sqrt(kappa)/(sqrt(kappa) + 1) a round, of convex theory
(Giselsson and Boyd 2017); the paper's eta = O(1/L) is for nonconvex costs. p = 0: a skipped exchange is a proximal
point step on f_j alone, whose fixed points are the clients' own minimisers. So with p > 0 and unlike clients theta* is
no fixed point and the method only approximates it.
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
    lam: Array
    warm: Array | None
    scale: float


@dataclass(frozen=True)
class Server:
    theta: Array


@dataclass(frozen=True)
class FedPD(Algorithm):
    """FedPD: a primal-dual method with an augmented Lagrangian for each client (Algorithm 1 of Zhang et al.).

    Parameters
    ----------
    eta : float, default 1 / sqrt(mu L)
        The penalty is 1/eta.
    p : float, default 0.0
        The probability to skip an exchange. p > 0 is approximate: it stops at a wrong point unless clients are
        alike.
    accuracy : {'schedule', 'exact'}, default 'schedule'
        "schedule", local residuals that fall by `decay` a round, or "exact".
    decay : float, default (contraction factor)^1.5
        By which factor the accuracy of the local solves falls each round.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedPD(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-6)
    True
    """

    eta: float = theory("1 / sqrt(mu L)", lambda k, a: 1 / np.sqrt(k.mu * k.L))
    p: float = 0.0
    accuracy: Literal["schedule", "exact"] = "schedule"
    decay: float = theory("(contraction factor)^1.5", lambda k, a: douglas_rachford(a.eta, 1.0, k) ** 1.5)

    name = "fedpd"
    nonconvex = True
    needs = frozenset({"local"})
    strongly_convex = False
    compresses = True
    grid: ClassVar = {"eta": [10.0**m for m in range(-5, 4)]}
    card = Card(
        title="FedPD",
        year=2021,
        reference="Zhang, Hong, Dhople, Yin and Liu",
        needs="convex",
        rate="sqrt(kappa) log(1/eps)",
        accelerated=True,
        paper="arXiv:2005.11418",
    )

    def check(self, k: Constants) -> None:
        self.require(self.eta > 0, "eta", "it must be positive")
        self.require(0 <= self.p < 1, "p", "it must lie in [0, 1), because somebody must communicate some time")
        self.require(0 < self.decay <= 1, "decay", "it must lie in (0, 1]")
        self.require(self.accuracy in ("schedule", "exact"), "accuracy", 'it is "schedule" or "exact"')

    def start(self, at: Place) -> Server:
        return Server(theta=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, theta=s.theta)
        return Server(theta=m.v)

    def model(self, s: Server) -> Array:
        return s.theta

    def client(self, f: ClientCost, at: Place) -> Local:
        return Local(lam=np.zeros(at.d), warm=None, scale=gradient_scale(f))

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, theta: Array) -> tuple[Upload, Local]:
        stop = exactly(c.scale) if self.accuracy == "exact" else scheduled(c.scale, self.decay, at.round)
        v, lam, warm = theta, c.lam, c.warm
        for _ in range(at.common("coin").geometric(1 - self.p)):  # all but the last step skip their exchange
            x0 = v
            y = f.local(1 / self.eta, x0 / self.eta - lam, warm=warm, stop=stop)
            lam = lam + (y.x - x0) / self.eta
            v, warm = y.x + self.eta * lam, y.warm
        return at.send(v=v), Local(lam=lam, warm=warm, scale=c.scale)
