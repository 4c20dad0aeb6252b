"""The doors of the letterbox, in the SuperLink's process and before Flower's own.

Flower takes a message apart into objects, keeps each in its database, and has every party look for it: some twenty
requests a silo and exchange. Here a silo makes one: it hands its answer over and waits for the next letter. Who it is,
Flower says: by the silo's signature, or by the token of the run. Who looks for new runs waits for one, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from dualfl.deploy.letterbox import Letterbox
from dualfl.deploy.tidying import Tidy
from dualfl.federation.flower.envelope import COLLECT, HOLD, POST, TALK, pack, unpack

NEW_RUN, LOOK_FOR_RUNS = "/v1/control/start-run", "/v1/runtime/acquire-task"  # Flower's own doors
UNTOLD = 5.0  # seconds after which a run is found of which nobody told, as after a start
SILENT = 60.0  # seconds after which whoever looks for runs hangs
TIDIED = 30.0  # seconds between two times that memory is tidied, if there was a run
ALLOWED = 8 * HOLD  # seconds for which nobody is made to wait, whatever he asks for


class Post:
    """Flower's app with three doors more."""

    def __init__(self, app: Any) -> None:
        self.app, self.box = app, Letterbox()
        self.doors = {TALK: self.talk, POST: self.post, COLLECT: self.collect}
        self.new_runs, self.told, self.looked = 0, asyncio.Event(), time.monotonic()
        self.tidy, self.untidy = Tidy(), False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        door = self.doors.get(scope.get("path", "")) if scope["type"] == "http" else None
        if door is None or scope["method"] != "POST":
            await self._flower(scope, receive, send)
            return
        from fastapi import HTTPException
        from flwr.supercore.error import FlowerError
        from starlette.requests import Request
        from starlette.responses import Response

        scope["app"] = self.app
        request = Request(scope, receive)
        try:
            words, body = unpack(await request.body())
            answer = Response(await door(request, words, body), media_type="application/octet-stream")
        except (HTTPException, FlowerError):
            answer = Response("Not let in.\n", 401)
        except (ValueError, KeyError, TypeError):
            answer = Response("Not a letter.\n", 400)
        await answer(scope, receive, send)

    def until_nobody_looks(self) -> None:
        """Returns when nobody has looked for runs for long: who should do it hangs. Tidies memory meanwhile."""
        tidied = time.monotonic()
        while time.monotonic() - self.looked < SILENT:
            time.sleep(UNTOLD)
            if self.untidy and time.monotonic() - tidied > TIDIED:
                self.untidy, tidied = False, time.monotonic()
                self.tidy()

    async def _flower(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if path == LOOK_FOR_RUNS:
            self.looked = time.monotonic()
            if not self.new_runs:
                self.told.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.told.wait(), UNTOLD)
            self.new_runs = max(0, self.new_runs - 1)
        await self.app(scope, receive, send)
        if path == NEW_RUN:
            self.new_runs += 1
            self.untidy = True
            self.told.set()

    # -- silos -----------------------------------------------------------------------------------------

    async def talk(self, request: Any, words: dict[str, Any], body: bytes) -> bytes:
        """Here is my answer, or a piece of it, or nothing; what is next?"""
        node = int(words["node"])
        await self._is_node(request, node)
        if "answer" in words:
            size = int(words["size"])
            had = self.box.answer(node, str(words["answer"]), int(words["place"]), size, body)
            if had < size:
                return pack({"had": had})
        letter = await self.box.take(node, min(float(words.get("wait", 0.0)), ALLOWED))
        if letter is None:
            return pack({})
        await self._is_node(request, node)  # it may have been revoked while it waited
        return pack({"letter": letter.id}, letter.body)

    async def _is_node(self, request: Any, node: int) -> None:
        from flwr.proto.fleet_pb2 import PullMessagesRequest
        from flwr.proto.node_pb2 import Node
        from flwr.superlink.routers.fleet.node_auth import authenticate_node
        from starlette.concurrency import run_in_threadpool

        request.state.protobuf_request = PullMessagesRequest(node=Node(node_id=node))
        await run_in_threadpool(authenticate_node, request)

    # -- runs ------------------------------------------------------------------------------------------

    async def post(self, request: Any, words: dict[str, Any], body: bytes) -> bytes:
        """One letter for all these nodes."""
        run = await self._run_of(request)
        sent = self.box.post(run, [int(node) for node in words["nodes"]], body)
        return pack({"ids": [[str(node), id] for node, id in sent.items()]})

    async def collect(self, request: Any, words: dict[str, Any], body: bytes) -> bytes:
        run = await self._run_of(request)
        found = await self.box.collect(run, words["ids"], min(float(words["wait"]), ALLOWED))
        return pack({"answers": [[id, len(answer)] for id, answer in found.items()]}, *found.values())

    async def _run_of(self, request: Any) -> int:
        from flwr.supercore.constant import TASK_TOKEN_HEADER
        from flwr.supercore.dependencies.task import authenticate_task
        from starlette.concurrency import run_in_threadpool

        state = self.app.state.runtime_state_factory.state()
        token = request.headers.get(TASK_TOKEN_HEADER)
        return int((await run_in_threadpool(authenticate_task, request, token, state)).run_id)
