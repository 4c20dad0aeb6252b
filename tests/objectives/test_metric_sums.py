"""The metric of a small model from the sums over its columns."""

import numpy as np
import pytest
from scipy import sparse

from dualfl.kernels import Design
from dualfl.objectives import moments

RNG = np.random.default_rng(2)


@pytest.mark.parametrize("outputs", [1, 3])
def test_sums_over_columns_are_those_over_directions(outputs):
    X = sparse.csr_array(sparse.random(200, 12, density=0.2, random_state=RNG, format="csr"))
    design, U = Design(X, intercept=True), RNG.normal(size=(13, 9))
    V = RNG.random((200, outputs * (outputs + 1) // 2))
    expected = moments.metric(moments.projected(design, U), V)
    np.testing.assert_allclose(moments.turned(design, V, U), expected, rtol=1e-10, atol=1e-12)


def test_directions_that_are_differences_of_large_numbers_are_left_to_the_rows():
    X = 1e5 + RNG.normal(size=(100, 1))
    design, V = Design(X, intercept=True), np.full((100, 1), 0.01)
    centred = np.array([[1.0, 0.0], [-1e5, 1.0]])
    assert moments.turned(design, V, centred) is None
    assert moments.turned(design, V, np.eye(2)) is not None
    dense = moments.turned(Design(X - 1e5, intercept=True), V, np.eye(2))
    np.testing.assert_allclose(dense, moments.metric(np.hstack([X - 1e5, np.ones((100, 1))]), V), rtol=1e-12)


def test_blocks_of_sparse_rows_say_what_dense_ones_do(monkeypatch):
    monkeypatch.setattr(moments, "BLOCK", 300)
    X = sparse.csr_array(sparse.random(90, 8, density=0.3, random_state=RNG, format="csr")) - sparse.csr_array(
        sparse.random(90, 8, density=0.1, random_state=RNG, format="csr")
    )
    U = RNG.normal(size=(9, 4))
    found = list(moments.turned_blocks(Design(sparse.csr_array(X), scale=2.0, intercept=True), U))
    plain = list(moments.turned_blocks(Design(X.toarray(), scale=2.0, intercept=True), U))
    assert len(found) > 1
    for parts in (found, plain):
        assert np.concatenate([np.arange(90)[rows] for rows, _, _ in parts]).tolist() == list(range(90))
    np.testing.assert_allclose(np.vstack([Q for _, Q, _ in found]), np.vstack([Q for _, Q, _ in plain]), atol=1e-13)
    np.testing.assert_allclose(np.max([s for *_, s in found], axis=0), np.max([s for *_, s in plain], axis=0))
