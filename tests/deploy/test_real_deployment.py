"""A real SuperLink behind the proxy and real SuperNodes with keys: one training, and one silo killed in the middle.

What CI runs. All other faults: test_real_faults.py, by `make test-deploy`.
"""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("flwr", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from real import Real, same

from dualfl.algorithms.registry import make
from dualfl.deploy import network

pytestmark = pytest.mark.deploy


def test_a_training_and_a_silo_killed_in_the_middle_end_with_the_bits_of_one_process(tmp_path):
    deployment = Real(tmp_path)
    with deployment.running():
        algorithm = make("dualfl")
        result = deployment.go(algorithm, 2, "calm")
        assert same(result, deployment.expected(algorithm, 2, "calm"))
        # A stranger who holds the certificate finds the fleet path open, and asks for a key there; nothing else is.
        from strangers import probes

        assert probes(deployment.project) == {}

        # Cost is time: the network is measured, and its figures are the plan's.
        timed = deployment.go(make("auto", cost="time"), 2, "timed")
        found = json.loads((deployment.project.folder / "network.json").read_text())
        assert 0 < found["latency"] < 60 and 0.01 < found["bandwidth"] < 1e6
        told = network.known(deployment.project.folder)
        chosen = make("auto", cost="time", latency=told.latency, bandwidth=told.bandwidth)
        assert same(timed, deployment.expected(chosen, 2, "timed"))

        deployment.fault("beta", "die-while", round=1)
        with deployment.supervised():
            disturbed = deployment.go(algorithm, 2, "killed")
        assert deployment.restarts >= 1
        assert same(disturbed, result)
    assert not any(process.running for process in deployment.silos.values())
