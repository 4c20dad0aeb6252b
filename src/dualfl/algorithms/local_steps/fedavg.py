r"""FedAvg: local gradient steps, then the average.

B. McMahan, E. Moore, D. Ramage, S. Hampson and B. Aguera y Arcas, "Communication-efficient learning of deep networks
from decentralized data", AISTATS 2017, with a server step (Reddi et al. 2021). The server sends x to C clients, the
set S;

    x_j = x;   K times   x_j <- x_j - eta f_j'(x_j)
    x  <- x + eta_s mean_{j in S} (x_j - x)

K = 1 is gradient descent with step eta eta_s. For K > 1 and unlike clients it stops at a wrong point; on quadratics
f_j = (1/2)(x - x_j*)'H_j(x - x_j*) that is  (sum_j w_j M_j)^-1 sum_j w_j M_j x_j*,  M_j = I - (I - eta H_j)^K.

Defaults. K = 10; eta = 1/(K L): all local steps together are as long as the one gradient step 1/L that is always safe,
and the drift, which is proportional to eta (K - 1), stays small. eta_s = 1.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
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
from dualfl.typing import Array


@dataclass(frozen=True)
class Server:
    x: Array


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """FedAvg (McMahan et al.): clients take gradient steps on their own rows, and the server averages their models.

    A gradient is that of all rows of a client. Where the clients' data differ, it does not converge to the best model
    for all rows (client drift), so it has no certificate. It is here for comparison.

    Parameters
    ----------
    K : int, default 10
        The number of local steps in a round.
    eta : float, default 1 / (K L)
        The length of a local step, 0 < eta < 2/L, where L is the smoothness of the costs.
    eta_s : float, default 1.0
        The length of the server's step; 1 takes the mean of the clients' models.
    C : int, default N
        How many clients take part in a round.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedAvg(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-2)
    True
    """

    K: int = 10
    eta: float = theory("1 / (K L)", lambda k, a: 1 / (a.K * k.L))
    eta_s: float = 1.0
    C: int = theory("N", lambda k, a: k.N)

    name = "fedavg"
    nonconvex = True
    drifts = True
    grid: ClassVar = {"eta": [10.0**-m for m in range(7)], "K": [1, 10, 100]}
    card = Card(
        title="FedAvg",
        year=2017,
        reference="McMahan, Moore, Ramage, Hampson and Aguera y Arcas",
        participation="any C",
        rate="none: drifts if clients differ",
        paper="arXiv:1602.05629",
    )

    def check(self, k: Constants) -> None:
        self.require(self.K >= 1, "K", "it is a number of local steps, >= 1")
        self.require(self.eta > 0, "eta", "it must be positive")
        self.require(not self.eta >= 2 / k.L, "eta", f"gradient steps diverge from 2/L = {2 / k.L:.3g} on")
        self.require(self.eta_s > 0, "eta_s", "it must be positive")
        self.require(1 <= self.C <= k.N, "C", f"it must lie between 1 and the number of clients, {k.N}")

    def start(self, at: Place) -> Server:
        return Server(x=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        Delta = yield from self.mean_change(s.x, at)
        return Server(x=s.x + self.eta_s * Delta)

    def mean_change(self, x: Array, at: Place) -> Generator[Ask, Means, Array]:
        """The exchange: the mean of x_j - x over the cohort."""
        m = yield ask(self.local, to=at.cohort(self.C), x=x)
        Delta: Array = m.change / m.mass
        return Delta

    def model(self, s: Server) -> Array:
        return s.x

    @client_step
    def local(self, f: ClientCost, c: State, at: Place, x: Array) -> tuple[Upload, State]:
        return at.send(change=self.change(f, x)), None

    def change(self, f: ClientCost, x: Array) -> Array:
        """x_j - x after the local steps."""
        y = x
        for _ in range(self.K):
            y = y - self.eta * self.direction(f, y)
        return y - x

    def direction(self, f: ClientCost, y: Array) -> Array:
        return f.gradient(y)
