"""Theorems 3.4 and 3.5: how many iterations M_n a client needs for the accuracy that round n asks for.

The theorems count from a fixed starting point, so here every local solve starts at zero. (In the library it starts
where the last one ended, and needs far fewer.)

For the accelerated method of the smooth case the constant is known. With q = 1/kappa, after k iterations
F - F* <= (1 + sqrt(q)) (1 - sqrt(q))^k (L/2)|x*|^2 (Chambolle and Pock 2016), and the gap |F'|^2/(2 nu) is at most
(L/nu)(F - F*); with nu = mu, a gap of epsilon takes no more than  sqrt(kappa) log(kappa L |x*|^2/epsilon)  iterations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dualfl.algorithms.dual import DualFL
from dualfl.engines import Problem
from dualfl.objectives import Objective
from dualfl.solvers import FISTA, SDCA, GeometricSchedule, Solution, Solver, StopRule
from dualfl.theory.check import Measured
from dualfl.theory.convergence import slope
from dualfl.theory.problems import hinge, quadratics
from dualfl.theory.trace import Trace
from dualfl.typing import Array


@dataclass(frozen=True)
class Cold(Solver):
    """Another solver that forgets where it was."""

    solver: Solver

    def check(self, f: Objective) -> None:
        self.solver.check(f)

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        return self.solver.solve(f, None, stop)


def work(problem: Problem, solver: Solver, algorithm: DualFL, count: int) -> tuple[Array, Array]:
    """M_n and |theta_j^(n+1)|^2 as arrays (n, client), n = 0, 1, ..."""
    moments = list(Trace(Problem(problem.clients, solvers=Cold(solver)), algorithm).rounds(count))
    sizes = [[float(c.sent @ c.sent) for c in m.clients] for m in moments]
    return np.array([m.iterations for m in moments], dtype=float), np.array(sizes)


def theorem_3_4() -> Iterator[Measured]:
    """Nonsmooth, by SDCA without its Newton steps: M_n = O(N (n+1)^(4 + gamma))."""
    gamma, count, sizes = 0.1, 30, (2, 4, 8)
    algorithm = DualFL(accuracy="nonsmooth", gamma=gamma)
    M = [work(hinge(N), SDCA(newton=0), algorithm, count)[0].max(axis=1) for N in sizes]
    n = np.arange(1.0, count + 1)
    in_n = slope(np.log(n), np.log(np.maximum(M[-1], 1.0)))  # the first threshold may ask for nothing
    yield Measured("hinge by SDCA: exponent of M_n in n + 1", in_n, 4 + gamma)
    in_N = slope(np.log(np.array(sizes)), np.log([m.mean() for m in M]))
    yield Measured("hinge by SDCA: exponent of M_n in N", in_N, 1.0)


def theorem_3_5() -> Iterator[Measured]:
    """Smooth, by an accelerated gradient method: M_n = O(sqrt(kappa) (log(N (1 + gamma)^n) + n sqrt(rho)))."""
    gamma, N, count, kappas = 0.05, 2, 12, np.array([1e2, 1e3, 1e4])
    solver = FISTA(restart=False)
    most, worst = [], 0.0
    for kappa in kappas:
        M, size = work(quadratics(N, kappa), solver, DualFL(accuracy="smooth", gamma=gamma), count)
        schedule = GeometricSchedule(1 / kappa, gamma)
        threshold = np.array([schedule.threshold(n, N, 1.0) for n in range(count)])
        worst = max(worst, float(np.max(M / (np.sqrt(kappa) * np.log(kappa**2 * size / threshold[:, None])))))
        most.append(float(M.max()))
    yield Measured("M_n / (sqrt(kappa) log(kappa L |x*|^2/eps))", worst, 1.0)
    # the logarithm holds a power of kappa itself, which a fit over two decades sees as an exponent of 0.1
    yield Measured("exponent of max M_n in kappa", slope(np.log(kappas), np.log(most)), 0.5 + 0.1)
    kappa, clients = 400.0, np.array([1, 4, 16, 64])
    # N enters through the threshold alone; a smaller G0 is the same threshold without the clients
    algorithms = [DualFL(accuracy="smooth", gamma=gamma, G0=1.0 / factor) for factor in clients]
    M_N = [float(work(quadratics(2, kappa), solver, a, 4)[0].max()) for a in algorithms]
    yield Measured("dM_n/dlog N, over sqrt(kappa)", slope(np.log(clients), np.array(M_N)) / 20.0, 1.0)
