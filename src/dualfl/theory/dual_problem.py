"""Section 6: the dual problem, block Jacobi, the duality of DualFL and FISTA, and what it says about errors.

E_d is the paper's divided by N, as in `dualfl.algorithms.dual.fista`: sum_j w_j g_j*(xi_j) + |sum_j w_j xi_j|^2/(2 nu).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dualfl.algorithms.dual import DualFISTA, DualFL
from dualfl.engines import Problem
from dualfl.solvers import GradientNorm
from dualfl.theory.check import Measured
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


def proposition_6_1() -> Iterator[Measured]:
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
        duality = max(
            duality, abs(problem.value(theta) + dual_value(problem, nu, xi)) / (1 + abs(problem.value(theta)))
        )
        size = float(np.linalg.norm(theta))
        mean = max(mean, float(np.linalg.norm(np.array(problem.weights) @ xi / nu + theta)) / size)
        slopes = np.array([f.gradient(theta) - nu * theta for f in problem.clients])
        gradients = max(gradients, float(np.linalg.norm(xi - slopes) / np.linalg.norm(xi)))
    for problem in (quadratics(4, 1e3), logistic(3), medians(5)):
        for m in Trace(problem, DualFL(accuracy="exact")).rounds(40):
            zeta = np.array([c.zeta for c in m.clients])
            sums = max(sums, float(np.linalg.norm(zeta.mean(axis=0)) / max(float(np.linalg.norm(zeta)), 1e-300)))
    yield Measured("strong duality: E* + E_d*, relative", duality, 1e-10)
    yield Measured("theta* + mean xi*/nu, relative", mean, 1e-9)
    yield Measured("xi_j* - g_j'(theta*), relative", gradients, 1e-9)
    yield Measured("sum_j zeta_j in DualFL, relative", sums, 1e-13)


class Step:
    """One step of FISTA from eta: as one problem in xi, E_d^n, and as one problem a client, E_d^{n,j}."""

    def __init__(self, problem: Problem, nu: float, eta: Array) -> None:
        self.problem, self.nu, self.eta = problem, nu, eta
        self.w = np.array(problem.weights)
        self.v = eta - self.w @ eta

    def whole(self, xi: Array) -> float:
        away, gradient = xi - self.eta, self.w @ self.eta / self.nu
        smooth = self.w @ (away @ gradient) + self.w @ np.sum(away**2, axis=1) / (2 * self.nu)
        return float(smooth + self.w @ [conjugate(f, self.nu, x) for f, x in zip(self.problem.clients, xi)])

    def block(self, j: int, x: Array) -> float:
        away = x - self.v[j]
        return conjugate(self.problem.clients[j], self.nu, x) + float(away @ away) / (2 * self.nu)

    def points(self, residuals: Array) -> Array:
        """g_j' where client j's problem has the residual r_j: the minimisers, for r = 0."""
        found = []
        for f, solver, c in zip(self.problem.clients, self.problem.solvers, self.v + residuals):
            assert solver is not None
            found.append(c - self.nu * solver.solve(f.tilted(0.0, frozen(c)), None, EXACT).x)
        return np.array(found)


def lemma_6_4() -> Iterator[Measured]:
    """Block Jacobi: the clients' problems add up to FISTA's step, and so do their errors."""
    rng, delta = np.random.default_rng(0), 1e-2
    identity = transfer = local = 0.0
    for problem in (quadratics(4, 100.0), logistic(3)):
        shape = (problem.N, problem.d)
        step = Step(problem, 0.5 * problem.clients[0].mu, rng.standard_normal(shape))
        best = step.points(np.zeros(shape))
        at_best = np.array([step.block(j, x) for j, x in enumerate(best)])
        constant = step.w @ at_best - step.whole(best)
        r = rng.standard_normal(shape)
        r *= np.sqrt(2 * step.nu * delta) / np.linalg.norm(r, axis=1, keepdims=True)  # every client: a gap of delta
        inexact = step.points(r)
        for xi in (inexact, step.points(10 * r)):
            blocks = np.array([step.block(j, x) for j, x in enumerate(xi)])
            identity = max(identity, abs(step.w @ blocks - step.whole(xi) - constant) / (1 + abs(constant)))
        local = max(local, float(np.max([step.block(j, x) for j, x in enumerate(inexact)] - at_best)) / delta)
        transfer = max(transfer, (step.whole(inexact) - step.whole(best)) / delta)
    # two conjugates by Newton's method, to about ten digits each
    yield Measured("clients' problems - step: not constant", identity, 1e-11)
    yield Measured("clients' errors / delta", local, 1.0)
    yield Measured("error of the step / delta", transfer, 1.0)


def lemma_6_5() -> Iterator[Measured]:
    """DualFL's xi and eta, from its states, are FISTA's."""
    for name, problem in (
        ("quadratic", quadratics(5, 1e3)),
        ("logistic", logistic(4)),
        ("softmax", softmax(3)),
        ("|x - b_j|_1 + ridge", medians(5)),
    ):
        worst = 0.0
        for share in (1.0, 0.0):
            rho = share * 1e-2 if name.startswith("|") else None if share == 1 else share * 1e-3
            given: dict[str, Any] = {} if rho is None else {"rho": rho}  # without one it is theory's
            primal = Trace(problem, DualFL(accuracy="exact", **given))
            dual = Trace(problem, DualFISTA(accuracy="exact", **given))
            count = 25
            xi, eta = dual_sequences(list(primal.rounds(count)), primal.algorithm.nu, primal.algorithm.rho)
            blocks = [m.clients for m in dual.rounds(count)]
            xi_dual = np.array([[c.xi for c in clients] for clients in blocks])
            eta_dual = np.array([[c.eta for c in clients] for clients in blocks])
            size = float(np.abs(xi).max())
            worst = max(worst, float(np.abs(xi - xi_dual).max()) / size)
            worst = max(worst, float(np.abs(eta[1:] - eta_dual[:-1]).max()) / size)
        yield Measured(f"{name}: xi, eta - FISTA's", worst, 1e-10)


def inequalities() -> Iterator[Measured]:
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
    yield Measured("|theta - theta*|^2 / ((2/nu)(E_d - E_d*))", solution_error, 1.0)
    yield Measured("(E - E*) / ((L/2)|theta - theta*|^2)", energy_error, 1.0)
