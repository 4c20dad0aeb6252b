r"""FedCM: local steps that lean on the last global direction.

J. Xu, S. Wang, L. Wang and A. C.-C. Yao, "FedCM: Federated learning with client-level momentum", 2021. The server holds
x and a direction D, and sends both to C clients, the set S;

    x_j = x;   K times   x_j <- x_j - eta_l (alpha f_j'(x_j) + (1 - alpha) D)
    D  <- mean_{j in S} (x - x_j)/(eta_l K),          x <- x - eta_g D

At a fixed point D = 0, so the clients' own steps are FedAvg's with the step alpha eta_l: the same wrong point, at a
tenth of the drift for alpha = 0.1.

Defaults. alpha = 0.1 as in the paper, K = 10 and eta_l = 1/(K L) as in FedAvg, eta_g = K eta_l, which moves the server
to the mean of the x_j.
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
    D: Array


@dataclass(frozen=True)
class FedCM(Algorithm):
    """FedCM: FedAvg whose local steps follow the last global direction (Xu et al.), with full local gradients.

    Parameters
    ----------
    alpha : float, default 0.1
        The weight of the client's own gradient, in (0, 1].
    K, eta_l : int and float
        Number and length of the local steps.
    eta_g : float, default K eta_l
        The server's step.
    C : int, default N
        How many clients take part in a round.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedCM(), rounds=100)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-4)
    True
    """

    alpha: float = 0.1
    K: int = 10
    eta_l: float = theory("1 / (K L)", lambda k, a: 1 / (a.K * k.L))
    eta_g: float = theory("K eta_l", lambda k, a: a.K * a.eta_l)
    C: int = theory("N", lambda k, a: k.N)

    name = "fedcm"
    nonconvex = True
    drifts = True
    grid: ClassVar = {"eta_l": [10.0**-m for m in range(7)], "alpha": [0.05, 0.1, 0.5]}
    card = Card(
        title="FedCM",
        year=2021,
        reference="Xu, Wang, Wang and Yao",
        down="2 d",
        participation="any C",
        rate="none: drifts if clients differ",
        paper="arXiv:2106.10874",
    )

    def check(self, k: Constants) -> None:
        self.require(0 < self.alpha <= 1, "alpha", "it must lie in (0, 1]")
        self.require(self.K >= 1, "K", "it is a number of local steps, >= 1")
        self.require(self.eta_l > 0, "eta_l", "it must be positive")
        bound = 2 / (self.alpha * k.L)
        self.require(not self.eta_l >= bound, "eta_l", f"local steps diverge from 2/(alpha L) = {bound:.3g} on")
        self.require(self.eta_g > 0, "eta_g", "it must be positive")
        self.require(1 <= self.C <= k.N, "C", f"it must lie between 1 and the number of clients, {k.N}")

    def start(self, at: Place) -> Server:
        return Server(x=np.zeros(at.d), D=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, to=at.cohort(self.C), x=s.x, D=s.D)
        D = -m.change / (m.mass * self.eta_l * self.K)
        return Server(x=s.x - self.eta_g * D, D=D)

    def model(self, s: Server) -> Array:
        return s.x

    @client_step
    def local(self, f: ClientCost, c: State, at: Place, x: Array, D: Array) -> tuple[Upload, State]:
        y = x
        for _ in range(self.K):
            y = y - self.eta_l * (self.alpha * f.gradient(y) + (1 - self.alpha) * D)
        return at.send(change=y - x), None
