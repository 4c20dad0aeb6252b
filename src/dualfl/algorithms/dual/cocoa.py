"""CoCoA+: communication-efficient distributed dual coordinate ascent.

C. Ma, V. Smith, M. Jaggi, M. I. Jordan, P. Richtarik and M. Takac, "Adding vs. averaging in distributed primal-dual
optimization", 2015.

The dual variable of client j enters the model through A_j = -xi_j, xi_j in the domain of g_j*, g_j = f_j - (mu/2)|.|^2:

    v = sum_j w_j A_j,        theta = v/mu.

Each client improves its own dual variable as if the others stood still, against a quadratic inflated by sigma_j:

    theta_j = argmin f_j(t) + ((lam_j - mu)/2)|t|^2 - <lam_j theta - A_j, t>,        lam_j = mu/(sigma_j w_j)
    A_j+    = -(f_j'(theta_j) - mu theta_j)

and the changes are added. This is safe if sum_j 1/sigma_j <= 1: then |sum_j w_j q_j|^2 <= sum_j sigma_j w_j^2 |q_j|^2.
sigma_j = 1/w_j suits clients of unequal size (the paper has sigma_j = N); then lam_j = mu, and with exact local solves
CoCoA+ is DualFL without momentum. For hinge-type losses the local solver is dual coordinate ascent, `epochs` passes
of it. The duality gap E(theta) - D, D = -sum_j w_j g_j*(xi_j) - |v|^2/(2 mu), comes with every round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.cuts import below, dual_rounding
from dualfl.objectives.rounding import SPARE, UNIT, of_mean
from dualfl.solvers.stopping import FixedIterations, GradientNorm, StopRule
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    A: Array
    warm: Array | None


@dataclass(frozen=True)
class Server:
    v: Array
    bound: float
    off: float = 0.0  # how far v may be from the sum of the clients' A_j, by the rounding errors of all rounds


@dataclass(frozen=True)
class CoCoA(Algorithm):
    """CoCoA+: local dual coordinate ascent, added up. A round has `epochs` local iterations; 0 means exact solves.

    Parameters
    ----------
    epochs : int, default 10
        Iterations of the local solver a round; 0 solves exactly.
    sigma : {'weights', 'N'}, default 'weights'
        How the local problems are scaled: by the clients' weights, or by N.
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.CoCoA(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-3)
    True
    """

    epochs: int = 10
    sigma: Literal["weights", "N"] = "weights"
    mu: float = theory("mu", lambda k, a: k.mu)

    name = "cocoa"
    needs = frozenset({"local"})
    penalty = "client"
    grid: ClassVar = {"epochs": [1, 10, 100], "sigma": ["weights", "N"]}
    card = Card(
        "CoCoA+",
        2015,
        "Ma, Smith, Jaggi, Jordan, Richtarik and Takac",
        up="d + 4",
        needs="strongly convex",
        rate="kappa log(1/eps); nonsmooth 1/eps",
        paper="arXiv:1502.03508",
    )

    def check(self, k: Constants) -> None:
        self.require(self.epochs >= 0, "epochs", "it must be >= 0; 0 solves exactly")
        self.require(self.sigma in ("weights", "N"), "sigma", 'it is "weights" (1/w_j) or "N"')
        self.require(0 < self.mu <= k.mu * (1 + 1e-12) or np.isnan(k.mu), "mu", f"it must lie in (0, {k.mu:g}]")

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d), -np.inf)

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.ascend, theta=s.v / self.mu)
        v, many = s.v + m.dA, of_mean(at.N)
        off = s.off + many * m.moved + SPARE * UNIT * float(np.linalg.norm(v))
        square = (float(np.linalg.norm(v)) + off + many * m.off) ** 2 / (2 * self.mu)
        bound = below(-m.conj - square - many * m.slip, abs(m.conj) + square, at.d)
        return Server(v, max(s.bound, bound), off)

    def model(self, s: Server) -> Array:
        return s.v / self.mu

    def bound(self, s: Server) -> float:
        return s.bound

    def client(self, f: ClientCost, at: Place) -> Local:
        return Local(np.zeros(at.d), None)

    @client_step
    def ascend(self, f: ClientCost, c: Local, at: Place, theta: Array) -> tuple[Upload, Local]:
        lam = self.mu if self.sigma == "weights" else self.mu / (at.N * at.weight)
        y = f.local(lam - self.mu, lam * theta - c.A, warm=c.warm, stop=self.stop_rule())
        xi = y.subgradient - self.mu * y.x
        conj = float(xi @ y.x) - (y.value - self.mu / 2 * float(y.x @ y.x)) + y.slack
        slip, off = dual_rounding(f, y, self.mu, lam * theta - c.A)
        moved = SPARE * UNIT * float(np.linalg.norm(xi) + np.linalg.norm(c.A)) + float(np.sqrt(at.d)) * at.grid
        return at.send(dA=-xi - c.A).also(conj=conj, slip=slip, off=off, moved=moved), Local(-xi, y.warm)

    def stop_rule(self) -> StopRule:
        return FixedIterations(self.epochs) if self.epochs else GradientNorm(1e-13, cap=2000)
