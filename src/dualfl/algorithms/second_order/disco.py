"""DiSCO: distributed self-concordant optimisation.

Y. Zhang and L. Xiao, "DiSCO: distributed optimization for self-concordant empirical loss", 2015.

An inexact damped Newton method: H v = g is solved by conjugate gradients, preconditioned by the Hessian of one client,

    P = H_master(x) + mu_P I,         until |H v - g| <= (1/20) sqrt(mu/L) |g|,
    x+ = x - v / (1 + damping sqrt(v'Hv)).

Each CG iteration asks the master for P^{-1} r and everybody for H_j u. The paper counts one exchange, since there the
master is the server; here it is a client, and both are counted.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

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
    Upload,
    ask,
    client_step,
    theory,
)
from dualfl.algorithms.second_order.conjugate_gradients import conjugate_gradients
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    x: Array


@dataclass(frozen=True)
class Server:
    x: Array
    bound: float


@dataclass(frozen=True)
class DiSCO(Algorithm):
    """DiSCO: damped Newton steps by conjugate gradients, preconditioned by the Hessian of one client.

    Parameters
    ----------
    mu_P : float, default delta
        The damping of the preconditioner.
    accuracy : float, default sqrt(mu/L) / 20
        How exactly clients solve their problems.
    damping : float, default 1.0
        Scales the Newton step.
    master : int, default 0
        The client that holds the preconditioner or stands in for all.
    most : int, default 100
        Most iterations of conjugate gradients in a round.
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.DiSCO(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    mu_P: float = theory("delta", lambda k, a: k.delta, zero=True)
    accuracy: float = theory("sqrt(mu/L) / 20", lambda k, a: np.sqrt(k.mu / k.L) / 20)
    damping: float = 1.0
    master: int = 0
    most: int = 100  # CG iterations a round
    mu: float = theory("mu", lambda k, a: k.mu, zero=True)  # for the certificate only

    name = "disco"
    needs = frozenset({"gradient", "hessian"})
    grid: ClassVar = {"mu_P": [0.0] + [10.0**m for m in range(-4, 2)], "damping": [0.0, 1.0]}
    card = Card(
        "DiSCO",
        2015,
        "Zhang and Xiao",
        exchanges="1 + 2 per CG iteration",
        up="d + 3, then d per CG iteration",
        down="d, then d per CG iteration",
        rate="sqrt(delta/mu) log(1/eps), self-concordant",
        accelerated=True,
        paper="arXiv:1501.00263",
    )

    def check(self, k: Constants) -> None:
        self.require(self.mu_P >= 0, "mu_P", "it must be >= 0; at least delta in theory")
        self.require(0 < self.accuracy < 1, "accuracy", "it must lie in (0, 1)")
        self.require(self.damping >= 0, "damping", "it must be >= 0")
        self.require(0 <= self.master < k.N, "master", f"it must be a client number below {k.N}")
        self.require(self.most >= 1, "most", "it must be at least 1")

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d), -np.inf)

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.remember, x=s.x)
        g, bound = m.g, max(s.bound, self.lower_bound(at, self.mu, s.x, m))
        goal = self.accuracy * np.linalg.norm(g)
        v = Hv = np.zeros(at.d)
        r = g
        z = yield from self.precondition(r)
        u, rz = z, float(r @ z)
        for _ in range(self.most):
            if np.linalg.norm(r) <= goal or rz == 0.0:
                break
            Hu = (yield ask(self.hessian_times, v=u)).Hv
            curvature = float(u @ Hu)
            if curvature == 0.0:  # a preconditioner so strong that its direction vanishes in floating point
                break
            a = rz / curvature
            v, Hv, r = v + a * u, Hv + a * Hu, r - a * Hu
            z = yield from self.precondition(r)
            rz, old = float(r @ z), rz
            u = z + rz / old * u
        return Server(s.x - v / (1 + self.damping * np.sqrt(max(float(v @ Hv), 0.0))), bound)

    def precondition(self, r: Array) -> Generator[Ask, Means, Array]:
        m = yield ask(self.solve, to=[self.master], r=r)
        z: Array = m.z / m.mass
        return z

    def model(self, s: Server) -> Array:
        return s.x

    def bound(self, s: Server) -> float:
        return s.bound

    @client_step
    def remember(self, f: ClientCost, c: Any, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        return at.send(g=g).also(**at.measured(f, x, E)), Local(x)

    @client_step
    def hessian_times(self, f: ClientCost, c: Local, at: Place, v: Array) -> tuple[Upload, Local]:
        return at.send(Hv=f.hessian_times(c.x, v)), c

    @client_step
    def solve(self, f: ClientCost, c: Local, at: Place, r: Array) -> tuple[Upload, Local]:
        # Tight, because CG wants the same preconditioner every time.
        z = conjugate_gradients(lambda v: f.hessian_times(c.x, v) + self.mu_P * v, r, 1e-10, most=1000)
        return at.send(z=z), c
