"""What an engine is handed: one frozen request, whose algorithm somebody has decided before, once."""

import dataclasses
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from dualfl.algorithms import DualFL
from dualfl.algorithms.contract import Constants, Facts
from dualfl.algorithms.few_exchanges import Auto
from dualfl.engines import InProcess, Problem, launch, run
from dualfl.engines.decision import ClientsHere, decide
from dualfl.engines.request import RunRequest
from dualfl.errors import InputError
from dualfl.objectives import L1, LinearModel, Logistic

asked: list[RunRequest] = []


def problem() -> Problem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.where(X @ [1.0, -1.0, 0.5] + rng.logistic(size=60) > 0, 1.0, -1.0)
    return Problem([LinearModel(X[p], y[p], Logistic(), ridge=0.1) for p in np.array_split(np.arange(60), 3)])


def engine_of_another_package(request: RunRequest):
    asked.append(request)
    return launch.carry_out(request, "inprocess")


def stranger(name="by-pigeon"):
    return EntryPoint(name, f"{__name__}:engine_of_another_package", "dualfl.engines")


def test_an_engine_of_another_package_gets_one_frozen_request(monkeypatch, tmp_path):
    monkeypatch.setattr(launch, "entry_points", lambda group: [stranger()] if group == "dualfl.engines" else [])
    monkeypatch.setattr(EntryPoint, "load", lambda point: engine_of_another_package)
    here, heard = problem(), []
    path = tmp_path / "checkpoint.npz"
    result = run(here, Auto(), rounds=2, seed=7, threads=1, engine="by-pigeon", checkpoint=str(path), say=heard.append)
    request = asked.pop()
    assert request.problem is here and request.algorithm.name == "sketched-newton" and heard == [result.choice]
    assert (request.options.seed, request.options.threads, request.limits.rounds) == (7, 1, 2)
    assert request.recording.checkpoint == path and path.exists()
    assert np.array_equal(result.theta, run(here, Auto(), rounds=2, seed=7, threads=1).theta)
    for part, field in ((request, "seed"), (request.options, "seed"), (request.recording, "evaluate")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(part, field, 1)


def test_an_engine_that_nobody_brings_is_named(monkeypatch):
    monkeypatch.setattr(launch, "entry_points", lambda group: [stranger()])
    with pytest.raises(InputError, match=r"by-pigen.*by-pigeon"):
        run(problem(), DualFL(), engine="by-pigen")


def test_an_engine_takes_no_algorithm_that_chooses():
    with pytest.raises(InputError, match=r"auto chooses another algorithm.*decide"):
        InProcess(problem(), Auto())


class Witness:
    """Answers an inquiry with what it was told, and counts."""

    penalty = L1(0.1)

    def __init__(self, constants):
        self.constants, self.inquiries = constants, []

    def inquire(self, inquiry):
        self.inquiries.append(inquiry)
        return self.constants


def test_whoever_answers_an_inquiry_can_be_asked_and_is_asked_once():
    facts = Facts("Logistic", True, False, True, 3, 1, False, 20)
    witness = Witness(Constants(mu=0.1, L=np.nan, N=3, d=3, facts=facts))
    assert decide(Auto(), witness)[0].name == "prox-newton"  # the penalty is the witness's
    assert [inquiry.alike for inquiry in witness.inquiries] == [False]
    decide(Auto(cost="floats"), witness)
    assert [inquiry.alike for inquiry in witness.inquiries] == [False, True]
    assert decide(DualFL(), witness) == (DualFL(), "") and len(witness.inquiries) == 2


def test_run_decides_once(monkeypatch):
    counted = []
    inquire = ClientsHere.inquire
    monkeypatch.setattr(ClientsHere, "inquire", lambda self, inquiry: counted.append(1) or inquire(self, inquiry))
    run(problem(), Auto(), rounds=1, threads=1)
    assert counted == [1]
