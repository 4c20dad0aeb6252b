r"""FedDR: randomised Douglas-Rachford splitting.

Q. Tran-Dinh, N. H. Pham, D. T. Phan and L. M. Nguyen, "FedDR: Randomized Douglas-Rachford splitting algorithms for
nonconvex federated composite optimization", NeurIPS 2021, Algorithm 1. For E = sum_j w_j f_j + g:

    start    y_j = theta^(0),  x_j = prox_{eta f_j}(y_j),  xh_j = 2 x_j - y_j,  xt = sum_j w_j xh_j       (an exchange)
    round    xbar = prox_{eta g}(xt)  goes to C clients; each of them
                 y_j  <- y_j + alpha (xbar - x_j)
                 x_j  <- prox_{eta f_j}(y_j)
                 xh_j <- 2 x_j - y_j,      and sends by how much xh_j changed
             xt  <- xt + sum over them of w_j (change of xh_j)

so that xt = sum_j w_j xh_j always, over ALL clients: the sum is divided by N, not by C. A server that starts elsewhere
than the clients breaks this for ever and ends at a wrong point.

Defaults. eta = 1/sqrt(mu L) minimises the contraction factor of y (Giselsson and Boyd 2017),
    |1 - alpha/2| + (alpha/2) max{(eta L - 1)/(eta L + 1), (1 - eta mu)/(1 + eta mu)},
which for alpha = 1 is sqrt(kappa)/(sqrt(kappa) + 1). alpha = 1 as in the paper, where it lies in (0, 2); alpha = 2 is
FedSplit, faster and safe for smooth, strongly convex f_j.

penalty_rule="balanced" is residual-balanced ADMM (He, Yang and Wang 2000; Boyd et al. 2011, section 3.4.1), for those
who know neither mu nor L: eta is halved or doubled when the primal residual |x_j - xbar| and the dual residual
|change of x_j|/eta, each relative to the size of what it is a residual of (Wohlberg 2017), differ by more than a factor
of 10. y_j = x_j + eta f_j'(x_j), so a new eta rescales y_j - x_j. Convergence is known if eta changes finitely often;
here it does not change after round `settle`. All clients must take part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dualfl.algorithms.accuracy import douglas_rachford, exactly, gradient_scale, norm2, scheduled
from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    y: Array
    x: Array
    xh: Array
    eta: float  # with which y was made
    warm: Array | None
    scale: float


@dataclass(frozen=True)
class Server:
    xt: Array
    x: Array
    eta: float


@dataclass(frozen=True)
class FedDR(Algorithm):
    """FedDR: randomised Douglas-Rachford splitting (Algorithm 1 of Tran-Dinh et al.).

    Parameters
    ----------
    eta : float, default 1 / sqrt(mu L)
        The penalty is 1/eta; where the rule is "balanced", the first one.
    alpha : float, default 1.0
        The relaxation, in (0, 2].
    C : int, default N
        How many clients take part in a round.
    penalty_rule : {'fixed', 'balanced'}, default 'fixed'
        "fixed", or "balanced": eta follows the residuals until round `settle`.
    settle : int, default 200
        The round after which eta stays as it is.
    accuracy : {'schedule', 'exact'}, default 'schedule'
        "schedule", local residuals that fall by `decay` a round, or "exact".
    decay : float, default (1 - (C/N) (1 - contraction factor))^1.5
        By which factor the accuracy of the local solves falls each round.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedDR(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-6)
    True
    """

    eta: float = theory("1 / sqrt(mu L)", lambda k, a: 1 / np.sqrt(k.mu * k.L))
    alpha: float = 1.0
    C: int = theory("N", lambda k, a: k.N)
    penalty_rule: Literal["fixed", "balanced"] = "fixed"
    settle: int = 200
    accuracy: Literal["schedule", "exact"] = "schedule"
    decay: float = theory(
        "(1 - (C/N) (1 - contraction factor))^1.5",
        lambda k, a: (1 - a.C / k.N * (1 - a.contraction(k))) ** 1.5,
    )

    name = "feddr"
    nonconvex = True
    needs = frozenset({"local"})
    penalty = "server"
    strongly_convex = False
    grid: ClassVar = {"eta": [10.0**m for m in range(-5, 4)], "alpha": [1.0, 2.0]}
    card = Card(
        title="FedDR",
        year=2021,
        reference="Tran-Dinh, Pham, Phan and Nguyen",
        exchanges="1, and 1 to start",
        participation="any C",
        needs="convex",
        rate="sqrt(kappa) log(1/eps)",
        accelerated=True,
        paper="arXiv:2103.03452",
    )

    def check(self, k: Constants) -> None:
        self.require(self.eta > 0, "eta", "it must be positive")
        self.require(0 < self.alpha <= 2, "alpha", "it must lie in (0, 2]: beyond 2 the averaged operator expands")
        self.require(1 <= self.C <= k.N, "C", f"it must lie between 1 and the number of clients, {k.N}")
        rules = ("fixed", "balanced")
        self.require(self.penalty_rule in rules, "penalty_rule", 'it is "fixed" or "balanced"')
        everybody = self.penalty_rule == "fixed" or self.C == k.N
        self.require(everybody, "C", f"balancing compares residuals of all clients, so it must be {k.N}")
        self.require(self.settle >= 0, "settle", "it is a number of rounds, >= 0")
        self.require(0 < self.decay <= 1, "decay", "it must lie in (0, 1]")
        self.require(self.accuracy in ("schedule", "exact"), "accuracy", 'it is "schedule" or "exact"')

    def contraction(self, k: Constants) -> float:
        # A balanced eta ends near the best one, so the first one says nothing about the speed.
        known = k.mu > 0 and np.isfinite(k.L)
        eta = 1 / np.sqrt(k.mu * k.L) if self.penalty_rule == "balanced" and known else self.eta
        return douglas_rachford(eta, self.alpha, k)

    # -- the server -------------------------------------------------------------------------------

    def start(self, at: Place) -> Round:
        m = yield ask(self.first)
        return Server(xt=m.xh, x=at.prox(self.eta, m.xh), eta=self.eta)

    def round(self, s: Server, at: Place) -> Round:
        if self.penalty_rule == "fixed":
            m = yield ask(self.local, to=at.cohort(self.C), x=s.x)
        else:
            m = yield ask(self.local_balanced, x=s.x, eta=s.eta)
        xt = s.xt + m.change
        x = at.prox(s.eta, xt)
        return Server(xt=xt, x=x, eta=self.next_eta(s, m, x, at.round))

    def next_eta(self, s: Server, m: Any, x: Array, n: int) -> float:
        if self.penalty_rule == "fixed" or n >= self.settle:
            return s.eta
        primal = np.sqrt(m.primal / max(m.x2, norm2(x), 1e-300))
        dual = np.sqrt(m.dual / max(m.g2, 1e-300))
        if primal > 10 * dual:
            return s.eta / 2  # the clients disagree: a larger penalty 1/eta
        return s.eta * 2 if dual > 10 * primal else s.eta

    def model(self, s: Server) -> Array:
        return s.x

    # -- a client ---------------------------------------------------------------------------------

    def client(self, f: ClientCost, at: Place) -> Local:
        zero = np.zeros(at.d)
        return Local(y=zero, x=zero, xh=zero, eta=self.eta, warm=None, scale=gradient_scale(f))

    @client_step
    def first(self, f: ClientCost, c: Local, at: Place) -> tuple[Upload, Local]:
        new = self.prox(f, c, at, c.y, self.eta)
        return at.send(xh=new.xh), new

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        new = self.prox(f, c, at, c.y + self.alpha * (x - c.x), self.eta)
        return at.send(change=new.xh - c.xh), new

    @client_step
    def local_balanced(self, f: ClientCost, c: Local, at: Place, x: Array, eta: float) -> tuple[Upload, Local]:
        y = c.x + (eta / c.eta) * (c.y - c.x) + self.alpha * (x - c.x)
        new = self.prox(f, c, at, y, eta)
        residuals = {
            "primal": norm2(new.x - x),
            "dual": norm2(new.x - c.x) / eta**2,
            "x2": norm2(new.x),
            "g2": norm2(new.y - new.x) / eta**2,
        }
        return at.send(change=new.xh - c.xh, **residuals), new

    def prox(self, f: ClientCost, c: Local, at: Place, y: Array, eta: float) -> Local:
        """x = prox_{eta f}(y) and what comes with it."""
        stop = exactly(c.scale) if self.accuracy == "exact" else scheduled(c.scale, self.decay, at.round)
        found = f.local(1 / eta, y / eta, warm=c.warm, stop=stop)
        return Local(y=y, x=found.x, xh=2 * found.x - y, eta=eta, warm=found.warm, scale=c.scale)
