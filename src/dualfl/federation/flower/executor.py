"""Takes the tasks of a SuperNode and answers them: no code that a coordinator sends is ever unpacked.

A SuperNode with `--isolation process` waits until somebody takes its tasks over its runtime port, which this user's
secret opens. A task brings an app along; here it is left alone. Only the bytes of the message go on, to `answer`.

This speaks Flower's runtime API, which is not public: `runtime.TESTED` says which versions it was tested with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
from flwr.app import Error, Message
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from dualfl.federation.flower.records import from_content, to_content

ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
NOT_OURS = "This silo runs no app; it answers messages of dualfl and nothing else."


class Executor:
    """Answers the messages of the SuperNode whose runtime port is at `address`."""

    def __init__(self, address: str, secret: bytes, answer: Callable[[bytes], bytes]) -> None:
        self.address, self.answer = address, answer
        self.door = self._client(SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={ACQUIRE}))

    def close(self) -> None:
        self.door.close()

    def _client(self, key: Any) -> RuntimeHttpClient:
        version = RuntimeVersionHttpInterceptor(component_name="dualfl")
        return RuntimeHttpClient.from_server_address(self.address, True, None, [version, key])

    def once(self) -> bool:
        """Answer one message, if there is one. A SuperNode that is not there yet, or any more, has none."""
        try:
            task = self.door.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]))
            if not task.token:
                return False
            self._serve(self._client(RuntimeTokenHttpInterceptor(task.token)))
        except httpx.HTTPError:
            return False
        return True

    def _serve(self, line: RuntimeHttpClient) -> None:
        with contextlib.closing(line), beating(line):
            message, context, _, _ = pull_task_input(line)  # the last of the four is the app
            try:
                request = from_content(message.content)
            except Exception:  # whatever it is, it is not one of ours
                reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, NOT_OURS), reply_to=message)
                push_message(line, reply, context)
                push_task_output(line, context, SubStatus.FAILED, NOT_OURS)
                return
            push_message(line, Message(to_content(self.answer(request)), reply_to=message), context)
            push_task_output(line, context, SubStatus.COMPLETED, "")


@contextlib.contextmanager
def beating(line: RuntimeHttpClient) -> Iterator[None]:
    """Tell the SuperNode now and then that its task is being worked on, however long that takes."""

    def beat() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            line.SendTaskHeartbeat(SendTaskHeartbeatRequest())
        return True

    heart = HeartbeatSender(beat)
    heart.start()
    try:
        yield
    finally:
        heart.stop()
