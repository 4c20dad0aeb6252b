r"""Scaffnew: ProxSkip on the consensus problem.

K. Mishchenko, G. Malinovsky, S. Stich and P. Richtarik, "ProxSkip: Yes! Local gradient steps provably lead to
communication acceleration! Finally!", ICML 2022, Algorithms 1 and 2. Every iteration, with one coin for all clients,

    xh_j = x_j - gamma (f_j'(x_j) - h_j)
    with probability p:  x_j <- xbar = sum_i w_i xh_i,   h_j <- h_j + (p/gamma) (xbar - xh_j)       (the exchange)
    otherwise:           x_j <- xh_j

so that sum_j w_j h_j = 0 and h_j -> f_j'(theta*). A round is one exchange and the local steps before it, whose number
is geometric with mean 1/p; the coin is drawn from a stream that all clients share. h_j needs xbar, so a client
updates it when the next message arrives, with the xh_j that it sent.

A common penalty g is part of the skipped prox: with hbar = sum_j w_j h_j, no longer zero,
    xbar = prox_{(gamma/p) g}(sum_j w_j xh_j - (gamma/p) hbar),    hbar <- hbar + (p/gamma)(xbar - sum_j w_j xh_j).

Rate, per iteration, for Psi = sum_j w_j (|x_j - theta*|^2 + (gamma/p)^2 |h_j - f_j'(theta*)|^2) and gamma < 2/L:
    E Psi+  <=  max{(1 - gamma mu)^2, (1 - gamma L)^2, 1 - p^2} Psi.
Defaults. gamma = 1/L, and p = sqrt(gamma mu) = 1/sqrt(kappa), the fewest exchanges that do not slow this down:
sqrt(kappa) log(1/eps) exchanges of sqrt(kappa) local steps. Codecs are refused: an h_j that learns from lossy means can
diverge; CompressedScaffnew and LoCoDL are built for it.
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
    x: Array  # xh_j as it was sent
    h: Array


@dataclass(frozen=True)
class Server:
    x: Array
    h: Array


@dataclass(frozen=True)
class Scaffnew(Algorithm):
    """Scaffnew: local steps with control variates and random exchanges (Algorithm 2 of Mishchenko et al.).

    Parameters
    ----------
    gamma : float, default 1 / L
        The step, 0 < gamma < 2/L.
    p : float, default min(1, sqrt(gamma mu))
        The probability to communicate, in (0, 1].

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.Scaffnew(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-6)
    True
    """

    gamma: float = theory("1 / L", lambda k, a: 1 / k.L)
    p: float = theory("min(1, sqrt(gamma mu))", lambda k, a: min(1.0, np.sqrt(a.gamma * k.mu)))

    name = "scaffnew"
    nonconvex = True
    penalty = "server"
    grid: ClassVar = {"gamma": [10.0**-m for m in range(9)], "p": [10.0**-m for m in range(5)]}
    card = Card(
        title="Scaffnew",
        year=2022,
        reference="Mishchenko, Malinovsky, Stich and Richtarik",
        rate="sqrt(kappa) log(1/eps)",
        accelerated=True,
        deterministic=False,
        paper="arXiv:2202.09357",
    )

    def check(self, k: Constants) -> None:
        self.require(self.gamma > 0, "gamma", "it must be positive")
        self.require(not self.gamma >= 2 / k.L, "gamma", f"gradient steps diverge from 2/L = {2 / k.L:.3g} on")
        self.require(0 < self.p <= 1, "p", "it is the probability to communicate, in (0, 1]")

    def start(self, at: Place) -> Server:
        return Server(x=np.zeros(at.d), h=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, x=s.x)
        q = self.p / self.gamma
        x = at.prox(1 / q, m.x - s.h / q)
        return Server(x=x, h=s.h + q * (x - m.x))

    def model(self, s: Server) -> Array:
        return s.x

    def client(self, f: ClientCost, at: Place) -> Local:
        return Local(x=np.zeros(at.d), h=np.zeros(at.d))

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        h = c.h + self.p / self.gamma * (x - c.x)
        for _ in range(at.common("coin").geometric(self.p)):
            x = x - self.gamma * (f.gradient(x) - h)
        sent = at.send(x=x)
        return sent, Local(x=sent.x, h=h)
