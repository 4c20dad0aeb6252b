r"""RandProx-FL with a common random set of coordinates.

L. Condat and P. Richtarik, "RandProx: Primal-dual optimization algorithms with randomized proximal updates", ICLR 2023,
the federated algorithm of its section on linearly constrained problems. Let R be a random, linear, unbiased operator of
variance omega, the same one on all clients. Every iteration

    xh_j = x_j - gamma (f_j'(x_j) + u_j)
    d_j  = R xh_j - sum_i w_i R xh_i                                                                  (the exchange)
    u_j <- u_j + d_j/(gamma (1 + omega)^2),     x_j <- xh_j - d_j/(1 + omega)

so that sum_j w_j u_j = 0 and u_j -> -f_j'(theta*). With R = (1/p) I with probability p this is Scaffnew. Here R keeps k
of d coordinates, times d/k = 1 + omega: on these, the support,
    x_j <- a = sum_i w_i xh_i,       u_j <- u_j + (k/d) (xh_j - a)/gamma,
and elsewhere x_j <- xh_j. So only k floats go up and k down, in every iteration, and the support is drawn from a
common stream. No server holds a whole model; the one it shows consists of the last mean seen of each coordinate.

Rate for Psi = sum_j w_j (|x_j - theta*|^2 + gamma^2 (1 + omega)^2 |u_j - u_j*|^2) and gamma < 2/L:
    E Psi+  <=  max{(1 - gamma mu)^2, (1 - gamma L)^2, 1 - (k/d)^2} Psi.
Defaults. gamma = 1/L, and k = ceil(d/sqrt(kappa)), the smallest that does not slow this down: the floats of Scaffnew,
spread evenly over the iterations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.messages import Sparse
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    xh: Array
    u: Array
    support: npt.NDArray[np.intp]  # whose mean is still to come


@dataclass(frozen=True)
class Server:
    x: Array
    a: Array  # the last mean, on its support


@dataclass(frozen=True)
class RandProx(Algorithm):
    """RandProx-FL with a common random set of coordinates (Condat and Richtarik).

    Parameters
    ----------
    gamma : float, default 1 / L
        The step, 0 < gamma < 2/L.
    k : int, default ceil(d / sqrt(kappa))
        How many coordinates are averaged in a round.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.RandProx(), rounds=100)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-4)
    True
    """

    gamma: float = theory("1 / L", lambda k, a: 1 / k.L)
    k: int = theory("ceil(d / sqrt(kappa))", lambda k, a: int(np.ceil(k.d / np.sqrt(k.kappa))))

    name = "randprox"
    grid: ClassVar = {"gamma": [10.0**-m for m in range(9)]}
    card = Card(
        title="RandProx-FL",
        year=2023,
        reference="Condat and Richtarik",
        up="k",
        down="k",
        rate="(kappa + (d/k)^2) log(1/eps)",
        deterministic=False,
        paper="arXiv:2207.12891",
    )

    def check(self, k: Constants) -> None:
        self.require(self.gamma > 0, "gamma", "it must be positive")
        self.require(not self.gamma >= 2 / k.L, "gamma", f"gradient steps diverge from 2/L = {2 / k.L:.3g} on")
        self.require(1 <= self.k <= k.d, "k", f"it must lie between 1 and the size of the model, {k.d}")

    def support(self, at: Place) -> npt.NDArray[np.intp]:
        return np.array(at.common("support").subset(at.d, self.k), dtype=np.intp)

    def start(self, at: Place) -> Server:
        return Server(x=np.zeros(at.d), a=np.zeros(0))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, a=s.a)
        support, x = self.support(at), s.x.copy()
        a = x[support] = m.xh[support]
        return Server(x=x, a=a)

    def model(self, s: Server) -> Array:
        return s.x

    def client(self, f: ClientCost, at: Place) -> Local:
        return Local(xh=np.zeros(at.d), u=np.zeros(at.d), support=np.zeros(0, dtype=np.intp))

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, a: Array) -> tuple[Upload, Local]:
        x, u = c.xh.copy(), c.u.copy()
        u[c.support] += self.k / at.d * (c.xh[c.support] - a) / self.gamma
        x[c.support] = a
        xh = x - self.gamma * (f.gradient(x) + u)
        support = self.support(at)
        return at.send(xh=Sparse(xh[support], support, at.d, seeded=True)), Local(xh=xh, u=u, support=support)
