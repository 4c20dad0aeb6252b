r"""Scaffold: local steps with control variates.

S. P. Karimireddy, S. Kale, M. Mohri, S. Reddi, S. Stich and A. T. Suresh, "SCAFFOLD: Stochastic controlled averaging
for federated learning", ICML 2020, Algorithm 1. The server holds x and c and sends both to C clients, the set S; with a
c_j of its own, each of them

    x_j = x;   K times   x_j <- x_j - eta_l (f_j'(x_j) - c_j + c)
    option I:  c_j+ = f_j'(x);        option II:  c_j+ = c_j - c + (x - x_j)/(K eta_l), the mean of its K gradients
and the server
    x <- x + eta_g mean_{j in S} (x_j - x)
    c <- c + sum_{j in S} w_j (c_j+ - c_j)                      the mean over ALL clients, so that c = sum_j w_j c_j

At the optimum c_j = f_j'(theta*) and c = 0, so every local step stands still: no drift. (With the mean over S in c,
small cohorts diverge, and unequal clients end at a wrong point.)

Defaults. K = 10, eta_g = 1, eta_l = 1/(K L), option II. With this step K brings nothing, the method needs about kappa
rounds whatever K; the paper's proof asks for eta_l <= 1/(81 K L), which is 80 times slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    c: Array


@dataclass(frozen=True)
class Server:
    x: Array
    c: Array


@dataclass(frozen=True)
class Scaffold(Algorithm):
    """Scaffold: local steps with control variates (Algorithm 1 of Karimireddy et al.), with full local gradients.

    Parameters
    ----------
    K, eta_l : int and float
        Number and length of the local steps.
    eta_g : float, default 1.0
        The server's step.
    option : {'I', 'II'}, default 'II'
        "I" or "II", how a client's control variate is renewed.
    C : int, default N
        How many clients take part in a round.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.Scaffold(), rounds=100)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-4)
    True
    """

    K: int = 10
    eta_l: float = theory("1 / (K L)", lambda k, a: 1 / (a.K * k.L))
    eta_g: float = 1.0
    option: Literal["I", "II"] = "II"
    C: int = theory("N", lambda k, a: k.N)

    name = "scaffold"
    nonconvex = True
    grid: ClassVar = {"eta_l": [10.0**-m for m in range(7)], "K": [1, 10, 100]}
    card = Card(
        title="Scaffold",
        year=2020,
        reference="Karimireddy, Kale, Mohri, Reddi, Stich and Suresh",
        up="2 d",
        down="2 d",
        participation="any C",
        rate="kappa log(1/eps)",
        paper="arXiv:1910.06378",
    )

    def check(self, k: Constants) -> None:
        self.require(self.K >= 1, "K", "it is a number of local steps, >= 1")
        self.require(self.eta_l > 0, "eta_l", "it must be positive")
        self.require(not self.eta_l >= 2 / k.L, "eta_l", f"gradient steps diverge from 2/L = {2 / k.L:.3g} on")
        self.require(self.eta_g > 0, "eta_g", "it must be positive")
        self.require(self.option in ("I", "II"), "option", 'it is "I" or "II"')
        self.require(1 <= self.C <= k.N, "C", f"it must lie between 1 and the number of clients, {k.N}")

    def start(self, at: Place) -> Server:
        return Server(x=np.zeros(at.d), c=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, to=at.cohort(self.C), x=s.x, shift=s.c)
        return Server(x=s.x + self.eta_g * m.dx / m.mass, c=s.c + m.dc)

    def model(self, s: Server) -> Array:
        return s.x

    def client(self, f: ClientCost, at: Place) -> Local:
        return Local(c=np.zeros(at.d))

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, x: Array, shift: Array) -> tuple[Upload, Local]:
        y = x
        for _ in range(self.K):
            y = y - self.eta_l * (f.gradient(y) - c.c + shift)
        new = f.gradient(x) if self.option == "I" else c.c - shift + (x - y) / (self.K * self.eta_l)
        return at.send(dx=y - x, dc=new - c.c), Local(c=new)
