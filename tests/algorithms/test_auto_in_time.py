"""`auto` for the least time, and within a stated memory."""

import numpy as np
import pytest

from dualfl.algorithms.contract import Constants, Facts
from dualfl.algorithms.few_exchanges.auto import Auto
from dualfl.algorithms.few_exchanges.smooth_sums import known_block
from dualfl.errors import InputError
from dualfl.objectives import LinearModel, Squared


def choice(D=10, k=1, loss="Logistic", n=1000, penalty=None, **options):
    facts = Facts(loss, True, False, True, D, k, False, n)
    return Auto(**options).specialise(Constants(1e-3, np.nan, 8, D * k, n=n, facts=facts), penalty)


def test_in_one_process_nobody_looks_for_a_minimiser_of_his_own():
    assert choice()[0].local and not choice(cost="time")[0].local
    assert not choice()[0].additive and choice(cost="time")[0].additive


def test_sketches_are_smaller_where_time_counts():
    few, quick = choice(785, 10, "Softmax")[0], choice(785, 10, "Softmax", cost="time")[0]
    assert few.near == 0 and quick.near == 16 * 7850 and quick.far == 2 * 7850


@pytest.mark.parametrize(("D", "k", "loss"), [(100_000, 1, "Logistic"), (500, 100, "Softmax")])
def test_many_columns_or_classes_take_gradients(D, k, loss):
    assert choice(D, k, loss, cost="time")[0].name == "lbfgs"
    assert choice(D, k, loss)[0].name == "sketched-newton"


def test_never_more_than_the_stated_memory():
    chosen, why = choice(500, 1000, "Softmax", n=10_000)  # a million numbers of curvature a row
    assert chosen.name == "lbfgs" and "GB for a sketch of the Hessian, and 4 GB are allowed" in why
    assert choice(500, 100, "Softmax", n=10_000, memory=1e8)[0].name == "lbfgs"
    with pytest.raises(InputError, match=r"memory = 1e\+03 bytes is not enough for anything: L-BFGS"):
        choice(memory=1e3)
    with pytest.raises(InputError, match="memory = -1"):
        choice(memory=-1.0)


def test_blocks_of_a_squared_loss_are_added_up_once() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 40))
    f = LinearModel(X, rng.normal(size=30), Squared(), 0.1, weights=rng.random(30), intercept="free")
    G = (np.column_stack([X, np.ones(30)]).T * f.s) @ np.column_stack([X, np.ones(30)])
    for size in (5, 9, 9, 20, 3, 41):
        index = np.sort(rng.choice(41, size, replace=False))
        np.testing.assert_allclose(known_block(f, index), G[np.ix_(index, index)], atol=1e-13)
    products = f.cost.hessian_products
    known_block(f, np.arange(41))
    assert f.cost.hessian_products == products
