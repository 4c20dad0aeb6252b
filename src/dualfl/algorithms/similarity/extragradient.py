"""Accelerated extragradient: gradient sliding under similarity.

D. Kovalev, A. Beznosikov, E. Borodich, A. Gasnikov and G. Scutari, "Optimal gradient sliding and its application to
distributed optimization under similarity", 2022.

One client, `master`, stands in for all: E = q + p with q = f_master and p = E - f_master, p' delta-Lipschitz.

    x_g  = tau x + (1 - tau) x_f                                                   exchange with all: E'(x_g)
    x_f+ ~ argmin <p'(x_g), t> + delta |t - x_g|^2 + q(t)                          exchange with the master alone
    x+   = x + eta mu (x_f+ - x) - eta E'(x_f+)                                    exchange with all: E'(x_f+)

    tau = min(1, sqrt(mu/delta)/2),   eta = min(1/(2 mu), 1/(2 sqrt(mu delta)))

The master solves until |residual| <= delta/(sqrt(3) + 1/2) |x_f+ - x_g|, which is enough and can be checked. The paper
counts two exchanges a round, because there the master is the server; here it is a client, and the third is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.solvers.stopping import RelativeStep
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    x: Array
    g: Array


@dataclass(frozen=True)
class Server:
    x: Array
    x_f: Array
    bound: float


@dataclass(frozen=True)
class AcceleratedExtragradient(Algorithm):
    """Accelerated extragradient: gradient sliding for clients that are similar, with similarity delta.

    Parameters
    ----------
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.
    delta : float, default delta
        A bound of how unlike the clients' Hessians are.
    tau : float, default min(1, sqrt(mu/delta)/2)
        The weight of the acceleration.
    eta : float, default min(1/(2 mu), 1/(2 sqrt(mu delta)))
        The local step.
    master : int, default 0
        The client that holds the preconditioner or stands in for all.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.AcceleratedExtragradient(), rounds=100)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    mu: float = theory("mu", lambda k, a: k.mu)
    delta: float = theory("delta", lambda k, a: k.delta)
    tau: float = theory("min(1, sqrt(mu/delta)/2)", lambda k, a: min(1.0, np.sqrt(a.mu / a.delta) / 2))
    eta: float = theory(
        "min(1/(2 mu), 1/(2 sqrt(mu delta)))", lambda k, a: min(1 / (2 * a.mu), 1 / (2 * np.sqrt(a.mu * a.delta)))
    )
    master: int = 0

    name = "extragradient"
    needs = frozenset({"gradient", "local"})
    grid: ClassVar = {"delta": [10.0**m for m in range(-4, 3)]}
    card = Card(
        "Accelerated extragradient",
        2022,
        "Kovalev, Beznosikov, Borodich, Gasnikov and Scutari",
        exchanges="3 (1 with the master alone)",
        up="2d + 3",
        down="2d",
        rate="sqrt(delta/mu) log(1/eps)",
        accelerated=True,
        paper="arXiv:2205.15136",
    )

    def check(self, k: Constants) -> None:
        self.require(self.mu > 0, "mu", "it must be positive")
        self.require(self.delta > 0, "delta", "it must be positive")
        self.require(0 < self.tau <= 1, "tau", "it must lie in (0, 1]")
        self.require(self.eta > 0, "eta", "it must be positive")
        self.require(0 <= self.master < k.N, "master", f"it must be a client number below {k.N}")

    def start(self, at: Place) -> Server:
        zero = np.zeros(at.d)
        return Server(zero, zero, -np.inf)

    def round(self, s: Server, at: Place) -> Round:
        x_g = self.tau * s.x + (1 - self.tau) * s.x_f
        m = yield ask(self.own_gradient, x=x_g)
        slid = yield ask(self.slide, to=[self.master], g=m.g)
        x_f = slid.x / slid.mass
        m = yield ask(self.value_gradient, x=x_f)
        x = s.x + self.eta * self.mu * (x_f - s.x) - self.eta * m.g
        return Server(x, x_f, max(s.bound, self.lower_bound(at, self.mu, x_f, m)))

    def model(self, s: Server) -> Array:
        return s.x_f

    def bound(self, s: Server) -> float:
        return s.bound

    @client_step
    def own_gradient(self, f: ClientCost, c: Any, at: Place, x: Array) -> tuple[Upload, Local | None]:
        g = f.gradient(x)
        return at.send(g=g), Local(x, g) if at.j == self.master else None

    @client_step
    def slide(self, f: ClientCost, c: Local, at: Place, g: Array) -> tuple[Upload, Local]:
        a = 2 * self.delta
        stop = RelativeStep(self.delta / (np.sqrt(3) + 0.5), f.place(c.x), cap=500)
        solved = f.local(a, a * c.x - (g - c.g), warm=f.place(c.x), stop=stop)
        return at.send(x=solved.x), c
