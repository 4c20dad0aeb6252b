"""Faults of a real deployment, each really done: `make test-deploy` runs them; they take a quarter of an hour.

The finished model has the bits of the undisturbed run, or the run stops with a sentence that names the silo.
"""

import json
import shutil
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("flwr", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from far import far_run
from real import Real, same
from strangers import flwr_refused, probes

from dualfl.algorithms.registry import make
from dualfl.deploy import member
from dualfl.deploy.silo_service import SiloService
from dualfl.errors import InputError

pytestmark = pytest.mark.faults

ALGORITHM = make("dualfl")
ROUNDS = 2


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    """Somebody looks after its parts all the time, as `deploy start` does; what a thread starts ends with it."""
    real, ended = Real(tmp_path_factory.mktemp("real")), threading.Event()

    def look():
        while not ended.wait(0.5):
            real.coordinator.supervisor.look()

    with real.running():
        watching = threading.Thread(target=look)
        watching.start()
        yield real
        ended.set()
        watching.join()


@pytest.fixture(scope="module")
def calm(deployment):
    result = deployment.go(ALGORITHM, ROUNDS, "calm")
    assert same(result, deployment.expected(ALGORITHM, ROUNDS, "calm"))
    return result


# -- exactness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["feddyn", "giant", "s-local-svrg", "fedavg", "lbfgs"])
def test_other_algorithms_have_the_bits_of_one_process_too(name, deployment):
    """A cohort, three exchanges a round, stochastic, local steps, a line search."""
    algorithm = make(name)
    assert same(deployment.go(algorithm, 1, name, seed=2), deployment.expected(algorithm, 1, name, seed=2))


def test_sums_under_masks_over_real_silos(tmp_path):
    real = Real(tmp_path, silos=3, secure=True)
    algorithm = make("dualfl", nu=0.1, rho=0.1)
    with real.running():
        masked = real.go(algorithm, 2, "masked")
    assert not list((tmp_path / "alpha" / "experiments").glob("*/opened"))  # what was opened goes with the experiment
    here = far_run([tmp_path / name for name in real.names], algorithm, rounds=2).result  # by the same bytes
    assert np.array_equal(masked.theta, here.theta) and masked.certificate == here.certificate


# -- silos that are killed ------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["die-before", "die-while", "die-after"])
def test_a_silo_killed_at_any_moment_comes_back_and_goes_on(when, deployment, calm):
    deployment.fault("beta", when, round=1)
    before = deployment.restarts
    with deployment.supervised():
        assert same(deployment.go(ALGORITHM, ROUNDS, when), calm)
    assert deployment.restarts > before


def test_a_client_process_killed_alone_is_asked_again(deployment, calm):
    deployment.fault("alpha", "app-dies", round=1)
    with deployment.supervised():
        assert same(deployment.go(ALGORITHM, ROUNDS, "app"), calm)


def test_a_silo_that_comes_back_minutes_later(deployment, calm):
    deployment.fault("beta", "die-before", round=1)
    with deployment.supervised(pause=120.0):
        assert same(deployment.go(ALGORITHM, ROUNDS, "later"), calm)


def test_a_silo_that_does_not_come_back_is_named(deployment):
    deployment.fault("beta", "die-before", round=1)
    with pytest.raises(InputError, match=r"Silo 'beta' did not answer for 20 s.*goes on where it is"):
        deployment.go(ALGORITHM, ROUNDS, "gone", patience=20.0)
    with deployment.supervised():
        time.sleep(60)  # Flower lets it in again when its heartbeat has been missed


# -- the server -----------------------------------------------------------------------------------


def test_a_superlink_killed_in_the_middle_is_started_again_and_the_run_goes_on_by_itself(deployment, calm):
    superlink = deployment.coordinator.supervisor.parts["superlink"]
    killed = threading.Thread(target=lambda: (deployment.wait_for_row("server", 1), superlink.process.kill()))
    killed.start()
    with deployment.supervised():
        assert same(deployment.go(ALGORITHM, ROUNDS, "server"), calm)
    killed.join()


# -- silos that answer wrongly ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("do", "sentence"),
    [
        ("always-nan", "Client 1 answered with NaN or infinity"),
        ("shape", r"Silo 'beta' answered with .* of shape \(3,\)"),
        ("too-much", "Silo 'beta' answered with .* bytes|Silo 'beta' answered with .* of shape"),
        ("version", "Silo 'beta': .*install versions with one protocol"),
    ],
)
def test_a_silo_that_answers_wrongly_stops_the_run_with_a_sentence(do, sentence, deployment):
    deployment.fault("beta", do, round=1)
    with pytest.raises(InputError, match=sentence):
        deployment.go(ALGORITHM, ROUNDS, do)
    (deployment.folder / "beta" / "fault.json").unlink(missing_ok=True)


@pytest.mark.parametrize(("do", "more"), [("other-round", {}), ("slow", {"seconds": 20})])
def test_answers_of_another_round_or_late_ones_do_no_harm(do, more, deployment, calm):
    deployment.fault("beta", do, round=1, **more)
    assert same(deployment.go(ALGORITHM, ROUNDS, do), calm)


# -- strangers and mistakes ------------------------------------------------------------------------


def test_a_stranger_with_the_certificate_is_refused_on_every_path(deployment, tmp_path):
    assert probes(deployment.project) == {}
    (tmp_path / "key.pub").write_text((deployment.folder / "alpha" / "key.pub").read_text())
    assert flwr_refused(deployment.project, tmp_path, "supernode", "register", str(tmp_path / "key.pub"), "dualfl")
    assert flwr_refused(deployment.project, tmp_path, "run", str(deployment.project.folder / "app"), "dualfl")
    assert flwr_refused(deployment.project, tmp_path, "list", "dualfl")
    assert flwr_refused(deployment.project, tmp_path, "supernode", "list", "dualfl")


def serve_until_it_says(folder, seconds=60.0):
    process = SiloService(folder).start()
    end = time.monotonic() + seconds
    try:
        while not (folder / "service" / "said.json").exists() and time.monotonic() < end:
            time.sleep(0.5)
        return json.loads((folder / "service" / "said.json").read_text())["sentence"]
    finally:
        process.kill()


def test_a_wrong_certificate_and_an_unknown_key_are_said_to_the_silo(deployment, tmp_path):
    where = f"127.0.0.1:{deployment.project.settings.port}"
    other = Real(tmp_path / "other", silos=2)
    wrong = other.project.certificates / "ca.crt"
    member.join(tmp_path / "wrong", "alpha", tmp_path / "other" / "data" / "0.csv", "target", where, wrong)
    assert "certificate does not fit" in serve_until_it_says(tmp_path / "wrong")
    right = deployment.project.certificates / "ca.crt"
    member.join(tmp_path / "unknown", "alpha", tmp_path / "other" / "data" / "0.csv", "target", where, right)
    assert "not admitted" in serve_until_it_says(tmp_path / "unknown")


def test_a_port_in_use_is_a_sentence(deployment, tmp_path):
    from dualfl.deploy.coordinator import Coordinator

    shutil.copytree(deployment.project.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("service"))
    with pytest.raises(InputError, match=r"Port \d+ for .* cannot be used"), Coordinator(tmp_path / "copy").running():
        pass
    with pytest.raises(InputError, match="served already"), Coordinator(deployment.project.folder).running():
        pass
