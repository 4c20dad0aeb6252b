r"""FedSplit: Peaceman-Rachford splitting.

R. Pathak and M. J. Wainwright, "FedSplit: An algorithmic framework for fast federated optimization", NeurIPS 2020,
Algorithm 1. With x = sum_j w_j z_j on the server and z_j on the clients,

    x_j  = prox_{s f_j}(2 x - z_j)
    z_j <- z_j + 2 (x_j - x)
    x   <- sum_j w_j z_j                                                                     (the exchange)

z_j is the client's own and carries its dual variable, z_j* = theta* - s f_j'(theta*); a client that resets it to x
every round does plain averaged prox steps and drifts.

Default. s = 1/sqrt(mu L) minimises the contraction factor of z, max{(s L - 1)/(s L + 1), (1 - s mu)/(1 + s mu)} =
1 - 2/(sqrt(kappa) + 1): twice as fast as FedPD, FedDR and FedDyn, and the same iteration as FedDR with alpha = 2.
It needs smooth, strongly convex f_j: without averaging there is nothing else that contracts.
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
    z: Array
    warm: Array | None
    scale: float


@dataclass(frozen=True)
class Server:
    x: Array


@dataclass(frozen=True)
class FedSplit(Algorithm):
    """FedSplit: Peaceman-Rachford splitting (Algorithm 1 of Pathak and Wainwright).

    Parameters
    ----------
    s : float, default 1 / sqrt(mu L)
        The step of the prox.
    accuracy : {'schedule', 'exact'}, default 'schedule'
        "schedule", local residuals that fall by `decay` a round, or "exact".
    decay : float, default (contraction factor)^1.5
        By which factor the accuracy of the local solves falls each round.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedSplit(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    s: float = theory("1 / sqrt(mu L)", lambda k, a: 1 / np.sqrt(k.mu * k.L))
    accuracy: Literal["schedule", "exact"] = "schedule"
    decay: float = theory("(contraction factor)^1.5", lambda k, a: douglas_rachford(a.s, 2.0, k) ** 1.5, zero=True)

    name = "fedsplit"
    needs = frozenset({"local"})
    compresses = True
    grid: ClassVar = {"s": [10.0**m for m in range(-5, 4)]}
    card = Card(
        title="FedSplit",
        year=2020,
        reference="Pathak and Wainwright",
        rate="sqrt(kappa) log(1/eps)",
        accelerated=True,
        paper="arXiv:2005.05238",
    )

    def check(self, k: Constants) -> None:
        self.require(self.s > 0, "s", "it must be positive")
        self.require(0 <= self.decay <= 1, "decay", "it must lie in [0, 1]")
        self.require(self.accuracy in ("schedule", "exact"), "accuracy", 'it is "schedule" or "exact"')

    def start(self, at: Place) -> Server:
        return Server(x=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, x=s.x)
        return Server(x=m.z)

    def model(self, s: Server) -> Array:
        return s.x

    def client(self, f: ClientCost, at: Place) -> Local:
        return Local(z=np.zeros(at.d), warm=None, scale=gradient_scale(f))

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        stop = exactly(c.scale) if self.accuracy == "exact" else scheduled(c.scale, self.decay, at.round)
        y = f.local(1 / self.s, (2 * x - c.z) / self.s, warm=c.warm, stop=stop)
        sent = at.send(z=c.z + 2 * (y.x - x))
        return sent, Local(z=sent.z, warm=y.warm, scale=c.scale)
