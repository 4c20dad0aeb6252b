r"""FedAc: FedAvg with Nesterov's acceleration in the local steps.

H. Yuan and T. Ma, "Federated accelerated stochastic gradient descent", NeurIPS 2020, Algorithm 1. A client goes on from
the common x and xag (for "aggregated"); K times

    xmd  = x/beta + (1 - 1/beta) xag
    xag <- xmd - eta f_j'(xmd),        x <- (1 - 1/alpha) x + xmd/alpha - gamma f_j'(xmd)

and then both are averaged: 2 d floats each way. The model is xag.

For K = 1 this is Nesterov's method on E. For K > 1 the clients drift as in FedAvg; the paper's theory is for clients
that draw from one distribution.

Defaults, FedAc-I of the paper:  gamma = max{sqrt(eta/(mu K)), eta},  alpha = 1/(gamma mu),  beta = alpha + 1; and
K = 10, eta = 1/(K L) as in FedAvg.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, State, Upload, ask, client_step, theory
from dualfl.typing import Array


@dataclass(frozen=True)
class Server:
    x: Array
    xag: Array


@dataclass(frozen=True)
class FedAc(Algorithm):
    """FedAc: FedAvg with Nesterov's acceleration in the local steps (Yuan and Ma), with full local gradients.

    Parameters
    ----------
    K, eta : int and float
        Number and length of the local steps.
    gamma : float, default max(sqrt(eta / (mu K)), eta)
        The longer step, of x.
    alpha, beta : float
        How x, xmd and xag are coupled, >= 1.
    C : int, default N
        How many clients take part in a round.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedAc(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-2)
    True
    """

    K: int = 10
    eta: float = theory("1 / (K L)", lambda k, a: 1 / (a.K * k.L))
    gamma: float = theory("max(sqrt(eta / (mu K)), eta)", lambda k, a: max(float(np.sqrt(a.eta / (k.mu * a.K))), a.eta))
    alpha: float = theory("1 / (gamma mu)", lambda k, a: 1 / (a.gamma * k.mu))
    beta: float = theory("alpha + 1", lambda k, a: a.alpha + 1)
    C: int = theory("N", lambda k, a: k.N)

    name = "fedac"
    drifts = True
    grid: ClassVar = {"eta": [10.0**-m for m in range(7)], "K": [1, 10, 100]}
    card = Card(
        title="FedAc",
        year=2020,
        reference="Yuan and Ma",
        up="2 d",
        down="2 d",
        participation="any C",
        rate="none: drifts if clients differ",
        accelerated=True,
        paper="arXiv:2006.08950",
    )

    def check(self, k: Constants) -> None:
        self.require(self.K >= 1, "K", "it is a number of local steps, >= 1")
        self.require(self.eta > 0, "eta", "it must be positive")
        self.require(not self.eta >= 2 / k.L, "eta", f"gradient steps diverge from 2/L = {2 / k.L:.3g} on")
        self.require(0 < self.gamma < np.inf, "gamma", "it must be positive")
        self.require(1 <= self.alpha * (1 + 1e-12), "alpha", "it must be at least 1, so gamma is at most 1/mu")
        self.require(self.beta >= 1, "beta", "it must be at least 1")
        self.require(1 <= self.C <= k.N, "C", f"it must lie between 1 and the number of clients, {k.N}")

    def start(self, at: Place) -> Server:
        return Server(x=np.zeros(at.d), xag=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, to=at.cohort(self.C), x=s.x, xag=s.xag)
        return Server(x=m.x / m.mass, xag=m.xag / m.mass)

    def model(self, s: Server) -> Array:
        return s.xag

    @client_step
    def local(self, f: ClientCost, c: State, at: Place, x: Array, xag: Array) -> tuple[Upload, State]:
        for _ in range(self.K):
            xmd = x / self.beta + (1 - 1 / self.beta) * xag
            g = f.gradient(xmd)
            xag = xmd - self.eta * g
            x = (1 - 1 / self.alpha) * x + xmd / self.alpha - self.gamma * g
        return at.send(x=x, xag=xag), None
