"""Distributed (proximal) gradient descent.

    x^(n+1) = prox_{s P}(x^(n) - s E'(x^(n))),        s = 2/(mu + L)

The step is the best one for a strongly convex, L-smooth E: without a penalty the error falls by
(kappa - 1)/(kappa + 1) a round.
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
    bound: float


@dataclass(frozen=True)
class GradientDescent(Algorithm):
    """Gradient descent at the server; with a penalty, proximal gradient descent.

    Parameters
    ----------
    step : float, default 2 / (mu + L)
        The step.
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.GradientDescent(), rounds=100)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    step: float = theory("2 / (mu + L)", lambda k, a: 2 / (k.mu + k.L))
    mu: float = theory("mu", lambda k, a: k.mu, zero=True)  # for the certificate only

    name = "gd"
    penalty = "server"
    strongly_convex = False
    compresses = True
    no_certificate = "E is not strongly convex, or a codec left no gradient to prove anything with"
    grid: ClassVar = {"step": [10.0**m for m in range(-4, 3)]}
    card = Card(
        "Gradient descent",
        1847,
        "Cauchy",
        up="d + 3",
        needs="smooth",
        rate="kappa log(1/eps)",
        paper="doi:10.1007/978-1-4419-8853-9",
    )

    def check(self, k: Constants) -> None:
        self.require(0 < self.step < np.inf, "step", "it must be positive, and below 2/L to converge")

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d), -np.inf)

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.value_gradient, x=s.x)
        bound = max(s.bound, self.lower_bound(at, self.mu, s.x, m))
        return Server(at.prox(self.step, s.x - self.step * m.g), bound)

    def model(self, s: Server) -> Array:
        return s.x

    def bound(self, s: Server) -> float:
        return s.bound
