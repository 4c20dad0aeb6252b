r"""FedRed: DANE by gradient steps, regularised twice.

X. Jiang, A. Rodomanov and S. U. Stich, "Federated optimization with doubly regularized drift correction", ICML 2024,
Algorithm 2 with the linearised local steps (FedRed-GD). All clients share xt and h_j = f_j'(xt) - E'(xt). Every
iteration, with one coin for all,

    x_j <- argmin <f_j'(x_j) - h_j, t> + (eta/2)|t - x_j|^2 + (lam/2)|t - xt|^2
         = (eta x_j + lam xt - f_j'(x_j) + h_j)/(eta + lam)
    with probability p:   xt <- mean x_j,  all x_j <- xt                                       (an exchange)
                          E'(xt) is asked for                                                  (a second one)

One regulariser keeps a step short enough for L, the other keeps the local steps within reach of delta: about L/delta of
them are worth one exact step of DANE. Without the second, lam = 0, this is S-Local-GD with the step 1/eta. A round is
one average and the local steps before it.

Defaults. eta = L, lam = delta, p = (lam + mu/2)/(eta + mu/2): (delta/mu) log(1/eps) rounds, (L/mu) log(1/eps) steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

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
    bound: float


@dataclass(frozen=True)
class FedRed(Algorithm):
    """FedRed: DANE by gradient steps with two regularisers (Jiang, Rodomanov and Stich).

    Parameters
    ----------
    eta : float, default L
        The weight of the regulariser around the last local point; 1/eta is a step.
    lam : float, default delta
        The weight of the regulariser around the last common point.
    p : float, default min(1, (lam + mu/2) / (eta + mu/2))
        The probability to communicate, in (0, 1].
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedRed(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-2)
    True
    """

    eta: float = theory("L", lambda k, a: k.L)
    lam: float = theory("delta", lambda k, a: k.delta, zero=True)
    p: float = theory(
        "min(1, (lam + mu/2) / (eta + mu/2))", lambda k, a: min(1.0, (a.lam + k.mu / 2) / (a.eta + k.mu / 2))
    )
    mu: float = theory("mu", lambda k, a: k.mu, zero=True)  # for the certificate only

    name = "fedred"
    grid: ClassVar = {"lam": [10.0**m for m in range(-4, 3)], "p": [1.0, 0.1, 0.01]}
    card = Card(
        "FedRed",
        2024,
        "Jiang, Rodomanov and Stich",
        exchanges="2",
        up="2d + 3",
        down="2d",
        rate="(delta/mu) log(1/eps)",
        deterministic=False,
        paper="arXiv:2404.08447",
    )

    def check(self, k: Constants) -> None:
        self.require(self.eta > 0, "eta", "it must be positive")
        self.require(0 <= self.lam < np.inf, "lam", "it must be >= 0; delta in theory")
        short = k.L / 2 - self.lam
        self.require(not self.eta <= short, "eta", f"local steps diverge up to L/2 - lam = {short:.3g}")
        self.require(0 < self.p <= 1, "p", "it is the probability to communicate, in (0, 1]")

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d), -np.inf)

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.anchor, x=s.x)
        bound = max(s.bound, self.lower_bound(at, self.mu, s.x, m))
        m = yield ask(self.local, g=m.g)
        return Server(m.x, bound)

    def model(self, s: Server) -> Array:
        return s.x

    def bound(self, s: Server) -> float:
        return s.bound

    @client_step
    def anchor(self, f: ClientCost, c: Any, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        return at.send(g=g).also(**at.measured(f, x, E)), Local(x, g)

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, g: Array) -> tuple[Upload, None]:
        x, h = c.x, c.g - g
        for _ in range(at.common("coin").geometric(self.p)):
            x = (self.eta * x + self.lam * c.x - f.gradient(x) + h) / (self.eta + self.lam)
        return at.send(x=x), None
