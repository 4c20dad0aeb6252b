"""Second-order sums of rows in C: against plain NumPy, and the same bits for any number of threads."""

import numpy as np
import pytest
from scipy import sparse

from dualfl import kernels
from dualfl.kernels import Design
from dualfl.kernels.backends import isas, serving

BY_ROW = 1 << 17  # sums that a triangle may have to be added up row by row; TRIANGLE in kernels.h


@pytest.fixture(params=["native", "numpy"])
def backend(request):
    before = kernels.backend()
    if request.param == "native" and before != "native":
        pytest.skip("the native kernels were not built")
    kernels.use_backend(request.param)
    yield request.param
    kernels.use_backend(before)


def rows(kind, n=120, features=30, density=0.1):
    rng = np.random.default_rng(3)
    X = sparse.csr_array(sparse.random(n, features, density=density, random_state=rng, format="csr"))
    X.data = np.round(255 * X.data)
    return sparse.csr_array(X.astype(kind))


def expected(design, V, columns=None):
    """The same in so many words."""
    X = design.scale * design.X.toarray().astype(float)
    if design.intercept:
        X = np.hstack([X, np.ones((design.n, 1))])
    X = X if columns is None else X[:, columns]
    upper = np.triu_indices(X.shape[1])
    return np.stack([(X.T @ (v[:, None] * X))[upper] for v in V.T], axis=1)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("intercept", [False, True])
def test_pairs_of_nonzeros(backend, kind, intercept):
    design = Design(rows(kind), scale=1 / 255, intercept=intercept)
    V = np.random.default_rng(0).normal(size=(design.n, 3))  # of either sign
    some = np.array([0, 4, 5, 17, 29] + [30] * intercept)
    np.testing.assert_allclose(design.grams(V), expected(design, V), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(design.grams(V, some), expected(design, V, some), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(design.grams(V, some[:-1]), expected(design, V, some[:-1]), rtol=1e-12, atol=1e-14)
    G = design.gram(V[:, 1])
    np.testing.assert_allclose(G[np.triu_indices(design.D)], expected(design, V)[:, 1], rtol=1e-12, atol=1e-14)
    assert np.array_equal(G, G.T) or backend == "numpy"


def test_rows_without_a_nonzero_and_columns_that_nobody_has(backend):
    X = sparse.csr_array(np.array([[0.0, 0, 0, 0, 0, 2.0], [0, 0, 0, 0, 0, 0], [3.0, 0, 0, 0, 0, 1.0]]))
    design = Design(X, intercept=True)
    V = np.array([[1.0], [2.0], [0.5]])
    np.testing.assert_allclose(design.grams(V), expected(design, V))
    assert design.grams(V, np.array([], dtype=np.int64)).shape == (0, 1)


def test_an_entry_that_is_given_twice_counts_as_their_sum(backend):
    data, indices, indptr = np.array([1.0, 2.0, 5.0]), np.array([3, 3, 1]), np.array([0, 2, 3])
    design = Design(sparse.csr_array((data, indices, indptr), shape=(2, 20)))
    V = np.array([[1.0], [1.0]])
    np.testing.assert_allclose(design.grams(V), expected(design, V))


def test_dense_rows_have_the_same_function(backend):
    X = np.random.default_rng(1).normal(size=(40, 5))
    V = np.random.default_rng(2).normal(size=(40, 2))
    design = Design(X, intercept=True)
    X = np.hstack([X, np.ones((40, 1))])
    upper = np.triu_indices(6)
    np.testing.assert_allclose(design.grams(V)[:, 1], (X.T @ (V[:, 1:] * X))[upper], rtol=1e-12)


def test_threads_change_no_bit():
    if kernels.backend() != "native":
        pytest.skip("the native kernels were not built")
    design = Design(rows(np.float64, n=6000, features=200, density=0.05), intercept=True)
    V = np.random.default_rng(0).normal(size=(design.n, 20))
    assert design.kernel.work * 20 >= serving().WORTH_A_THREAD  # or threads would not be asked
    with kernels.threads(1):
        alone = design.grams(V)
    with kernels.threads(3):
        together = design.grams(V)
    assert np.array_equal(alone, together)


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("features", [1, 7, 23, 24, 25, 60])
def test_dense_sums_of_every_instruction_set(isa, kind, features):
    """Sizes at the edges of tiles and panels, more rows than are packed at once, and rows that are nearly dense."""
    before = kernels.isa()
    kernels.use_isa(isa)
    try:
        filled = rows(kind, n=300, features=features, density=0.7)
        V = np.random.default_rng(0).normal(size=(300, 2))
        some = np.unique(np.array([0, features // 2, features - 1, features]))
        for X in (filled, filled.toarray()):
            design, same = Design(X, scale=0.5, intercept=True), Design(filled, scale=0.5, intercept=True)
            assert not design.kernel._sparse_sums()
            np.testing.assert_allclose(design.grams(V), expected(same, V), rtol=1e-11, atol=1e-7)
            np.testing.assert_allclose(design.grams(V, some), expected(same, V, some), rtol=1e-11, atol=1e-7)
            G, part = design.gram(V[:, 0]), design.block(V[:, 0], some)
            assert np.array_equal(G, G.T)
            np.testing.assert_allclose(part, G[np.ix_(some, some)], rtol=1e-11, atol=1e-7)
            with kernels.threads(3):
                assert np.array_equal(design.gram(V[:, 0]), G)
    finally:
        kernels.use_isa(before)


def test_threads_change_no_bit_of_dense_sums():
    design = Design(np.random.default_rng(0).normal(size=(3000, 70)), intercept=True)
    V = np.random.default_rng(1).normal(size=(3000, 6))
    with kernels.threads(1):
        alone = design.grams(V)
    with kernels.threads(3):
        assert np.array_equal(design.grams(V), alone)


def test_columns_that_are_not_there_are_refused():
    design = Design(np.ones((3, 4)))
    with pytest.raises(ValueError, match="not so many columns"):
        serving()._native.dense_gram(
            design.kernel.rows, np.ones((3, 1)), np.array([4], dtype=np.int32), 1, -1, np.zeros((1, 1)), 0, 1
        )


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("many", [1, 3, 11])
def test_sparse_sums_by_row_and_by_column_are_the_same_bits(isa, many):
    """Some columns have a triangle that caches hold, all of them have not: each pair is added up in the same order."""
    before = kernels.isa()
    kernels.use_isa(isa)
    try:
        design = Design(rows(np.float64, n=900, features=600, density=0.05), scale=0.5, intercept=True)
        V = np.random.default_rng(0).normal(size=(900, many))
        assert 601 * 602 // 2 * many > BY_ROW >= 41 * 42 // 2 * many  # or both would go the same way
        whole, some = design.grams(V), np.arange(0, 601, 15)
        np.testing.assert_allclose(whole, expected(design, V), rtol=1e-11, atol=1e-8)
        a, b = np.triu_indices(len(some))
        a, b = some[a], some[b]
        assert np.array_equal(design.grams(V, some), whole[a * 601 - a * (a - 1) // 2 + b - a])
    finally:
        kernels.use_isa(before)


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("classes", [1, 3, 10])
def test_the_bare_loop_of_the_benchmark_gathers_what_it_says(isa, classes):
    before, native = kernels.isa(), serving()._native
    kernels.use_isa(isa)
    try:
        X = rows(np.float64)
        lanes = int(native.fma_loop(1)) // 24
        width = -(-classes // lanes) * lanes
        if width > 4 * lanes:
            pytest.skip("more classes than four vectors hold")
        W = np.random.default_rng(0).normal(size=(30, width))
        starts = X.indptr.astype(np.int64)
        found = native.gather_loop(X.indices, starts, W, classes, 2)
        assert found == pytest.approx(2 * W[X.indices].sum(), rel=1e-12)
        with pytest.raises(ValueError, match="there are not so many places"):
            native.gather_loop(X.indices, starts, W[:10], classes, 1)
    finally:
        kernels.use_isa(before)
