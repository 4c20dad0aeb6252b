"""Theorems 4.1 and 4.2: costs without strong convexity, through f_j + (alpha/2)|.|^2."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dualfl.algorithms.dual import DualFL
from dualfl.engines import Problem
from dualfl.objectives import Quadratic
from dualfl.theory.check import Measured
from dualfl.theory.convergence import slope
from dualfl.theory.problems import Direct, logistic, medians, solution
from dualfl.theory.trace import Trace
from dualfl.typing import frozen


def theorem_4_1() -> Iterator[Measured]:
    """rho = 0, nu = alpha: E(theta^(n)) tends to E* as alpha falls and n grows.

    The bound of Theorem 3.2 has n alpha in it, so n grows like 1/alpha here. E(theta^alpha) - E* is at most
    (alpha/2)|theta*|^2, and rounds enough must bring E(theta^(n)) below that.
    """
    for name, problem, enough, last_alpha in (
        ("|x - b_j|_1", medians(5, mu=0.0), 3.0, 3e-3),
        ("logistic", logistic(3, n=60, mu=0.0), 1.0, 1e-2),
    ):
        alphas = np.geomspace(1e-1, last_alpha, 3)
        theta = solution(problem)
        best = problem.value(theta)
        errors = []
        for alpha in alphas:
            trace = Trace(problem.regularised(alpha), DualFL(nu=alpha, rho=0.0, accuracy="exact", certificate="none"))
            *_, last = trace.rounds(int(np.ceil(enough / alpha)))
            errors.append(problem.value(last.theta) - best)
        bounds = alphas / 2 * float(theta @ theta)
        yield Measured(f"{name}: (E - E*) / (alpha/2)|theta*|^2", float(np.max(errors / bounds)), 1.0)
        yield Measured(f"{name}: E - E*, last alpha / first", errors[-1] / errors[0], alphas[-1] / alphas[0])


def flat(N: int, d: int = 40, seed: int = 0) -> Problem:
    """Quadratics with L = 1 and a spectrum down to 1e-9, evenly in log scale; clients differ by up to a factor of two.

    Whatever epsilon is, there are directions that alpha just about regularises; and clients disagree in the steep ones,
    which are DualFL's slow ones.
    """
    rng = np.random.default_rng(seed)
    base = np.geomspace(0.5, 1e-9, d)
    theta = rng.standard_normal(d) / np.sqrt(d)
    clients = []
    for _ in range(N):
        h = base * rng.uniform(1.0, 2.0, d)
        clients.append(Quadratic(np.diag(h), h * theta + base * rng.standard_normal(d), mu=0.0, L=1.0))
    return Problem(clients, solvers=Direct())


def theorem_4_2() -> Iterator[Measured]:
    """alpha = eps/(2 R_0), rho = alpha/(L + alpha): |E'| <= eps after O(log(1/eps)/sqrt(eps)) rounds."""
    problem = flat(3)
    zero = frozen(np.zeros(problem.d))
    H, b = problem.pooled.hessian(zero), -problem.pooled.gradient(zero)
    R0 = float(np.linalg.norm(np.linalg.solve(H, b)))  # |theta^alpha| grows as alpha falls, up to this
    targets = np.geomspace(1e-3, 1e-4, 4)
    rounds, bias = [], 0.0
    for epsilon in targets:
        alpha = epsilon / (2 * R0)
        theta_alpha = np.linalg.solve(H + alpha * np.eye(problem.d), b)
        bias = max(bias, float(np.linalg.norm(H @ theta_alpha - b)) / (epsilon / 2))
        algorithm = DualFL(nu=alpha, rho=alpha / (1 + alpha), accuracy="exact", certificate="none")
        count = 0
        for m in Trace(problem.regularised(alpha), algorithm).rounds(20_000):
            count = m.n
            if np.linalg.norm(H @ m.theta - b) <= epsilon:
                break
        rounds.append(count)
    # between 0.45 and 0.6: a slope through four points, where rounds are whole and oscillate around the target
    exponent = slope(np.log(1 / targets), np.log(np.array(rounds) / np.log(1 / targets)))
    yield Measured("bias: |E'(theta^alpha)| / (eps/2)", bias, 1.0)
    yield Measured("exponent of rounds/log(1/eps) in 1/eps", exponent, 0.6)
    yield Measured("the same exponent: the worst case is seen", exponent, 0.45, ">=")
