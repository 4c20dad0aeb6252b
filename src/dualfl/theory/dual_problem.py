"""Section 6: the dual problem, block Jacobi, the duality of DualFL and FISTA, and what it says about errors.

E_d is the paper's divided by N, as in `dualfl.algorithms.dual.fista`: sum_j w_j g_j*(xi_j) + |sum_j w_j xi_j|^2/(2 nu).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dualfl.algorithms.dual import DualFISTA, DualFL
from dualfl.engines import Problem
from dualfl.solvers import GradientNorm
from dualfl.theory.check import Found
from dualfl.theory.gap import conjugate
from dualfl.theory.problems import logistic, medians, quadratics, softmax, solution
from dualfl.theory.trace import Trace, dual_sequences
from dualfl.typing import Array, frozen


EXACT = GradientNorm(0.0)


def dual_value(problem: Problem, nu: float, xi: Array) -> float:
    """E_d(xi), each g_j* computed by itself."""
    w = np.array(problem.weights)
    conjugates = [conjugate(f, nu, x) for f, x in zip(problem.clients, xi)]
    mean = w @ xi
    return float(w @ conjugates + mean @ mean / (2 * nu))


def proposition_6_1() -> Iterator[Found]:
    """Strong duality; theta* = -(1/(N nu)) sum xi_j*; xi_j* = g_j'(theta*).

    theta* comes from Newton's method on E, xi* from FISTA on E_d: they know nothing of each other.
    """
    duality = mean = gradients = sums = 0.0
    for problem, count in ((quadratics(4, 50.0), 300), (logistic(3, mu=0.1), 250), (softmax(3, mu=0.1), 150)):
        theta = solution(problem)
        trace = Trace(problem, DualFISTA(accuracy="exact"))
        nu = trace.algorithm.nu
        *_, last = trace.rounds(count)
        xi = np.array([c.xi for c in last.clients])
        duality = max(duality, abs(problem.value(theta) + dual_value(problem, nu, xi)) / (1 + abs(problem.value(theta))))
        size = float(np.linalg.norm(theta))
        mean = max(mean, float(np.linalg.norm(np.array(problem.weights) @ xi / nu + theta)) / size)
        slopes = np.array([f.gradient(theta) - nu * theta for f in problem.clients])
        gradients = max(gradients, float(np.linalg.norm(xi - slopes) / np.linalg.norm(xi)))
    for problem in (quadratics(4, 1e3), logistic(3), medians(5)):
        for m in Trace(problem, DualFL(accuracy="exact")).rounds(40):
            zeta = np.array([c.zeta for c in m.clients])
            sums = max(sums, float(np.linalg.norm(zeta.mean(axis=0)) / max(np.linalg.norm(zeta), 1e-300)))
    yield Found("strong duality: E* + E_d*, relative", duality, 1e-10)
    yield Found("theta* + mean xi*/nu, relative", mean, 1e-9)
    yield Found("xi_j* - g_j'(theta*), relative", gradients, 1e-9)
    yield Found("sum_j zeta_j in DualFL, relative", sums, 1e-13)


def lemma_6_4() -> Iterator[Found]:
    """Block Jacobi: the clients' problems add up to FISTA's step, and so do their errors."""
    rng = np.random.default_rng(0)
    identity = transfer = 0.0
    for problem in (quadratics(4, 100.0), logistic(3)):
        nu, w = 0.5 * problem.clients[0].mu, np.array(problem.weights)
        eta = rng.standard_normal((problem.N, problem.d))
        v = eta - w @ eta

        def local(j: int, x: Array) -> float:
            """E_d^{n,j}."""
            return conjugate(problem.clients[j], nu, x) + float((x - v[j]) @ (x - v[j])) / (2 * nu)  # noqa: B023

        def whole(xi: Array) -> float:
            """E_d^n."""
            away = xi - eta  # noqa: B023
            smooth = float(w @ (away @ (w @ eta))) / nu + float(w @ np.sum(away**2, axis=1)) / (2 * nu)  # noqa: B023
            return smooth + float(w @ [conjugate(f, nu, x) for f, x in zip(problem.clients, xi)])  # noqa: B023

        def blocks(xi: Array) -> float:
            return float(w @ [local(j, x) for j, x in enumerate(xi)])  # noqa: B023

        def gradients(away: float) -> Array:
            """Points of the domain: g_j' at the solution of the local problem, moved."""
            points = []
            for j, f in enumerate(problem.clients):
                r = rng.standard_normal(problem.d)
                c = v[j] + away * r / np.linalg.norm(r)  # noqa: B023
                theta = problem.solvers[j].solve(f.tilted(0.0, frozen(c)), None, EXACT).x  # type: ignore[union-attr]
                points.append(c - nu * theta)  # noqa: B023
            return np.array(points)

        best = gradients(0.0)
        differences = [blocks(xi) - whole(xi) for xi in (best, gradients(1e-1), gradients(1.0))]
        identity = max(identity, float(np.ptp(differences)) / max(1.0, abs(differences[0])))
        inexact = gradients(np.sqrt(2 * nu * 1e-2))  # every client within delta = 1e-2 of its minimum
        errors = [local(j, inexact[j]) - local(j, best[j]) for j in range(problem.N)]
        assert max(errors) <= 1e-2
        transfer = max(transfer, (whole(inexact) - whole(best)) / 1e-2)
    yield Found("sum of the clients' problems - step: not constant", identity, 1e-11)
    yield Found("error of the step / delta, clients within delta/N", transfer, 1.0)


def lemma_6_5() -> Iterator[Found]:
    """DualFL's xi and eta, from its states, are FISTA's."""
    for name, problem in (
        ("quadratic", quadratics(5, 1e3)),
        ("logistic", logistic(4)),
        ("softmax", softmax(3)),
        ("|x - b_j|_1 + ridge", medians(5)),
    ):
        worst = 0.0
        for share in (1.0, 0.25, 0.0):
            rho = share * 1e-2 if name.startswith("|") else None if share == 1 else share * 1e-3
            primal = Trace(problem, DualFL(accuracy="exact", rho=rho))  # type: ignore[arg-type]
            dual = Trace(problem, DualFISTA(accuracy="exact", rho=rho))  # type: ignore[arg-type]
            count = 40
            xi, eta = dual_sequences(list(primal.rounds(count)), primal.algorithm.nu, primal.algorithm.rho)
            blocks = [m.clients for m in dual.rounds(count)]
            xi_dual = np.array([[c.xi for c in clients] for clients in blocks])
            eta_dual = np.array([[c.eta for c in clients] for clients in blocks])
            size = float(np.abs(xi).max())
            worst = max(worst, float(np.abs(xi - xi_dual).max()) / size)
            worst = max(worst, float(np.abs(eta[1:] - eta_dual[:-1]).max()) / size)
        yield Found(f"{name}: xi, eta of DualFL - FISTA's, relative", worst, 1e-10)


def inequalities() -> Iterator[Found]:
    """|theta - theta*|^2 <= (2/nu)(E_d - E_d*), and E - E* <= (L/2)|theta - theta*|^2."""
    solution_error = energy_error = 0.0
    for problem in (quadratics(4, 1e3), logistic(4), medians(7)):
        theta = solution(problem)
        best = problem.value(theta)
        trace = Trace(problem, DualFISTA(accuracy="exact"))
        nu, L = trace.algorithm.nu, max(f.L for f in problem.clients)
        for m in trace.rounds(60):
            away = float(np.sum((m.theta - theta) ** 2))
            if away < 1e-14:  # below, E - E* is rounding
                break
            # with exact local solves the server's number is E_d at FISTA's iterate, and E_d* = -E*
            solution_error = max(solution_error, away / (2 / nu * (m.server.dual + best)))
            if np.isfinite(L):
                energy_error = max(energy_error, (problem.value(m.theta) - best) / (L / 2 * away))
    yield Found("|theta - theta*|^2 / ((2/nu)(E_d - E_d*))", solution_error, 1.0)
    yield Found("(E - E*) / ((L/2)|theta - theta*|^2)", energy_error, 1.0)
