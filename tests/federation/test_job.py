"""The server app's job: an outcome whatever happens, and nothing more from an app whose turn is over."""

import json
import pickle

import numpy as np
import pytest
from loopback import Loopback, csv_homes, run_over

from dualfl.algorithms.registry import make
from dualfl.engines.request import Limits, Recording
from dualfl.errors import InputError
from dualfl.federation.flower.job import Job, TurnIsOver, perform
from dualfl.federation.remote import Terms
from dualfl.federation.wire import decode

TABLE = {"loss": "auto", "ridge": 0.1, "l1": 0.0, "solver": None, "intercept": "penalised"}
TERMS = Terms("e", ("a", "b", "c"), make("dualfl"), TABLE)


@pytest.fixture
def folder(tmp_path):
    job = tmp_path / "job"
    job.mkdir()
    content = Job(
        TERMS, Limits(3), recording=Recording(checkpoint=job / "checkpoint.npz"), resume=True, poll=0.0, patience=5.0
    )
    (job / "job.pkl").write_bytes(pickle.dumps(content))
    (job / "submission").write_text("first")
    return job


def test_a_job_leaves_a_result_rows_and_an_outcome(folder, tmp_path):
    perform(folder, Loopback(csv_homes(tmp_path / "silos")))
    result = pickle.loads((folder / "result.pkl").read_bytes())
    expected, _ = run_over(Loopback(csv_homes(tmp_path / "again")), TERMS, None, rounds=3)
    assert np.array_equal(result.theta, expected.theta)
    assert json.loads((folder / "outcome.json").read_text())["stopped"] == "rounds"
    assert len((folder / "rows.jsonl").read_text().splitlines()) == 4


def test_an_app_whose_turn_is_over_writes_nothing_more_and_the_next_goes_on(folder, tmp_path):
    homes = csv_homes(tmp_path / "silos")

    def submitted_again(transport, node, request, answer):
        if transport.count == 16:
            (folder / "submission").write_text("second")

    with pytest.raises(TurnIsOver):
        perform(folder, Loopback(homes, submitted_again))
    assert not (folder / "outcome.json").exists() and not (folder / "result.pkl").exists()
    perform(folder, Loopback(homes))
    result = pickle.loads((folder / "result.pkl").read_bytes())
    expected, _ = run_over(Loopback(csv_homes(tmp_path / "again")), TERMS, None, rounds=3)
    assert np.array_equal(result.theta, expected.theta)


def test_a_leftover_app_that_fails_late_does_not_write_over_a_newer_checkpoint(folder, tmp_path):
    """Its call hung while the job was submitted again and finished."""
    homes = csv_homes(tmp_path / "silos")
    seen = {}

    def hangs(transport, node, request, answer):
        asked = decode(request)
        if asked["kind"] == "step" and asked["round"] == 2 and not seen:
            (folder / "submission").write_text("second")
            perform(folder, Loopback(homes))
            seen["checkpoint"] = (folder / "checkpoint.npz").read_bytes()
            raise ConnectionError("gone")

    with pytest.raises(TurnIsOver):
        perform(folder, Loopback(homes, hangs))
    assert (folder / "checkpoint.npz").read_bytes() == seen["checkpoint"]


def test_traffic_is_that_of_all_sessions(folder, tmp_path):
    def fails(transport, node, request, answer):
        if transport.count == 16:
            raise OSError("x")

    homes = csv_homes(tmp_path / "silos")
    with pytest.raises(OSError):
        perform(folder, Loopback(homes, fails))
    before = json.loads((folder / "traffic.json").read_text())
    perform(folder, Loopback(homes))
    after = json.loads((folder / "outcome.json").read_text())["traffic"]
    assert after["messages"] >= before["messages"] + 6 > 6 and after["up"] > before["up"]


@pytest.mark.parametrize(
    ("error", "told"),
    [(InputError("no"), "no"), (KeyboardInterrupt(), "lost its SuperLink"), (OSError("x"), "OSError: x")],
)
def test_an_error_is_an_outcome_too(error, told, folder, tmp_path):
    def fails(transport, node, request, answer):
        if transport.count == 16:
            raise error

    with pytest.raises(BaseException):  # noqa: B017 (whatever it was)
        perform(folder, Loopback(csv_homes(tmp_path / "silos"), fails))
    assert told in json.loads((folder / "outcome.json").read_text())["error"]
    assert not (folder / "result.pkl").exists()
