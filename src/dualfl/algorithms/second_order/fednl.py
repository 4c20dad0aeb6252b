"""FedNL: federated Newton learn.

M. Safaryan, R. Islamov, X. Qian and P. Richtarik, "FedNL: making Newton-type methods applicable to federated learning",
2021.

Client j keeps a guess H_j of its Hessian and sends compressed corrections (here the R largest eigenvalues in size):

    S_j = C(f_j''(x) - H_j),   l_j = |f_j''(x) - H_j|_F,   H_j <- H_j + S_j

    option 1:  x+ = x - [H]_mu^{-1} g                 eigenvalues of H clipped below mu
    option 2:  x+ = x - (H + mean l_j I)^{-1} g       safe from any first guess

with H = mean H_j before this round's corrections. `start="hessian"` sends f_j''(0) once, d (d+1)/2 numbers; from zero
only option 2 converges. Locally superlinear, exact in one step on quadratics. The server holds d x d numbers.

Default: option 2. Option 1 is faster where it converges, but a low rank cannot follow a Hessian that changes fast,
and then it leaves again (softmax on digits with R = 1: error 1e-4 after 10 rounds, 6e+2 after 50).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackError, eigsh

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.messages import LowRank
from dualfl.errors import Diverged, InputError
from dualfl.solvers.definite import solve
from dualfl.typing import Array

LARGEST = 2000


@dataclass(frozen=True)
class Local:
    H: Array


@dataclass(frozen=True)
class Server:
    x: Array
    H: Array
    bound: float


@dataclass(frozen=True)
class FedNL(Algorithm):
    """FedNL with rank-R corrections."""

    rank: int = 1
    option: Literal[1, 2] = 2
    guess: Literal["hessian", "zero"] = "hessian"
    mu: float = theory("mu", lambda k, a: k.mu)

    name = "fednl"
    needs = frozenset({"gradient", "hessian"})
    grid: ClassVar = {"rank": [1, 2, 5], "option": [1, 2]}
    card = Card(
        "FedNL",
        2021,
        "Safaryan, Islamov, Qian and Richtarik",
        up="d + R (d + 1) + 4, at first d (d + 1)/2",
        rate="local superlinear, independent of kappa",
    )

    def check(self, k: Constants) -> None:
        self.require(self.rank >= 1, "rank", "it must be at least 1")
        self.require(self.option in (1, 2), "option", "it is 1 or 2")
        self.require(self.guess in ("hessian", "zero"), "guess", 'it is "hessian" or "zero"')
        self.require(self.option == 2 or self.guess == "hessian", "guess", "option 1 diverges from a zero guess")
        self.require(self.mu > 0, "mu", "it must be positive")
        if k.d > LARGEST:
            raise InputError(
                f"fednl keeps d x d numbers, and d = {k.d} is above {LARGEST}; use giant, disco or lbfgs instead."
            )

    def start(self, at: Place) -> Round:
        if self.guess == "zero":
            return Server(np.zeros(at.d), np.zeros((at.d, at.d)), -np.inf)
        m = yield ask(self.first_hessian, x=np.zeros(at.d))
        return Server(np.zeros(at.d), symmetric(m.h, at.d), -np.inf)

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.learn, x=s.x)
        if self.option == 1:
            values, V = eigh(s.H)
            step = V @ ((V.T @ m.g) / np.maximum(values, self.mu))
        else:
            step = solve(s.H + m.l * np.eye(at.d), m.g)  # at least E'' >= mu I
        bound = max(s.bound, self.lower_bound(at, self.mu, s.x, m))
        return Server(s.x - step, s.H + m.S, bound)

    def model(self, s: Server) -> Array:
        return s.x

    def bound(self, s: Server) -> float:
        return s.bound

    def client(self, f: ClientCost, at: Place) -> Local:
        return Local(np.zeros((at.d, at.d)))

    @client_step
    def first_hessian(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        H = f.hessian(x)
        return at.send(h=H[np.triu_indices(at.d)]), Local(H)

    @client_step
    def learn(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        with np.errstate(over="ignore", invalid="ignore"):
            error = f.hessian(x) - c.H
        if not np.isfinite(error).all():
            raise Diverged("the Hessian overflows; a step without a line search was too long for this loss")
        S = largest_part(error, self.rank)
        return at.send(g=g, S=S).also(**at.measured(f, x, E), l=float(np.linalg.norm(error))), Local(c.H + S.dense())


def largest_part(A: Array, rank: int) -> LowRank:
    """The best approximation of a symmetric A of that rank: its eigenvalues of largest magnitude."""
    if not A.any():
        return LowRank(np.zeros(rank), np.eye(len(A), rank))
    if 4 * rank < len(A):  # Lanczos from a fixed start, so that everybody gets the same
        try:
            values, V = eigsh(A, k=rank, which="LM", v0=np.ones(len(A)))
            return LowRank(values, np.ascontiguousarray(V))
        except ArpackError:  # the start is where A is zero, or eigenvalues lie too close together
            pass
    values, V = eigh(A)
    top = np.argsort(-np.abs(values), kind="stable")[:rank]
    return LowRank(values[top], np.ascontiguousarray(V[:, top]))


def symmetric(upper: Array, d: int) -> Array:
    """The symmetric matrix with this upper triangle."""
    H = np.zeros((d, d))
    H[np.triu_indices(d)] = upper
    return H + np.triu(H, 1).T
