"""Quadratics, dense and as operators, and functions that a user brings along."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from objective_cases import build, differences, some
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from dualfl.errors import NotSupported
from dualfl.objectives import Cost, Function, Logistic, Quadratic


def random_quadratic(seed: int, d: int, rank: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(d, rank))
    return B @ B.T, rng.normal(size=d), rng


@pytest.mark.parametrize("operator", [False, True])
@some
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8))
def test_quadratic(operator, seed, d, rank):
    A, b, rng = random_quadratic(seed, d, rank)
    lowest, highest = np.linalg.eigvalsh(A)[[0, -1]]
    f = Quadratic(aslinearoperator(A) if operator else A, b, 0.7, mu=max(lowest, 0.0) if operator else None)
    x, p = rng.normal(size=(2, d))
    assert_allclose(f.value(x), x @ A @ x / 2 - b @ x + 0.7, rtol=1e-10, atol=1e-10)
    assert_allclose(f.gradient(x), A @ x - b, rtol=1e-10, atol=1e-10)
    assert_allclose(f.hessian_times(x, p), A @ p, rtol=1e-10, atol=1e-10)
    assert_allclose(f.hessian(x), A, rtol=1e-10, atol=1e-10)
    U = rng.normal(size=(d, 2))
    assert_allclose(f.projected_hessian(x, U), U.T @ A @ U, rtol=1e-9, atol=1e-9)
    ray = f.at(x).ray(p)
    assert_allclose(ray.value(0.3), f.fresh().value(x + 0.3 * p), rtol=1e-12)
    assert_allclose(ray.slope(0.3), (A @ (x + 0.3 * p) - b) @ p, rtol=1e-9, atol=1e-9)
    assert_allclose(f.mu, max(lowest, 0.0), atol=1e-12 * highest)
    assert highest * (1 - 1e-12) <= f.L <= highest * (1 + 1e-5)
    g = f.tilted(0.4, p)
    assert_allclose(g.hessian(x), A + 0.4 * np.eye(d), rtol=1e-10, atol=1e-10)
    assert_allclose(g.projected_hessian(x, U), U.T @ (A + 0.4 * np.eye(d)) @ U, rtol=1e-9, atol=1e-9)
    assert_allclose(g.gradient(x), A @ x - b + 0.4 * x - p, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("operator", [False, True])
@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0, 2.5])
def test_scaling_a_quadratic_scales_all_of_it(operator, factor):
    A, b, rng = random_quadratic(3, 5, 9)
    lowest = np.linalg.eigvalsh(A)[0]
    f = Quadratic(aslinearoperator(A) if operator else A, b, 0.7, mu=lowest)
    g = f.scaled(factor)
    x = rng.normal(size=5)
    assert_allclose(g.value(x), factor * f.value(x), rtol=1e-12)
    assert_allclose(g.gradient(x), differences(g.value, x), rtol=1e-6)
    assert g.mu == factor * f.mu and g.cost is not f.cost
    top = np.linalg.eigvalsh(g.hessian(x))[-1]
    assert top * (1 - 1e-12) <= g.L <= top * (1 + 1e-5)
    assert_allclose(f.value(x), x @ A @ x / 2 - b @ x + 0.7)  # f itself did not change


def test_the_operator_is_asked_for_nothing_if_L_is_known():
    asked = []
    A = LinearOperator((3, 3), matvec=lambda v: asked.append(1) or 2 * v, dtype=float)
    f = Quadratic(A, np.zeros(3), mu=2.0, L=2.0)
    assert not asked and f.L == f.mu == 2.0
    assert Quadratic(A, np.zeros(3)).mu == 0.0  # nothing is known from below
    assert Quadratic(A, np.zeros(3)).L == Quadratic(A, np.zeros(3)).L == pytest.approx(2.0)


def test_a_quadratic_keeps_no_arrays_that_can_change():
    A, b = np.eye(2), np.ones(2)
    f = Quadratic(A, b)
    A[0, 0], b[0] = 9.0, 9.0
    assert f.value(np.ones(2)) == -1.0
    f.hessian(np.ones(2))[0, 0] = 5.0
    assert f.hessian(np.ones(2))[0, 0] == 1.0


def test_flat_quadratics():
    f = Quadratic(np.zeros((2, 2)), np.ones(2))
    assert (f.mu, f.L) == (0.0, 0.0)


@pytest.mark.parametrize("products", [False, True])
def test_function_is_what_it_was_given(products):
    g = build(Logistic(), n=20).f
    f = Function(g.d, g.value, g.gradient, g.hessian_times if products else None, mu=g.mu, L=g.L, n=20, name="Mine")
    x, p = np.random.default_rng(0).normal(size=(2, g.d))
    assert f.value_gradient(x)[0] == g.value(x) and (f.gradient(x) == g.gradient(x)).all()
    assert (f.mu, f.L, f.n, f.name, f.mass) == (g.mu, g.L, 20, "Mine", 20.0)
    ray = f.at(x).ray(p)
    assert_allclose(ray.slope(0.5), g.gradient(x + 0.5 * p) @ p)
    if products:
        assert f.offers == {"gradient", "hessian"}
        assert_allclose(f.hessian(x), g.hessian(x), rtol=1e-10)
    else:
        assert f.offers == {"gradient"}
        with pytest.raises(NotSupported) as error:
            f.hessian_times(x, p)
        assert str(error.value) == "Mine has no Hessian products; use a first-order solver such as LBFGS."


def test_a_function_says_what_it_does_not_offer():
    f, x = Function(2, value=lambda x: x @ x, gradient=lambda x: 2 * x, mu=2.0, L=2.0), np.ones(2)
    for ask in (f.moment, lambda x: f.sketched_moment(x, np.eye(2)), lambda x: f.metric(x, np.eye(2), np.eye(2), 1)):
        with pytest.raises(NotSupported, match="Function gives no second-order sums; use a first-order method"):
            ask(x)
    with pytest.raises(NotSupported, match="Function has no rows to take a gradient of"):
        f.tilted(0.1).sample_gradient(np.array([0]), x)
    assert f.L_row == f.L


def test_the_account_of_a_function():
    f = Function(2, lambda x: x @ x, lambda x: 2 * x, lambda x, v: 2 * v)
    x = np.ones(2)
    f.value_gradient(x), f.value(x), f.gradient(x)
    assert f.cost == Cost(1, 0, 1)
    f.hessian_times(x, x)
    assert f.cost == Cost(1, 1, 2)
    f.value(2 * x)
    assert f.cost == Cost(1, 1, 2.5)


def test_callables_may_use_a_buffer_again_and_may_not_change_x():
    buffer = np.empty(2)

    def gradient(x):
        buffer[:] = 2 * x
        return buffer

    f = Function(2, lambda x: x @ x, gradient, lambda x, v: gradient(v))
    first, product = f.gradient(np.ones(2)), f.hessian_times(np.ones(2), np.ones(2))
    f.gradient(np.full(2, 5.0))
    assert (first == 2).all() and (product == 2).all()

    def rude(x):
        x += 1
        return x @ x

    with pytest.raises(ValueError, match="read-only"):
        Function(2, rude, gradient).value(np.ones(2))


def definite(A: np.ndarray, mu: float) -> bool:
    """Whether A - mu I is positive semidefinite: Gauss' elimination in rational numbers."""
    M = [[Fraction(float(a)) - (i == j) * Fraction(mu) for j, a in enumerate(row)] for i, row in enumerate(A)]
    for k in range(len(M)):
        if M[k][k] <= 0:
            return M[k][k] == 0 and not any(M[k][k + 1 :])
        for i in range(k + 1, len(M)):
            share = M[i][k] / M[k][k]
            M[i] = [a - share * b for a, b in zip(M[i], M[k])]
    return True


def test_strong_convexity_is_a_lower_bound_and_not_what_eigenvalues_were_computed_to_be():
    rng, computed = np.random.default_rng(0), []
    for trial in range(40):
        d = 2 + trial % 5
        B = rng.standard_normal((d, d)) * 10.0 ** rng.uniform(-3, 3, d)
        A = B @ B.T
        A = (A + A.T) / 2
        mu = Quadratic(A, np.ones(d)).mu
        least = float(np.linalg.eigvalsh(A)[0])
        assert definite(A, mu) and mu >= least - 1e-13 * float(np.linalg.eigvalsh(A)[-1])
        computed.append(definite(A, max(least, 0.0)))
    assert not all(computed)  # what is computed is above the smallest eigenvalue, now and then
