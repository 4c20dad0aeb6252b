r"""GradSkip: Scaffnew in which clients with easy costs stop early.

A. Maranjyan, M. Safaryan and P. Richtarik, "GradSkip: communication-accelerated local gradient methods with better
computational complexity", 2022, Algorithm 1. Every iteration, with one coin of probability p for all and a coin of
probability q_j of the client's own,

    hh_j = h_j if its own coin falls, otherwise f_j'(x_j)
    xh_j = x_j - gamma (f_j'(x_j) - hh_j)
    with probability p:  x_j <- xbar = mean (xh_i - (gamma/p) hh_i)                                  (the exchange)
    otherwise:           x_j <- xh_j
    h_j <- hh_j + (p/gamma) (x_j - xh_j)

Once a client's own coin has failed, h_j = f_j'(x_j): it stands still, and needs no further gradient until the next
exchange. So a client of condition kappa_j takes about min{kappa_j, sqrt(kappa)} steps a round instead of sqrt(kappa),
for as many exchanges. With q_j = 1 nobody stops, and this is Scaffnew.

Defaults. gamma = 1/L and p = sqrt(gamma mu) as in Scaffnew; q_j = (1 - 1/kappa_j)/(1 - 1/kappa), kappa_j = L_j/mu_j,
the smallest for which the rate is Scaffnew's.
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
    x: Array  # xh_j of the last exchange
    h: Array  # hh_j


@dataclass(frozen=True)
class Server:
    x: Array


@dataclass(frozen=True)
class GradSkip(Algorithm):
    """GradSkip: Scaffnew in which clients with easy costs stop early (Maranjyan, Safaryan and Richtarik).

    Parameters
    ----------
    gamma : float, default 1 / L
        The step, 0 < gamma < 2/L.
    p : float, default min(1, sqrt(gamma mu))
        The probability to communicate, in (0, 1].
    q : float, optional
        The probability to go on, in [0, 1]; None gives each client its own, by its condition.
    kappa : float, default L / mu
        The largest condition, which these are compared with.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.GradSkip(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-6)
    True
    """

    gamma: float = theory("1 / L", lambda k, a: 1 / k.L)
    p: float = theory("min(1, sqrt(gamma mu))", lambda k, a: min(1.0, np.sqrt(a.gamma * k.mu)))
    q: float | None = None
    kappa: float = theory("L / mu", lambda k, a: k.kappa)

    name = "gradskip"
    grid: ClassVar = {"gamma": [10.0**-m for m in range(9)], "p": [10.0**-m for m in range(5)]}
    card = Card(
        title="GradSkip",
        year=2022,
        reference="Maranjyan, Safaryan and Richtarik",
        rate="sqrt(kappa) log(1/eps)",
        accelerated=True,
        deterministic=False,
        paper="arXiv:2210.16402",
    )

    def check(self, k: Constants) -> None:
        self.require(self.gamma > 0, "gamma", "it must be positive")
        self.require(not self.gamma >= 2 / k.L, "gamma", f"gradient steps diverge from 2/L = {2 / k.L:.3g} on")
        self.require(0 < self.p <= 1, "p", "it is the probability to communicate, in (0, 1]")
        self.require(self.q is None or 0 <= self.q <= 1, "q", "it is the probability to go on, in [0, 1], or None")
        self.require(self.kappa >= 1, "kappa", "it is a condition number, at least 1")

    def start(self, at: Place) -> Server:
        return Server(x=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, x=s.x)
        return Server(x=m.x)

    def model(self, s: Server) -> Array:
        return s.x

    def client(self, f: ClientCost, at: Place) -> Local:
        return Local(x=np.zeros(at.d), h=np.zeros(at.d))

    def going_on(self, f: ClientCost) -> float:
        """q_j."""
        if self.q is not None:
            return self.q
        most = 1 - 1 / self.kappa
        return min(1.0, (1 - f.mu / f.L) / most) if most > 0 else 1.0

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        h = c.h + self.p / self.gamma * (x - c.x)
        q = self.going_on(f)
        coins = at.rng("own coin").random(at.common("coin").geometric(self.p))
        for coin in coins:
            g = f.gradient(x)
            if coin >= q:  # from here on it stands still
                h = g
                break
            x = x - self.gamma * (g - h)
        return at.send(x=x - self.gamma / self.p * h), Local(x=x, h=h)
