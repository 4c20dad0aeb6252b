r"""ProxSkip-VR: Scaffnew with variance-reduced stochastic gradients (the L-SVRG version).

G. Malinovsky, K. Yi and P. Richtarik, "Variance reduced ProxSkip: Algorithm, theory and application to federated
learning", NeurIPS 2022. Scaffnew in which f_j'(x_j) is replaced by

    G_j = f_{j,I}'(x_j) - f_{j,I}'(y_j) + f_j'(y_j),

f_{j,I} the cost on a random batch I of client j's rows (the ridge is in every row), the SAME batch at both points, or
nothing is reduced. With probability q, drawn by each client for itself, y_j <- x_j, the point before the step.

Rate, per iteration: min{gamma mu, p^2, q/2}, for gamma <= 1/(6 L_row), L_row the smoothness of the worst row:
E|G_j - f_j'(theta*)|^2 <= 4 L_row D_j + 2 sigma_j and E sigma_j+ <= (1 - q) sigma_j + 2 q L_row D_j, where D_j is the
Bregman distance of x_j to theta* and sigma_j the variance at y_j.
Defaults. gamma = 1/(6 L_row); p = sqrt(gamma mu) as in Scaffnew; q = max(2 gamma mu, 1/n), n rows: the smallest that
does not slow down, but a full gradient is never rarer than one in a pass over the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost, SampledCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    x: Array  # xh_j as it was sent
    h: Array
    y: Array
    g: Array  # f_j'(y)


@dataclass(frozen=True)
class Server:
    x: Array


@dataclass(frozen=True)
class ProxSkipVR(Algorithm):
    """ProxSkip-VR: Scaffnew with variance-reduced stochastic gradients (Malinovsky, Yi and Richtarik).

    Parameters
    ----------
    gamma : float, default 1 / (6 L_row)
        The step.
    p : float, default min(1, sqrt(gamma mu))
        The probability to communicate, in (0, 1].
    q : float, default min(1, max(2 gamma mu, 1/n))
        The probability of a full gradient, in (0, 1].
    batch : int, default 1
        How many rows a stochastic gradient takes.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.ProxSkipVR(), rounds=100)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-6)
    True
    """

    gamma: float = theory("1 / (6 L_row)", lambda k, a: 1 / (6 * k.L_row))
    p: float = theory("min(1, sqrt(gamma mu))", lambda k, a: min(1.0, np.sqrt(a.gamma * k.mu)))
    q: float = theory("min(1, max(2 gamma mu, 1/n))", lambda k, a: min(1.0, max(2 * a.gamma * k.mu, 1 / k.n)))
    batch: int = 1

    name = "proxskip-vr"
    needs = frozenset({"samples"})
    grid: ClassVar = {"gamma": [10.0**-m for m in range(9)], "p": [10.0**-m for m in range(5)]}
    card = Card(
        title="ProxSkip-VR",
        year=2022,
        reference="Malinovsky, Yi and Richtarik",
        rate="sqrt(L_row / mu) log(1/eps)",
        accelerated=True,
        deterministic=False,
        paper="arXiv:2207.04338",
    )

    def check(self, k: Constants) -> None:
        self.require(self.gamma > 0, "gamma", "it must be positive")
        self.require(not self.gamma >= 2 / k.L, "gamma", f"gradient steps diverge from 2/L = {2 / k.L:.3g} on")
        self.require(0 < self.p <= 1, "p", "it is the probability to communicate, in (0, 1]")
        self.require(0 < self.q <= 1, "q", "it is the probability of a full gradient, in (0, 1]")
        self.require(self.batch >= 1, "batch", "it must be at least 1 row")

    def start(self, at: Place) -> Server:
        return Server(x=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, x=s.x)
        return Server(x=m.x)

    def model(self, s: Server) -> Array:
        return s.x

    def client(self, f: ClientCost, at: Place) -> Local:
        zero = np.zeros(at.d)
        return Local(x=zero, h=zero, y=zero, g=f.gradient(zero))

    @client_step
    def local(self, f: SampledCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        h, y, g = c.h + self.p / self.gamma * (x - c.x), c.y, c.g
        steps = at.common("coin").geometric(self.p)
        rows = at.rng("rows").integers(f.n, size=(steps, self.batch))
        full = at.rng("full").random(steps) < self.q
        for k in range(steps):
            before, G = x, f.sample_gradient(rows[k], x) - f.sample_gradient(rows[k], y) + g
            x = x - self.gamma * (G - h)
            if full[k]:
                y, g = before, f.gradient(before)
        sent = at.send(x=x)
        return sent, Local(x=sent.x, h=h, y=y, g=g)
