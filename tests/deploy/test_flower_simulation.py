"""Flower's simulation runs the same two apps on virtual nodes, with the bits of one process: `make test-deploy`."""

import datetime
import importlib
import sys
import warnings
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
from dualfl.federation.flower import patient_superlink
from dualfl.objectives import LinearModel, Squared

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Flower uses what others have deprecated
    from flwr.common.constant import Status
    from flwr.proto.task_pb2 import Task, TaskStatus
    from flwr.supercore.object_store import ObjectStoreFactory

    STATES = [importlib.import_module(f"flwr.supercore.corestate.{name}") for name in patient_superlink.STATES]

pytestmark = pytest.mark.faults


def test_a_run_has_time_to_load_its_libraries(monkeypatch):
    """More than the 30 seconds of Flower, which a busy machine does not keep; the run then fails without a word."""
    for module in STATES:
        for word in ("HEARTBEAT_DEFAULT_INTERVAL", "HEARTBEAT_PATIENCE"):
            monkeypatch.setattr(module, word, getattr(module, word))  # put back afterwards
    memory, _ = patient_superlink.patient_states()
    monkeypatch.setattr(memory.InMemoryCoreState, "__abstractmethods__", frozenset())  # what it leaves to others
    state = memory.InMemoryCoreState(ObjectStoreFactory().store())
    state.task_store[1] = Task(task_id=1, status=TaskStatus(status=Status.PENDING))
    assert state.claim_task(1)
    left = state.task_token_store[1].active_until - datetime.datetime.now(datetime.UTC)
    assert 120 < left.total_seconds() <= patient_superlink.PATIENCE


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
