"""The C kernels compute what the NumPy twin computes, for every loss, storage and odd shape."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse

from dualfl import kernels
from dualfl.kernels import Design

from .cases import LOSSES, SMOOTH, STORAGES, both, close, loss_name, matrix, on, scale_of, targets, weights

SHAPES = [(1, 1, 1), (1, 5, 3), (7, 1, 2), (33, 20, 10), (100, 37, 17), (257, 9, 7)]


def columns(loss, k):
    return k if loss.code == 0 else 1


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES, ids=loss_name)
def test_one_pass(loss, storage, intercept):
    rng = np.random.default_rng(7)
    for n, features, k in SHAPES:
        k = columns(loss, k)
        native, twin = both(matrix(storage, n, features, rng), scale=scale_of(storage), intercept=intercept)
        W, y, s = rng.normal(size=(native.D, k)), targets(loss, n, k, rng), weights(n, rng)
        value, G, Z = native.value_gradient(W, loss, y, s)
        expected = twin.value_gradient(W, loss, y, s)
        assert value == pytest.approx(expected[0], rel=1e-12)
        close(Z, expected[2])
        # a sum of residuals that cancel is only as good as its largest term
        close(G, expected[1], 1e-11)
        if loss in SMOOTH:
            V = rng.normal(size=W.shape)
            close(native.hessian_times(V, loss, Z, y, s), twin.hessian_times(V, loss, Z, y, s), 1e-11)


@settings(max_examples=80, deadline=None)
@given(
    storage=st.sampled_from(STORAGES),
    n=st.integers(1, 70),
    features=st.integers(1, 40),
    k=st.integers(1, 20),
    intercept=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_products_for_any_shape(storage, n, features, k, intercept, seed):
    rng = np.random.default_rng(seed)
    native, twin = both(matrix(storage, n, features, rng), scale=scale_of(storage), intercept=intercept)
    W, R, w = rng.normal(size=(native.D, k)), rng.normal(size=(n, k)), rng.random(n)
    close(native.forward(W), twin.forward(W))
    close(native.backward(R), twin.backward(R))
    close(native.gram(w), twin.gram(w))
    close(native.row_norms2(), twin.row_norms2())
    index = rng.integers(0, n, 5)
    close(native.rows(index).forward(W), twin.forward(W)[index])


@pytest.mark.parametrize("n", [1, 3, 100, 5000])
@pytest.mark.parametrize("loss", LOSSES, ids=loss_name)
def test_functions_of_predictors(loss, n):
    rng = np.random.default_rng(3)
    k = columns(loss, 6)
    Z, P, y, s = rng.normal(size=(n, k)), rng.normal(size=(n, k)), targets(loss, n, k, rng), weights(n, rng)
    steps = np.array([0.0, 0.5, -1.5])
    results = {}
    for backend in ("native", "numpy"):
        with on(backend):
            results[backend] = [
                kernels.value(loss, Z, y, s),
                *kernels.residual(loss, Z, y, s),
                *kernels.ray(loss, Z, P, steps, y, s),
            ]
            if loss in SMOOTH:
                results[backend].append(kernels.curvature_times(loss, Z, P, y, s))
    for native, twin in zip(results["native"], results["numpy"], strict=True):
        close(native, twin, 1e-11)


@pytest.mark.parametrize("storage", STORAGES)
def test_rows_long_enough_for_several_tiles_and_stripes(storage):
    rng = np.random.default_rng(5)
    native, twin = both(matrix(storage, 700, 1100, rng), scale=scale_of(storage), intercept=True)
    assert native.kernel.stripes > 1
    loss, y, s = LOSSES[0], targets(LOSSES[0], 700, 10, rng), weights(700, rng)
    W = rng.normal(size=(1101, 10)) / 30
    for a, b in zip(native.value_gradient(W, loss, y, s), twin.value_gradient(W, loss, y, s), strict=True):
        close(a, b, 1e-11)


@pytest.mark.parametrize("k", [2, 10, 17, 40])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_sparse_rows_sorted_by_column_in_several_groups_and_stripes(dtype, k):
    rng = np.random.default_rng(11)
    X = rng.integers(1, 256, (3000, 70)) * (rng.random((3000, 70)) < 0.6)
    X[:, 5] = X[40:340] = 0  # a column and a whole group of rows without a nonzero
    native, twin = both(sparse.csr_array(X.astype(dtype)), scale=1 / 255, intercept=True)
    W, R = rng.normal(size=(71, k)), rng.normal(size=(3000, k))
    close(native.forward(W), twin.forward(W))
    assert not native.kernel.rows.sorted  # nobody has gone back yet
    close(native.backward(R), twin.backward(R))
    assert native.kernel.rows.sorted and native.kernel.stripes > 1
    close(native.backward(R[:, :1]), twin.backward(R[:, :1]))
    loss, y, s = LOSSES[0], targets(LOSSES[0], 3000, k, rng), weights(3000, rng)
    for a, b in zip(native.value_gradient(W, loss, y, s), twin.value_gradient(W, loss, y, s), strict=True):
        close(a, b, 1e-11)


def test_rows_with_few_nonzeros_are_not_copied():
    design = Design(sparse.random(400, 500, 0.01, "csr", random_state=0))
    design.backward(np.ones((400, 3)))
    assert not design.kernel.rows.sorted


def test_arrays_that_are_not_contiguous():
    rng = np.random.default_rng(1)
    X, W = np.asfortranarray(rng.normal(size=(20, 6))), np.asfortranarray(rng.normal(size=(6, 4)))
    R = rng.normal(size=(4, 10)).T
    close(Design(X).forward(W), X @ W)
    close(Design(X[::2]).backward(R), X[::2].T @ R)


@pytest.mark.parametrize("isa", kernels.isas())
def test_every_instruction_set_agrees(isa):
    before = kernels.isa()
    kernels.use_isa(isa)
    try:
        assert kernels.isa() == isa
        for storage in STORAGES:
            test_one_pass(LOSSES[0], storage, True)
        for loss in LOSSES:
            test_functions_of_predictors(loss, 100)
    finally:
        kernels.use_isa(before)


@pytest.mark.parametrize(("count", "newest"), [(0, 0), (1, 1), (3, 1), (5, 2)])
def test_loops_over_pairs(count, newest):
    rng = np.random.default_rng(2)
    S, Y, sy, v = rng.normal(size=(5, 37)), rng.normal(size=(5, 37)), rng.random(5) + 0.5, rng.normal(size=37)
    results = {}
    for backend in ("native", "numpy"):
        with on(backend):
            parts, down = np.zeros(5), v.copy()
            kernels.pairs_older(S, Y, sy, count, newest, parts, down)
            up = 2 * down
            kernels.pairs_newer(S, Y, sy, count, newest, parts, up)
            results[backend] = parts[:count], down, up
    for native, twin in zip(results["native"], results["numpy"], strict=True):
        close(native, twin, 1e-11)
    if count == 5:
        assert not np.allclose(results["native"][2], 2 * v)
