r"""FedLin: local steps on a shifted gradient that is exact in the first step.

A. Mitra, R. Jaafar, G. J. Pappas and H. Hassani, "Linear convergence in federated learning: Tackling client
heterogeneity and sparse gradients", NeurIPS 2021, Algorithm 1. A round is two exchanges:

    g   = sum_j w_j f_j'(x)                                                                       (exchange 1)
    x_j = x;   K times   x_j <- x_j - eta (f_j'(x_j) - f_j'(x) + g)
    x  <- sum_j w_j x_j                                                                           (exchange 2)

Rate. With eta = 1/(6 K L):  E(x^(n)) - E*  <=  (1 - 1/(6 kappa))^n (E(x^(0)) - E*), whatever K.
Defaults. K = 10, eta = 1/(K L), six times faster than what is proven in general. On quadratics it is safe:
x+ = x - P g with P = sum_j w_j H_j^-1 (I - (I - eta H_j)^K) and 0 < P <= eta K = 1/L, so that every round is a
preconditioned gradient step no longer than 1/L.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    """Needed only between the two exchanges of a round."""

    x: Array
    g: Array


@dataclass(frozen=True)
class Server:
    x: Array


@dataclass(frozen=True)
class FedLin(Algorithm):
    """FedLin: local steps on corrected gradients (Algorithm 1 of Mitra et al.), without compression.

    Parameters
    ----------
    K, eta : int and float
        Number and length of the local steps.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedLin(), rounds=100)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-4)
    True
    """

    K: int = 10
    eta: float = theory("1 / (K L)", lambda k, a: 1 / (a.K * k.L))

    name = "fedlin"
    grid: ClassVar = {"eta": [10.0**-m for m in range(7)], "K": [1, 10, 100]}
    card = Card(
        title="FedLin",
        year=2021,
        reference="Mitra, Jaafar, Pappas and Hassani",
        exchanges="2",
        up="2 d",
        down="2 d",
        rate="kappa log(1/eps)",
        paper="arXiv:2102.07053",
    )

    def check(self, k: Constants) -> None:
        self.require(self.K >= 1, "K", "it is a number of local steps, >= 1")
        self.require(self.eta > 0, "eta", "it must be positive")
        self.require(not self.eta >= 2 / k.L, "eta", f"gradient steps diverge from 2/L = {2 / k.L:.3g} on")

    def start(self, at: Place) -> Server:
        return Server(x=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        g = (yield ask(self.anchor, x=s.x)).g
        m = yield ask(self.local, g=g)
        return Server(x=m.x)

    def model(self, s: Server) -> Array:
        return s.x

    @client_step
    def anchor(self, f: ClientCost, c: Local | None, at: Place, x: Array) -> tuple[Upload, Local]:
        g = f.gradient(x)
        return at.send(g=g), Local(x=x, g=g)

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, g: Array) -> tuple[Upload, None]:
        y, shift = c.x, g - c.g
        for _ in range(self.K):
            y = y - self.eta * (f.gradient(y) + shift)
        return at.send(x=y), None
