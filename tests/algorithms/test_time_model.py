"""`auto` in the least time on a stated network: what it picks, what it says before and after, and what it refuses."""

import numpy as np
import pytest

import dualfl
from dualfl.algorithms.contract import Constants, Facts
from dualfl.algorithms.few_exchanges import Auto
from dualfl.algorithms.few_exchanges.time_model import Network, Prediction, clock, predicted
from dualfl.algorithms.few_exchanges.vertex_bound import independent
from dualfl.errors import InputError

MNIST = Facts("Softmax", True, False, True, 785, 10, False, 5)


def constants(facts: Facts, mu: float = 1e-2, n: int = 7500) -> Constants:
    return Constants(mu=mu, L=np.nan, N=8, d=facts.D * facts.k, n=n, facts=facts)


def picked(mu: float = 1e-2, **network: float) -> str:
    return Auto(cost="time", **network).specialise(constants(MNIST, mu), None)[0].name


def test_time_is_latency_and_bits_and_work():
    assert Network(2.0, 8.0).seconds(3, 1e6, 0.5) == pytest.approx(6 + 64e6 / 8e6 + 0.5)
    assert Prediction(3, 1e6, 1e9).on(Network(2.0, 8.0)) == pytest.approx(6 + 8 + 0.5)
    assert Network().free and not Network(1e-3).free and not Network(0.0, 100.0).free
    assert [clock(t) for t in (0.0123, 5.0, 1200.0)] == ["12.3 ms", "5 s", "20 min"]


def test_slow_lines_ask_for_few_numbers_and_long_ways_for_few_exchanges():
    assert picked(latency=1e-3, bandwidth=1.0) == "lbfgs"
    assert picked(latency=10.0, bandwidth=10_000.0) == "sketched-newton"
    assert picked(latency=10.0, bandwidth=1.0) == "sketched-newton"


def test_a_bundle_where_a_line_is_slow_and_the_ridge_large():
    hinge = Facts("Hinge", False, True, False, 124, 1, False, 5, 50.0)

    def chosen(mu: float, latency: float) -> str:
        return Auto(cost="time", latency=latency, bandwidth=1.0).specialise(constants(hinge, mu, 250), None)[0].name

    assert chosen(1e-2, 1e-3) == "bundle"
    assert chosen(1e-2, 10.0) == chosen(1e-3, 1e-3) == "fedipm"


def test_more_of_everything_takes_longer():
    for name in ("lbfgs", "sketched-newton", "prox-newton", "fedipm"):
        less, more = predicted(name, constants(MNIST, 1e-2), MNIST), predicted(name, constants(MNIST, 1e-6), MNIST)
        assert all(a < b for a, b in zip(less, more))
        assert predicted(name, constants(MNIST, n=75_000), MNIST).multiply_adds > less.multiply_adds


def test_what_was_expected_is_said_before_and_what_it_was_afterwards():
    problem, said = dualfl.make_problem("iris", clients=3, ridge=0.1), []
    result = dualfl.run(problem, Auto(cost="time", latency=2.0, bandwidth=1.0), rounds=50, tol=1e-6, say=said.append)
    row = result.history[-1]
    assert "expected on a network of 2000 ms and 1 Mbit/s" in said[0] and "It took" not in said[0]
    assert result.choice.startswith(said[0])
    floats = (row.floats_up + row.floats_down) / 3
    took = Network(2.0, 1.0).seconds(row.exchanges, floats, row.seconds)
    assert result.choice.endswith(f"It took {row.exchanges} exchanges and {clock(took)}.")
    assert "took" not in dualfl.run(problem, Auto(), rounds=3).choice


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"latency": -1.0}, "seconds >= 0"),
        ({"latency": float("nan")}, "seconds >= 0"),
        ({"bandwidth": 0.0}, "Mbit/s > 0"),
        ({"latency": "fast"}, "latency must be a number"),
    ],
)
def test_a_network_that_is_none_is_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        Auto(cost="time", **wrong).specialise(constants(MNIST), None)


@pytest.mark.parametrize("network", [{"latency": 1.0}, {"bandwidth": 10.0}])
def test_a_network_that_would_change_nothing_is_refused(network):
    with pytest.raises(InputError, match='need cost = "time", but cost is "exchanges"; set it'):
        Auto(**network).specialise(constants(MNIST), None)


def test_memory_that_nothing_fits_is_refused_on_any_network():
    with pytest.raises(InputError, match="not enough for anything"):
        Auto(cost="time", latency=1.0, memory=1e3).specialise(constants(MNIST), None)


def test_coordinates_that_depend_on_others_are_left_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) * [1, 1e5, 1, 1, 1e-4, 1]
    X[:, 3] = X[:, 0] + X[:, 2]
    X[:, 5] = 0.0
    F = independent(X.T @ X, np.array([3, 0, 1, 2, 4, 5]))
    assert F.tolist() == [True, True, False, True, True, False]
    assert not independent(np.zeros((2, 2)), np.array([0, 1])).any()
