"""The bound from two cuts: never above the minimum, and tight at it."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dualfl.engines import Problem
from dualfl.estimators.proof import FreeIntercept
from dualfl.objectives import L1, Huber, LinearModel, Logistic, Poisson, Softmax, Squared, SquaredHinge

RNG = np.random.default_rng(4)
X = RNG.normal(size=(60, 3))
SIGNS = np.where(X[:, 0] + RNG.logistic(size=60) > 0, 1.0, -1.0)
CASES = {
    "logistic": (Logistic(), SIGNS),
    "softmax": (Softmax(3), RNG.integers(0, 3, 60).astype(float)),
    "squared": (Squared(), 50 + X[:, 0]),
    "huber": (Huber(1.0), 5 + X[:, 0]),
    "poisson": (Poisson(), RNG.poisson(2.0, 60).astype(float)),
    "squared hinge": (SquaredHinge(), SIGNS),
}


def make(name, ridge=0.05, penalty=None, intercept="free"):
    loss, y = CASES[name]
    parts = slice(0, 10), slice(10, 60)
    clients = [LinearModel(X[rows], y[rows], loss, ridge, intercept=intercept) for rows in parts]
    return Problem(clients, penalty=penalty)


def minimum(problem):
    E = problem.pooled
    x = np.zeros(problem.d)
    if problem.clients[0].k == 1 and problem.clients[0].intercept:
        x[-1] = np.mean([f.y.mean() for f in problem.clients])  # where Huber's loss has curvature
    for _ in range(60):  # Newton, damped; softmax is flat along constants
        H = E.hessian(x) + 1e-12 * np.eye(problem.d)
        step, t = np.linalg.lstsq(H, E.gradient(x), rcond=1e-10)[0], 1.0
        while E.value(x - t * step) > E.value(x) and t > 1e-6:
            t /= 2
        x = x - t * step
    return x, E.value(x)


@pytest.mark.parametrize("intercept", ["free", True, False])
@pytest.mark.parametrize("name", CASES)
def test_below_everywhere_and_tight_at_the_minimum(name, intercept):
    problem = make(name, intercept=intercept)
    x, least = minimum(problem)
    assert FreeIntercept.applies(problem) == (intercept == "free")
    tight = FreeIntercept(problem).bound(x)
    assert least - 1e-10 * abs(least) <= tight <= least + 1e-13 * abs(least)
    finite = 0
    for size in np.geomspace(1e-9, 3, 40):
        bound = FreeIntercept(problem).bound(x + size * RNG.normal(size=len(x)))
        assert bound <= least + 1e-13 * abs(least)
        finite += np.isfinite(bound)
    assert finite >= 5


def test_l1_without_a_ridge():
    problem = make("softmax", ridge=0.0, penalty=L1(0.01))
    E = problem.pooled

    def split(z):  # w = z+ - z-, smooth on the positive quadrant
        plus, minus, b = z[:9], z[9:18], z[18:]
        value, g = E.smooth_part.value_gradient(np.append(plus - minus, b))
        return value + 0.01 * (plus + minus).sum(), np.concatenate([g[:9] + 0.01, 0.01 - g[:9], g[9:]])

    found = minimize(
        split, np.zeros(21), jac=True, method="L-BFGS-B", bounds=[(0, None)] * 18 + [(None, None)] * 3,
        options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 5000},
    )  # fmt: skip
    theta = np.append(found.x[:9] - found.x[9:18], found.x[18:])
    bound = FreeIntercept(problem).bound(theta)
    assert found.fun - 1e-6 <= bound <= found.fun + 1e-12
    # The best model without features is steeper than l1 there, so its cut must be scaled down.
    shares = np.bincount(CASES["softmax"][1].astype(int)) / 60
    null = np.append(np.zeros(9), np.log(shares))
    assert 0 < FreeIntercept(problem).bound(null) <= found.fun < E.value(null)
    for size in (1e-4, 1e-2, 1.0):
        assert FreeIntercept(problem).bound(theta + size * RNG.normal(size=12)) <= found.fun


def test_where_it_has_nothing_to_say():
    assert not FreeIntercept.applies(make("logistic", ridge=0.0))
    problem = Problem([LinearModel(X, SIGNS, Logistic(), 0.1, intercept=True)])
    assert not FreeIntercept.applies(problem)  # strongly convex: algorithms prove it themselves
    assert FreeIntercept(make("squared")).bound(np.zeros(4)) == -np.inf  # both cuts pull the intercept up


def test_the_floats_of_a_proof_are_counted_with_its_exchanges():
    proof = FreeIntercept(make("logistic"))
    proof.bound(np.zeros(4))
    assert (proof.exchanges, proof.floats_up, proof.floats_down) == (1, 2 * 6 * 7, 2 * 4)
    proof = FreeIntercept(make("softmax"))
    proof.bound(np.zeros(12))
    assert (proof.exchanges, proof.floats_up, proof.floats_down) == (2, 2 * (2 * 15 + 3), 2 * 24)
