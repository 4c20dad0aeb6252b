"""Boxes: those without zero in them, and means of points on a bound, which leave a box by rounding."""

import numpy as np
import pytest
from scipy.optimize import Bounds, linprog, minimize

from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.engines import Problem, run
from dualfl.objectives import Absolute, BoxConstraint, Hinge, LinearModel, Logistic

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4))
Y = np.where(X @ np.ones(4) + 0.3 * RNG.standard_normal(60) > 0, 1.0, -1.0)
# fista-dual is not among them: its model is an extrapolation, which may be outside by more than rounding.
OTHERS = ("bundle", "one-shot", "auto", "fedipm", "fista-dual")
BOXED = [name for name, a in ALGORITHMS.items() if a.penalty is not None and name not in OTHERS]


def problem(loss, box, ridge=0.01):
    clients = [LinearModel(X[j::3], Y[j::3], loss, ridge) for j in range(3)]
    return Problem(clients, penalty=BoxConstraint(*box))


def linear_program(loss, box):
    """The minimum without a ridge, by HiGHS: slacks above every piece of the loss."""
    n, d = X.shape
    slopes = [(-Y[:, None] * X, Y * 0 + 1), (0 * X, 0 * Y)] if isinstance(loss, Hinge) else [(X, -Y), (-X, Y)]
    A = np.concatenate([np.hstack([S, -np.eye(n)]) for S, _ in slopes])
    b = np.concatenate([-c for _, c in slopes])
    bounds = [box] * d + [(None, None)] * n
    return linprog(np.concatenate([np.zeros(d), np.full(n, 1 / n)]), A_ub=A, b_ub=b, bounds=bounds).fun


@pytest.mark.parametrize("box", [(0.2, 0.5), (-0.5, -0.2), (0.2, 0.2), (0.2, np.inf)])
@pytest.mark.parametrize("loss", [Hinge(), Absolute()])
def test_interior_points_take_boxes_without_zero(loss, box):
    result = run(problem(loss, box, ridge=0.0), make("auto"), rounds=60, tol=1e-7)
    assert result.algorithm.name == "fedipm"
    star = linear_program(loss, box)
    # The hinge separates the classes if the box lets it: E* = 0, of which no share can be proven.
    assert result.stopped == "tol" if star > 0 else result.energy == 0 and result.certificate < 1e-9
    assert result.energy == pytest.approx(star, rel=2e-7)


@pytest.mark.parametrize("name", BOXED)
def test_means_of_points_on_a_bound_have_an_energy(name):
    f = LinearModel(X, Y, Logistic(), 0.01)
    oracle = minimize(f.value, np.full(4, 0.15), jac=f.gradient, bounds=Bounds(0.1, 0.2), options={"ftol": 1e-15})
    result = run(problem(Logistic(), (0.1, 0.2)), make(name), rounds=60)
    assert all(np.isfinite(row.energy) for row in result.history[1:])  # the start may be outside
    assert ((result.theta >= 0.1) & (result.theta <= 0.2)).all()
    assert result.energy == pytest.approx(oracle.fun, rel=2e-4)
