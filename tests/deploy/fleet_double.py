"""A SuperLink as a silo's line sees it: who is logged in, which messages wait, what came back, and what was called."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("flwr", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
import httpx

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Flower uses what others have deprecated
    from flwr.app import Message
    from flwr.app.message import remove_content_from_message
    from flwr.common.serde import message_from_proto, message_to_proto
    from flwr.proto.fleet_pb2 import (
        ActivateNodeResponse,
        DeactivateNodeResponse,
        PullMessagesResponse,
        PushMessagesResponse,
    )
    from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatResponse
    from flwr.proto.message_pb2 import ConfirmMessageReceivedResponse, PullObjectResponse, PushObjectResponse
    from flwr.supercore.inflatable.inflatable_object import (
        get_all_nested_objects,
        get_object_tree,
        iterate_object_tree,
    )
    from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
    from flwr.supercore.task_identity import TaskIdentity

NODE, RUN = 7, 11


def refused(code: int, date: str | None = None) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "https://coordinator/v1/fleet/x")
    answer = httpx.Response(code, request=request, headers={"date": date} if date else {})
    return httpx.HTTPStatusError(f"{code}", request=request, response=answer)


class SuperLink:
    """Stands for `Fleet.client`."""

    def __init__(self) -> None:
        self.online, self.called, self.failures = False, [], []
        self.waiting, self.objects, self.answers = [], {}, []
        self._client = self

    def close(self) -> None:
        self.called.append("closed")

    def put(self, content) -> None:
        """A message for the silo, as a coordinator sends it."""
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, 1, 1
        message = Message(content, dst_node_id=NODE, message_type="train")
        message.metadata.__dict__ |= {"_run_id": RUN, "_src_node_id": 1}
        message.metadata.__dict__["_message_id"] = message.object_id
        self.objects |= {name: each.deflate() for name, each in get_all_nested_objects(message).items()}
        self.waiting.append((message_to_proto(remove_content_from_message(message)), get_object_tree(message)))

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)

        def call(request):
            self.called.append(name)
            if self.failures:
                failure = self.failures.pop(0)
                if failure is not None:
                    raise failure
            return getattr(self, f"do_{name}")(request)

        return call

    def do_ActivateNode(self, request):
        if self.online:  # as Flower does, until heartbeats have been missed for a minute
            raise refused(400)
        self.online = True
        return ActivateNodeResponse(node_id=NODE)

    def do_DeactivateNode(self, request):
        if not self.online:
            raise refused(400)
        self.online = False
        return DeactivateNodeResponse()

    def do_SendNodeHeartbeat(self, request):
        return SendNodeHeartbeatResponse(success=True)

    def do_PullMessages(self, request):
        if not self.waiting:
            return PullMessagesResponse()
        message, tree = self.waiting.pop(0)
        return PullMessagesResponse(messages_list=[message], message_object_trees=[tree])

    def do_PullObject(self, request):
        content = self.objects[request.object_id]
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def do_ConfirmMessageReceived(self, request):
        return ConfirmMessageReceivedResponse()

    def do_PushMessages(self, request):
        names = [tree.object_id for tree in iterate_object_tree(request.message_object_trees[0])]
        self.answers.append((request.messages_list[0], names))
        return PushMessagesResponse(objects_to_push=names, session_id="s")

    def do_PushObject(self, request):
        self.objects[request.object_id] = request.object_content
        return PushObjectResponse(stored=True)

    def replies(self) -> list:
        """What the silo answered, put together again."""
        found = []
        for proto, names in self.answers:
            if proto.HasField("error"):
                found.append(message_from_proto(proto))
            else:
                contents = {name: self.objects[name] for name in names}
                found.append(inflate_object_from_contents(proto.metadata.message_id, contents))
        return found
