"""Proposition 3.1: the dual of a client's problem, and its gap."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dualfl.objectives import LinearModel, Logistic, Objective
from dualfl.solvers import SDCA, DampedNewton, GradientNorm, PrimalDualGap, minimise
from dualfl.theory.check import Measured
from dualfl.theory.gap import conjugate, gap, gradient_gap, paper_gap
from dualfl.theory.problems import Kinks, hinge, logistic, medians, quadratics, softmax
from dualfl.typing import Array, frozen


def cases() -> list[tuple[Objective, float]]:
    """One client of each kind, with nu = mu where g* is known there, and with nu = mu/2."""
    smooth = [quadratics(2, 100.0).clients[0], logistic(1).clients[0], softmax(1).clients[0]]
    return [(f, share * f.mu) for f in smooth for share in (1.0, 0.5)] + [
        (medians(1).clients[0], medians(1).clients[0].mu)
    ]


def local_solution(f: Objective, c: Array) -> Array:
    solver = Kinks() if "dual" in f.offers else DampedNewton()
    return minimise(f, c=frozen(c), solver=solver, stop=GradientNorm(0.0)).x


def proposition_3_1() -> Iterator[Measured]:
    rng = np.random.default_rng(0)
    zero = optimal = identity = 0.0
    for f, nu in cases():
        for _ in range(2):
            zeta = rng.standard_normal(f.d)
            theta = local_solution(f, nu * zeta)
            size = 1 + abs(f.value(theta)) + nu * abs(float(zeta @ theta))
            zero = max(zero, abs(paper_gap(f, nu, zeta, theta)) / size)
            optimal = max(optimal, -least_change(f, nu, zeta, theta, rng) / size)
            if f.smooth:
                identity = max(identity, closed_form(f, nu, zeta, frozen(rng.standard_normal(f.d))))
    # g* at nu = mu comes from a path that ends at e = 1e-13 L, which costs a few digits beyond rounding
    yield Measured("E + E_d = 0 at the solution, relative", zero, 1e-10)
    yield Measured("E_d elsewhere: by how much lower", optimal, 1e-10)
    yield Measured("gap at g'(theta) against |grad|^2/(2 nu)", identity, 1e-12)
    yield Measured("hinge: gap by an LP / SDCA's slack", slack_ratio(), 1 + 1e-6)
    yield Measured("nu = mu, too few rows: share of finite gaps", finite_share(), 0.0)


def least_change(f: Objective, nu: float, zeta: Array, theta: Array, rng: np.random.Generator) -> float:
    """min over some xi of E_d(xi) - E_d(nu (zeta - theta)); the xi are gradients of g, so that E_d is finite."""
    here = nu * (zeta - theta)
    best = gap(f, nu, zeta, theta, here)
    others = [local_solution(f, nu * zeta + 0.1 * nu * rng.standard_normal(f.d)) for _ in range(2)]
    shifted = [here + s * (nu * (zeta - x) - here) for x in others for s in (0.5, 1.0)]
    return min([gap(f, nu, zeta, theta, xi) - best for xi in shifted if np.isfinite(conjugate(f, nu, xi))], default=0.0)


def closed_form(f: Objective, nu: float, zeta: Array, theta: Array) -> float:
    """E + E_d(g'(theta)), term by term, against its closed form; g*(g'(theta)) = <g'(theta), theta> - g(theta)."""
    value, gradient = f.value_gradient(theta)
    xi = gradient - nu * theta
    terms = [
        value,
        -nu * float(zeta @ theta),
        float(xi @ theta) - value + nu / 2 * float(theta @ theta),
        float((xi - nu * zeta) @ (xi - nu * zeta)) / (2 * nu),
    ]
    return abs(sum(terms) - gradient_gap(f, nu, zeta, theta)) / max(map(abs, terms))


def slack_ratio() -> float:
    """The gap at nu (zeta - theta) by a linear programme, over the duality gap that SDCA stopped at: at most 1.

    SDCA's alpha gives one way to write the dual point as a combination of rows; g* takes the best of all ways.
    """
    f, worst = hinge(1, n=20, d=4).clients[0], 0.0
    rng = np.random.default_rng(1)
    for tolerance in (1e-1, 1e-2, 1e-3):
        zeta = rng.standard_normal(f.d)
        found = SDCA(newton=0).solve(f.tilted(0.0, frozen(f.mu * zeta)), None, PrimalDualGap(tolerance, f.mu))
        worst = max(worst, paper_gap(f, f.mu, zeta, found.x) / found.slack)
    return worst


def finite_share() -> float:
    """An erratum: with fewer rows than features, how often is the paper's gap finite after an inexact solve?"""
    rng, finite, count = np.random.default_rng(2), 0, 8
    for _ in range(count):
        f = LinearModel(rng.standard_normal((5, 8)), rng.choice([-1.0, 1.0], 5), Logistic(), ridge=0.1)
        zeta = rng.standard_normal(f.d)
        exact = local_solution(f, f.mu * zeta)
        finite += np.isfinite(paper_gap(f, f.mu, zeta, exact + 1e-5 * rng.standard_normal(f.d)))
    return finite / count
