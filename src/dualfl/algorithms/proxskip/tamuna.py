r"""TAMUNA and CompressedScaffnew: Scaffnew with sampled clients and masked uploads.

L. Condat, I. Agarsky, G. Malinovsky and P. Richtarik, "TAMUNA: Doubly accelerated federated learning with local
training, compression, and partial participation", 2023; with all clients it is CompressedScaffnew of L. Condat, I.
Agarsky and P. Richtarik, "Provably doubly accelerated federated learning: The first theoretically successful
combination of local training and communication compression", 2022. For E = (1/N) sum_j f_j. A round: a set of c clients
is drawn, and a number of local steps, geometric with mean 1/p; each of the c clients starts at xbar and takes these
steps

    x_j <- x_j - gamma (f_j'(x_j) - h_j),
then sends the coordinates that its mask q_j keeps, about s d/c of d; every coordinate is kept by exactly s clients:
    xbar <- (1/s) sum_{j of the c} q_j x_j                                        (the exchange; s, not c)
    h_j  <- h_j + (eta/gamma) q_j (xbar - x_j)                                    (only where q_j is one)

so that sum_j h_j = 0 at all times. eta = p chi with chi = N (s - 1)/(s (N - 1)).

Rate, per local step, Psi = sum_j |x_j - theta*|^2 + (gamma/p)^2/(chi kap) sum_j |h_j - f_j'(theta*)|^2 over ALL clients
(those that are not drawn may be thought of as walking along unseen), with kap = (s - 1)/(N - 1):
    E Psi+  <=  max{(1 - gamma mu)^2, (1 - gamma L)^2, 1 - p^2 chi kap} Psi.
Why: the s clients that send a coordinate are a uniform subset of all N, for any c. If a_j = x_j - theta* before the
exchange, b_j = h_j - f_j'(theta*), and V is the variance of the a_j, then sampling without replacement gives
    E sum_j |x_j+ - theta*|^2 = sum_j |a_j|^2 - chi N V,
    E sum_j |b_j+|^2 = sum_j |b_j|^2 - 2 (eta/gamma) kap sum_j <a_j, b_j> + (eta/gamma)^2 kap N V,
and with the weight above the mixed terms complete sum_j |a_j - gamma b_j|^2, which the gradient step has contracted,
while the terms in V cancel for eta = p chi.
Defaults. gamma = 2/(L + mu) minimises the first two, p = sqrt(gamma mu/(chi kap)), or 1, is the fewest exchanges that
do not slow this down, s = 2 the fewest floats. c = s = N is Scaffnew.

The clients need xbar twice: at the end of their round for h_j, and the next ones at its start. If all take part, the
second message contains the first; this is what CompressedScaffnew saves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import (
    Algorithm,
    Card,
    Constants,
    Place,
    Round,
    Upload,
    ask,
    client_step,
    tell,
    theory,
)
from dualfl.algorithms.messages import Sparse
from dualfl.typing import Array


def mask(at: Place, c: int, s: int) -> npt.NDArray[np.intp]:
    """The coordinates that client at.j sends: a column of a d x c pattern with s ones a row, columns shuffled."""
    ones = np.arange(at.d * s)
    if at.d * s >= c:  # row by row, s ones each, going round the columns
        columns = (ones % c).reshape(at.d, s)
    else:  # more clients than ones: no column has more than a single one
        columns = ones.reshape(s, at.d).T
    column = at.common("mask").permutation(c)[at.cohort(c).index(at.j)]
    return np.flatnonzero((columns == column).any(axis=1))


@dataclass(frozen=True)
class Local:
    h: Array
    sent: Array  # the coordinates that it sent last, until h is updated


@dataclass(frozen=True)
class Server:
    x: Array


@dataclass(frozen=True)
class TAMUNA(Algorithm):
    """TAMUNA: Scaffnew with sampled clients and sparse uploads (Condat, Agarsky, Malinovsky and Richtarik).

    Parameters
    ----------
    c : int, default N
        How many clients take part in a round, 2 <= c <= N.
    s : int, default 2
        How many clients send each coordinate, 2 <= s <= c.
    gamma : float, default 2 / (L + mu)
        The step, 0 < gamma < 2/L.
    p : float, optional
        1/p is the mean number of local steps.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.TAMUNA(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-4)
    True
    """

    c: int = theory("N", lambda k, a: k.N)
    s: int = 2
    gamma: float = theory("2 / (L + mu)", lambda k, a: 2 / (k.L + k.mu))
    p: float = theory(
        "min(1, sqrt(gamma mu (N - 1) / (chi (s - 1))))",
        lambda k, a: min(1.0, np.sqrt(a.gamma * k.mu * (k.N - 1) / (a.chi(k.N) * (a.s - 1)))),
    )

    name = "tamuna"
    uniform = True
    grid: ClassVar = {"gamma": [10.0**-m for m in range(9)], "p": [10.0**-m for m in range(5)]}
    card = Card(
        title="TAMUNA",
        year=2023,
        reference="Condat, Agarsky, Malinovsky and Richtarik",
        up="s d / c",
        down="2 d",
        participation="any c >= 2",
        rate="sqrt(kappa N / s) log(1/eps)",
        accelerated=True,
        deterministic=False,
        paper="arXiv:2302.09832",
    )

    def check(self, k: Constants) -> None:
        self.require(2 <= self.c <= k.N, "c", f"it must lie between 2 and the number of clients, {k.N}")
        self.require(2 <= self.s <= self.c, "s", f"it must lie between 2 and c = {self.c}")
        self.require(self.gamma > 0, "gamma", "it must be positive")
        self.require(not self.gamma >= 2 / k.L, "gamma", f"gradient steps diverge from 2/L = {2 / k.L:.3g} on")
        self.require(0 < self.p <= 1, "p", "it must lie in (0, 1]")

    def chi(self, N: int) -> float:
        return N * (self.s - 1) / (self.s * (N - 1))

    def start(self, at: Place) -> Server:
        return Server(x=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        cohort = at.cohort(self.c)
        m = yield ask(self.local, to=cohort, x=s.x)
        x = at.N / self.s * m.x  # m.x is the sum over the cohort, divided by N
        yield tell(self.finish, to=cohort, x=x)
        return Server(x=x)

    def model(self, s: Server) -> Array:
        return s.x

    def client(self, f: ClientCost, at: Place) -> Local:
        return Local(h=np.zeros(at.d), sent=np.zeros(0))

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        mine = mask(at, self.c, self.s)
        for _ in range(at.common("coin").geometric(self.p)):
            x = x - self.gamma * (f.gradient(x) - c.h)
        return at.send(x=Sparse(x[mine], mine, at.d, seeded=True)), Local(h=c.h, sent=x[mine])

    @client_step
    def finish(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        return at.send(), Local(h=self.new_h(c, at, x), sent=np.zeros(0))

    def new_h(self, c: Local, at: Place, x: Array) -> Array:
        """h after the round of `at`, whose mean is x."""
        mine, h = mask(at, self.c, self.s), c.h.copy()
        h[mine] += self.p * self.chi(at.N) / self.gamma * (x[mine] - c.sent)
        return h


@dataclass(frozen=True)
class CompressedScaffnew(TAMUNA):
    """CompressedScaffnew: TAMUNA with all clients, and half as many floats down.

    Parameters
    ----------
    c : int, default N
        How many clients take part.
    s : int, default 2
        How many clients send each coordinate.
    gamma : float, default 2 / (L + mu)
        The local step.
    p : float, optional
        The probability of an exchange.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.CompressedScaffnew(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-4)
    True
    """

    name = "compressed-scaffnew"
    card = Card(
        title="CompressedScaffnew",
        year=2022,
        reference="Condat, Agarsky and Richtarik",
        up="s d / N",
        rate="sqrt(kappa N / s) log(1/eps)",
        accelerated=True,
        deterministic=False,
        paper="arXiv:2210.13277",
    )

    def check(self, k: Constants) -> None:
        super().check(k)
        self.require(self.c == k.N, "c", f"all {k.N} clients take part; tamuna samples")

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, x=s.x)
        return Server(x=at.N / self.s * m.x)

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        if at.round > 0:
            c = Local(h=self.new_h(c, replace(at, round=at.round - 1), x), sent=c.sent)
        return super().local(f, c, at, x)
