"""Flower's Grid as a transport."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flwr.app import Message, MessageType

from dualfl.federation.courier import Came
from dualfl.federation.flower.records import from_content, to_content


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

    def pull(self, ids: Sequence[str]) -> list[Came]:
        came = []
        for reply in self.grid.pull_messages(list(ids)):
            sent = reply.metadata.reply_to_message_id
            if reply.has_error():
                came.append(Came(sent, None, str(reply.error.reason)))
            else:
                came.append(Came(sent, from_content(reply.content)))
        return came
