"""Flower's simulation runs the same two apps on virtual nodes, with the bits of one process: `make test-deploy`."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("flwr", "flower")
need("ray", "ray")

# ruff: noqa: E402 (nothing below can be imported without it)
from dualfl.algorithms import plugins
from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.data import make_problem
from dualfl.engines import Problem, run
from dualfl.errors import InputError
from dualfl.objectives import LinearModel, Squared

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("name", ["dualfl", "feddyn", "giant", "s-local-svrg", "tamuna", "fednl"])
def test_the_iterates_are_those_of_one_process(name):
    problem = make_problem("iris", clients=3)
    here = run(problem, make(name), rounds=2, seed=1, threads=1)
    there = run(problem, make(name), rounds=2, seed=1, engine="flower-simulation")
    rows = [[row._replace(seconds=0.0) for row in result.history] for result in (here, there)]
    assert np.array_equal(here.theta, there.theta) and rows[0] == rows[1]


def test_an_algorithm_from_a_file_is_known_to_every_node(monkeypatch):
    monkeypatch.setattr(ALGORITHMS, "plugins", {})
    monkeypatch.setattr(plugins, "_files", {})
    (HeavyBall,) = plugins.load_plugin(Path(__file__).parents[2] / "examples" / "own_algorithm.py")
    problem = make_problem("iris", clients=3)
    here, there = (run(problem, HeavyBall(), rounds=2, engine=engine) for engine in ("inprocess", "flower-simulation"))
    assert np.array_equal(here.theta, there.theta)


def test_a_refusal_of_a_silo_arrives_as_a_sentence():
    with pytest.raises(InputError, match="must lie in"):
        run(make_problem("iris", clients=2), make("dualfl", nu=5.0), rounds=1, engine="flower-simulation")


def test_clients_that_nobody_can_make_equal_are_refused():
    problem = Problem([LinearModel(np.eye(3)[:n], np.ones(n), Squared(), mu) for n, mu in ((1, 0.1), (3, 1.0))])
    with pytest.raises(InputError, match="5gcs takes all clients as equal"):
        run(problem, make("5gcs"), rounds=1, engine="flower-simulation")
    assert run(problem, make("dualfl"), rounds=1).rounds == 1
