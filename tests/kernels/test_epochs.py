"""Sequential methods: the C loops follow the twin step by step, and arrive where they should."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dualfl import kernels

from .cases import LOSSES, STORAGES, both, close, loss_name, matrix, scale_of, targets, weights


def dual_problem(kind, n, rng):
    """q, b, lo, hi, eps of l(z) = max over a in [lo, hi] of a (b - q z) - eps |a|, and the loss itself."""
    y = targets(LOSSES[6 if kind == "hinge" else 7], n, 1, rng)
    ones = np.ones(n)
    if kind == "hinge":
        return (y, ones, 0 * ones, ones, 0.0), (LOSSES[6], y)
    if kind == "quantile":
        return (ones, y, -(1 - 0.3) * ones, 0.3 * ones, 0.0), (LOSSES[8], y)
    return (ones, y, -ones, ones, 0.3), (LOSSES[9], y)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", ["hinge", "quantile", "epsilon"])
def test_sdca_follows_the_twin_and_closes_the_gap(kind, storage):
    rng = np.random.default_rng(8)
    n, lam = 40, 0.1
    designs = both(matrix(storage, n, 6, rng), scale=scale_of(storage), intercept=True)
    (q, b, lo, hi, eps), (loss, y) = dual_problem(kind, n, rng)
    s, c = weights(n, rng), 0.1 * rng.normal(size=designs[0].D)
    order = [rng.permutation(n) for _ in range(300)]
    ends = []
    for design, epochs in zip(designs, (300, 3), strict=True):
        alpha, theta = np.zeros(n), c / lam
        for epoch in range(epochs):
            kernels.sdca_epoch(design, q, b, lo, hi, eps, s, alpha, theta, lam, design.row_norms2(), order[epoch])
            if epoch == 2:
                ends.append((alpha.copy(), theta.copy()))
        if epochs == 300:
            close(theta, (c + design.backward((s * alpha * q)[:, None])[:, 0]) / lam, 1e-10)
            value = kernels.value(loss, design.forward(theta[:, None]), y, s)
            primal = value + lam / 2 * theta @ theta - c @ theta
            dual = s @ (alpha * b - eps * np.abs(alpha)) - lam / 2 * theta @ theta
            assert 0 <= primal - dual + 1e-12 and primal - dual < 1e-6 * max(1, abs(primal))
    close(ends[0][0], ends[1][0], 1e-10)
    close(ends[0][1], ends[1][1], 1e-10)


@pytest.mark.parametrize("bounded", [False, True])
def test_coordinate_descent_solves_the_quadratic(bounded):
    rng = np.random.default_rng(6)
    d = 12
    A = rng.normal(size=(30, d))
    A[:, 3] = 0.0  # a coordinate without curvature
    Q, q, l1 = A.T @ A, 5 * rng.normal(size=d), np.full(d, 0.5)
    q[3] = 0.2
    lo, hi = (np.full(d, -0.1), np.full(d, 0.2)) if bounded else (np.full(d, -np.inf), np.full(d, np.inf))
    ends = []
    for backend in (kernels.backend(), "numpy"):
        kernels.use_backend(backend)
        x, grad = np.zeros(d), -q
        try:
            sweeps, change = kernels.cd_quadratic(Q, q, l1, lo, hi, x, grad, 500, 1e-12)
        finally:
            kernels.use_backend("native")
        assert sweeps < 500 and change <= 1e-12
        close(grad, Q @ x - q, 1e-10)
        ends.append(x)
    close(ends[0], ends[1], 1e-10)

    def objective(u):  # u = (positive part, negative part): the penalty becomes smooth
        x = u[:d] - u[d:]
        return 0.5 * x @ Q @ x - q @ x + l1 @ (u[:d] + u[d:])

    top, bottom = np.maximum(hi, 0), np.maximum(-lo, 0)
    best = minimize(objective, np.full(2 * d, 0.01), bounds=[(0, b) for b in np.append(top, bottom)])
    x = ends[0]
    assert objective(np.append(np.maximum(x, 0), np.maximum(-x, 0))) <= best.fun + 1e-6
    assert x[3] == 0.0


def test_a_coordinate_without_curvature_goes_to_its_better_end():
    zero, inf = np.zeros(1), np.array([np.inf])
    x, grad = np.zeros(1), np.array([-1.0])
    kernels.cd_quadratic(np.zeros((1, 1)), np.ones(1), zero, zero, 3 * np.ones(1), x, grad, 5, 0.0)
    assert x[0] == 3.0
    kernels.cd_quadratic(np.zeros((1, 1)), np.ones(1), zero, -inf, inf, x, grad, 5, 0.0)
    assert x[0] == 3.0  # unbounded below: it stays


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES[:6], ids=loss_name)
def test_stochastic_epochs_follow_the_twin(loss, storage):
    rng = np.random.default_rng(12)
    n, k = 30, 3 if loss.code == 0 else 1
    designs = both(matrix(storage, n, 5, rng), scale=scale_of(storage), intercept=True)
    D = designs[0].D
    y, s, W0, c = targets(loss, n, k, rng), weights(n, rng), 0.3 * rng.normal(size=(D, k)), rng.normal(size=(D, k))
    ridge, indices = np.linspace(0.1, 0.5, D), rng.integers(0, n, 50)
    ends = []
    for design in designs:
        _, G, Z = design.value_gradient(W0, loss, y, s)
        R = kernels.residual(loss, Z, y, s)[1]
        W = W0.copy()
        kernels.svrg_epoch(design, loss, y, s, Z, G, W, 0.01, ridge, c, indices)
        V = W0.copy()
        kernels.saga_epoch(design, loss, y, s, R, G, V, 0.01, 0.2, c, indices)
        close(G, design.backward(R), 1e-10)  # the table and its sum stay together
        ends.append((W, V, R, kernels.sample_gradient(design, indices, W0, loss, y, s)))
    for native, twin in zip(*ends, strict=True):
        close(native, twin, 1e-10)


def test_a_sample_of_all_rows_is_the_gradient():
    rng = np.random.default_rng(0)
    design = both(matrix("csr uint8", 60, 9, rng), scale=1 / 255, intercept=True)[0]
    loss, W = LOSSES[0], rng.normal(size=(10, 4))
    y, s = targets(loss, 60, 4, rng), weights(60, rng)
    close(kernels.sample_gradient(design, np.arange(60), W, loss, y, s), design.value_gradient(W, loss, y, s)[1])


def test_svrg_converges():
    rng = np.random.default_rng(3)
    loss, n = LOSSES[1], 200
    design = both(rng.normal(size=(n, 5)))[0]
    y, s, W, c = targets(loss, n, 1, rng), np.full(n, 1 / n), np.zeros((5, 1)), np.zeros((5, 1))
    for _ in range(30):
        _, G, Z = design.value_gradient(W, loss, y, s)
        kernels.svrg_epoch(design, loss, y, s, Z, G, W, 0.05, 0.1, c, rng.integers(0, n, 2 * n))
    assert np.linalg.norm(design.value_gradient(W, loss, y, s)[1] + 0.1 * W) < 1e-8
