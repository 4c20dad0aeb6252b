r"""DualFL around a centre that moves: for costs that are not convex.

The proximal point method outside (R. T. Rockafellar, "Monotone operators and the proximal point algorithm", 1976),
DualFL (J.-H. Park and J. Xu, 2023) inside. Around a centre x the costs

    F_j = f_j + (lam/2)|. - x|^2

are strongly convex if lam is larger than the most that any f_j curves downwards, and DualFL runs on them; after T
rounds its theta is the next centre. The dual variables zeta_j are kept when the centre moves, the momentum begins anew.

At rest all theta_j are the centre and f_j'(theta) = nu zeta_j with sum_j w_j zeta_j = 0, so that E'(theta) = 0.

What is known. With exact inner solutions E + (lam/2)|theta - x|^2 falls in every step of the centre, and
min_k |E'(x_k)|^2 <= 2 lam (E(x_0) - inf E)/k: a stationary point, at the rate of gradient descent. With T rounds
instead of a solution nothing is proven. For convex costs it is DualFL on a sequence of better conditioned problems, and
slower than DualFL. There is no certificate.

Defaults. lam = 2 L, which is twice what is needed: f_j cannot curve downwards by more than L. Then L <= F_j'' <= 3 L,
nu = lam - L, rho = nu/(lam + L). T = 1, a new centre every round: more rounds around one did not pay where tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.dual.dualfl import momentum
from dualfl.solvers.stopping import RelativeStep
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    centre: Array
    zeta: Array
    s: Array  # zeta + theta - theta_j of the round before
    sent: Array  # theta_j
    t: float


@dataclass(frozen=True)
class Server:
    theta: Array


@dataclass(frozen=True)
class RecentredDualFL(Algorithm):
    """DualFL on f_j(t) + (lam/2)|t - x|^2, around a centre x that moves every T rounds.

    Parameters
    ----------
    lam : float, default 2 L
        The weight of the proximal term, above what any cost curves downwards.
    nu : float, default max(lam - L, lam/2)
        The shift of the dual problem, at most the strong convexity of the F_j.
    rho : float, default nu / (lam + L)
        The momentum, in [0, 1).
    T : int, default 1
        Rounds around one centre.
    accuracy : float, default 0.01
        The residual that a client may leave, relative to lam |theta_j - theta|.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.RecentredDualFL(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-1)
    True
    """

    lam: float = theory("2 L", lambda k, a: 2 * k.L)
    nu: float = theory("max(lam - L, lam/2)", lambda k, a: max(a.lam - k.L, a.lam / 2))
    rho: float = theory("nu / (lam + L)", lambda k, a: a.nu / (a.lam + k.L))
    T: int = 1
    accuracy: float = 1e-2

    name = "dualfl-recentred"
    needs = frozenset({"gradient", "local"})
    strongly_convex = False
    nonconvex = True
    grid: ClassVar = {"lam": [10.0**m for m in range(-3, 4)], "T": [1, 3, 10]}
    card = Card(
        title="Recentred DualFL",
        year=2026,
        reference="Park and Xu; Rockafellar",
        needs="smooth, convex or not",
        rate="a stationary point, 1/eps^2 for exact inner solutions",
        paper="arXiv:2305.10294",
    )

    def check(self, k: Constants) -> None:
        self.require(0 < self.lam < np.inf, "lam", "it must be positive; 2 L in theory")
        self.require(0 < self.nu <= self.lam + k.mu, "nu", "it must lie in (0, lam + mu]; lam - L in theory")
        self.require(0 <= self.rho < 1, "rho", "it must lie in [0, 1)")
        self.require(self.T >= 1, "T", "it is a number of rounds, >= 1")
        self.require(0 < self.accuracy < 1, "accuracy", "it must lie in (0, 1)")

    def start(self, at: Place) -> Server:
        return Server(theta=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.solve, theta=s.theta)
        return Server(theta=m.theta)

    def model(self, s: Server) -> Array:
        return s.theta

    def client(self, f: ClientCost, at: Place) -> Local:
        zero = np.zeros(at.d)
        return Local(centre=zero, zeta=zero, s=zero, sent=zero, t=0.0)

    @client_step
    def solve(self, f: ClientCost, c: Local, at: Place, theta: Array) -> tuple[Upload, Local]:
        anew = at.round % self.T == 0
        centre = theta if anew else c.centre
        t, beta = momentum(0.0 if anew else c.t, self.rho)
        s = c.zeta + theta - c.sent
        zeta = s + beta * (s - c.s)
        stop = RelativeStep(self.accuracy * self.lam, f.place(theta), cap=500)
        x = f.local(self.lam, self.nu * zeta + self.lam * centre, warm=f.place(theta), stop=stop).x
        sent = at.send(theta=x)
        return sent, Local(centre, zeta, s, sent.theta, t)
