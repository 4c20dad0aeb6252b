"""Stored conversations are replayed: what this version says is what every version with this protocol says."""

import os
import platform
import subprocess
import sys

import numpy as np
import pytest
import transcripts
from needs import needs
from transcripts import CONVERSATIONS, FOLDER, PROTOCOL, changes_of_silos, changes_of_the_coordinator, differences, load

from dualfl import kernels
from dualfl.federation import chambers, keeper

REMEDY = (
    "A federation whose members take this version one after the other would not agree any more. If that is meant, "
    f"raise PROTOCOL in src/dualfl/federation/protocol.py and record anew: {transcripts.COMMAND}"
)
EACH = [
    pytest.param(name, marks=[needs("cryptography", "flower")] if transcripts.masked(name) else [])
    for name in CONVERSATIONS
]


@pytest.fixture(autouse=True)
def as_recorded(request):
    """Masked words show every bit, so sums must be added up as they were when they were recorded."""
    native = kernels.describe().startswith("kernels: native")
    if "masked" in request.node.name and not (native and transcripts.blas() == {transcripts.BLAS}):
        pytest.skip(f"recorded with the compiled kernels and OpenBLAS for {transcripts.BLAS}, which add up otherwise")
    before = kernels.isa()
    if native:
        kernels.use_isa(transcripts.ISA)
    yield
    if native:
        kernels.use_isa(before)


def report(changes):
    changes = list(changes)
    return "\n".join([f"{len(changes)} changes, the first of them:", *changes[:5], REMEDY]) if changes else ""


def test_this_protocol_and_no_other_is_recorded():
    assert [path.name for path in FOLDER.iterdir()] == [f"protocol-{PROTOCOL}"], f"Record it: {transcripts.COMMAND}"
    assert {path.stem for path in FOLDER.glob("*/*.zip")} == set(CONVERSATIONS)
    assert sum(path.stat().st_size for path in FOLDER.glob("*/*.zip")) < 100_000


@pytest.mark.parametrize("name", EACH)
def test_silos_give_the_stored_answers(name, tmp_path):
    assert report(changes_of_silos(load(name), tmp_path)) == ""


@pytest.mark.parametrize("name", EACH)
def test_a_coordinator_asks_the_stored_requests(name, tmp_path):
    assert report(changes_of_the_coordinator(load(name), tmp_path)) == ""


@needs("cryptography", "flower")
@pytest.mark.skipif(transcripts.blas() == {transcripts.BLAS}, reason="this process adds up as they were recorded")
@pytest.mark.skipif(platform.machine() != "x86_64", reason=f"OpenBLAS for {transcripts.BLAS} is for x86_64")
def test_masks_are_replayed_by_a_process_that_adds_up_as_they_were_recorded():
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", __file__, "-k", "masked"]
    done = subprocess.run(
        command, env=os.environ | {"OPENBLAS_CORETYPE": transcripts.BLAS}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout or not kernels.describe().startswith("kernels: native"), done.stdout


def test_the_conversations_are_whole():
    for name in CONVERSATIONS:
        kinds = [exchange.name.partition("-")[2] for exchange in load(name).exchanges]
        if transcripts.masked(name):
            assert kinds[:2] == ["open", "join"] and set(kinds[2:]) == {"ask"} and len(kinds) >= 8
        else:
            assert kinds[:3] == ["hello", "agree", "moments"] and kinds[-1] == "value" and kinds.count("step") >= 4


# -- a change is noticed -----------------------------------------------------------------------------------


def test_an_answer_that_is_slightly_wrong_is_noticed(tmp_path, monkeypatch):
    honest = keeper.measured
    monkeypatch.setattr(keeper, "measured", lambda *at: honest(*at) | {"E": honest(*at)["E"] * (1 + 1e-11)})
    found = list(changes_of_silos(load("dualfl"), tmp_path))
    assert len(found) >= 3 and all(".value" in change for change in found)
    assert "raise PROTOCOL" in report(found) and transcripts.COMMAND in report(found)


@needs("cryptography", "flower")
def test_masked_words_that_are_wrong_are_noticed(tmp_path, monkeypatch):
    honest = chambers.measured
    monkeypatch.setattr(chambers, "measured", lambda *at: honest(*at) | {"E": honest(*at)["E"] + 1e-8})
    found = list(changes_of_silos(load("masked"), tmp_path))
    assert len(found) >= 3 and all(".words: other numbers" in change for change in found)


def test_a_coordinator_that_asks_for_something_else_is_noticed(tmp_path, monkeypatch):
    changed = CONVERSATIONS | {"dualfl": transcripts.dataclasses.replace(CONVERSATIONS["dualfl"], seed=5)}
    monkeypatch.setattr(transcripts, "CONVERSATIONS", changed)
    assert any(
        "the request.seed: 0 became 5" in change for change in changes_of_the_coordinator(load("dualfl"), tmp_path)
    )


@pytest.mark.parametrize(
    ("stored", "found", "says"),
    [
        ({"a": 1}, {"a": 1, "b": None}, [".b: is new"]),
        ({"a": 1, "b": None}, {"a": 1}, [".b: is missing"]),
        ({"a": (1, 2)}, {"a": (1, 2, 3)}, [".a: 2 entries became 3"]),
        ({"a": 1}, {"a": 1.0}, [".a: 1 became 1.0"]),
        ({"a": 1.0}, {"a": 1.0 + 1e-15}, []),
        ({"a": float("nan")}, {"a": float("nan")}, []),
        ({"a": '{"x": 1.0}'}, {"a": '{"x": 2.0}'}, [".a.x: 1.0 became 2.0"]),
        ({"a": np.array([1.0, 1e-13])}, {"a": np.array([1.0, 2e-13])}, []),
        ({"a": np.array([1.0, 1e-11])}, {"a": np.array([1.0, 2e-11])}, [".a: other numbers"]),
        ({"a": np.array([1.0])}, {"a": np.array([1.0], dtype=np.float32)}, [".a: other numbers"]),
        ({"a": np.array([0, 5], dtype=np.uint64)}, {"a": np.array([2**64 - 3, 9], dtype=np.uint64)}, []),
        ({"a": np.array([0, 5], dtype=np.uint64)}, {"a": np.array([2**63, 5], dtype=np.uint64)}, [".a: other numbers"]),
    ],
)
def test_what_counts_as_a_difference(stored, found, says):
    assert list(differences(stored, found, 1e-12)) == says


def test_a_protocol_is_not_recorded_twice_by_accident(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(transcripts, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["transcripts.py"])
    (tmp_path / f"protocol-{PROTOCOL}").mkdir()
    with pytest.raises(SystemExit, match="2"):
        transcripts.main()
    assert f"protocol {PROTOCOL} is recorded already" in capsys.readouterr().err
