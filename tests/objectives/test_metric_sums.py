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
    sizes, turned = np.array([1e5, 1.0]), moments.turned(design, V, centred)
    assert not moments.keeps_digits(turned, centred, sizes, 0.0)
    assert moments.keeps_digits(turned, centred, sizes, 1e4)  # beside a ridge
    assert moments.keeps_digits(moments.turned(design, V, np.eye(2)), np.eye(2), sizes, 0.0)
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
        assert np.concatenate([np.arange(90)[rows] for rows, _ in parts]).tolist() == list(range(90))
    np.testing.assert_allclose(np.vstack([Q for _, Q in found]), np.vstack([Q for _, Q in plain]), atol=1e-13)


@pytest.mark.parametrize("outputs", [1, 3])
def test_digits_are_looked_for_on_the_diagonals(outputs):
    V = RNG.random((50, outputs * (outputs + 1) // 2))
    Q = RNG.normal(size=(50, 4))
    M = moments.metric(Q, V)
    own = moments.diagonal(M, 4)[:, moments.diagonal(np.arange(V.shape[1]), outputs)]
    places = [i for i, (a, b) in enumerate(zip(*moments.pairs(outputs))) if a == b]
    np.testing.assert_allclose(own, np.stack([Q.T**2 @ V[:, c] for c in places], axis=1))


def test_extents_are_above_every_entry():
    X = RNG.normal(size=(40, 5)) * [1, -30, 0, 1e-6, 1e6]
    for kind in (X, np.asfortranarray(X), X.astype(np.float32), (np.abs(X) % 255).astype(np.uint8)):
        design = Design(kind, scale=-0.5, intercept=True)
        np.testing.assert_allclose(design.extents, np.append(0.5 * np.abs(kind.astype(float)).max(axis=0), 1.0))
    assert (Design(sparse.csr_array(X)).extents >= np.abs(X).max(axis=0)).all()
    assert Design(sparse.csr_array((3, 2))).extents.shape == (2,)
