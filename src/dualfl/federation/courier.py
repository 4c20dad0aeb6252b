"""Asking silos until all have answered: who is missing is asked again, who answers twice or late is not counted twice.

A `Transport` carries bytes to nodes and back; it may lose messages, deliver them late, and give a silo that was
restarted a new number. Silos are known by the names in their answers, never by node.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from dualfl.errors import InputError, OutOfTime
from dualfl.federation.wire import decode, tag
from dualfl.lines import plain_text

SLOW = 10.0  # seconds without an answer after which it is said, once, who has not answered
ASK_AGAIN = 2.0  # seconds after an error before a node is asked again
DOUBLINGS = 5  # of the time until a message counts as lost: errors are repeats too, and there may be thousands
SHORT, SOME = 200, 3  # characters of a transport's reason, and of how many nodes it is told
TOO_MUCH = 1.5  # times what the others answered, plus a little
LITTLE = 1 << 20


class Came(NamedTuple):
    """What came back for a message that was sent: an answer, or an error of the transport."""

    sent: str
    answer: bytes | None
    error: str = ""


class Transport(Protocol):
    def nodes(self) -> Iterable[int]:
        """The nodes that are connected now."""

    def push(self, messages: Mapping[int, bytes]) -> dict[int, str]:
        """Send to each node; returns the ids of the messages."""

    def pull(self, ids: Sequence[str], seconds: float) -> list[Came]:
        """What has come back for these, if anything; it may wait so long until all has."""


@dataclass
class Traffic:
    """What went over the wire, as bytes of the messages themselves."""

    messages: int = 0
    down: int = 0
    up: int = 0
    repeated: int = 0


@dataclass
class Courier:
    """The wait-for-all loop.

    patience : seconds without any new answer after which the run stops; the silos that are missing are named.
    poll : seconds between two looks, unless something came.
    again : seconds without an answer or an error after which a node is asked once more, and then after twice as long
        each time, up to 32 times. Flower says nothing of a message that a silo took with it when it died and that was
        back before anybody noticed; and a request that is repeated gets the same answer.
    fixed : silos are bound to nodes, since nodes are authenticated.
    """

    transport: Transport
    patience: float = 3600.0
    poll: float = 0.5
    again: float = 60.0
    fixed: bool = False
    say: Callable[[str], None] = lambda sentence: None
    waits: Callable[[list[str]], None] = lambda names: None  # told who is missing, at every look
    names: dict[int, str] = field(default_factory=dict)  # of the nodes that have answered
    identities: dict[str, str] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)

    def ask(self, message: bytes, wanted: Sequence[str], seconds: float = math.inf) -> dict[str, dict[str, Any]]:
        """The answers of all these silos to this message; `OutOfTime` if they take longer than this."""
        return Asking(self, message, list(wanted)).until_all(seconds)


class Asking:
    """One message on its way to all who must answer it."""

    def __init__(self, post: Courier, message: bytes, wanted: list[str]) -> None:
        self.post, self.message, self.wanted, self.tag = post, message, wanted, tag(message)
        self.answers: dict[str, dict[str, Any]] = {}
        self.raw: dict[str, bytes] = {}
        self.waiting: dict[str, int] = {}  # id of a message: node
        self.pause: dict[int, float] = {}  # node: when it may be asked again
        self.asked: dict[int, int] = {}  # node: how often
        self.since: dict[int, float] = {}  # node: when it was asked last
        self.absent: set[int] = set()
        self.errors: dict[int, str] = {}  # node: what the transport said last

    def until_all(self, seconds: float = math.inf) -> dict[str, dict[str, Any]]:
        post, heard, told = self.post, time.monotonic(), ""
        end = heard + seconds
        while True:
            self._send()
            before, looked = len(self.answers), time.monotonic()
            for came in post.transport.pull(list(self.waiting), min(post.poll, end - looked)) if self.waiting else []:
                self._take(came)
            if len(self.answers) == len(self.wanted):
                return {name: self.answers[name] for name in self.wanted}
            now = time.monotonic()
            if now > end:
                raise OutOfTime
            post.waits([name for name in self.wanted if name not in self.answers])
            if len(self.answers) > before:
                heard = now
                continue
            if now - heard > post.patience:
                raise InputError(
                    f"{self._missing()} did not answer for {post.patience:.0f} s{self._reasons()}; look at the silo's "
                    "machine, start it again (`dualfl deploy serve`), and give `dualfl deploy run` again: the run goes "
                    "on where it is."
                )
            if now - heard > SLOW and self._missing() != told:
                told = self._missing()
                post.say(f"Waiting for {told[0].lower()}{told[1:]} ...")
            time.sleep(max(min(looked + post.poll, end) - now, 0.0))

    def _missing(self) -> str:
        missing = [name for name in self.wanted if name not in self.answers]
        return f"Silo {missing[0]!r}" if len(missing) == 1 else "Silos " + ", ".join(map(repr, missing))

    def _reasons(self) -> str:
        """What Flower said last of those who have not answered, in one line."""
        names = {node: self.post.names.get(node) for node in self.errors}
        said = [
            f"{f'node {node}' if name is None else repr(name)}: {self.errors[node]}"
            for node, name in names.items()
            if name not in self.answers
        ]
        return f" (Flower says of {', of '.join(said[-SOME:])})" if said else ""

    def _send(self) -> None:
        """To every node that may be one of those missing, and has not been asked or must be asked again."""
        now, to = time.monotonic(), {}
        busy = {node for node in self.waiting.values() if now < self._lost(node)}
        for node in self.post.transport.nodes():
            name = self.post.names.get(node)
            done = name in self.answers or node in self.absent or (name is not None and name not in self.wanted)
            if not done and node not in busy and self.pause.get(node, 0.0) <= now:
                to[node] = self.message
        if to:
            traffic = self.post.traffic
            traffic.messages += len(to)
            traffic.down += len(to) * len(self.message)
            traffic.repeated += len(self.asked.keys() & to.keys())
            self.asked |= {node: self.asked.get(node, 0) + 1 for node in to}
            self.since |= dict.fromkeys(to, now)
            self.waiting |= {id: node for node, id in self.post.transport.push(to).items()}

    def _lost(self, node: int) -> float:
        """When the last message to this node counts as lost."""
        return self.since[node] + self.post.again * 2.0 ** min(self.asked[node] - 1, DOUBLINGS)

    def _take(self, came: Came) -> None:
        node = self.waiting.pop(came.sent, None)
        if node is None:
            return
        if came.answer is None:  # the node went away, or its process died: it is asked again when it is back
            self.pause[node] = time.monotonic() + ASK_AGAIN
            self.errors[node] = plain_text(" ".join(came.error.split()))[:SHORT] or "no reason"
            return
        self._check_size(node, came.answer)
        try:
            answer = decode(came.answer)
            name, tag = plain_text(str(answer["silo"]), 80), answer["tag"]
        except (InputError, KeyError) as error:
            words = plain_text(str(error), SHORT)
            raise InputError(f"{self._called(node)} sent something that is not an answer: {words}.") from error
        if tag != self.tag:  # of another round, or to somebody else: as if it had not come
            self.pause[node] = time.monotonic() + ASK_AGAIN
            return
        self.post.traffic.up += len(came.answer)
        self._check_name(node, name, answer)
        if answer.get("absent"):
            self.absent.add(node)
            return
        if answer.get("refusal"):
            raise InputError(f"Silo {name!r}: {plain_text(str(answer['refusal']))}.")
        if self.raw.setdefault(name, came.answer) != came.answer:
            raise InputError(
                f"Silo {name!r} answered twice with different numbers; see that only one process serves it, and that "
                "no two silos have this name."
            )
        self.answers[name] = answer

    def _called(self, node: int) -> str:
        return f"Silo {self.post.names[node]!r}" if node in self.post.names else f"The silo at node {node}"

    def _check_size(self, node: int, answer: bytes) -> None:
        others = [len(raw) for raw in self.raw.values()] or [len(self.message)]
        limit = TOO_MUCH * statistics.median(others) + LITTLE
        if len(answer) > limit and self.raw:
            raise InputError(
                f"{self._called(node)} answered with {len(answer):,} bytes, and the others with about "
                f"{statistics.median(others):,.0f}; it runs something else, so look at that silo."
            )

    def _check_name(self, node: int, name: str, answer: dict[str, Any]) -> None:
        if name not in self.wanted and not answer.get("absent"):
            raise InputError(
                f"A silo called {name!r} has joined, but it is none of {', '.join(self.wanted)}; name it in the "
                "project's project.json, or take it away."
            )
        known = self.post.identities.setdefault(name, str(answer.get("identity", "")))
        bound = [n for n, other in self.post.names.items() if other == name and n != node]
        if known != answer.get("identity", "") or (self.post.fixed and bound):
            raise InputError(f"Two silos call themselves {name!r}; give one of them another name in its silo.json.")
        self.post.names[node] = name
