"""Asking again for very long, and what is said in the end."""

import pytest

from dualfl.errors import InputError
from dualfl.federation import courier
from dualfl.federation.courier import Asking, Came, Courier
from dualfl.federation.wire import encode, tag

MESSAGE = encode({"kind": "hello"})


class Broken:
    """A node that is there and only ever fails."""

    def __init__(self, error):
        self.error, self.count = error, 0

    def nodes(self):
        return [7]

    def push(self, messages):
        self.count += 1
        return {node: str(self.count) for node in messages}

    def pull(self, ids, seconds):
        return [Came(id, None, self.error) for id in ids]


def test_a_node_that_fails_thousands_of_times_is_still_asked(monkeypatch):
    monkeypatch.setattr(courier, "ASK_AGAIN", 0.0)
    transport = Broken("gone")
    asking = Asking(Courier(transport, poll=0.0), MESSAGE, ["a"])
    for _ in range(2000):
        asking._send()
        for came in transport.pull(list(asking.waiting), 0.0):
            asking._take(came)
    asking._send()
    assert transport.count == 2001
    assert asking._lost(7) - asking.since[7] == pytest.approx(60.0 * 2.0**courier.DOUBLINGS)


@pytest.mark.parametrize(
    ("names", "error", "sentence"),
    [
        (
            {7: "a"},
            "No such\nprocess",
            r"Silo 'a' did not answer for 0 s \(Flower says of 'a': No such process\); look",
        ),
        ({}, "Reason " * 100, r"Silo 'a' did not answer for 0 s \(Flower says of node 7: Reason.{194}\); look"),
        ({7: "b"}, "gone", r"Silo 'a' did not answer for 0 s; look"),
    ],
)
def test_flowers_own_reason_is_told_when_patience_ends(names, error, sentence, monkeypatch):
    monkeypatch.setattr(courier, "ASK_AGAIN", 0.0)
    with pytest.raises(InputError, match=sentence) as caught:
        Courier(Broken(error), patience=0.05, poll=0.0, names=names).ask(MESSAGE, ["a"])
    assert "\n" not in str(caught.value)


class Late:
    """Two nodes: the first answers at once, the other after so many looks."""

    def __init__(self, looks):
        self.looks, self.sent = looks, []

    def nodes(self):
        return [1, 2]

    def push(self, messages):
        self.sent += [(node, f"{len(self.sent)}{node}") for node in messages]
        return {node: id for node, id in self.sent if node in messages}

    def pull(self, ids, seconds):
        self.looks -= 1
        here = [(node, id) for node, id in self.sent if id in ids and (node == 1 or self.looks < 0)]
        return [
            Came(id, encode({"silo": "ab"[node - 1], "tag": tag(MESSAGE), "identity": str(node)})) for node, id in here
        ]


@pytest.mark.parametrize(("slow", "told"), [(0.0, ["Waiting for silo 'b' ..."]), (60.0, [])])
def test_who_keeps_the_others_waiting_is_told_once(slow, told, monkeypatch):
    monkeypatch.setattr(courier, "SLOW", slow)
    said = []
    assert set(Courier(Late(30), poll=0.001, say=said.append).ask(MESSAGE, ["a", "b"])) == {"a", "b"}
    assert said == told
