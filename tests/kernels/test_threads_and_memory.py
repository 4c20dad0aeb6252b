"""The number of threads changes no bit; the rows are held once; wrong arguments are told plainly."""

import pickle
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dualfl import kernels
from dualfl.kernels import Design
from dualfl.kernels.blas_threads import one_blas_thread

from .cases import LOSSES, STORAGES, close, matrix, scale_of, targets, weights


@pytest.mark.parametrize("storage", STORAGES)
def test_no_bit_depends_on_the_threads(storage):
    rng = np.random.default_rng(4)
    n, k, loss = 3000, 10, LOSSES[0]
    design = Design(matrix(storage, n, 150, rng), scale=scale_of(storage), intercept=True)
    assert design.kernel.stripes > 3 and design.kernel.work * k >= 2**20
    W, y, s = rng.normal(size=(151, k)), targets(loss, n, k, rng), weights(n, rng)
    seen = set()
    for count in (1, 2, 3, 2):
        with kernels.threads(count):
            value, G, Z = design.value_gradient(W, loss, y, s)
            H = design.hessian_times(W, loss, Z, y, s)
            back = design.backward(Z)
        seen.add((value, G.tobytes(), Z.tobytes(), H.tobytes(), back.tobytes()))
    assert len(seen) == 1


def test_no_bit_of_a_ray_depends_on_the_threads():
    rng = np.random.default_rng(4)
    n, loss = 100_000, LOSSES[1]
    Z, P, y, s = rng.normal(size=(n, 1)), rng.normal(size=(n, 1)), targets(loss, n, 1, rng), weights(n, rng)
    seen = set()
    for count in (1, 2, 3):
        with kernels.threads(count):
            values, slopes = kernels.ray(loss, Z, P, [0.0, 1.0], y, s)
            seen.add((values.tobytes(), slopes.tobytes(), kernels.value(loss, Z, y, s)))
    assert len(seen) == 1


def test_each_thread_has_its_own_number():
    inside = []
    with kernels.threads(1):
        worker = threading.Thread(target=lambda: inside.append(kernels.get_threads()))
        worker.start()
        worker.join()
        assert kernels.get_threads() == 1
    assert inside == [kernels.get_threads()]
    with pytest.raises(ValueError, match="threads is 0"), kernels.threads(0):
        pass


@pytest.mark.parametrize("storage", STORAGES)
def test_the_rows_are_held_once(storage):
    X = matrix(storage, 50, 6, np.random.default_rng(0))
    design = Design(X)
    stored = design.X.data if storage.startswith("csr") else design.X
    assert np.shares_memory(stored, X.data if storage.startswith("csr") else X)
    assert stored.dtype == np.dtype(storage.split()[-1])
    assert design.nbytes == (
        stored.nbytes + X.indices.nbytes + X.indptr.nbytes if storage.startswith("csr") else X.nbytes
    )


def test_other_types_become_float64_and_64_bit_indices_32():
    X = np.arange(12).reshape(4, 3)
    assert Design(X).X.dtype == np.float64
    S = matrix("csr float32", 5, 4, np.random.default_rng(0))
    S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    close(Design(S).forward(np.eye(4)), S.toarray())
    assert Design(S).X.indices.dtype == np.int32


def test_a_pickled_design_is_the_same():
    design = Design(np.arange(12, dtype=np.uint8).reshape(4, 3), scale=0.5, intercept=True)
    copy = pickle.loads(pickle.dumps(design))
    W = np.arange(8.0).reshape(4, 2)
    np.testing.assert_array_equal(copy.forward(W), design.forward(W))


def test_wrong_arguments_are_told_plainly():
    design = Design(np.ones((5, 3)))
    y = s = np.ones(5)
    with pytest.raises(ValueError, match="W has 4 numbers: it must have 3"):
        design.forward(np.ones((4, 1)))
    with pytest.raises(ValueError, match="y has 4 numbers: it must have 5"):
        design.value_gradient(np.ones((3, 1)), LOSSES[1], y[:4], s)
    with pytest.raises(ValueError, match="one column"):
        design.value_gradient(np.ones((3, 2)), LOSSES[1], y, s)
    with pytest.raises(IndexError, match="row 5"):
        kernels.sample_gradient(design, [5], np.ones((3, 1)), LOSSES[1], y, s)
    with pytest.raises(ValueError, match="dimensions"):
        Design(np.ones(3))


def test_a_broken_sparse_matrix_is_refused():
    X = matrix("csr float64", 8, 4, np.random.default_rng(0))
    X.indices[-1] = 4
    with pytest.raises(ValueError, match="no sound CSR"):
        Design(X)


def test_the_choice_of_kernels_can_be_read_and_fixed():
    assert kernels.describe().startswith("kernels: native, " + kernels.isa())
    assert kernels.isas()[0] == "baseline"
    with pytest.raises(ValueError, match="instruction set is 'mmx'"):
        kernels.use_isa("mmx")
    kernels.use_backend("numpy")
    try:
        assert "NumPy twin" in kernels.describe() and kernels.isa() == "none"
        assert kernels.backend() == "numpy"
    finally:
        kernels.use_backend("native")
    with pytest.raises(ValueError, match="backend is 'cuda'"):
        kernels.use_backend("cuda")


def test_blas_has_one_thread_until_the_last_run_beside_is_done():
    """Two runs that overlap: the first to end must not give BLAS its threads back while the other is computing."""
    found, both, first_done = [], threading.Barrier(2), threading.Event()

    def blas_threads():
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    def short():
        with one_blas_thread(), one_blas_thread():
            both.wait()
        first_done.set()

    def long():
        with one_blas_thread():
            both.wait()
            first_done.wait()
            found.append(blas_threads())

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        threads = [threading.Thread(target=target) for target in (short, long)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [{1}] and blas_threads() == before


def test_second_copies_are_kept_as_long_as_there_is_room(monkeypatch):
    """Clients take turns: each has its own at once, and very many do not fill the memory."""
    rng = np.random.default_rng(0)
    first, second = (Design(rng.normal(size=(30, 4))) for _ in range(2))
    sizes = first.sizes, second.sizes
    for design, kept in zip((first, second), sizes):
        np.testing.assert_array_equal(kept, np.abs(design.X).T)
        assert design.sizes is kept
    monkeypatch.setattr("dualfl.kernels.design.ROOM", 0)
    third = Design(rng.normal(size=(30, 4)))
    np.testing.assert_array_equal(third.sizes, np.abs(third.X).T)
    assert first.sizes is not sizes[0] and second.sizes is not sizes[1]
