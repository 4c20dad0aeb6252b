"""Messages that measure the network are answered before any plan: what a coordinator may do with them."""

import json

import numpy as np
import pytest
from hostile import make_homes, refusals

from dualfl.federation import line_speed
from dualfl.federation.audit import AuditLog
from dualfl.federation.keeper import PROTOCOL, Keeper
from dualfl.federation.wire import decode, encode


def echo(keeper, padding):
    return decode(keeper.handle(encode({"kind": "echo", "protocol": PROTOCOL, "padding": padding})))


@pytest.mark.parametrize(
    "padding",
    [
        np.zeros(line_speed.LARGEST + 1, dtype=np.uint8),
        np.zeros(4),
        np.zeros((2, 2), dtype=np.uint8),
        "../key",
        None,
        {"path": "key"},
    ],
)
def test_an_echo_is_bytes_and_not_too_many(padding, tmp_path):
    home = make_homes(tmp_path)[0]
    assert "refusal" in echo(Keeper(home), padding)
    assert "padding" in refusals(home)[0] or "bytes" in refusals(home)[0]


def test_a_line_is_not_used_up_by_echoes_and_each_is_in_the_audit_log(tmp_path, monkeypatch):
    monkeypatch.setattr(line_speed, "A_DAY", 3)
    home = make_homes(tmp_path)[0]
    keeper, sent = Keeper(home), np.arange(100, dtype=np.uint8)
    answers = [echo(keeper, sent) for _ in range(5)]
    assert [np.array_equal(one.get("padding"), sent) for one in answers] == [True, True, True, False, False]
    logged = [one for one in AuditLog(home).verified() if one.get("kind") == "echo"]
    assert len(logged) == 5 and all("most in a day" in one["refused"] for one in logged[3:])


@pytest.mark.unrefused("it is answered with what it holds")
def test_an_echo_tells_nothing_and_begins_nothing(tmp_path):
    home = make_homes(tmp_path)[0]
    before = {path for path in home.rglob("*") if "audit" not in str(path.relative_to(home))}
    said = echo(Keeper(home), np.frombuffer(b'{"kind": "join"}', dtype=np.uint8))
    assert set(said) == {"silo", "identity", "tag", "padding"}
    assert {path for path in home.rglob("*") if "audit" not in str(path.relative_to(home))} == before
    assert json.loads((home / "silo.json").read_text())["name"] == said["silo"]
