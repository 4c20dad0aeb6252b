"""A SuperLink as a silo's line sees it: who is logged in, which letters wait, what came back, and what was called."""

from __future__ import annotations

import asyncio
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
    from flwr.proto.fleet_pb2 import ActivateNodeResponse, DeactivateNodeResponse
    from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatResponse
from dualfl.deploy.letterbox import Letterbox
from dualfl.federation.flower.envelope import pack, unpack

NODE, RUN = 7, 11


def refused(code: int, date: str | None = None) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "https://coordinator/v1/fleet/x")
    answer = httpx.Response(code, request=request, headers={"date": date} if date else {})
    return httpx.HTTPStatusError(f"{code}", request=request, response=answer)


class SuperLink:
    """Stands for `Fleet.client`; letters are in a real letterbox, and nobody waits."""

    def __init__(self) -> None:
        self.online, self.called, self.failures = False, [], []
        self.box, self.ids = Letterbox(), []
        self._client = self

    def close(self) -> None:
        self.called.append("closed")

    def put(self, body: bytes) -> None:
        """A letter for the silo, as a run posts it."""
        self.ids.append(self.box.post(RUN, [NODE], body)[NODE])

    def post(self, url: str, content: bytes, headers, timeout: float) -> httpx.Response:
        assert url == "https://example.org:1/v1/fleet/talk" and headers["flwr-signature"]
        return httpx.Response(200, content=self._call("talk", content), request=httpx.Request("POST", url))

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda request: self._call(name, request)

    def _call(self, name: str, request):
        self.called.append(name)
        if self.failures:
            failure = self.failures.pop(0)
            if failure is not None:
                raise failure
        return getattr(self, f"do_{name}")(request)

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

    def do_talk(self, request):
        words, body = unpack(request)
        assert words["node"] == str(NODE)
        if "answer" in words:
            had = self.box.answer(NODE, words["answer"], words["place"], words["size"], body)
            if had < words["size"]:
                return pack({"had": had})
        letter = asyncio.run(self.box.take(NODE, 0.0))
        return pack({}) if letter is None else pack({"letter": letter.id}, letter.body)

    def replies(self) -> list[bytes]:
        """What the silo answered."""
        found = asyncio.run(self.box.collect(RUN, self.ids, 0.0))
        return [found[id] for id in self.ids if id in found]
