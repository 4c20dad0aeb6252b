r"""S-Local-SVRG: local steps, shifted and variance-reduced at one common reference point.

E. Gorbunov, F. Hanzely and P. Richtarik, "Local SGD: Unified theory and new efficient methods", AISTATS 2021. All
clients share a reference y and gy = sum_j w_j f_j'(y). Every iteration

    G_j  = f_{j,I}'(x_j) - f_{j,I}'(y) + gy,            f_{j,I} the cost on a random batch I of the client's rows
    x_j <- x_j - gamma G_j
    with probability p (one coin for all):  x_j <- x = sum_i w_i x_i                                  (an exchange)
        and then with probability q:        y <- x,  gy <- sum_j w_j f_j'(x)                          (a second one)

A round is one average and the local steps before it, geometric in number with mean 1/p. batch=None takes full
gradients, f_j'(x_j) - f_j'(y) + gy: S-Local-GD, which is FedLin with a random number of steps. p = q = 1 is then
gradient descent.

Defaults. p = 0.1, q = 1, gamma = p/(6 L) with full gradients: 1/p steps together are as long as FedLin's proven ones.
With batches p/(6 L_row), since L_row is what bounds the variance. The constants of the paper's theorem are for a
general family of methods; take gamma as a starting point for tuning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost, SampledCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.errors import NotSupported
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    y: Array
    g: Array  # f_j'(y)


@dataclass(frozen=True)
class Server:
    x: Array
    gy: Array


@dataclass(frozen=True)
class SLocalSVRG(Algorithm):
    """S-Local-SVRG: corrected and variance-reduced local steps (Gorbunov, Hanzely and Richtarik).

    Parameters
    ----------
    batch : int or None, default 1
        How many rows a stochastic gradient takes; None takes full gradients.
    p : float, default 0.1
        The probability to average.
    q : float, default 1.0
        The probability to renew the reference point after an average.
    gamma : float, optional
        The step.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.SLocalSVRG(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1)
    True
    """

    batch: int | None = 1
    p: float = 0.1
    q: float = 1.0
    gamma: float = theory(
        "p / (6 L_row), with full gradients p / (6 L)",
        lambda k, a: a.p / (6 * (k.L if a.batch is None else k.L_row)),
    )

    name = "s-local-svrg"
    grid: ClassVar = {"gamma": [10.0**-m for m in range(7)], "p": [0.01, 0.1, 1.0]}
    card = Card(
        title="S-Local-SVRG",
        year=2021,
        reference="Gorbunov, Hanzely and Richtarik",
        exchanges="1 + q, and 1 to start",
        up="(1 + q) d",
        down="(2 + q) d",
        rate="kappa log(1/eps)",
        deterministic=False,
        paper="arXiv:2011.02828",
    )

    def check(self, k: Constants) -> None:
        self.require(self.batch is None or self.batch >= 1, "batch", "it is a number of rows, >= 1, or None")
        self.require(0 < self.p <= 1, "p", "it is a probability, in (0, 1]")
        self.require(0 < self.q <= 1, "q", "it is a probability, in (0, 1]")
        self.require(self.gamma > 0, "gamma", "it must be positive")
        self.require(not self.gamma >= 2 / k.L, "gamma", f"gradient steps diverge from 2/L = {2 / k.L:.3g} on")

    def start(self, at: Place) -> Round:
        x = np.zeros(at.d)
        return Server(x=x, gy=(yield ask(self.renew, x=x)).g)

    def round(self, s: Server, at: Place) -> Round:
        x = (yield ask(self.local, x=s.x, gy=s.gy)).x
        if not at.common("renew").coin(self.q):
            return Server(x=x, gy=s.gy)
        return Server(x=x, gy=(yield ask(self.renew, x=x)).g)

    def model(self, s: Server) -> Array:
        return s.x

    def client(self, f: ClientCost, at: Place) -> None:
        if self.batch is not None and "samples" not in f.objective.offers:
            raise NotSupported(
                f"{self.name} with batch = {self.batch} needs gradients of single rows, and {f.objective.name} has "
                "none; batch=None takes full gradients."
            )

    @client_step
    def renew(self, f: ClientCost, c: Local | None, at: Place, x: Array) -> tuple[Upload, Local]:
        g = f.gradient(x)
        return at.send(g=g), Local(y=x, g=g)

    @client_step
    def local(self, f: SampledCost, c: Local, at: Place, x: Array, gy: Array) -> tuple[Upload, Local]:
        steps = at.common("coin").geometric(self.p)
        if self.batch is None:
            for _ in range(steps):
                x = x - self.gamma * (f.gradient(x) - c.g + gy)
        else:
            for rows in at.rng("rows").integers(f.n, size=(steps, self.batch)):
                x = x - self.gamma * (f.sample_gradient(rows, x) - f.sample_gradient(rows, c.y) + gy)
        return at.send(x=x), c
