"""Two transports of a server app: Flower's Grid, in simulations, and the letterbox of a deployment's coordinator."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flwr.app import Message, MessageType

from dualfl.federation.courier import Came, Transport
from dualfl.federation.flower.envelope import COLLECT, POST, pack, unpack
from dualfl.federation.flower.records import from_content, to_content

FRESH = 2.0  # seconds for which the list of nodes is believed
SLACK = 60.0  # seconds that the SuperLink may take beside the wait


def transport_of(grid: Any) -> Transport:
    """The letterbox where there is one: over HTTP, so not in a simulation."""
    from flwr.superlink.grid import HttpGrid

    return LetterTransport(grid) if isinstance(grid, HttpGrid) else GridTransport(grid)


class GridTransport:
    def __init__(self, grid: Any) -> None:
        self.grid = grid

    def nodes(self) -> Iterable[int]:
        return sorted(self.grid.get_node_ids())

    def push(self, messages: Mapping[int, bytes]) -> dict[int, str]:
        sent = [
            Message(to_content(message), dst_node_id=node, message_type=MessageType.TRAIN)
            for node, message in messages.items()
        ]
        return {node: id for node, id in zip(messages, self.grid.push_messages(sent)) if id}

    def pull(self, ids: Sequence[str], seconds: float) -> list[Came]:
        came = []
        for reply in self.grid.pull_messages(list(ids)):
            sent = reply.metadata.reply_to_message_id
            if reply.has_error():
                came.append(Came(sent, None, str(reply.error.reason)))
            else:
                came.append(Came(sent, from_content(reply.content)))
        return came


class LetterTransport:
    """Letters and answers through `deploy.post`, with the run's own token."""

    def __init__(self, grid: Any) -> None:
        import ssl

        import httpx
        from flwr.supercore.constant import TASK_TOKEN_HEADER

        self.grid = grid
        self.known: tuple[float, list[int]] = (float("-inf"), [])
        verify: Any = True if grid._cert is None else ssl.create_default_context(cadata=grid._cert.decode())
        self.client = httpx.Client(
            base_url=f"{'http' if grid._insecure else 'https'}://{grid._addr}",
            headers={TASK_TOKEN_HEADER: grid._token},
            verify=verify,
            trust_env=False,
        )

    def nodes(self) -> Iterable[int]:
        when, found = self.known
        if time.monotonic() - when > FRESH:
            found = sorted(self.grid.get_node_ids())
            self.known = time.monotonic(), found
        return found

    def push(self, messages: Mapping[int, bytes]) -> dict[int, str]:
        ids: dict[int, str] = {}
        for body in set(messages.values()):  # one, as a rule: all nodes are asked the same
            nodes = [str(node) for node, message in messages.items() if message == body]
            words, _ = self._say(POST, {"nodes": nodes}, body)
            ids |= {int(node): id for node, id in words["ids"]}
        return ids

    def pull(self, ids: Sequence[str], seconds: float) -> list[Came]:
        words, bodies = self._say(COLLECT, {"ids": list(ids), "wait": seconds})
        came, place = [], 0
        for id, size in words["answers"]:
            came.append(Came(id, bodies[place : place + size]))
            place += size
        return came

    def _say(self, door: str, words: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        said = self.client.post(door, content=pack(words, body), timeout=SLACK + float(words.get("wait", 0.0)))
        said.raise_for_status()
        return unpack(said.content)
