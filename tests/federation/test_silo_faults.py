"""Silos that go away, answer twice, late or wrongly; a server that is killed: the same bits, or a sentence."""

import dataclasses
import json
import shutil
import time

import numpy as np
import pytest
from loopback import Loopback, csv_homes, run_over

import dualfl
from dualfl.algorithms.registry import make
from dualfl.engines import checkpoint
from dualfl.errors import InputError
from dualfl.federation import courier
from dualfl.federation.courier import Came, Courier
from dualfl.federation.keeper import PROTOCOL, Keeper
from dualfl.federation.remote import Terms
from dualfl.federation.wire import decode, encode

TABLE = {"loss": "auto", "ridge": 0.1, "l1": 0.0, "solver": None, "intercept": "penalised"}
TERMS = Terms("e", ("a", "b", "c"), make("giant"), TABLE)
HEAD = {"version": dualfl.__version__, "protocol": PROTOCOL, "experiment": "e", "to": None}
HELLO = encode({"kind": "hello", "task": None} | HEAD)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(courier, "ASK_AGAIN", 0.0)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return run_over(Loopback(csv_homes(tmp_path_factory.mktemp("calm"))), TERMS, None, rounds=3)[0]


def play(tmp_path, fault, **options):
    homes = csv_homes(tmp_path)
    return run_over(Loopback(homes, fault), TERMS, None, rounds=3, **options)


def same(a, b):
    rows = [[row._replace(seconds=0.0) for row in result.history] for result in (a, b)]
    return np.array_equal(a.theta, b.theta) and rows[0] == rows[1]


def every(k, what):
    """Play `what` at every k-th message."""
    seen = {"count": 0}

    def fault(transport, node, request, answer):
        seen["count"] += 1
        return what(transport, node, request, answer) if seen["count"] % k == 0 else None

    return fault


def test_answers_that_are_lost_after_the_state_was_saved_are_given_again(tmp_path, undisturbed):
    result, engine = play(tmp_path, every(3, lambda *_: [Came("", None, "the node went away")]))
    assert same(result, undisturbed)
    assert engine.federation.post.traffic.repeated > 5


def test_messages_that_vanish_without_an_error_are_sent_again(tmp_path, undisturbed):
    result, engine = play(tmp_path, every(3, lambda *_: []), again=0.05)
    assert same(result, undisturbed)
    assert engine.federation.post.traffic.repeated > 5


def test_who_only_takes_long_is_asked_again_ever_more_rarely(tmp_path):
    late = []

    def slow(transport, node, request, answer):
        if len(late) < 4:
            late.append(time.monotonic())
            return []
        return None

    result = Courier(Loopback(csv_homes(tmp_path)[:1], slow), poll=0.0, again=0.05).ask(HELLO, ["a"])
    gaps = np.diff(late)
    assert list(result) == ["a"] and (gaps >= 0.5 * 0.05 * 2.0 ** np.arange(3)).all()


def test_answers_that_come_twice_count_once(tmp_path, undisturbed):
    result, _ = play(tmp_path, lambda t, n, q, answer: [Came("", answer), Came("", answer)])
    assert same(result, undisturbed)


def test_answers_to_another_round_are_not_taken_for_this_one(tmp_path, undisturbed):
    old = {}

    def late(transport, node, request, answer):
        before, old[node] = old.get(node), answer
        return [Came("", before)] if before is not None and transport.count % 4 == 0 else None

    assert same(play(tmp_path, late)[0], undisturbed)


def test_a_silo_with_a_new_number_is_the_same_silo(tmp_path, undisturbed):
    def restarted(transport, node, request, answer):
        transport.homes[node + 50] = transport.homes.pop(node)
        return [Came("", None, "gone")]

    assert same(play(tmp_path, every(7, restarted))[0], undisturbed)


def test_a_silo_that_stays_away_is_named_with_the_remedy(tmp_path):
    def gone(transport, node, request, answer):
        if decode(request)["kind"] == "step" and node == 101:
            transport.homes.pop(node)
            return []
        return None

    with pytest.raises(InputError, match=r"Silo 'b' did not answer for 0 s; .*serve.*goes on where it is"):
        play(tmp_path, gone, patience=0.2)


@pytest.mark.parametrize("name", ["giant", "dualfl", "scaffold"])
@pytest.mark.parametrize("stop_at", range(8))
def test_a_server_that_is_killed_goes_on_from_its_checkpoint(name, stop_at, tmp_path, monkeypatch):
    terms = dataclasses.replace(TERMS, algorithm=make(name))
    steps = stop_at * 3 + 1  # one silo has answered and saved, the others have not
    write = checkpoint.save

    class Killed(BaseException):
        pass

    def kill(transport, node, request, answer):
        nonlocal steps
        steps -= decode(request)["kind"] == "step"
        if steps == 0:
            monkeypatch.setattr(checkpoint, "save", lambda *_: None)  # who is dead writes nothing on the way out
            raise Killed

    homes, path = csv_homes(tmp_path / "disturbed"), tmp_path / "checkpoint.npz"
    try:
        run_over(Loopback(homes, kill), terms, None, rounds=4, path=path)
    except Killed:
        monkeypatch.setattr(checkpoint, "save", write)
    result, _ = run_over(Loopback(homes), terms, None, rounds=4, path=path, resume=path.exists())
    assert same(result, run_over(Loopback(csv_homes(tmp_path / "calm")), terms, None, rounds=4)[0])


def altered(change):
    """Node 101, silo b, sends something else from its second step on."""

    def fault(transport, node, request, answer):
        asked = decode(request)
        if node != 101 or asked["kind"] != "step" or asked["round"] < 1:
            return None
        return [Came("", encode(change(decode(answer))))]

    return fault


def with_wire(**fields):
    return lambda answer: answer | {"wire": {k: fields.get(k, v) for k, v in answer["wire"].items()}}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (with_wire(g=np.full(5, np.nan)), "Client 1 answered with NaN or infinity in 'g'"),
        (with_wire(g=np.zeros(6)), "Silo 'b' answered with g of shape .6,."),
        (lambda answer: answer | {"wire": {"model": np.zeros(5)}}, "Silo 'b' answered with model of shape"),
        (with_wire(g=np.zeros(10**6)), "Silo 'b' answered with 8,.* bytes, and the others"),
        (lambda answer: {"nonsense": 1}, "Silo 'b' sent what is no answer"),
        (lambda answer: answer | {"refusal": "the disk is full"}, "Silo 'b': the disk is full."),
    ],
)
def test_a_silo_that_answers_wrongly_is_named(change, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        play(tmp_path, altered(change))


def test_two_different_answers_are_refused(tmp_path):
    change = altered(with_wire(g=np.ones(5)))

    def twice(transport, node, request, answer):
        other = change(transport, node, request, answer)
        transport.homes.setdefault(node + 50, transport.homes[node])  # a second process serves the same silo
        return other

    with pytest.raises(InputError, match="Silo 'b' answered twice with different numbers"):
        play(tmp_path, twice)


def test_another_protocol_is_refused_and_another_version_is_not(tmp_path):
    homes = csv_homes(tmp_path)
    hello = {"kind": "hello", "version": "9.9", "protocol": PROTOCOL, "experiment": "e", "to": None}
    assert "refusal" not in decode(Keeper(homes[0]).handle(encode(hello)))
    for other in (PROTOCOL - 1, PROTOCOL + 1, str(PROTOCOL), None):
        refusal = decode(Keeper(homes[0]).handle(encode(hello | {"protocol": other})))["refusal"]
        assert f"speaks protocol {other} (dualfl 9.9), and this silo protocol {PROTOCOL}" in refusal
        assert "install versions with one protocol" in refusal
    assert decode(Keeper(homes[0]).handle(b"nonsense"))["refusal"]


def test_a_coordinator_that_takes_a_patch_release_goes_on_to_the_same_bits(undisturbed, tmp_path, monkeypatch):
    homes, path = csv_homes(tmp_path), tmp_path / "checkpoint.npz"
    run_over(Loopback(homes), TERMS, None, rounds=1, path=path)
    monkeypatch.setattr("dualfl.federation.remote.__version__", "9.9")
    result, _ = run_over(Loopback(homes), TERMS, None, rounds=3, path=path, resume=True)
    assert same(result, undisturbed)


def test_a_silo_that_lost_its_folder_or_changed_its_data_says_so(tmp_path):
    homes, path = csv_homes(tmp_path), tmp_path / "checkpoint.npz"
    run_over(Loopback(homes), TERMS, None, rounds=2, path=path)
    kept = (homes[1] / "data.csv").read_text()
    (homes[1] / "data.csv").write_text(kept.replace("north", "south"))
    with pytest.raises(InputError, match=r"Silo 'b': its data file.* has changed since the experiment began"):
        run_over(Loopback(homes), TERMS, None, rounds=3, path=path, resume=True)
    (homes[1] / "data.csv").write_text(kept)
    shutil.rmtree(homes[1] / "experiments")
    with pytest.raises(InputError, match=r"Silo 'b': Client 1 has answered exchange None, and the server thinks"):
        run_over(Loopback(homes), TERMS, None, rounds=3, path=path, resume=True)


def test_a_second_plan_under_one_name_is_refused(tmp_path):
    homes = csv_homes(tmp_path)
    run_over(Loopback(homes), TERMS, None, rounds=1)
    with pytest.raises(InputError, match="another plan was agreed"):
        run_over(Loopback(homes), dataclasses.replace(TERMS, seed=9), None, rounds=1)


def test_only_steps_of_the_algorithm_can_be_asked_for(tmp_path):
    homes = csv_homes(tmp_path)
    run_over(Loopback(homes), TERMS, None, rounds=1)
    asked = {
        "kind": "step",
        "version": dualfl.__version__,
        "protocol": PROTOCOL,
        "experiment": "e",
        "to": ("a",),
        "algorithm": make("giant").to_json(),
        "under": make("giant").to_json(),
        "round": 5,
        "exchange": 0,
        "step": "to_json",
        "message": {},
        "reduce": "sum",
        "after": ((0, 2),),
        "probe": None,
        "scaling": None,
    }
    assert "not a client step" in decode(Keeper(homes[0]).handle(encode(asked)))["refusal"]
    escape = decode(Keeper(homes[0]).handle(encode(asked | {"experiment": "../../etc"})))
    assert "no name of an experiment" in escape["refusal"]
    assert json.loads((homes[0] / "silo.json").read_text())["name"] == "a"
