r"""AccSVRS: gradient sliding with single clients, accelerated by Katyusha X.

D. Lin, Y. Han, H. Ye and Z. Zhang, "Stochastic distributed optimization under average second-order similarity:
algorithms and analysis", NeurIPS 2023, Algorithms 1 and 2. One client, `master`, has the cost f_1 that stands in for
all. An epoch, which is a round, begins with

    x0 = tau z + (1 - tau) y,       E'(x0)                                                  exchange with all

and then takes T steps, T geometric with mean 1/p, each with one client i drawn at random,

    g_t     = f_i'(x_t) - f_i'(x0) + E'(x0)                                                 exchange with client i
    x_{t+1} = argmin f_1(t) + <g_t - f_1'(x_t), t> + |t - x_t|^2/(2 theta)                  exchange with the master

It ends with y = x_T, which is the model, and E'(y)                                         exchange with all
    G  = p ((x0 - y)/theta + (f_1' - E')(x0) - (f_1' - E')(y))
    z <- (z + (mu alpha/2) y - alpha G)/(1 + mu alpha/2).

G is the mean gradient that the epoch has seen: all its steps together move theta^-1 x + (f_1' - E')(x) by the sum of
the gradients at x_1, ..., x_T, in expectation. tau = 1 without z is SVRS. In the paper the master is the server; here
it is a client, and its exchanges are counted. A sum over one client is no secret: with masks it is refused. For equal
weights; on unequal clients the engine puts N w_j into the data.

Defaults. p = 1/N, theta = 1/(2 sqrt(N) delta), tau = min{1/2, sqrt(theta mu/p)/2}, alpha = theta/(2 p tau): the
parameters of Katyusha X for a step theta, which give N^(3/4) sqrt(delta/mu) log(1/eps) contacts. (The order is the
paper's; its constants were not at hand.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dualfl.algorithms.accuracy import exactly, gradient_scale
from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.messages import Sparse
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    g: Array  # f_j'(x0)
    x: Array  # x_t, the master's
    gx: Array  # f_1'(x_t), the master's
    scale: float


@dataclass(frozen=True)
class Server:
    y: Array
    z: Array
    bound: float


@dataclass(frozen=True)
class AccSVRS(Algorithm):
    """AccSVRS: accelerated gradient sliding with single clients (Lin, Han, Ye and Zhang).

    Parameters
    ----------
    mu : float, default mu
        The strong convexity of E.
    p : float, default 1 / N
        An epoch has 1/p steps on average.
    theta : float, default sqrt(p) / (2 delta)
        The step of the master.
    tau, alpha : float
        The coupling and the step of z.
    master : int, default 0
        The client whose cost stands in for all.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.AccSVRS(), rounds=100)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    mu: float = theory("mu", lambda k, a: k.mu)
    p: float = theory("1 / N", lambda k, a: 1 / k.N)
    theta: float = theory("sqrt(p) / (2 delta)", lambda k, a: np.sqrt(a.p) / (2 * k.delta))
    tau: float = theory("min(1/2, sqrt(theta mu / p) / 2)", lambda k, a: min(0.5, np.sqrt(a.theta * a.mu / a.p) / 2))
    alpha: float = theory("theta / (2 p tau)", lambda k, a: a.theta / (2 * a.p * a.tau))
    master: int = 0

    name = "accsvrs"
    needs = frozenset({"gradient", "local"})
    uniform = True
    grid: ClassVar = {"theta": [10.0**m for m in range(-4, 4)]}
    card = Card(
        "AccSVRS",
        2023,
        "Lin, Han, Ye and Zhang",
        exchanges="2, and 2/p with one client",
        up="2d + 6 + (1 + 2/p) d/N",
        down="2d + (2/p) d/N",
        participation="one",
        rate="(N + N^(3/4) sqrt(delta/mu)) log(1/eps)",
        accelerated=True,
        deterministic=False,
        paper="arXiv:2304.07504",
    )

    def check(self, k: Constants) -> None:
        self.require(self.mu > 0, "mu", "it must be positive")
        self.require(0 < self.p <= 1, "p", "it is the probability that an epoch ends, in (0, 1]")
        self.require(0 < self.theta < np.inf, "theta", "it must be positive")
        self.require(0 < self.tau <= 1, "tau", "it must lie in (0, 1]")
        self.require(0 < self.alpha < np.inf, "alpha", "it must be positive")
        self.require(0 <= self.master < k.N, "master", f"it must be a client number below {k.N}")

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d), np.zeros(at.d), -np.inf)

    def round(self, s: Server, at: Place) -> Round:
        x0 = self.tau * s.z + (1 - self.tau) * s.y
        m = yield ask(self.anchor, x=x0)
        first, bound = m.g, self.lower_bound(at, self.mu, x0, m)
        coins, x = at.common("clients"), x0
        for _ in range(at.common("epoch").geometric(self.p)):
            m = yield ask(self.difference, to=[int(coins.uniform() * at.N)], x=x)
            m = yield ask(self.slide, to=[self.master], g=m.g / m.mass + first)
            x = m.x / m.mass
        m = yield ask(self.end, x=x)
        bound = max(bound, self.lower_bound(at, self.mu, x, m))
        G = self.p * ((x0 - x) / self.theta + at.N * m.own - (first - m.g))
        half = self.mu * self.alpha / 2
        return Server(x, (s.z + half * x - self.alpha * G) / (1 + half), max(s.bound, bound))

    def model(self, s: Server) -> Array:
        return s.y

    def bound(self, s: Server) -> float:
        return s.bound

    def client(self, f: ClientCost, at: Place) -> Local:
        zero = np.zeros(at.d)
        return Local(zero, zero, zero, gradient_scale(f) if at.j == self.master else 1.0)

    @client_step
    def anchor(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        return at.send(g=g).also(**at.measured(f, x, E)), replace(c, g=g, x=x, gx=g)

    @client_step
    def difference(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        return at.send(g=f.gradient(x) - c.g), c

    @client_step
    def slide(self, f: ClientCost, c: Local, at: Place, g: Array) -> tuple[Upload, Local]:
        """The master's proximal step from x_t, which it knows: it has computed it."""
        a = 1 / self.theta
        x = f.local(a, a * c.x + c.gx - g, warm=f.place(c.x), stop=exactly(c.scale)).x
        return at.send(x=x), replace(c, x=x, gx=f.gradient(x))

    @client_step
    def end(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        """The gradient at y, and from the master alone how much f_1' has changed since x0."""
        E, g = f.value_gradient(x)
        known = np.arange(at.d if at.j == self.master else 0)
        own = Sparse((c.g - c.gx)[known], known, at.d, seeded=True)
        return at.send(g=g, own=own).also(**at.measured(f, x, E)), c
