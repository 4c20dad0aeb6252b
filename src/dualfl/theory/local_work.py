"""Theorems 3.4 and 3.5: how many iterations M_n a client needs for the accuracy that round n asks for.

Clients start each solve where the last one ended, as they do in the library, so M_n may well be smaller than the
theorems say; never larger.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dualfl.algorithms.dual import DualFL
from dualfl.engines import Problem
from dualfl.solvers import FISTA, SDCA, Solver
from dualfl.theory.check import Found
from dualfl.theory.convergence import slope
from dualfl.theory.problems import hinge, quadratics
from dualfl.theory.trace import Trace
from dualfl.typing import Array


def iterations(problem: Problem, solver: Solver, algorithm: DualFL, count: int) -> Array:
    """M_n, the largest of the clients, n = 0, 1, ..."""
    trace = Trace(Problem(problem.clients, solvers=solver), algorithm)
    return np.array([max(m.iterations) for m in trace.rounds(count)], dtype=float)


def theorem_3_4() -> Iterator[Found]:
    """Nonsmooth, by SDCA without its Newton steps: M_n = O(N (n+1)^(4 + gamma))."""
    gamma, count = 0.1, 40
    algorithm = DualFL(accuracy="nonsmooth", gamma=gamma)
    sizes = (2, 4, 8)
    M = {N: iterations(hinge(N), SDCA(newton=0), algorithm, count) for N in sizes}
    n = np.arange(1.0, count + 1)
    exponent = slope(np.log(n[4:]), np.log(np.maximum(M[4][4:], 1.0)))
    yield Found("hinge, SDCA: exponent of M_n in n", exponent, 4 + gamma)
    in_N = slope(np.log(np.array(sizes)), np.log([M[N].mean() for N in sizes]))
    yield Found("hinge, SDCA: exponent of M_n in N", in_N, 1.0)


def theorem_3_5() -> Iterator[Found]:
    """Smooth, by FISTA with the momentum of strong convexity: M_n = O(sqrt(kappa) (log(N (1+gamma)^n) + n sqrt(rho)))."""
    gamma, count = 0.05, 25
    kappas = np.array([1e2, 1e3, 1e4])
    algorithm = DualFL(accuracy="smooth", gamma=gamma)
    solver = FISTA(restart=False)
    n = np.arange(count)
    runs = [iterations(quadratics(2, kappa), solver, algorithm, count) for kappa in kappas]
    # the worst M_n over n is what the theorem bounds; 0.05 for a slope through three integers
    in_kappa = slope(np.log(kappas), np.log([M.max() for M in runs]))
    yield Found("exponent of max M_n in kappa", in_kappa, 0.5 + 0.05)
    constants = [np.max(M / (np.sqrt(k) * (1 + np.log(2 * (1 + gamma) ** n) + n / np.sqrt(k)))) for M, k in zip(runs, kappas)]
    # an optimal method needs sqrt(kappa) log(C/eps) iterations, C the first gap over the threshold's scale of 1;
    # log C grows with kappa here, because the gap at the start does
    yield Found("M_n / (sqrt(kappa) (1 + log N(1+gamma)^n + n sqrt(rho)))", float(max(constants)), 5.0)
    sizes = np.array([1, 4, 16, 64])
    first = [iterations(quadratics(2, 400.0), solver, DualFL(accuracy="smooth", gamma=gamma, G0=1.0 / N), 8).max() for N in sizes]
    growth = slope(np.log(sizes), np.array(first)) / np.sqrt(400.0)
    yield Found("M_n in N, per log N and sqrt(kappa)", growth, 1.0)
