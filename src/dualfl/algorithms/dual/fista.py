r"""Inexact FISTA on the dual problem: the method that DualFL is, seen from the other side.

Beck and Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse problems", 2009; with strong
convexity: Chambolle and Pock, "An introduction to continuous optimization for imaging", 2016; with inexact steps:
Rebegoldi and Calatroni, "Scaled, inexact and adaptive generalized FISTA for strongly convex optimization", 2022; in
this form: Park and Xu, "DualFL", 2023, Algorithm 2. The dual problem is

    min over xi = (xi_1, ..., xi_N)   E_d(xi) = F_d(xi) + G_d(xi),
    F_d(xi) = |sum_j w_j xi_j|^2/(2 nu),    G_d(xi) = sum_j w_j g_j*(xi_j),    g_j = f_j - (nu/2)|.|^2,

in the inner product sum_j w_j <., .>; with w_j = 1/N it is the paper's, divided by N. F_d is (1/nu)-smooth, so

    xi^(n+1)   ~  argmin  <F_d'(eta^(n)), xi - eta^(n)> + |xi - eta^(n)|^2/(2 nu) + G_d(xi)
    eta^(n+1)  =  (1 + beta_n) xi^(n+1) - beta_n xi^(n)

with the t_n and beta_n of `over_relaxation`, from xi^(0) = eta^(0) = 0.

Every block of F_d'(eta) is etabar/nu, etabar = sum_i w_i eta_i. So the step splits into one problem a client (the
prerelaxed block Jacobi method), and Moreau's identity solves each through its primal:

    xi_j  =  prox_{nu g_j*}(v_j),    v_j = eta_j - etabar:
             theta_j = argmin f_j(t) - <v_j, t>,      xi_j = g_j'(theta_j) = v_j - nu theta_j.

The last equality holds at the exact theta_j. At an inexact one g_j'(theta_j) still is a gradient of g_j, so g_j* is
finite there, and the local error is |r_j|^2/(2 nu) at most, r_j the residual; v_j - nu theta_j may be infeasible.
The model is theta = -(1/nu) sum_j w_j xi_j.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.cuts import below, dual_rounding
from dualfl.algorithms.dual.dualfl import NO_MOMENTUM
from dualfl.errors import InputError
from dualfl.objectives.rounding import of_mean
from dualfl.solvers.stopping import GeometricSchedule, GradientNorm, PolynomialSchedule, PrimalDualGap, StopRule
from dualfl.typing import Array


@dataclass(frozen=True)
class Block:
    """A client's block of the dual variables."""

    xi: Array
    eta: Array
    t: float
    warm: Array | None  # where its solver goes on


@dataclass(frozen=True)
class Server:
    """The means of the blocks; `dual` bounds E_d(xi) from above, and is E_d(xi) for point="gradient"."""

    xi: Array
    eta: Array
    t: float
    dual: float
    bound: float


@dataclass(frozen=True)
class DualFISTA(Algorithm):
    """Inexact FISTA on the dual problem (Algorithm 2 of Park and Xu).

    Parameters
    ----------
    nu : float, default mu
        The shift of the dual problem, which is also the step, 0 < nu <= mu.
    rho : float, default nu / L
        Nu times the strong convexity that is used, 0 <= rho <= nu/L.
    point : {'gradient', 'plain'}, default 'gradient'
        The xi_j that a client takes from its theta_j: "gradient", g_j'(theta_j), or "plain", v_j - nu theta_j.
    accuracy : {'theorems', 'exact'}, default 'theorems'
        "theorems", the smaller of the two thresholds of the theorems; or "exact".
    delta : sequence of float, default ()
        Errors to make on purpose, delta_0, delta_1, ...: in round n every client leaves the gap delta_n in its
        problem, which is delta_n/N of the paper, whose E_d is N times this one.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.DualFISTA(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-5)
    True
    """

    nu: float = theory("mu", lambda k, a: k.mu)
    rho: float = theory("nu / L", lambda k, a: min(a.nu / k.L, NO_MOMENTUM), zero=True)
    point: Literal["gradient", "plain"] = "gradient"
    accuracy: Literal["theorems", "exact"] = "theorems"
    delta: Sequence[float] = ()

    name = "fista-dual"
    needs = frozenset({"local"})
    penalty = "client"
    card = Card(
        title="FISTA on the dual",
        year=2009,
        reference="Beck and Teboulle; Park and Xu",
        up="d + 3",
        needs="strongly convex (by regularisation: convex)",
        rate="sqrt(kappa) log(1/eps); nonsmooth 1/sqrt(eps)",
        accelerated=True,
        paper="doi:10.1137/080716542",
    )

    def check(self, k: Constants) -> None:
        if not 0 < self.nu < np.inf or self.nu > k.mu * (1 + 1e-12):
            raise InputError(f"fista-dual: nu = {self.nu} is not allowed; it must lie in (0, mu], and mu = {k.mu:g}.")
        self.require(0 <= self.rho < 1, "rho", "it must lie in [0, 1), and theory asks for at most nu/L")
        self.require(self.point in ("gradient", "plain"), "point", 'it is "gradient" or "plain"')
        self.require(self.accuracy in ("theorems", "exact"), "accuracy", 'it is "theorems" or "exact"')
        self.require(all(0 <= e < np.inf for e in self.delta), "delta", "errors are finite and >= 0")

    # -- the server -------------------------------------------------------------------------------

    def start(self, at: Place) -> Server:
        zero = np.zeros(at.d)
        return Server(xi=zero, eta=zero, t=1.0, dual=np.inf, bound=-np.inf)

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.prox, etabar=s.eta)
        t, beta = over_relaxation(s.t, self.rho)
        eta = (1 + beta) * m.xi - beta * s.xi
        # sum_j w_j g_j'(theta_j) is within m.off of m.xi, so this is at least E_d there, and -E_d <= E* anywhere
        square = (float(np.linalg.norm(m.xi)) + of_mean(at.N) * m.off) ** 2 / (2 * self.nu)
        dual = -below(-m.conj - square - of_mean(at.N) * m.slip, abs(m.conj) + square, at.d)
        return Server(xi=m.xi, eta=eta, t=t, dual=dual, bound=max(s.bound, -dual))

    def model(self, s: Server) -> Array:
        return -s.xi / self.nu

    def bound(self, s: Server) -> float:
        return s.bound

    # -- a client ---------------------------------------------------------------------------------

    def client(self, f: ClientCost, at: Place) -> Block:
        zero = np.zeros(at.d)
        return Block(xi=zero, eta=zero, t=1.0, warm=None)

    @client_step
    def prox(self, f: ClientCost, c: Block, at: Place, etabar: Array) -> tuple[Upload, Block]:
        v = c.eta - etabar
        y = f.local(0.0, v + self.error(at), warm=c.warm, stop=self.stop_rule(at))
        gradient = y.subgradient - self.nu * y.x
        xi = gradient if self.point == "gradient" else v - self.nu * y.x
        t, beta = over_relaxation(c.t, self.rho)
        eta = (1 + beta) * xi - beta * c.xi
        conj = float(gradient @ y.x) - (y.value - self.nu / 2 * float(y.x @ y.x)) + y.slack
        slip, off = dual_rounding(f, y, self.nu, v)
        off += float(np.linalg.norm(gradient - xi)) + float(np.sqrt(at.d)) * at.grid
        sent = at.send(xi=xi).also(conj=conj, slip=slip, off=off)
        return sent, Block(xi=xi, eta=eta, t=t, warm=y.warm)

    def error(self, at: Place) -> Array:
        """A residual r with |r|^2/(2 nu) = delta_n. Solved with v + r, the problem of v is left with that gap."""
        if at.round >= len(self.delta) or self.delta[at.round] == 0:
            return np.zeros(at.d)
        r = at.rng("delta").standard_normal(at.d)
        return r * float(np.sqrt(2 * self.nu * self.delta[at.round]) / np.linalg.norm(r))

    def stop_rule(self, at: Place) -> StopRule:
        if self.accuracy == "exact":
            return GradientNorm(1e-13, cap=2000)
        smooth = GeometricSchedule(self.rho).threshold(at.round, at.N, self.nu)
        nonsmooth = PolynomialSchedule().threshold(at.round, at.N, self.nu)
        return PrimalDualGap(min(smooth, nonsmooth), self.nu)


def over_relaxation(t: float, rho: float) -> tuple[float, float]:
    """t_{n+1} and beta_n from t_n; t_0 = 1.

    t_{n+1} is the positive root of  t^2 - (1 - rho t_n^2) t - t_n^2 = 0, and
    beta_n = (t_n - 1)/t_{n+1} * (1 - rho t_{n+1})/(1 - rho).

    >>> t, beta = over_relaxation(1.0, 0.0)
    >>> round(t, 6), beta
    (1.618034, 0.0)
    """
    half = (1 - rho * t * t) / 2
    following = half + float(np.hypot(half, t))
    if rho >= NO_MOMENTUM:  # kappa = 1: the plain step is exact
        return following, 0.0
    return following, (t - 1) * (1 - rho * following) / (following * (1 - rho))
