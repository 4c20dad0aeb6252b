"""A point that SciPy returns is called a solution only if it is one, whatever SciPy says of it."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import brentq

from dualfl.objectives import Function, Objective, Quadratic
from dualfl.solvers import (
    FixedIterations,
    GradientNorm,
    PrimalDualGap,
    RelativeEnergy,
    ScipySolver,
    minimise,
    scipy_bridge,
)
from dualfl.solvers.scipy_bridge import GRADIENT, HESSIAN

METHODS = [*GRADIENT, *HESSIAN]
every_method = pytest.mark.parametrize("method", METHODS)


class Case(NamedTuple):
    f: Objective
    minimiser: np.ndarray
    start: np.ndarray


def quadratic(scale: float, condition: float) -> Case:
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    A = Q * np.geomspace(1 / condition, 1, 6) @ Q.T
    A = (A + A.T) / 2
    return Case(Quadratic(scale * A, scale * np.ones(6)), np.linalg.solve(A, np.ones(6)), np.zeros(6))


def log_cosh(scale: float, start: float) -> Case:
    """Flat far from its minimiser, so that Newton's steps are far too long there, and trust regions reject them."""

    def value(x):
        return scale * float(np.sum(np.logaddexp(x - 1, 1 - x)) + 5e-4 * x @ x)

    def slope(x):
        return np.tanh(x - 1) + 1e-3 * x

    def product(x, v):
        return scale * ((1 - np.tanh(x - 1) ** 2) * v + 1e-3 * v)

    f = Function(3, value, lambda x: scale * slope(x), product, mu=1e-3 * scale, L=2.0 * scale)
    return Case(f, np.full(3, brentq(slope, 0.0, 2.0, xtol=1e-15)), np.full(3, start))


CASES = {
    "quadratic": lambda scale: quadratic(scale, 10.0),
    "ill-conditioned": lambda scale: quadratic(scale, 1e6),
    "log cosh": lambda scale: log_cosh(scale, 0.0),
    "log cosh from afar": lambda scale: log_cosh(scale, 30.0),
}


@every_method
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e12])
@pytest.mark.parametrize("name", CASES)
def test_what_is_called_solved_is_near_the_minimum_in_any_unit(method, scale, name):
    f, minimiser, start = CASES[name](scale)
    least, first = f.value(minimiser), f.value(start)
    slope = float(np.linalg.norm(f.gradient(start)))

    def solve(rule):
        return minimise(f.fresh(), warm=start, solver=ScipySolver(method), stop=rule)

    for rule in (RelativeEnergy(1e-8, cap=500), RelativeEnergy(cap=500)):
        solution = solve(rule)
        # energies that hardly fall do not bound what is left: CG ends at 1.07e-3 or below 1e-3, by processor
        assert solution.capped or solution.value - least <= 2e-3 * (first - least)
    solution = solve(GradientNorm(1e-7 * slope, cap=500))
    assert solution.capped or np.linalg.norm(f.gradient(solution.x)) <= 1e-7 * slope
    solution = solve(PrimalDualGap(1e-6 * (first - least), cap=500))
    assert solution.capped or solution.value - least <= 1e-6 * (first - least)
    if name == "quadratic":  # an easy one is solved, and not merely given up
        assert not solution.capped


@every_method
@pytest.mark.parametrize("asked", [0, 20])
@pytest.mark.parametrize(
    "rule", [RelativeEnergy(), RelativeEnergy(1.0), FixedIterations(3), GradientNorm(), PrimalDualGap()], ids=str
)
def test_a_start_that_scipy_returns_as_its_success_is_not_solved(monkeypatch, method, asked, rule):
    """Newton-CG of SciPy 1.11 does so with a tolerance of zero."""

    def returns_its_start(fun, x0, *, callback, **_):
        for _ in range(asked):
            callback(np.array(x0))
        return SimpleNamespace(x=np.array(x0), success=True)

    monkeypatch.setattr(scipy_bridge, "minimize", returns_its_start)
    solution = minimise(quadratic(1.0, 10.0).f, solver=ScipySolver(method), stop=rule)
    assert solution.capped and solution.iterations == 0


@pytest.mark.parametrize("method", ["BFGS", "CG"])
def test_a_tolerance_among_the_options_means_what_it_says(method):
    f = quadratic(1e6, 10.0).f
    solution = minimise(f, solver=ScipySolver(method, {"gtol": 1.0}), stop=GradientNorm(0.0))
    assert solution.capped and np.abs(solution.residual).max() <= 1.0
