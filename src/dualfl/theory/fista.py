"""Propositions 6.2 and 6.3: FISTA on the dual keeps its rate if its errors fall fast enough, and not otherwise.

Errors are made on purpose: in round n every client leaves exactly the gap delta_n (`DualFISTA.delta`), and E_d(xi^(n))
is known exactly, because its xi_j are gradients. For rho = 0 there is a bound with constants, from Schmidt, Le Roux
and Bach, "Convergence rates of inexact proximal-gradient methods", 2011, with t_i in place of their (i + 1)/2:

    E_d(xi^(n)) - E_d*  <=  (|xi*| + 2 A_n + sqrt(2 B_n))^2 / (2 nu t_{n-1}^2),
    A_n = sum_{i<n} t_i sqrt(2 nu delta_i),      B_n = sum_{i<n} nu t_i^2 delta_i.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dualfl.algorithms.dual import DualFISTA
from dualfl.algorithms.dual.fista import over_relaxation
from dualfl.engines import Problem
from dualfl.theory.check import Measured
from dualfl.theory.problems import medians, quadratics, solution
from dualfl.theory.trace import Trace
from dualfl.typing import Array

GROWS = 2.0  # a bounded sequence does not double from the middle of a run to its end


def dual_gaps(problem: Problem, rho: float, delta: Array) -> tuple[Array, Array]:
    """E_d(xi^(n)) - E_d* for n = 1, 2, ..., and the last xi."""
    best = problem.value(solution(problem))
    trace = Trace(problem, DualFISTA(rho=rho, accuracy="exact", delta=[float(e) for e in delta]))
    moments = list(trace.rounds(len(delta)))
    return np.array([m.server.dual + best for m in moments]), np.array([c.xi for c in moments[-1].clients])


def growth(scaled: Array) -> float:
    """The largest value in the last fifth of a run, relative to the largest in its first half."""
    count = len(scaled)
    return float(scaled[-count // 5 :].max() / scaled[: count // 2].max())


def proposition_6_2() -> Iterator[Measured]:
    """delta_n = b_n/(n+1)^2 with summable sqrt(b_n): the gap is at most C/n^2, also without smoothness."""
    problem, count = medians(5, d=8), 200
    nu, n = problem.clients[0].mu, np.arange(1.0, count + 1)
    allowed = 1e-1 / n**4.2  # sqrt(b_n) = 0.3 (n+1)^-1.1
    gaps, xi = dual_gaps(problem, 0.0, allowed)
    t = [1.0]
    for _ in range(count - 1):
        t.append(over_relaxation(t[-1], 0.0)[0])
    steps = np.array(t)
    A = np.cumsum(steps * np.sqrt(2 * nu * allowed))
    B = np.cumsum(nu * steps**2 * allowed)
    size = float(np.sqrt(np.mean(np.sum(xi**2, axis=1))))  # |xi*|: any dual solution will do, also this limit
    bound = (size + 2 * A + np.sqrt(2 * B)) ** 2 / (2 * nu * steps**2)
    yield Measured("delta_n ~ n^-4.2: dual gap / its bound", float(np.max(gaps / bound)), 1.0)
    yield Measured("delta_n ~ n^-4.2: growth of n^2 gap", growth(n**2 * gaps), 1.0)
    gaps, _ = dual_gaps(problem, 0.0, np.full(count, 1e-1))
    yield Measured("delta_n constant (too slow): the same growth", growth(n**2 * gaps), GROWS, ">=")


def proposition_6_3() -> Iterator[Measured]:
    """delta_n = a^n with a < 1 - sqrt(rho): the gap is at most C (1 - sqrt(rho))^n."""
    kappa, count = 400.0, 200
    problem, root = quadratics(4, kappa), kappa**-0.5
    n = np.arange(1.0, count + 1)
    for a, allowed in ((1 - 1.5 * root, True), (1 - 0.5 * root, False)):
        gaps, _ = dual_gaps(problem, 1 / kappa, a ** (n - 1))
        value = growth(gaps / (1 - root) ** n)
        if allowed:
            yield Measured(f"delta_n = {a:g}^n: growth of gap/rate^n", value, 1.0)
        else:
            yield Measured(f"delta_n = {a:g}^n (too slow): the same", value, GROWS, ">=")
