"""A silo's line to the coordinator: in at once after a kill, patient, and plain about what is wrong."""

import email.utils
import errno
import json
import sys
import time
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("flwr", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
import httpx
from fleet_double import SuperLink, refused

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Flower uses what others have deprecated
    from dualfl.federation.flower import fleet as line
from dualfl.deploy import certificates, keys
from dualfl.federation.protocol import PROTOCOL

LOGIN = keys.new_key_pair()[0]


@pytest.fixture
def superlink():
    return SuperLink()


@pytest.fixture
def make(superlink, tmp_path):
    certificates.write_certificates(tmp_path / "certificates", "example.org")
    made = []

    def fleet(folder="silo"):
        (tmp_path / folder).mkdir(exist_ok=True)
        ca = tmp_path / "certificates" / "ca.crt"
        one = line.Fleet("example.org:1", ca, LOGIN, tmp_path / folder / "node.json", {"version": "1"})
        one.client._client.close()
        one.client = superlink
        made.append(one)
        return one

    yield fleet
    for one in made:
        one._ended.set()


def test_a_letter_is_answered_and_the_app_is_never_fetched(make, superlink):
    silo = make()
    assert not silo.once(lambda request: pytest.fail("nothing came"))
    superlink.put(b"a question")
    assert silo.once(lambda request: request + b"?")
    assert not silo.once(lambda request: pytest.fail("it was answered"))  # hands the answer over
    assert superlink.replies() == [b"a question?"]
    assert set(superlink.called) == {"ActivateNode", "talk"}


def test_a_large_answer_goes_in_pieces(make, superlink, monkeypatch):
    monkeypatch.setattr(line, "PIECE", 10)
    silo, answer = make(), bytes(range(35))
    superlink.put(b"a question")
    silo.once(lambda request: answer)
    superlink.failures = [None, httpx.RemoteProtocolError("cut")]  # after the first piece
    with pytest.raises(line.Unreachable):
        silo.once(lambda request: pytest.fail("it was answered"))
    silo.once(lambda request: pytest.fail("it was answered"))
    assert superlink.replies() == [answer]


def test_a_silo_that_was_killed_is_let_in_at_once(make, superlink):
    """Flower itself would lock it out for a minute."""
    make().once(lambda request: b"")
    assert superlink.online
    assert not make().once(lambda request: b"")
    assert superlink.called[-4:] == ["talk", "DeactivateNode", "ActivateNode", "talk"]


def test_a_silo_that_ends_politely_logs_out(make, superlink):
    silo = make()
    silo.once(lambda request: b"")
    silo.close()
    assert not superlink.online and not silo.note.exists()


def test_a_copy_of_the_folder_does_not_take_the_silos_place(make, superlink, tmp_path):
    """Two that answer under one key would use masks twice."""
    make().once(lambda request: b"")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "node.json").write_text((tmp_path / "silo" / "node.json").read_text())
    with pytest.raises(line.NotLetIn, match="another process uses its key"):
        make("copy").once(lambda request: b"")


@pytest.mark.parametrize(
    "failure",
    [
        httpx.ConnectError("TLS handshake dropped"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("cut"),
        502,
        503,
    ],
)
def test_one_dropped_connection_is_tried_again(make, superlink, failure):
    """A relay that drops one TLS handshake made Flower's own node give up."""
    failure = refused(failure) if isinstance(failure, int) else failure
    silo = make()
    superlink.failures = [failure]
    with pytest.raises(line.Unreachable):
        silo.once(lambda request: b"")
    assert not silo.once(lambda request: b"")  # and goes on
    superlink.put(b"a question")
    superlink.failures = [failure]  # the letter does not come
    with pytest.raises(line.Unreachable):
        silo.once(lambda request: pytest.fail("nothing came"))
    assert silo.once(lambda request: b"an answer")
    superlink.failures = [failure]  # the answer does not get there
    with pytest.raises(line.Unreachable):
        silo.once(lambda request: pytest.fail("it was answered"))
    assert not silo.once(lambda request: pytest.fail("it was answered"))
    assert superlink.replies() == [b"an answer"]


def test_an_answer_that_nobody_waits_for_is_dropped(make, superlink):
    silo = make()
    superlink.put(b"a question")
    assert silo.once(lambda request: b"late")
    superlink.put(b"another question")  # instead of the first
    assert silo.once(lambda request: request)
    assert not silo.once(lambda request: pytest.fail("it was answered"))
    assert superlink.replies() == [b"another question"]


def test_something_that_is_no_letter_is_not_taken_for_one(make, superlink, monkeypatch):
    monkeypatch.setattr(superlink, "do_talk", lambda request: b"<html>")
    with pytest.raises(line.Unreachable, match="no letter came"):
        make().once(lambda request: pytest.fail("nothing came"))


@pytest.mark.parametrize(("off", "words"), [(86_400, "24.0 hours ahead of"), (-86_400, "24.0 hours behind")])
def test_a_clock_that_is_wrong_by_a_day_is_said_at_the_silo(make, superlink, off, words):
    superlink.failures = [refused(401, email.utils.formatdate(time.time() - off, usegmt=True))]
    with pytest.raises(line.NotLetIn, match=f"The clock of this machine is {words} the coordinator's.*NTP"):
        make().once(lambda request: b"")


def test_a_silo_that_is_not_admitted_hears_it(make, superlink):
    superlink.failures = [refused(400, email.utils.formatdate(usegmt=True))]
    with pytest.raises(line.NotLetIn, match=r"not admitted there.*or was revoked"):
        make().once(lambda request: b"")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired", "deploy renew"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate is not yet valid", "the clocks"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed", "get the project's ca.crt again"),
        ("[Errno 111] Connection refused", "does the firewall let you"),
        ("something new", "something new"),
    ],
)
def test_what_the_network_says_becomes_a_sentence(said, sentence):
    assert sentence in line.in_words(httpx.ConnectError(said), secure=True)


def test_who_has_no_certificate_hears_of_one_when_the_coordinator_hangs_up():
    hung_up = httpx.RemoteProtocolError("Server disconnected without sending a response.")
    assert "--ca" not in line.in_words(hung_up, secure=True)
    assert "this silo tries again. If it speaks TLS, join again with --ca" in line.in_words(hung_up, secure=False)


def test_a_full_disk_is_said_at_the_silo_and_ends_nothing(make, superlink, tmp_path, monkeypatch):
    from loopback import csv_homes

    from dualfl.deploy.silo_process import FULL, Serving
    from dualfl.federation.keeper import Keeper
    from dualfl.federation.wire import encode

    home = csv_homes(tmp_path / "homes")[0]
    settings = json.loads((home / "silo.json").read_text()) | {"coordinator": "example.org:1"}
    (home / "silo.json").write_text(json.dumps(settings))
    keeper, full = Keeper(home), True

    def hello(request, message):
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return {"d": None}

    monkeypatch.setattr(keeper, "hello", hello)
    serving = Serving(keeper.home, make(), keeper.handle)
    message = encode({"protocol": PROTOCOL, "kind": "hello", "experiment": "x"})
    superlink.put(message)
    assert serving.turn() > 0 and serving.state == ("full disk", FULL) and superlink.replies() == []
    full = False
    serving.turn()  # takes the same letter again
    assert serving.turn() > 0  # nothing more, and nobody made it wait
    assert len(superlink.replies()) == 1 and serving.state[0] == "connected"
