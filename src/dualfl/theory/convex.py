"""Theorems 4.1 and 4.2: costs without strong convexity, through f_j + (alpha/2)|.|^2."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dualfl.algorithms.dual import DualFL
from dualfl.engines import Problem
from dualfl.objectives import Quadratic
from dualfl.theory.check import Found
from dualfl.theory.convergence import slope
from dualfl.theory.problems import Direct, logistic, medians, solution
from dualfl.theory.trace import Trace


def theorem_4_1() -> Iterator[Found]:
    """rho = 0, nu = alpha: E(theta^(n)) tends to E* as alpha falls and n grows."""
    for name, problem, count in (("|x - b_j|_1", medians(7, mu=0.0), 300), ("logistic", logistic(3, n=60, mu=0.0), 150)):
        theta = solution(problem)
        best = problem.value(theta)
        alphas = np.geomspace(1e-1, 1e-3, 5)
        errors = []
        for alpha in alphas:
            *_, last = Trace(problem.regularised(alpha), DualFL(nu=alpha, rho=0.0, accuracy="exact")).rounds(count)
            errors.append(problem.value(last.theta) - best)
        # E(theta^alpha) - E* <= (alpha/2)|theta*|^2
        bound = alphas / 2 * float(theta @ theta)
        print(errors, bound)
        yield Found(f"{name}: E - E* at the smallest alpha / first", errors[-1] / errors[0], 0.1)
        yield Found(f"{name}: (E - E*) / ((alpha/2)|theta*|^2), worst", float(np.max(errors / bound)), 1.0)


def flat(N: int, d: int = 60, seed: int = 0) -> Problem:
    """Quadratics with a spectrum from 1 down to 1e-9, evenly in log scale, and curvatures that differ between clients.

    Whatever epsilon is, there are directions just flat enough to be slow; and clients disagree in the steep ones.
    """
    rng = np.random.default_rng(seed)
    base = np.geomspace(0.5, 1e-9, d)
    theta = rng.standard_normal(d) / np.sqrt(d)
    clients = []
    for _ in range(N):
        h = base * rng.uniform(1.0, 2.0, d)
        clients.append(Quadratic(np.diag(h), h * theta + base * rng.standard_normal(d), mu=0.0, L=1.0))
    return Problem(clients, solvers=Direct())


def theorem_4_2() -> Iterator[Found]:
    """alpha = epsilon/(2 R_0), rho = alpha/(L + alpha): |E'| <= epsilon after O(log(1/epsilon)/sqrt(epsilon)) rounds."""
    problem = flat(4)
    R0 = float(np.linalg.norm(solution(problem)))  # |theta^alpha| grows as alpha falls, to the norm of this
    E = problem.pooled
    targets = np.geomspace(1e-2, 1e-5, 5)
    rounds, bias = [], 0.0
    for eps in targets:
        alpha = eps / (2 * R0)
        regular = problem.regularised(alpha)
        bias = max(bias, float(np.linalg.norm(E.gradient(solution(regular)))) / (eps / 2))
        trace = Trace(regular, DualFL(nu=alpha, rho=alpha / (1 + alpha), accuracy="exact", certificate="none"))
        for m in trace.rounds(20_000):
            if np.linalg.norm(E.gradient(m.theta)) <= eps:
                break
        rounds.append(m.n)
    print(rounds, R0)
    exponent = slope(np.log(1 / targets), np.log(np.array(rounds) / np.log(1 / targets)))
    yield Found("|E'(theta^alpha)| / (epsilon/2): the bias", bias, 1.0)
    yield Found("exponent of rounds/log(1/eps) in 1/eps", exponent, 0.6)
    yield Found("the same: the worst case shows", exponent, 0.45, ">=")
