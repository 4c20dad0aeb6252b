"""AIDE: DANE inside a Catalyst acceleration.

S. J. Reddi, J. Konecny, P. Richtarik, B. Poczos and A. Smola, "AIDE: fast and communication efficient distributed
optimization", 2016.

    x+ = `inner` DANE steps from x on E + (tau/2)|. - y|^2
    y+ = x+ + b (x+ - x),         q = mu/(mu + tau),  b = (1 - sqrt(q))/(1 + sqrt(q))

The inner problem is better conditioned, by tau = delta; one inner step is too few and loses the acceleration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.contract import Card, Constants, Place, Round, theory
from dualfl.algorithms.similarity.dane import DANE
from dualfl.typing import Array


@dataclass(frozen=True)
class Accelerated:
    x: Array
    y: Array
    bound: float


@dataclass(frozen=True)
class AIDE(DANE):
    """AIDE: DANE, accelerated by Catalyst.

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
    tau : float, default delta
        The weight of the proximal term.
    inner : int, default 3
        Rounds of DANE inside a round.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.AIDE(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-3)
    True
    """

    tau: float = theory("delta", lambda k, a: k.delta)
    inner: int = 3

    name = "aide"
    grid: ClassVar = {"tau": [10.0**m for m in range(-4, 3)], "mu_D": [10.0**m for m in range(-4, 3)]}
    card = Card(
        "AIDE",
        2016,
        "Reddi, Konecny, Richtarik, Poczos and Smola",
        exchanges="2 inner",
        up="inner (2d + 1)",
        down="inner (3d + 1)",
        rate="sqrt(delta/mu) log(1/eps)",
        accelerated=True,
        paper="arXiv:1608.06879",
    )

    def check(self, k: Constants) -> None:
        super().check(k)
        self.require(0 < self.tau < np.inf, "tau", "it must be positive")
        self.require(self.inner >= 1, "inner", "it must be at least 1 step")

    def start(self, at: Place) -> Any:
        zero = np.zeros(at.d)
        return Accelerated(zero, zero, -np.inf)

    def round(self, s: Any, at: Place) -> Round:
        x, bound = s.x, s.bound
        for _ in range(self.inner):
            x, proven = yield from self.step(x, self.tau, s.y, at)
            bound = max(bound, proven)
        q = np.sqrt(self.mu / (self.mu + self.tau))
        return Accelerated(x, x + (1 - q) / (1 + q) * (x - s.x), bound)
