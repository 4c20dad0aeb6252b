"""The conjugate, its domain and the gap, against closed forms and linear programmes."""

import numpy as np
import pytest
from scipy.optimize import linprog

from dualfl.errors import NotSupported
from dualfl.objectives import (
    L1,
    Absolute,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    Poisson,
    Quadratic,
    Softmax,
    Squared,
    SquaredHinge,
)
from dualfl.solvers import SDCA, DampedNewton, GradientNorm, PrimalDualGap
from dualfl.theory.gap import conjugate, gap, gradient_gap, paper_gap, recession, rows
from dualfl.typing import frozen

RIDGE = 0.1
LOSSES = {
    "logistic": (Logistic(), lambda rng, n: rng.choice([-1.0, 1.0], n)),
    "softmax": (Softmax(3), lambda rng, n: rng.integers(0, 3, n).astype(float)),
    "huber": (Huber(0.5), lambda rng, n: rng.standard_normal(n)),
    "poisson": (Poisson(), lambda rng, n: rng.poisson(1.0, n).astype(float)),
    "squared hinge": (SquaredHinge(), lambda rng, n: rng.choice([-1.0, 1.0], n)),
    "squared": (Squared(), lambda rng, n: rng.standard_normal(n)),
}


def model(name, n, d, seed, intercept=False):
    rng = np.random.default_rng(seed)
    loss, targets = LOSSES[name]
    X = rng.standard_normal((n, d))
    return LinearModel(X, targets(rng, n), loss, ridge=RIDGE, intercept=intercept)


def gradient_of_g(f, x, nu):
    return f.gradient(frozen(x)) - nu * x


def feasible(f, xi):
    """Is xi in the domain of g*, g the data part of f? It is where xi = sum_i s_i u_i x_i with l_i*(u_i) finite."""
    X, s, y = rows(f), f.s, f.y
    if isinstance(f.loss, Softmax):  # u_i + e_{y_i} lies in the simplex
        n, D, k = f.n, f.design.D, f.k
        onehot = np.eye(k)[y.astype(int)]
        sums = np.kron(np.eye(n), np.ones(k))
        combine = np.einsum("i,ia,lm->alim", s, X, np.eye(k)).reshape(D * k, n * k)
        A = np.vstack([sums, combine])
        b = np.concatenate([np.ones(n), xi + combine @ onehot.ravel()])
        return linprog(np.zeros(n * k), A_eq=A, b_eq=b, bounds=(0, None)).status == 0
    A, b, bounds = s * X.T, xi, (None, None)
    if isinstance(f.loss, (Logistic, SquaredHinge)):  # -y u in [0, 1], or in [0, inf)
        A, bounds = -A * y, (0, 1 if isinstance(f.loss, Logistic) else None)
    elif isinstance(f.loss, Huber):
        bounds = (-f.loss.delta, f.loss.delta)
    elif isinstance(f.loss, Poisson):  # u + y >= 0
        b, bounds = xi + A @ y, (0, None)
    return linprog(np.zeros(f.n), A_eq=A, b_eq=b, bounds=bounds).status == 0


@pytest.mark.parametrize(("n", "d"), [(4, 3), (3, 5)], ids=["rows span", "rows do not span"])
@pytest.mark.parametrize("name", LOSSES)
def test_domain_against_linear_programmes(name, n, d):
    """Gradients, shrunk and stretched, pushed off the span a lot, a little or not at all: inside or outside?"""
    rng = np.random.default_rng(3)
    outside = 0
    for seed in range(2):
        f = model(name, n, d, seed)
        u = gradient_of_g(f, rng.standard_normal(f.d), RIDGE)
        for stretch in (0.5, 1.2, 3.0, -1.0):
            for push in (0.0, 1e-5, 0.1):
                xi = stretch * u + push * rng.standard_normal(f.d)
                expected = feasible(f, xi)
                outside += not expected
                assert np.isfinite(conjugate(f, RIDGE, xi)) == expected
    assert outside > 0 or (name == "squared" and n > d)


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("name", LOSSES)
def test_conjugate_at_gradients(name, share):
    """g*(g'(x)) = <g'(x), x> - g(x)."""
    f = model(name, 12, 3, 0, intercept=name == "logistic")
    nu, x = share * RIDGE, np.random.default_rng(1).standard_normal(f.d)
    xi = gradient_of_g(f, x, nu)
    expected = xi @ x - f.value(frozen(x)) + nu / 2 * x @ x
    assert conjugate(f, nu, xi) == pytest.approx(expected, rel=1e-8, abs=1e-9)


def test_one_logistic_row():
    """g(x) = log(1 + exp(-x)), so g*(-t) is the negative entropy of t, on [0, 1] and nowhere else."""
    f = LinearModel(np.ones((1, 1)), np.ones(1), Logistic(), ridge=RIDGE)
    for t in (0.1, 0.5, 0.99):
        assert conjugate(f, RIDGE, np.array([-t])) == pytest.approx(t * np.log(t) + (1 - t) * np.log(1 - t), abs=1e-9)
    assert conjugate(f, RIDGE, np.array([0.01])) == np.inf
    assert conjugate(f, RIDGE, np.array([-1.01])) == np.inf
    assert recession(f, np.array([-2.0])) == 2.0
    assert recession(f, np.array([2.0])) == 0.0


def test_quadratics():
    f = Quadratic(np.diag([1.0, 3.0]), np.array([1.0, 1.0]), 0.5)
    # nu = mu: g = x_2^2 - x_1 - x_2 + 1/2 is linear in x_1, so g* is finite for xi_1 = -1 only
    assert conjugate(f, 1.0, np.array([-1.0, 3.0])) == pytest.approx((3 + 1) ** 2 / 4 - 0.5)
    assert conjugate(f, 1.0, np.array([-1.0 + 1e-6, 3.0])) == np.inf
    assert np.isfinite(conjugate(f, 0.999, np.array([5.0, 3.0])))


def test_tilted_views():
    """(f + (a/2)|.|^2 - <c, .>) with nu is f with nu - a, at xi + c."""
    f = model("logistic", 12, 3, 0)
    c = np.array([0.01, -0.02, 0.03])
    tilted = f.tilted(0.2, c)
    xi = gradient_of_g(tilted, np.ones(3), 0.3)
    assert conjugate(tilted, 0.3, xi) == pytest.approx(conjugate(f, RIDGE, xi + c), rel=1e-12)


@pytest.mark.parametrize("loss", [Hinge(), Absolute()])
def test_piecewise_linear(loss):
    """nu < mu by dual ascent tends to nu = mu by a linear programme; far out it is infinite."""
    rng = np.random.default_rng(0)
    f = LinearModel(rng.standard_normal((12, 3)), rng.choice([-1.0, 1.0], 12), loss, ridge=RIDGE)
    q, _, lo, hi, _ = loss.box(f.y)
    xi = -rows(f).T @ (f.s * q * rng.uniform(0.8 * lo, 0.8 * hi, 12))
    exact = conjugate(f, RIDGE, xi)
    errors = [exact - conjugate(f, nu, xi) for nu in (0.09, 0.099, 0.0999)]
    assert 0 <= errors[2] < errors[1] < errors[0] < 0.5
    assert errors[2] <= errors[0] / 20
    assert conjugate(f, RIDGE, 100 * xi) == np.inf


def test_penalised_costs_need_a_smaller_nu():
    f = model("logistic", 12, 3, 0) + L1(0.05)
    x = np.array([1.0, -2.0, 0.5])  # no kink here, so g has a gradient
    nu = RIDGE / 2
    xi = f.smooth_part.gradient(frozen(x)) - nu * x + 0.05 * np.sign(x)
    expected = xi @ x - f.value(frozen(x)) + nu / 2 * x @ x
    assert conjugate(f, nu, xi) == pytest.approx(expected, abs=1e-9)
    with pytest.raises(NotSupported, match="take nu < mu"):
        conjugate(f, RIDGE, xi)


# -- the gap ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("name", ["logistic", "softmax", "poisson", "squared"])
def test_the_gap_at_a_gradient_has_a_closed_form(name, share):
    """With g*(g'(x)) = <g'(x), x> - g(x) put in, the two sides agree to rounding; with g* computed, to its accuracy."""
    f = model(name, 12, 3, 0)
    rng = np.random.default_rng(1)
    nu, zeta, theta = share * RIDGE, rng.standard_normal(f.d), rng.standard_normal(f.d)
    xi = gradient_of_g(f, theta, nu)
    value = f.value(frozen(theta))
    away = xi - nu * zeta
    terms = [
        value - nu * zeta @ theta,
        xi @ theta - value + nu / 2 * theta @ theta,
        away @ away / (2 * nu),
    ]
    closed = gradient_gap(f, nu, zeta, theta)
    assert abs(sum(terms) - closed) <= 1e-12 * max(map(abs, terms))
    assert gap(f, nu, zeta, theta, xi) == pytest.approx(closed, rel=1e-7, abs=1e-8)


def test_gaps_bound_the_error():
    f = model("logistic", 12, 3, 0)
    nu, rng = 0.6 * RIDGE, np.random.default_rng(2)
    zeta = rng.standard_normal(3)
    local = f.tilted(0.0, nu * zeta)
    star = solve(local)
    least = local.value(star)
    for size in (1.0, 0.1, 1e-3):
        theta = star + size * rng.standard_normal(3)
        error = local.value(frozen(theta)) - least
        assert 0 < error <= min(paper_gap(f, nu, zeta, theta), gradient_gap(f, nu, zeta, theta)) * (1 + 1e-9)


def solve(local):
    return DampedNewton().solve(local, None, GradientNorm(0.0)).x


def test_sdca_slack_bounds_the_gap_of_the_paper():
    rng = np.random.default_rng(1)
    f = LinearModel(rng.standard_normal((20, 4)), rng.choice([-1.0, 1.0], 20), Hinge(), ridge=RIDGE)
    for tolerance in (1e-1, 1e-3, 1e-5):
        zeta = rng.standard_normal(4)
        found = SDCA(newton=0).solve(f.tilted(0.0, RIDGE * zeta), None, PrimalDualGap(tolerance, RIDGE))
        assert -1e-9 <= paper_gap(f, RIDGE, zeta, found.x) <= found.slack + 1e-9
