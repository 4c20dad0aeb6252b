"""The two loops give the inverse of the matrix that the BFGS formula builds pair by pair."""

import numpy as np
import pytest

from dualfl.solvers.pairs import Pairs


@pytest.mark.parametrize("memory", [1, 4, 9])
def test_the_inverse_of_the_matrix_of_all_updates(memory):
    rng = np.random.default_rng(0)
    A = np.diag(rng.random(12) + 0.1)
    H0 = np.diag(rng.random(12) + 0.5)
    pairs, kept = Pairs(memory, 12), []
    for _ in range(6):
        s = rng.normal(size=12)
        pairs.add(s, A @ s)
        kept = [*kept, s][-memory:]
    B = np.linalg.inv(H0)
    for s in kept:
        y = A @ s
        B = B - np.outer(B @ s, B @ s) / (s @ B @ s) + np.outer(y, y) / (s @ y)
    g = rng.normal(size=12)
    assert len(pairs) == min(memory, 6)
    assert np.allclose(pairs.inverse_hessian(g, lambda q: H0 @ q), np.linalg.solve(B, g))


def test_without_a_metric_the_newest_pair_sets_the_scale():
    pairs, y = Pairs(3, 4), np.array([2.0, 0.0, 0.0, 0.0])
    assert (pairs.inverse_hessian(np.ones(4), None) == 1).all()
    pairs.add(np.array([1.0, 0.0, 0.0, 0.0]), y)
    assert np.allclose(pairs.inverse_hessian(np.ones(4), None), 0.5)


def test_pairs_that_are_rounding_are_left_out():
    pairs = Pairs(3, 2)
    pairs.add(np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    pairs.add(np.array([1.0, 0.0]), np.array([-1.0, 0.0]))
    assert len(pairs) == 0
    pairs.add(np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    assert len(pairs) == 1
    pairs.clear()
    assert len(pairs) == 0 and (pairs.inverse_hessian(np.ones(2), None) == 1).all()
