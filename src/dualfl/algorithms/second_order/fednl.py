"""FedNL: federated Newton learn.

M. Safaryan, R. Islamov, X. Qian and P. Richtarik, "FedNL: making Newton-type methods applicable to federated learning",
2021.

Client j keeps a guess H_j of its Hessian and sends compressed corrections (here the R largest eigenvalues in size):

    S_j = C(f_j''(x) - H_j),   l_j = |f_j''(x) - H_j|_F,   H_j <- H_j + S_j

    option 1:  x+ = x - [H]_mu^{-1} g                 eigenvalues of H clipped below mu
    option 2:  x+ = x - (H + mean l_j I)^{-1} g       safe from any first guess

with H = mean H_j before this round's corrections. `guess="hessian"` sends f_j''(0) once, d (d+1)/2 numbers; from zero
only option 2 converges. Locally superlinear, exact in one step on quadratics. The server holds d x d numbers.

R. Islamov, X. Qian, S. Hanzely, M. Safaryan and P. Richtarik, "Distributed Newton-type methods with communication
compression and Bernoulli aggregation", 2022 (Newton-3PC), send fewer corrections. S_j = 0, which costs nothing, unless

    lazy         |f_j''(x) - H_j|_F^2 > zeta |f_j''(x) - f_j''(x of the last round)|_F^2          `zeta`, and
    Bernoulli    the client's own coin of probability p falls                                     `p`, and
    periodic     the round is a multiple of `period` (after Doikov, Chayti and Jaggi 2023, "Second-order optimization
                 with lazy Hessians")

l_j is sent in every round, since option 2 is safe only with the right one; so a client computes its Hessian in every
round, and what is saved is the upload.

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
from dualfl.algorithms.second_order.dense_hessian import at_most, finite, symmetric, upper
from dualfl.solvers.definite import solve
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    H: Array
    last: Array  # f_j'' of the last round; empty if zeta = 0


@dataclass(frozen=True)
class Server:
    x: Array
    H: Array
    bound: float


@dataclass(frozen=True)
class FedNL(Algorithm):
    """FedNL: Newton's method whose Hessians are learned by corrections of rank R.

    Parameters
    ----------
    rank : int, default 1
        R, the rank of a correction.
    option : {1, 2}, default 2
        How the guess is made positive definite, 1 or 2.
    guess : {'hessian', 'zero'}, default 'hessian'
        The first guess, "hessian" or "zero".
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.
    p : float, default 1.0
        The probability that a client sends a correction.
    period : int, default 1
        The rounds from one correction to the next.
    zeta : float, default 0.0
        How lazy a client is; 0 is not at all.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedNL(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    rank: int = 1
    option: Literal[1, 2] = 2
    guess: Literal["hessian", "zero"] = "hessian"
    mu: float = theory("mu", lambda k, a: k.mu)
    p: float = 1.0
    period: int = 1
    zeta: float = 0.0

    name = "fednl"
    needs = frozenset({"gradient", "hessian"})
    grid: ClassVar = {"rank": [1, 2, 5], "option": [1, 2]}
    card = Card(
        "FedNL",
        2021,
        "Safaryan, Islamov, Qian and Richtarik",
        up="d + p R (d + 1)/period + 4, at first d (d + 1)/2",
        rate="local superlinear, independent of kappa",
        paper="arXiv:2106.02969",
    )

    def check(self, k: Constants) -> None:
        self.require(self.rank >= 1, "rank", "it must be at least 1")
        self.require(self.option in (1, 2), "option", "it is 1 or 2")
        self.require(self.guess in ("hessian", "zero"), "guess", 'it is "hessian" or "zero"')
        self.require(self.option == 2 or self.guess == "hessian", "guess", "option 1 diverges from a zero guess")
        self.require(self.mu > 0, "mu", "it must be positive")
        self.require(0 < self.p <= 1, "p", "it is the probability to send a correction, in (0, 1]")
        self.require(self.period >= 1, "period", "it is a number of rounds, >= 1")
        self.require(0 <= self.zeta < np.inf, "zeta", "it must be >= 0")
        at_most(self.name, k.d)

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
        return Local(np.zeros((at.d, at.d)), np.zeros(0))

    @client_step
    def first_hessian(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        H = f.hessian(x)
        return at.send(h=upper(H)), Local(H, c.last)

    @client_step
    def learn(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        with np.errstate(over="ignore", invalid="ignore"):
            now = f.hessian(x)
            error = finite(now - c.H)
        S = largest_part(error, self.rank) if self.corrects(error, now, c, at) else nothing(at.d)
        kept = Local(c.H + S.dense(), now if self.zeta else c.last)
        return at.send(g=g, S=S).also(**at.measured(f, x, E), l=float(np.linalg.norm(error))), kept

    def corrects(self, error: Array, now: Array, c: Local, at: Place) -> bool:
        """Whether a client sends a correction in this round."""
        if at.round % self.period or (self.p < 1 and at.rng("coin").random() >= self.p):
            return False
        if not self.zeta or not c.last.size:
            return True
        return bool(np.linalg.norm(error) ** 2 > self.zeta * np.linalg.norm(now - c.last) ** 2)


def nothing(d: int) -> LowRank:
    return LowRank(np.zeros(0), np.zeros((d, 0)))


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
