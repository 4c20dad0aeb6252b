r"""LoCoDL: local training and compression of differences.

L. Condat, A. Maranjyan and P. Richtarik, "LoCoDL: Communication-efficient distributed learning with local training and
compression", 2024. E = (1/N) sum_j (f_j - g) + g with a g that everybody knows, here g = (mu_g/2)|.|^2, so that a part
of the model, y, can be followed by everybody without a message. Every iteration, with one coin for all clients,

    xh_j = x_j - gamma (f_j'(x_j) - mu_g x_j) + gamma u_j,        yh = y - gamma mu_g y + gamma v
    with probability p:
        d_j = C_j(xh_j - yh),       db = (1/(2N)) sum_j d_j                                           (the exchange)
        x_j <- (1 - r) xh_j + r (yh + db),        u_j <- u_j + q (db - d_j)
        y   <- yh + r db,                         v   <- v + q db,           q = p chi/(gamma (1 + 2 omega))
    otherwise  x_j <- xh_j,  y <- yh.

C_j are independent unbiased compressors of variance omega; here each client keeps k of d entries, times d/k, so that
omega = d/k - 1. (1/N) sum_j u_j + v = 0 at all times. Factors that matter: 1/(2N), and the 1 + 2 omega in q, without
which the method diverges.

Rate. With mu' = min(mu_g, mu - mu_g), L' = L - mu_g, r = chi = 1/(1 + omega/N), 0 < gamma < 2/L' and
    Psi = (sum_j |x_j - theta*|^2 + N |y - theta*|^2)/gamma
            + gamma (1 + 2 omega)/(p^2 chi) (sum_j |u_j - u_j*|^2 + N |v - v*|^2),
    E Psi+  <=  max{(1 - gamma mu')^2, (1 - gamma L')^2, 1 - p^2 chi/(1 + 2 omega)} Psi,
where u_j* = f_j'(theta*) - mu_g theta* and v* = mu_g theta*.
Defaults. mu_g = mu/2 makes mu' largest; gamma = 2/(L' + mu'); p = sqrt(gamma mu' (1 + 2 omega)/chi), or 1, the fewest
exchanges that do not slow this down; k = ceil(d/N), below which compression costs more rounds than it saves floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.messages import Sparse
from dualfl.streams import Stream
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    xh: Array
    yh: Array
    u: Array
    v: Array
    sent: Array  # d_j


@dataclass(frozen=True)
class Server:
    y: Array
    v: Array
    db: Array


def default_p(k: Constants, a: LoCoDL) -> float:
    chi, omega = a.chi(k.N, k.d), a.omega(k.d)
    return float(min(1.0, np.sqrt(a.gamma * a.convexity(k) * (1 + 2 * omega) / chi)))


@dataclass(frozen=True)
class LoCoDL(Algorithm):
    """LoCoDL: local training with compressed differences, by rand-k (Condat, Maranjyan and Richtarik).

    Parameters
    ----------
    k : int, default ceil(d / N)
        How many coordinates a client sends.
    mu_g : float, default mu / 2
        How much curvature goes to the common part, 0 < mu_g < mu.
    gamma : float, default 2 / (L' + mu')
        The step, 0 < gamma < 2/(L - mu_g).
    p : float, optional
        The probability to communicate, in (0, 1].

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.LoCoDL(), rounds=100)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-7)
    True
    """

    k: int = theory("ceil(d / N)", lambda k, a: -(-k.d // k.N))
    mu_g: float = theory("mu / 2", lambda k, a: k.mu / 2)
    gamma: float = theory("2 / (L' + mu')", lambda k, a: 2 / (k.L - a.mu_g + a.convexity(k)))
    p: float = theory("min(1, sqrt(gamma mu' (1 + 2 omega) / chi))", default_p)

    name = "locodl"
    uniform = True
    grid: ClassVar = {"gamma": [10.0**-m for m in range(9)], "p": [10.0**-m for m in range(5)]}
    card = Card(
        title="LoCoDL",
        year=2024,
        reference="Condat, Maranjyan and Richtarik",
        up="k",
        rate="sqrt(kappa (1 + omega)(1 + omega/N)) log(1/eps)",
        accelerated=True,
        deterministic=False,
        paper="arXiv:2403.04348",
    )

    def check(self, k: Constants) -> None:
        self.require(1 <= self.k <= k.d, "k", f"it must lie between 1 and the size of the model, {k.d}")
        self.require(self.mu_g > 0 and not self.mu_g >= k.mu, "mu_g", f"it must lie in (0, mu), and mu = {k.mu:.3g}")
        self.require(self.gamma > 0, "gamma", "it must be positive")
        bound = 2 / (k.L - self.mu_g)
        self.require(not self.gamma >= bound, "gamma", f"gradient steps diverge from 2/(L - mu_g) = {bound:.3g} on")
        self.require(0 < self.p <= 1, "p", "it is the probability to communicate, in (0, 1]")

    def convexity(self, k: Constants) -> float:
        return min(self.mu_g, k.mu - self.mu_g)

    def omega(self, d: int) -> float:
        return d / self.k - 1

    def chi(self, N: int, d: int) -> float:
        return 1 / (1 + self.omega(d) / N)

    def q(self, at: Place) -> float:
        return self.p * self.chi(at.N, at.d) / (self.gamma * (1 + 2 * self.omega(at.d)))

    # The part that everybody knows, one step: y after the exchange (with db), then `steps` local ones.

    def exchanged(self, yh: Array, v: Array, db: Array, at: Place) -> tuple[Array, Array]:
        return yh + self.chi(at.N, at.d) * db, v + self.q(at) * db

    def followed(self, y: Array, v: Array, steps: int) -> Array:
        for _ in range(steps):
            y = y - self.gamma * (self.mu_g * y - v)
        return y

    # -- the server -------------------------------------------------------------------------------

    def start(self, at: Place) -> Server:
        return Server(y=np.zeros(at.d), v=np.zeros(at.d), db=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, db=s.db)
        db = m.d / 2
        yh = self.followed(s.y, s.v, at.common("coin").geometric(self.p))
        y, v = self.exchanged(yh, s.v, db, at)
        return Server(y=y, v=v, db=db)

    def model(self, s: Server) -> Array:
        return s.y

    # -- a client ---------------------------------------------------------------------------------

    def client(self, f: ClientCost, at: Place) -> Local:
        zero = np.zeros(at.d)
        return Local(xh=zero, yh=zero, u=zero, v=zero, sent=zero)

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, db: Array) -> tuple[Upload, Local]:
        r = self.chi(at.N, at.d)
        x = (1 - r) * c.xh + r * (c.yh + db)
        u = c.u + self.q(at) * (db - c.sent)
        y, v = self.exchanged(c.yh, c.v, db, at)
        steps = at.common("coin").geometric(self.p)
        for _ in range(steps):
            x = x - self.gamma * (f.gradient(x) - self.mu_g * x - u)
        yh = self.followed(y, v, steps)
        own = Stream(at.seed, "support", at.j, at.round, at.exchange)  # the server can draw it too: no index travels
        kept = np.array(own.subset(at.d, self.k), dtype=np.intp)
        sent = Sparse(at.d / self.k * (x - yh)[kept], kept, at.d, seeded=True)
        return at.send(d=sent), Local(xh=x, yh=yh, u=u, v=v, sent=sent.dense())
