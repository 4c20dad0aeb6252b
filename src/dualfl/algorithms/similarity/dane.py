"""DANE, the distributed approximate Newton method.

O. Shamir, N. Srebro and T. Zhang, "Communication-efficient distributed optimization using an approximate Newton-type
method", 2014.

    g   = E'(x)                                                                            first exchange
    x_j = argmin f_j(t) - <f_j'(x) - eta g, t> + (mu_D/2)|t - x|^2,    x+ = mean x_j       second exchange

The damping mu_D = delta makes it contract on quadratics: e+ = (I - eta mean (H_j + mu_D I)^{-1} H) e. With mu_D = 0 it
is fast on clients that are very alike and diverges on clients that are not.
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
from dualfl.solvers.stopping import GradientNorm
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    x: Array
    g: Array  # f_j'(x)


@dataclass(frozen=True)
class Server:
    x: Array
    bound: float


@dataclass(frozen=True)
class DANE(Algorithm):
    """DANE: clients minimise a corrected local cost, with damping mu_D, to `accuracy` times |E'(x)|.

    Parameters
    ----------
    mu_D : float, default delta
        The damping of the local problems.
    eta : float, default 1.0
        The local step.
    accuracy : float, default 0.001
        How exactly clients solve their problems.
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.DANE(), rounds=100)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-4)
    True
    """

    mu_D: float = theory("delta", lambda k, a: k.delta, zero=True)
    eta: float = 1.0
    accuracy: float = 1e-3
    mu: float = theory("mu", lambda k, a: k.mu, zero=True)  # for the certificate only

    name = "dane"
    needs = frozenset({"gradient", "local"})
    grid: ClassVar = {"mu_D": [0.0] + [10.0**m for m in range(-4, 3)]}
    card = Card(
        "DANE",
        2014,
        "Shamir, Srebro and Zhang",
        exchanges="2",
        up="2d + 3",
        down="2d",
        rate="(delta/mu) log(1/eps)",
        paper="arXiv:1312.7853",
    )

    def check(self, k: Constants) -> None:
        self.require(0 <= self.mu_D < np.inf, "mu_D", "it must be >= 0; at least delta in theory")
        self.require(self.eta > 0, "eta", "it must be positive; 1 is usual")
        self.require(0 < self.accuracy < 1, "accuracy", "it must lie in (0, 1)")

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d), -np.inf)

    def round(self, s: Server, at: Place) -> Round:
        x, bound = yield from self.step(s.x, 0.0, s.x, at)
        return Server(x, max(s.bound, bound))

    def step(self, x: Array, tau: float, y: Array, at: Place) -> Generator[Ask, Means, tuple[Array, float]]:
        """One DANE step on E + (tau/2)|. - y|^2, and the lower bound of E* that its gradient proves."""
        m = yield ask(self.own_gradient, x=x)
        bound = self.lower_bound(at, self.mu, x, m)
        m = yield ask(self.local, g=m.g, tau=tau, y=y) if tau else ask(self.local, g=m.g)
        return m.x, bound

    def model(self, s: Any) -> Array:
        x: Array = s.x
        return x

    def bound(self, s: Any) -> float:
        return float(s.bound)

    @client_step
    def own_gradient(self, f: ClientCost, c: Any, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        return at.send(g=g).also(**at.measured(f, x, E)), Local(x, g)

    @client_step
    def local(
        self, f: ClientCost, c: Local, at: Place, g: Array, tau: float = 0.0, y: Array | None = None
    ) -> tuple[Upload, Local]:
        # The tau terms of f_j'(x) and of g cancel for eta = 1; what remains is tau y in the linear part.
        a = self.mu_D + tau
        linear = c.g - self.eta * g + self.mu_D * c.x
        if y is not None:
            linear = linear + tau * y + (1 - self.eta) * tau * (c.x - y)
            g = g + tau * (c.x - y)
        stop = GradientNorm(max(self.accuracy * float(np.linalg.norm(g)), 1e-14), cap=500)
        return at.send(x=f.local(a, linear, warm=f.place(c.x), stop=stop).x), c
