"""Theorems 3.2 and 3.3: how fast DualFL converges, and what does not matter for it.

With exact local solves both follow from FISTA's bound for the dual problem (Chambolle and Pock 2016), with constants:

    |theta^(n) - theta*|^2  <=  w_n  (sum_j w_j |xi_j*|^2) / (nu^2 (1 - rho)),
    w_n = min(4/(n+1)^2, (1 + sqrt(rho)) (1 - sqrt(rho))^n),      n >= 1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dualfl.algorithms.dual import DualFL
from dualfl.engines import Problem
from dualfl.solvers import AOGM, LBFGS, SVRG, NewtonCG
from dualfl.theory.check import Measured
from dualfl.theory.problems import hinge, logistic, medians, quadratics, solution
from dualfl.theory.trace import Moment, Trace
from dualfl.typing import Array


def constant(problem: Problem, xi: Array, nu: float, rho: float) -> float:
    return float(np.array(problem.weights) @ np.sum(xi**2, axis=1)) / (nu**2 * (1 - rho))


def weights(n: Array, rho: float) -> Array:
    """w_n."""
    root = np.sqrt(rho)
    return np.asarray(np.minimum(4 / (n + 1) ** 2, (1 + root) * (1 - root) ** n))


def squared_errors(moments: list[Moment], theta: Array) -> Array:
    return np.array([np.sum((m.theta - theta) ** 2) for m in moments])


def from_the_right(errors: Array) -> Array:
    """The largest error from n on: momentum oscillates, and a rate is about what stays."""
    return np.maximum.accumulate(errors[::-1])[::-1]


def slope(x: Array, y: Array) -> float:
    return float(np.polyfit(x, y, 1)[0])


def theorem_3_2() -> Iterator[Measured]:
    """Nonsmooth, rho = 0: the squared error is at most C/n^2."""
    for name, problem, algorithm, count in (
        ("|x - b_j|_1 + ridge", medians(9, d=30, mu=0.1), DualFL(accuracy="exact"), 300),
        ("hinge, inexact", hinge(4), DualFL(accuracy="nonsmooth", gamma=0.1), 120),
    ):
        trace = Trace(problem, algorithm)
        nu = trace.algorithm.nu
        moments = list(trace.rounds(count))
        errors = squared_errors(moments, solution(problem))
        n = np.arange(1.0, count + 1)
        # the dual solution is not unique here, and any will do: the limit of the run
        xi = np.array([nu * (c.zeta - c.sent) for c in moments[-1].clients])
        bound = constant(problem, xi, nu, 0.0) * weights(n, 0.0)
        yield Measured(f"{name}: error^2 / its bound", float(np.max(errors / bound)), 1.0)
        late = (n >= 10) & (errors > 1e-20 * errors[0])
        fitted = slope(np.log(n[late]), np.log(from_the_right(errors[late])))
        # 0.1: least squares through an oscillating, piecewise constant envelope
        yield Measured(f"{name}: slope in log n", fitted, -2.0 + 0.1)


def theorem_3_3() -> Iterator[Measured]:
    """Smooth: the squared error falls by 1 - sqrt(rho) a round."""
    worst = 0.0
    for kappa in (1e2, 1e3, 1e4, 1e5):
        factor, ratio = decay(kappa, 1.0)
        worst = max(worst, ratio)
        yield Measured(f"kappa = {kappa:.0e}: factor a round", factor, 1 - kappa**-0.5)
    for share in (1 / 4, 1 / 16):
        factor, ratio = decay(1e3, share)
        worst = max(worst, ratio)
        yield Measured(f"kappa = 1e+03, rho = {share:g} nu/L: factor", factor, 1 - (share / 1e3) ** 0.5)
    yield Measured("error^2 / its bound, all of these runs", worst, 1.0)


def decay(kappa: float, share: float) -> tuple[float, float]:
    """The factor a round, fitted on the second half of a run, and the largest error relative to its bound."""
    problem = quadratics(2, kappa)
    rho = share / kappa
    count = int(6 / np.sqrt(rho))
    trace = Trace(problem, DualFL(rho=rho, accuracy="exact", certificate="none"))
    theta = solution(problem)
    errors = squared_errors(list(trace.rounds(count)), theta)
    n = np.arange(1.0, count + 1)
    xi = np.array([f.gradient(theta) - theta for f in problem.clients])
    ratio = float(np.max(errors / (constant(problem, xi, 1.0, rho) * weights(n, rho))))
    late = n > count / 2
    return float(np.exp(slope(n[late], np.log(from_the_right(errors[late]))))), ratio


def inexact() -> Iterator[Measured]:
    """Theorem 3.3 with the local errors that it allows, and the dual point for which its proof holds."""
    problem = logistic(4)
    trace = Trace(problem, DualFL(accuracy="smooth", upload="corrected", gamma=0.05))
    rho = trace.algorithm.rho
    count = int(8 / np.sqrt(rho))
    errors = squared_errors(list(trace.rounds(count)), solution(problem))
    n = np.arange(1.0, count + 1)
    late = n > count / 3
    factor = float(np.exp(slope(n[late], np.log(from_the_right(errors[late])))))
    yield Measured("logistic, gaps of the theorem: factor", factor, 1 - float(np.sqrt(rho)))


# -- what the theorems promise not to matter ----------------------------------------------------------


def rounds_to(problem: Problem, algorithm: DualFL, target: float, most: int) -> float:
    """Rounds until |theta^(n) - theta*|^2 <= `target` |theta*|^2; inf if that takes more than `most`."""
    theta = solution(problem)
    for m in Trace(problem, algorithm).rounds(most):
        if np.sum((m.theta - theta) ** 2) <= target * float(theta @ theta):
            return float(m.n)
    return np.inf


def robust_in_rho() -> Iterator[Measured]:
    """For rho below nu/L the rate is 1 - sqrt(rho): a rho c times too small costs sqrt(c) in rounds."""
    kappa, target = 400.0, 1e-8
    problem = quadratics(4, kappa)
    rounds = {
        c: rounds_to(problem, DualFL(rho=c / kappa, accuracy="exact", certificate="none"), target, 1500)
        for c in (1 / 16, 1 / 4, 1, 4)
    }
    for c in (1 / 4, 1 / 16):
        yield Measured(f"rho = {c:g} nu/L: rounds / rounds at nu/L", rounds[c] / rounds[1], c**-0.5)
    # no theorem covers rho > nu/L; the paper's claim is that the rate "does not deteriorate significantly"
    yield Measured("rho = 4 nu/L: rounds / rounds at nu/L", rounds[4] / rounds[1], 2.0)


def independent_of_N() -> Iterator[Measured]:
    """No constant of the theorems grows with N."""
    kappa, count, sizes = 400.0, 160, (2, 8, 32)
    factors, rounds = [], []
    for N in sizes:
        problem = quadratics(N, kappa)
        theta = solution(problem)
        trace = Trace(problem, DualFL(accuracy="exact", certificate="none"))
        errors = from_the_right(squared_errors(list(trace.rounds(count)), theta))
        n = np.arange(1.0, count + 1)
        factors.append(float(np.exp(slope(n[60:], np.log(errors[60:])))))
        rounds.append(float(np.count_nonzero(errors > 1e-8 * float(theta @ theta)) + 1))
    yield Measured("worst factor a round, N = 2, 8, 32", max(factors), 1 - kappa**-0.5)
    # rounds hold the logarithm of mean |xi_j*|^2/|theta*|^2, which varies with the draw of the clients
    yield Measured("exponent of the rounds to 1e-8 in N", slope(np.log(np.array(sizes)), np.log(rounds)), 0.1)


def any_local_solver() -> Iterator[Measured]:
    """What matters of a local solver is the gap that it leaves."""
    solvers = {"AOGM": AOGM(), "L-BFGS": LBFGS(), "Newton-CG": NewtonCG(), "SVRG": SVRG()}
    base = logistic(4)
    rounds = {
        name: rounds_to(Problem(base.clients, solvers=solver), DualFL(), 1e-6, 150) for name, solver in solvers.items()
    }
    spread = max(rounds.values()) / min(rounds.values()) - 1
    yield Measured("rounds, AOGM L-BFGS Newton-CG SVRG: spread", spread, 0.1)
