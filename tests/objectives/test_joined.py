"""Clients computed as one: the same function, and no copy where their rows are neighbours."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from dualfl.objectives import LinearModel, Logistic, Softmax, Squared
from dualfl.objectives.average import Average
from dualfl.objectives.joined import joined, stacked

RNG = np.random.default_rng(5)
X = RNG.normal(size=(60, 4))
Y = np.sign(RNG.normal(size=60))
CUTS = (0, 10, 35, 60)


def pieces(X, y=Y, loss=None, weights=None, **more):
    loss = Logistic() if loss is None else loss
    return [
        LinearModel(X[a:b], y[a:b], loss, 0.1, weights=None if weights is None else weights[a:b], **more)
        for a, b in pairwise(CUTS)
    ]


@pytest.mark.parametrize("weights", [None, RNG.random(60)])
@pytest.mark.parametrize("intercept", [True, "free"])
@pytest.mark.parametrize("table", [X, sparse.csr_array(X), X.astype(np.float32), np.asfortranarray(X)])
def test_one_client_is_the_mean_of_all(table, intercept, weights):
    clients = pieces(table, weights=weights, intercept=intercept)
    one = joined(clients)
    masses = np.array([f.mass for f in clients])
    mean = Average(clients, masses / masses.sum())
    theta = RNG.normal(size=one.d)
    assert one.n == 60 and one.mass == pytest.approx(masses.sum())
    assert one.value(theta) == pytest.approx(mean.value(theta), rel=1e-13)
    np.testing.assert_allclose(one.gradient(theta), mean.gradient(theta), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(one.hessian(theta), mean.hessian(theta), rtol=1e-12, atol=1e-15)
    # what a client knew of itself is not what is known of all
    assert one.L == pytest.approx(LinearModel(table, Y, Logistic(), 0.1, weights=weights, intercept=intercept).L)


def test_neighbours_are_not_copied_and_others_only_if_they_are_small(monkeypatch):
    one = joined(pieces(X))
    assert np.shares_memory(one.design.X, X)
    sliced = joined(pieces(sparse.csr_array(X)))  # SciPy copies slices
    assert sliced.n == 60
    monkeypatch.setattr("dualfl.objectives.joined.SMALL", 0)
    assert joined(pieces(X)) is not None
    assert joined(pieces(sparse.csr_array(X))) is None


def test_neighbours_in_another_order_are_copied():
    parts = [X[10:20], X[0:10]]
    assert np.array_equal(stacked(parts, copy=True), np.concatenate(parts))
    assert stacked(parts, copy=False) is None
    gap = [X[0:10], X[11:20]]
    assert np.array_equal(stacked(gap, copy=True), np.concatenate(gap))


def test_clients_that_are_not_alike_stay_apart():
    a = LinearModel(X[:10], Y[:10], Logistic(), 0.1)
    assert joined([a, LinearModel(X[10:], Y[10:], Logistic(), 0.2)]) is None
    assert joined([a, LinearModel(X[10:], Y[10:], Squared(), 0.1)]) is None
    assert joined([a, LinearModel(X[10:], Y[10:], Logistic(), 0.1, scale=2.0)]) is None
    assert joined([a, LinearModel(sparse.csr_array(X[10:]), Y[10:], Logistic(), 0.1)]) is None
    assert joined([a, a.tilted(1.0)]) is None
    assert joined([a]) is a


def test_classes():
    y = RNG.integers(0, 3, size=60).astype(float)
    one = joined(pieces(X, y, Softmax(3)))
    whole = LinearModel(X, y, Softmax(3), 0.1)
    theta = RNG.normal(size=one.d)
    assert one.value(theta) == pytest.approx(whole.value(theta), rel=1e-14)
