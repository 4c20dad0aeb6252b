"""A silo's line to the coordinator: Flower's fleet API, spoken by the process that has the data.

Flower's own SuperNode fetches the app that a coordinator submits, and hands messages to another process. Here nothing
is fetched but messages, and only their bytes go on, to `answer`. No port is opened.

Flower lets a node that was killed in again only when its heartbeats have been missed for a minute. So the number that
this silo was given is noted in its folder, and whoever starts there logs the lost one out first. A copy of the folder
does not: the note says which folder it was written in.

This speaks parts of Flower that are not public: `runtime.TESTED` says which versions it was tested with.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import email.utils
import json
import threading
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Error, Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import TIMESTAMP_HEADER, ErrorCode
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    pull_and_inflate_object_from_tree,
    push_objects,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message
from flwr.supernode.fleet_http_client import FleetHttpClient

from dualfl.errors import DualflError
from dualfl.federation.flower.records import from_content, to_content
from dualfl.files import mark, write_atomically

NOT_OURS = "This silo runs no app; it answers messages of dualfl and nothing else."
HEARTBEAT = 30.0  # seconds, as Flower is told; it waits for two of them
BEAT = 15.0  # seconds between two that are sent
RETRIED = (429, 502, 503, 504)  # the proxy is busy, or the SuperLink behind it is being started
PERSISTENCE = 60.0  # seconds for which an answer is tried to be handed over
SKEW = 60.0  # seconds by which clocks may differ before it is said

# What went wrong, and what an operator can do about it.
SENTENCES = {
    "certificate has expired": "The coordinator's certificate has expired; its operator "
    "makes a new one by `dualfl deploy renew`.",
    "certificate is not yet valid": "The coordinator's certificate is not valid yet; compare the clocks of the two "
    "machines.",
    "CERTIFICATE_VERIFY_FAILED": "The coordinator's certificate does not fit ca.crt; get the project's ca.crt again.",
    "WRONG_VERSION_NUMBER": "This silo speaks TLS and the coordinator does not; join again with --insecure.",
    "Server disconnected": "The coordinator hung up; if it speaks TLS and this silo does not, join again with --ca.",
    "Connection refused": "Nobody answers at the coordinator's address; is it started, and does the firewall let you "
    "out?",
    "Name or service not known": "The coordinator's name is not known to the DNS; look at `coordinator` in silo.json.",
}
LOCKED_OUT = (
    "The coordinator does not let this silo in: its key is not admitted there (`dualfl deploy admit`) or was revoked, "
    "or another process uses its key."
)


class NotLetIn(DualflError):
    """The coordinator is there, and refuses this silo; the sentence says what to do."""


class Unreachable(DualflError):
    """The coordinator is not there, or something stands between."""


class Headers:
    """Who asks, signed as Flower wants it, and which version; `deploy.proxy` reads the latter.

    Flower's own classes for this load a web server and half of gRPC, which an idle silo would hold for months.
    """

    def __init__(self, private: Any, public: bytes, told: Mapping[str, str]) -> None:
        self.private = private
        named = {"package-name": "flwr", "package-version": version("flwr"), "component-name": "SuperNode"}
        self.told = {f"flwr-{name}": value for name, value in named.items()}
        self.told |= {f"dualfl-{name}": value for name, value in told.items()}
        self.told[FLEET_HTTP_PUBLIC_KEY_HEADER] = base64.b64encode(public).decode()

    def intercept(self, context: Any, call_next: Any) -> Any:
        now = datetime.datetime.fromtimestamp(time.time(), datetime.UTC).isoformat()
        signature = base64.b64encode(sign_message(self.private, now.encode())).decode()
        signed = {TIMESTAMP_HEADER: now, FLEET_HTTP_SIGNATURE_HEADER: signature}
        context.request.headers.update(self.told | signed)
        return call_next(context)


class Fleet:
    """Logs in, fetches messages, hands answers over.

    address : HOST:PORT of the coordinator's proxy.
    ca : its certificate; None: no TLS.
    login : the private key by which this silo logs in.
    note : where the number that the coordinator gives is kept.
    told : a few words for the coordinator's list of silos.
    """

    def __init__(self, address: str, ca: Path | None, login: bytes, note: Path, told: Mapping[str, str]) -> None:
        private: Any = load_ssh_private_key(login, None)
        self.note, self.secure = note, ca is not None
        self.public = public_key_to_bytes(private.public_key())
        interceptors = [Headers(private, self.public, told)]
        root = None if ca is None else ca.read_bytes()
        self.client = FleetHttpClient.from_server_address(address, ca is None, root, interceptors)
        self.node: Any = None
        self._heart: threading.Thread | None = None
        self._ended = threading.Event()
        self.alive: Callable[[], None] = lambda: None  # called now and then, also while an answer is computed
        self.refused: Callable[[str], None] = lambda why: None  # called with the reason, for the audit log

    # -- in and out ----------------------------------------------------------------------------------

    def open(self) -> int:
        """Log in; returns the number of this node."""
        self._log_out_lost()
        with self._in_words():
            if not self.secure:
                with contextlib.suppress(httpx.HTTPStatusError):  # known already, from an earlier start
                    self.client.RegisterNode(RegisterNodeFleetRequest(public_key=self.public))
            found = self.client.ActivateNode(ActivateNodeRequest(public_key=self.public, heartbeat_interval=HEARTBEAT))
        self.node = Node(node_id=found.node_id)
        write_atomically(self.note, json.dumps({"node": str(found.node_id), "folder": mark(self.note.parent)}).encode())
        if self._heart is None:
            self._heart = threading.Thread(target=self._beat, daemon=True)
            self._heart.start()
        return int(found.node_id)

    def _log_out_lost(self) -> None:
        """What was logged in from this folder and was killed is logged out, so that nobody waits for it."""
        try:
            noted = json.loads(self.note.read_text())
            number = int(noted["node"]) if noted["folder"] == mark(self.note.parent) else None
        except (OSError, ValueError, KeyError, TypeError):
            return
        if number is not None:
            with contextlib.suppress(httpx.HTTPStatusError), self._in_words(also_status=False):
                self.client.DeactivateNode(DeactivateNodeRequest(node_id=number))

    def close(self) -> None:
        """Log out, as far as anybody hears it."""
        self._ended.set()
        if self.node is not None:
            with contextlib.suppress(httpx.HTTPError):
                self.client.DeactivateNode(DeactivateNodeRequest(node_id=self.node.node_id))
            self.note.unlink(missing_ok=True)
        self.client._client.close()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT):
            self.alive()
            node = self.node
            if node is not None:
                with contextlib.suppress(Exception):  # the loop hears of what lasts
                    known = self.client.SendNodeHeartbeat(
                        SendNodeHeartbeatRequest(node=node, heartbeat_interval=HEARTBEAT)
                    ).success
                    if not known:
                        self.node = None

    # -- messages --------------------------------------------------------------------------------------

    def once(self, answer: Callable[[bytes], bytes]) -> bool:
        """Answer one message, if there is one."""
        if self.node is None:
            self.open()
        with self._in_words():
            found = self.client.PullMessages(PullMessagesRequest(node=self.node))
        if not found.messages_list:
            return False
        run, tree = found.messages_list[0].metadata.run_id, found.message_object_trees[0]
        try:
            message = self._pull(run, tree)
            self._push(run, self._reply(message, answer))
        except httpx.HTTPStatusError as error:
            if error.response.status_code == 401:
                raise NotLetIn(self._why_refused(error)) from error
            # the run has ended meanwhile: nobody waits for this answer
        except (ObjectPullError, httpx.HTTPError):
            pass  # lost on the way; the coordinator asks again, and gets the same answer
        return True

    def _reply(self, message: Any, answer: Callable[[bytes], bytes]) -> Any:
        try:
            request = from_content(message.content)
        except Exception:  # whatever it is, it is not one of ours
            self.refused(NOT_OURS)
            return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, NOT_OURS), reply_to=message)
        return Message(to_content(answer(request)), reply_to=message)

    def _pull(self, run: int, tree: Any) -> Any:
        message = pull_and_inflate_object_from_tree(
            tree,
            make_pull_object_fn_protobuf(self._patiently(self.client.PullObject), self.node, run),
            make_confirm_message_received_fn_protobuf(
                self._patiently(self.client.ConfirmMessageReceived), self.node, run
            ),
            return_type=Message,
        )
        message.metadata.__dict__["_message_id"] = tree.object_id  # which a message does not hold itself
        return message

    def _push(self, run: int, reply: Any) -> None:
        reply.metadata.__dict__["_message_id"] = reply.object_id
        bare = message_to_proto(remove_content_from_message(reply) if reply.has_content() else reply)
        with no_object_id_recompute():
            request = PushMessagesRequest(
                node=self.node, messages_list=[bare], message_object_trees=[get_object_tree(reply)]
            )
            taken = self._patiently(self.client.PushMessages)(request)
            push_objects(
                get_all_nested_objects(reply),
                make_push_object_fn_protobuf(
                    self._patiently(self.client.PushObject), self.node, run_id=run, session_id=taken.session_id
                ),
                object_ids_to_push=set(taken.objects_to_push),
            )

    def _patiently(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Again while nobody answers: what a silo has computed is worth a minute's trying."""

        def tried(request: Any) -> Any:
            end, pause = time.monotonic() + PERSISTENCE, 0.5
            while True:
                try:
                    return call(request)
                except (httpx.TransportError, httpx.HTTPStatusError) as error:
                    final = isinstance(error, httpx.HTTPStatusError) and error.response.status_code not in RETRIED
                    if final or time.monotonic() > end or self._ended.is_set():
                        raise
                self.alive()
                time.sleep(pause)
                pause = min(2 * pause, 5.0)

        return tried

    # -- words -----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _in_words(self, also_status: bool = True) -> Any:
        """What goes wrong becomes a sentence that an operator can use."""
        try:
            yield
        except httpx.HTTPStatusError as error:
            if error.response.status_code in RETRIED:
                raise Unreachable("The coordinator is being started, or is busy; this silo tries again.") from error
            if not also_status:
                raise
            raise NotLetIn(self._why_refused(error)) from error
        except httpx.HTTPError as error:
            raise Unreachable(in_words(error)) from error

    def _why_refused(self, error: httpx.HTTPStatusError) -> str:
        self.node = None
        off = clock_difference(error.response.headers.get("date"))
        if off is not None and abs(off) > SKEW:
            return (
                f"The clock of this machine is {told_time(abs(off))} {'ahead of' if off > 0 else 'behind'} the "
                "coordinator's, which lets nobody in whose clock is wrong; set it, by NTP."
            )
        return LOCKED_OUT


def in_words(error: Exception) -> str:
    """A sentence for what the network or TLS said."""
    said = str(error)
    for sign, sentence in SENTENCES.items():
        if sign in said:
            return sentence
    return f"The coordinator cannot be reached ({type(error).__name__}: {said}); this silo tries again."


def clock_difference(date: str | None) -> float | None:
    """Seconds by which this machine's clock is ahead of the one that wrote this header.

    >>> clock_difference("Tue, 01 Jan 2030 00:00:00 GMT") < 0 or time.time() > 1893456000
    True
    """
    try:
        return time.time() - email.utils.parsedate_to_datetime(date or "").timestamp()
    except (TypeError, ValueError):
        return None


def told_time(seconds: float) -> str:
    """
    >>> told_time(90), told_time(7200), told_time(86400)
    ('90 s', '2.0 hours', '24.0 hours')
    """
    return f"{seconds:.0f} s" if seconds < 3600 else f"{seconds / 3600:.1f} hours"
