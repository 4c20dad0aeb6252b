"""How E* is found, and how one knows: one route for each kind of problem, each with a bound of E(x) - E*.

    smooth, mu > 0                 damped Newton; E(x) - E* <= |E'(x)|^2 / (2 mu)
    smooth, mu = 0, few features   the same; E(x) - E* is about half the Newton decrement g' H^-1 g
    smooth + penalty, mu > 0       proximal Newton by coordinates, or FISTA; r^2 / (2 mu), r the smallest subgradient
    smooth + l1, mu = 0            the same; the gap to the dual point that the residuals give, scaled to be feasible
    kinks, mu > 0                  dual coordinate ascent with Newton steps on the dual; the gap between primal and dual
    kinks + l1, mu > 0             the same with a further row e_k for every coefficient, whose loss is alpha |theta_k|

Smooth problems without a penalty are solved to 1e-14 of E, all others to 1e-10 at least. Of a gap, E* is its lower end:
then no error is negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dualfl import kernels
from dualfl.errors import InputError, NotSupported
from dualfl.kernels import Design, is_sparse
from dualfl.objectives import L1, Cost, ElasticNetPenalty, LinearModel, Objective, Penalised, Penalty
from dualfl.optimum.pooled import pool
from dualfl.problem import Problem
from dualfl.solvers import FISTA, SDCA, CoordinateDescent, DampedNewton, GradientNorm, Solution, StopRule
from dualfl.solvers.dual_newton import DualProblem, Look, newton
from dualfl.solvers.stopping import Progress

SMOOTH, OTHERS = 1e-14, 1e-10  # relative accuracy that a reference must have
WANTED = 1e-13  # what is tried for where OTHERS would do
ROUNDING = 1e-17  # a gap that no value shows
DENSE = 100  # coefficients; beyond, Hessian products are far cheaper than a Hessian
SMALL = 2000  # coefficients up to which a Hessian is decomposed where there is no other way
EPOCHS, PATIENCE = 3000, 10


@dataclass(frozen=True)
class Reference:
    """E*, how accurate it is relative to |E*|, and by which method.

    Parameters
    ----------
    energy : float
        E*.
    accuracy : float
        How accurate it is, relative to |E*|.
    method : str
        What found it.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> dualfl.optimum.find_reference(problem).accuracy < 1e-13
    True
    """

    energy: float
    accuracy: float
    method: str


@dataclass(frozen=True)
class RelativeGap(StopRule):
    """F(x) - min F <= eps |F(x)|, proven."""

    eps: float = WANTED
    needs_value = True

    def met(self, now: Progress) -> bool:
        return now.gap <= self.eps * abs(now.value)


def find_minimum(problem: Problem) -> Reference:
    """E* of the problem, or a sentence about why it is not to be had."""
    model = pool(problem)
    if model is not None and not model.loss.smooth:
        return _with_kinks(model, problem.penalty)
    # Newton's method knows a preconditioner for one linear model, so the rows are pooled where they can be.
    E = Problem(problem.clients, sizes=problem.sizes).pooled if model is None else model
    if problem.penalty is not None:
        return _with_penalty(E, problem.penalty)
    DampedNewton().check(E)
    return _newton(E) if E.mu > 0 else _without_ridge(E)


def _checked(energy: float, gap: float, needed: float, method: str) -> Reference:
    accuracy = gap / max(abs(energy), np.finfo(float).tiny)
    if not accuracy <= needed:
        raise InputError(
            f"{method} could not find E* to {needed:g}: it is proven to {accuracy:.1e} only; a larger ridge or better "
            "scaled features would help."
        )
    return Reference(float(energy), float(accuracy), method)


# -- smooth -----------------------------------------------------------------------------------------------


def _newton(E: Objective) -> Reference:
    found = DampedNewton(dense=DENSE).solve(E, None, RelativeGap(ROUNDING, cap=200))
    return _checked(found.value, found.gap, SMOOTH, "Newton's method")


def _without_ridge(E: Objective) -> Reference:
    """Without strong convexity nothing is proven, but near a minimum the decrement tells how far it is."""
    if E.d > SMALL:
        E.require_strong_convexity("A reference value with so many coefficients")
    found = DampedNewton(dense=SMALL).solve(E, None, GradientNorm(0.0, cap=200))
    w, V = np.linalg.eigh(E.hessian(found.x))
    inside = w > 1e-13 * w[-1]
    g = V.T @ found.residual
    decrement = float((g[inside] ** 2 / w[inside]).sum()) / 2
    if not w[-1] > 0 or not decrement <= SMOOTH * abs(found.value):
        raise InputError(
            f"{E.name} has no minimum that Newton's method finds, perhaps none at all (classes that a plane separates "
            "have none without a ridge); give it a ridge > 0."
        )
    return Reference(found.value, decrement / abs(found.value), "Newton's method (by its decrement, not proven)")


# -- smooth with a penalty --------------------------------------------------------------------------------


def _with_penalty(E: Objective, penalty: Penalty) -> Reference:
    F = Penalised(E, penalty)
    by_scaling = F.mu == 0 and isinstance(penalty, L1) and isinstance(E, LinearModel) and E.free is None
    if F.mu == 0 and not by_scaling:
        F.require_strong_convexity("A reference value")
    stop = GradientNorm(0.0, cap=5000) if by_scaling else RelativeGap(cap=20_000)
    found, method = _proximal(F, stop)
    gap = found.gap
    if by_scaling:
        assert isinstance(E, LinearModel) and isinstance(penalty, L1)
        gap = _scaled_gap(E, penalty, found)
    return _checked(found.value - gap, gap, OTHERS, method)


def _proximal(F: Penalised, stop: StopRule) -> tuple[Solution, str]:
    solver = CoordinateDescent()
    try:
        solver.check(F)
        if F.d <= SMALL:
            return solver.solve(F, None, stop), "coordinate descent"
    except NotSupported:
        pass
    FISTA().check(F)
    return FISTA().solve(F, None, stop), "FISTA"


def _scaled_gap(E: LinearModel, penalty: L1, found: Solution) -> float:
    """P - D with the dual point u = t l'(z), t as large as |X'(s u)|_inf <= alpha allows."""
    Z = E.predictors(found.x)
    R = kernels.residual(E.loss, Z, E.y, E.s)[1]  # s_i l'(z_i)
    pull = float(np.abs(E.design.backward(R)).max())
    t = min(1.0, penalty.alpha / pull) if pull > 0 else 1.0
    u = t * R / E.s[:, None]
    conjugate = E.conjugate(u if E.k > 1 else u[:, 0])
    return max(float(found.value + E.s @ conjugate), 0.0)


# -- losses with kinks ------------------------------------------------------------------------------------


def _with_kinks(model: LinearModel, penalty: Penalty | None) -> Reference:
    if penalty is not None and not isinstance(penalty, L1 | ElasticNetPenalty):
        raise NotSupported(f"There is no reference value for {model.name} with the penalty {penalty}; l1 has one.")
    if model.free is not None or model.ridge + (penalty.mu if penalty is not None else 0.0) == 0:
        model.require_strong_convexity("A reference value of a loss with kinks")
    method = "dual coordinate ascent"
    if penalty is None:
        found = SDCA().solve(model, None, RelativeGap(cap=EPOCHS))
        return _checked(found.value - found.gap, found.gap, OTHERS, method)
    look = _ascend(_with_l1_rows(model, penalty))
    return _checked(look.value - look.gap, look.gap, OTHERS, method)


def _with_l1_rows(model: LinearModel, penalty: L1 | ElasticNetPenalty) -> DualProblem:
    """The dual problem with a row e_k for each coefficient: alpha |theta_k| = max over |a| <= 1 of alpha a theta_k.

    max(0, |z - y| - eps) becomes two rows, max(0, y - eps - z) + max(0, z - y - eps), because all rows share one eps.
    """
    box, n, D = model.loss.box(model.y), model.n, model.design.D
    X: Any = sp.csr_array(model.design.X, dtype=np.float64) * model.design.scale
    if model.design.intercept:
        X = sp.hstack([X, sp.csr_array(np.ones((n, 1)))])
    q, b, s = box.q, box.b, model.s
    lo, hi = np.full(n, box.lo), np.full(n, box.hi)
    if box.eps > 0:
        X, s = sp.vstack([X, X]), np.tile(s, 2)
        q, b = np.concatenate([q, -q]), np.concatenate([b - box.eps, -b - box.eps])
        lo, hi = np.zeros(2 * n), np.tile(hi, 2)
    X = sp.csr_array(sp.vstack([X, sp.eye(D)]))
    if not is_sparse(model.design.X):
        X = X.toarray()
    ones = np.ones(D)
    return DualProblem(
        Design(X, scale=1.0, intercept=False),
        np.concatenate([q, ones]),
        np.concatenate([b, 0 * ones]),
        np.concatenate([lo, -ones]),
        np.concatenate([hi, ones]),
        0.0,
        np.concatenate([s, penalty.alpha * ones]),
        model.ridge + penalty.mu,
        np.zeros(D),
    )


def _ascend(problem: DualProblem) -> Look:
    """Epochs of dual coordinate ascent, with Newton steps on the dual where they are slow."""
    n, norms2 = problem.n, problem.design.row_norms2()
    lo, hi = np.broadcast_to(problem.lo, n), np.broadcast_to(problem.hi, n)
    rng = np.random.Generator(np.random.Philox(0))
    now, best = problem.look(np.zeros(n)), np.inf
    cost = Cost()  # nobody asks
    for epoch in range(1, EPOCHS + 1):
        if now.gap <= WANTED * abs(now.value):
            break
        alpha, theta = now.alpha.copy(), now.theta.copy()
        kernels.sdca_epoch(
            problem.design, problem.q, problem.b, lo, hi, problem.eps, problem.s,
            alpha, theta, problem.lam, norms2, rng.permutation(n),
        )  # fmt: skip
        now = problem.look(alpha)
        if epoch % PATIENCE == 0:
            better = newton(problem, now, cost)
            now = better if better.gap <= now.gap / 2 else now
            if epoch >= EPOCHS // 10 and now.gap > 0.99 * best and best <= OTHERS * abs(now.value):
                break
            best = min(best, now.gap)
    return now
