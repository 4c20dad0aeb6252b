r"""FedProx: local problems with a proximal term, then the average.

T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar and V. Smith, "Federated optimization in heterogeneous networks",
MLSys 2020, Algorithm 2. The server sends x to C clients, the set S;

    x_j ~ argmin f_j(y) + (a/2) |y - x|^2,         x <- mean_{j in S} x_j.

There is no dual variable, so theta* is no fixed point if clients differ: with exact solves this is gradient descent
with step 1/a on sum_j w_j env_j, the mean of the Moreau envelopes env_j(x) = min_y f_j(y) + (a/2)|y - x|^2, and it ends
at the minimiser of that mean. A large a drifts less and moves slower.

Default. a = sqrt(mu L), the prox at which the splitting methods contract best. K = None solves the local problems; a
number K takes that many gradient steps from x instead, of length eta = 1/(L + a). a = 0 with K steps is FedAvg.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms.accuracy import exactly, gradient_scale
from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    warm: Array | None
    scale: float


@dataclass(frozen=True)
class Server:
    x: Array


@dataclass(frozen=True)
class FedProx(Algorithm):
    """FedProx: FedAvg with a proximal term in the local problems (Algorithm 2 of Li et al.).

    Parameters
    ----------
    a : float, default sqrt(mu L)
        The proximal weight, >= 0.
    K : int, optional
        None solves the local problems; a number takes that many gradient steps of length eta.
    eta : float, default 1 / (L + a) if K is a number
        The local step if K is a number.
    C : int, default N
        How many clients take part in a round.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedProx(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1)
    True
    """

    a: float = theory("sqrt(mu L)", lambda k, a: np.sqrt(k.mu * k.L))
    K: int | None = None
    eta: float = theory("1 / (L + a) if K is a number", lambda k, a: 1 / (k.L + a.a) if a.K else 1.0)
    C: int = theory("N", lambda k, a: k.N)

    name = "fedprox"
    nonconvex = True
    drifts = True
    needs = frozenset({"local"})
    grid: ClassVar = {"a": [10.0**m for m in range(-3, 4)]}
    card = Card(
        title="FedProx",
        year=2020,
        reference="Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith",
        participation="any C",
        rate="none: drifts if clients differ",
        paper="arXiv:1812.06127",
    )

    def check(self, k: Constants) -> None:
        self.require(self.a >= 0, "a", "it must be >= 0")
        self.require(self.K is None or self.K >= 1, "K", "it is a number of local steps, >= 1, or None")
        self.require(self.eta > 0, "eta", "it must be positive")
        bound = 2 / (k.L + self.a)
        fits = self.K is None or not self.eta >= bound
        self.require(fits, "eta", f"gradient steps diverge from 2/(L + a) = {bound:.3g} on")
        self.require(1 <= self.C <= k.N, "C", f"it must lie between 1 and the number of clients, {k.N}")

    def start(self, at: Place) -> Server:
        return Server(x=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, to=at.cohort(self.C), x=s.x)
        return Server(x=m.x / m.mass)

    def model(self, s: Server) -> Array:
        return s.x

    def client(self, f: ClientCost, at: Place) -> Local:
        return Local(warm=None, scale=gradient_scale(f) if self.K is None else 1.0)

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        if self.K is None:
            found = f.local(self.a, self.a * x, warm=c.warm, stop=exactly(c.scale))
            return at.send(x=found.x), Local(warm=found.warm, scale=c.scale)
        y = x
        for _ in range(self.K):
            y = y - self.eta * (f.gradient(y) + self.a * (y - x))
        return at.send(x=y), c
