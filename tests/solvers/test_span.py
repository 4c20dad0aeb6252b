"""Few rows, many features: the way through the span must end where the direct way ends."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dualfl.kernels import backend, use_backend
from dualfl.objectives import Huber, LinearModel, Logistic, Loss, Poisson, Softmax, Squared, SquaredHinge
from dualfl.objectives.base import Objective
from dualfl.solvers import LBFGS, DampedNewton, FixedIterations, GradientNorm, PrimalDualGap, minimise
from dualfl.solvers.row_span import _solve, _solve_natively, applies, inside, span_of
from dualfl.typing import Array

D = 40


def rows(kind: str, n: int = 7) -> object:
    X = np.random.default_rng(0).integers(0, 256, (n, D)).astype(np.uint8)
    if kind == "repeated":
        X[3] = X[1]
    if kind == "sparse":
        X[X < 200] = 0
        return sparse.csr_array(X)
    return X


def model(kind: str = "dense", intercept: bool = True, k: int = 3) -> LinearModel:
    y = np.array([0, 1, 2, 0, 1, 2, 0]) % k
    loss, y = (Softmax(k), y) if k > 1 else (Logistic(), 2.0 * (y > 0) - 1)
    if k == 1:
        y = np.array([1.0, -1, 1, 1, -1, 1, -1])
    weights = np.array([1.0, 2, 3, 1, 0.5, 1, 1])
    return LinearModel(rows(kind), y, loss, 0.05, weights=weights, intercept=intercept, scale=1 / 255)


def tilt(f: Objective) -> Array:
    return np.random.default_rng(1).standard_normal(f.d) / 10


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "repeated"])
@pytest.mark.parametrize("a", [0.0, 0.3, -0.02])
def test_same_minimiser(kind: str, intercept: bool, k: int, a: float) -> None:
    f = model(kind, intercept, k)
    problem = f.tilted(a, tilt(f))
    exact = DampedNewton().solve(problem, None, GradientNorm(1e-12))
    x, iterations = inside(problem, None, GradientNorm(1e-9), LBFGS())
    assert iterations > 0
    assert np.linalg.norm(problem.gradient(x)) <= 1e-9
    np.testing.assert_allclose(x, exact.x, atol=1e-7)


@pytest.mark.skipif(backend() == "numpy", reason="only the native kernels have a second way")
@pytest.mark.parametrize(
    "loss", [Softmax(3), Logistic(), Squared(), Huber(0.1), Poisson(), SquaredHinge()], ids=lambda loss: str(loss)
)
@pytest.mark.parametrize("start", [0.0, 3.0])
def test_one_native_call_ends_where_the_solver_does(loss: Loss, start: float) -> None:
    signs = np.array([1.0, -1, 1, 1, -1, 1, -1])
    y = np.array([0.0, 1, 2, 0, 1, 2, 0]) if loss.outputs > 1 else signs
    y = np.maximum(y, 0.0) if isinstance(loss, Poisson) else y
    f = LinearModel(rows("dense"), y, loss, 0.05, weights=np.arange(1.0, 8), scale=1 / 255)
    span, stop = span_of(f), GradientNorm(1e-10)
    shape = (span.model.design.D, f.k)
    c = np.random.default_rng(2).standard_normal(shape) / 10
    native, gradients, iterations = _solve_natively(span, 0.2, c, np.full(shape, start), stop, LBFGS())
    plain = _solve(span, 0.2, c, np.full(shape, start), stop, LBFGS())[0]
    np.testing.assert_allclose(native, plain, rtol=1e-7, atol=1e-9)
    assert iterations < 60 and gradients == iterations + 1


def test_a_cap_is_kept() -> None:
    f = model()
    stop = GradientNorm(0.0, cap=2)
    span = span_of(f)
    shape = (span.model.design.D, f.k)
    solve = _solve if backend() == "numpy" else _solve_natively
    assert solve(span, 0.05, np.ones(shape), np.zeros(shape), stop, LBFGS())[2] == 2


def test_the_basis_is_orthonormal_and_of_the_right_rank() -> None:
    f = model("repeated")
    span = span_of(f)
    Q = f.design.backward(span.back)
    assert Q.shape == (D + 1, 6)  # seven rows, two of them the same
    np.testing.assert_allclose(Q.T @ Q, np.eye(6), atol=1e-10)
    np.testing.assert_allclose(f.design.forward(Q), span.model.design.X, atol=1e-10)


def test_rows_that_are_all_zero_have_no_span() -> None:
    f = LinearModel(np.zeros((3, 10)), np.array([1.0, -1, 1]), Logistic(), 0.1)
    assert span_of(f) is None
    assert not minimise(f).x.any()
    c = np.arange(10.0)
    np.testing.assert_allclose(minimise(f, a=0.3, c=c).x, c / 0.4, rtol=1e-12)


@pytest.mark.skipif(backend() == "numpy", reason="there is only one backend")
def test_a_span_keeps_the_kernels_it_was_made_with() -> None:
    try:
        use_backend("numpy")
        f = model()
        x = minimise(f).x
    finally:
        use_backend("native")
    np.testing.assert_allclose(minimise(f, c=np.zeros(f.d)).x, x, atol=1e-6)


def test_lbfgs_takes_it_and_confirms_with_the_true_gradient() -> None:
    f = model("sparse")
    problem = f.tilted(0.0, tilt(f))
    for stop in (GradientNorm(1e-8), PrimalDualGap(1e-14, 0.05)):
        found = LBFGS().solve(problem, None, stop)
        assert not found.capped
        np.testing.assert_array_equal(found.residual, problem.gradient(found.x))
        assert np.linalg.norm(found.residual) <= 1e-8 if isinstance(stop, GradientNorm) else found.gap <= 1e-14
        assert found.cost.gradients >= found.iterations  # what happened in the span is counted
        again = LBFGS().solve(problem, found.warm, stop)
        assert again.iterations <= 2


def test_where_it_does_not_apply() -> None:
    f, stop = model(), GradientNorm(1e-6)
    assert applies(f, stop)
    assert not applies(f, FixedIterations(3)), "a number of iterations means iterations of the solver on f"
    assert not applies(f.tilted(np.linspace(0, 1, f.d)), stop), "not the same ridge in all coordinates"
    free = LinearModel(rows("dense"), np.zeros(7), Squared(), 0.1, intercept="free")
    assert not applies(free, stop)
    tall = LinearModel(rows("dense", 30), np.zeros(30), Squared(), 0.1)
    assert not applies(tall, stop)
    assert not applies(LinearModel(rows("dense"), np.zeros(7), Squared(), 0.0), stop), "nothing holds the rest"
