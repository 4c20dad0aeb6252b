"""L-BFGS around the second moments of the features."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import dualfl
from dualfl.algorithms.contract import Constants, Facts
from dualfl.algorithms.few_exchanges import Auto
from dualfl.algorithms.server import ServerLBFGS
from dualfl.algorithms.server.feature_metric import factor_of, solver_of, sums
from dualfl.engines.client import LocalCost
from dualfl.objectives import LinearModel, Logistic, Softmax

rng = np.random.default_rng(3)


def words(n=800, d=300, length=12):
    """Words whose frequencies fall as in a text."""
    column = (d ** rng.random((n, length))).astype(int) - 1
    X = sp.csr_array((np.ones(n * length), (np.repeat(np.arange(n), length), column.ravel())), shape=(n, d))
    X.sum_duplicates()
    return X, np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)


def test_the_sums_are_the_diagonal_of_the_hessian_for_one_output():
    X, y = words(60, 20, 5)
    f = LinearModel(X, y, Logistic(), ridge=0.1, intercept="free")
    h = sums(LocalCost(f), np.zeros(21), "diagonal")["h"]
    np.testing.assert_allclose(h, np.diag(f.hessian(np.zeros(21))), rtol=1e-12)


def test_the_sums_of_features_are_the_mean_block_of_the_hessian():
    X, y = rng.normal(size=(50, 4)), rng.integers(0, 3, size=50)
    f = LinearModel(X, y, Softmax(3), ridge=0.1, weights=rng.random(50))
    x = 0.01 * rng.normal(size=12)
    H = f.hessian(x).reshape(4, 3, 4, 3)
    mean = np.einsum("iaja->ij", H) / 3
    h = sums(LocalCost(f), x, "features")["h"]
    np.testing.assert_allclose(h, mean[np.triu_indices(4)], rtol=1e-10)
    np.testing.assert_allclose(sums(LocalCost(f), x, "diagonal")["h"], np.diag(mean), rtol=1e-10)
    v = rng.normal(size=12)
    solved = solver_of(factor_of(h, "features"))(v)
    np.testing.assert_allclose(mean @ solved.reshape(4, 3), v.reshape(4, 3), rtol=1e-9)


def test_a_column_without_rows_or_ridge_does_no_harm():
    assert np.isfinite(solver_of(factor_of(np.array([1.0, 0.0]), "diagonal"))(np.ones(2))).all()
    singular = np.array([1e8, 1e8, 0.0, 1e8, 0.0, 0.0])  # two equal columns, and one of zeros
    assert np.isfinite(solver_of(factor_of(singular, "features"))(np.array([1.0, 1.0, 0.0]))).all()


def test_rare_and_frequent_words_are_alike_to_it():
    X, y = words()
    clients = [LinearModel(X[i::4], y[i::4], Logistic(), ridge=1e-4) for i in range(4)]
    problem = dualfl.Problem(clients)
    took = {}
    for kind in ("none", "diagonal", "features"):
        result = dualfl.run(problem, ServerLBFGS(metric=kind), rounds=300, tol=1e-6, threads=1)
        assert result.stopped == "tol"
        took[kind] = result.history[-1].exchanges, result.energy
    assert took["diagonal"][0] <= 0.5 * took["none"][0] and took["features"][0] <= 0.5 * took["none"][0]
    energies = [E for _, E in took.values()]
    assert max(energies) - min(energies) <= 1e-6 * min(energies)


@pytest.mark.parametrize("kind", ["diagonal", "features"])
def test_a_run_goes_on_from_a_checkpoint_to_the_same_bits(kind, tmp_path):
    X, y = words(200, 40, 6)
    problem = dualfl.Problem([LinearModel(X[i::2], y[i::2], Logistic(), ridge=1e-3) for i in range(2)])
    whole = dualfl.run(problem, ServerLBFGS(metric=kind), rounds=12, threads=1)
    dualfl.run(problem, ServerLBFGS(metric=kind), rounds=5, threads=1, checkpoint=tmp_path / "half")
    rest = dualfl.run(
        problem, ServerLBFGS(metric=kind), rounds=12, threads=1, checkpoint=tmp_path / "half", resume=True
    )
    assert np.array_equal(whole.theta, rest.theta)


def test_many_classes_take_no_block_of_all_pairs_of_them():
    k, n = 300, 400
    f = LinearModel(rng.normal(size=(n, 5)), np.arange(n) % k, Softmax(k), ridge=1e-3)
    cost = LocalCost(f)
    tracemalloc.start()
    sums(cost, np.zeros(f.d), "features"), sums(cost, np.zeros(f.d), "diagonal")
    assert tracemalloc.get_traced_memory()[1] < 20 * 8 * n * k < 8 * k * k * n / 10
    tracemalloc.stop()


def chosen(d, least=100, **kwargs):
    facts = Facts("Logistic", True, False, True, d, 1, False, least)
    return Auto(cost="time", **kwargs).specialise(Constants(1e-4, np.nan, 8, d, n=1000, facts=facts), None)[0]


def test_auto_takes_it_where_no_sketch_pays_and_rows_are_not_few():
    assert chosen(100_000).metric == "diagonal" and chosen(100_000, least=2).metric == "none"
    assert chosen(100_000).memory == 30 and chosen(4_000_000).memory == 5
    assert chosen(1_000_000, memory=1.8e8).memory < chosen(1_000_000).memory
