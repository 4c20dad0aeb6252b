"""Distributed accelerated (proximal) gradient descent for strongly convex costs.

Y. Nesterov, "Introductory Lectures on Convex Optimization", 2004, scheme 2.2.11.

    x^(n+1) = prox_{P/L}(y^(n) - E'(y^(n))/L)
    y^(n+1) = x^(n+1) + b (x^(n+1) - x^(n)),          b = (sqrt(kappa) - 1)/(sqrt(kappa) + 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, ask, theory
from dualfl.typing import Array


@dataclass(frozen=True)
class Server:
    x: Array
    y: Array
    bound: float


@dataclass(frozen=True)
class ServerNesterov(Algorithm):
    """Nesterov's accelerated gradient method at the server; clients send gradients.

    Parameters
    ----------
    step : float, default 1 / L
        The step.
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.ServerNesterov(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-5)
    True
    """

    step: float = theory("1 / L", lambda k, a: 1 / k.L)
    mu: float = theory("mu", lambda k, a: k.mu)

    name = "nesterov"
    penalty = "server"
    grid: ClassVar = {"step": [10.0**m for m in range(-4, 3)]}
    card = Card(
        "Nesterov's method",
        1983,
        "Nesterov",
        up="d + 3",
        rate="sqrt(kappa) log(1/eps)",
        accelerated=True,
        paper="doi:10.1007/978-1-4419-8853-9",
    )

    def check(self, k: Constants) -> None:
        self.require(0 < self.step < np.inf, "step", "it must be positive, and at most 1/L in theory")
        self.require(0 < self.mu * self.step <= 1, "mu", "mu * step must lie in (0, 1]")

    def start(self, at: Place) -> Server:
        zero = np.zeros(at.d)
        return Server(zero, zero, -np.inf)

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.value_gradient, x=s.y)
        x = at.prox(self.step, s.y - self.step * m.g)
        q = np.sqrt(self.mu * self.step)
        y = x + (1 - q) / (1 + q) * (x - s.x)
        return Server(x, y, max(s.bound, self.lower_bound(at, self.mu, s.y, m)))

    def model(self, s: Server) -> Array:
        return s.x

    def bound(self, s: Server) -> float:
        return s.bound
