"""A silo's line to the coordinator: it logs in at Flower's fleet API, and talks to the letterbox beside it.

Flower's own SuperNode fetches the app that a coordinator submits, and hands messages to another process. Here nothing
is fetched but letters (`deploy.post`), and only their bytes go on, to `answer`. No port is opened. One request hands an
answer over and waits for the next letter, so a silo with nothing to do asks three times a minute, and one that is asked
hears it at once. Whatever gets lost on the way is repeated: the letter lies in its box until it has been answered.

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
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest, RegisterNodeFleetRequest
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message
from flwr.supernode.fleet_http_client import FleetHttpClient

from dualfl.errors import DualflError
from dualfl.federation.flower.envelope import HOLD, PIECE, TALK, pack, unpack
from dualfl.files import mark, write_atomically

HEARTBEAT = 30.0  # seconds, as Flower is told; it waits for two of them
BEAT = 15.0  # seconds between two that are sent
RETRIED = (429, 502, 503, 504)  # the proxy is busy, or the SuperLink behind it is being started
PATIENCE = httpx.Timeout(HOLD + 20.0, connect=15.0)  # seconds; the coordinator makes it wait for HOLD of them
SKEW = 60.0  # seconds by which clocks may differ before it is said

HUNG_UP, PLAIN = "Server disconnected", " If it speaks TLS, join again with --ca."

# What went wrong, and what an operator can do about it.
SENTENCES = {
    "certificate has expired": "The coordinator's certificate has expired, if this machine's clock is right; its "
    "operator makes a new one by `dualfl deploy renew`.",
    "certificate is not yet valid": "The coordinator's certificate is not valid yet; compare the clocks of the two "
    "machines.",
    "CERTIFICATE_VERIFY_FAILED": "The coordinator's certificate does not fit ca.crt; get the project's ca.crt again.",
    "WRONG_VERSION_NUMBER": "This silo speaks TLS and the coordinator does not; join again with --insecure.",
    HUNG_UP: "The coordinator hung up, as it does when it is stopped; this silo tries again.",
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

    def signed(self) -> dict[str, str]:
        now = datetime.datetime.fromtimestamp(time.time(), datetime.UTC).isoformat()
        signature = base64.b64encode(sign_message(self.private, now.encode())).decode()
        return self.told | {TIMESTAMP_HEADER: now, FLEET_HTTP_SIGNATURE_HEADER: signature}

    def intercept(self, context: Any, call_next: Any) -> Any:
        context.request.headers.update(self.signed())
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
        self.headers = Headers(private, self.public, told)
        root = None if ca is None else ca.read_bytes()
        self.client = FleetHttpClient.from_server_address(address, ca is None, root, [self.headers])
        self.address = f"{'http' if ca is None else 'https'}://{address}{TALK}"
        self.answer: tuple[str, bytes] | None = None  # what was computed and is not handed over yet
        self.node: Any = None
        self._heart: threading.Thread | None = None
        self._ended = threading.Event()
        self.alive: Callable[[], None] = lambda: None  # called now and then, also while an answer is computed

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

    # -- letters ---------------------------------------------------------------------------------------

    def once(self, answer: Callable[[bytes], bytes]) -> bool:
        """Hand over what was answered last, wait for a letter, and answer it; False if none came."""
        if self.node is None:
            self.open()
        with self._in_words():
            words, body = self._talk()
        self.answer = None
        if "letter" not in words:
            return False
        self.answer = str(words["letter"]), answer(body)
        return True

    def _talk(self) -> tuple[dict[str, Any], bytes]:
        """The next letter. An answer that is large goes in pieces, of which the last one waits for it."""
        words: dict[str, Any] = {"node": str(self.node.node_id), "wait": HOLD}
        if self.answer is None:
            return self._say(words)
        id, body = self.answer
        place, size = 0, len(body)
        while True:
            piece = body[place : place + PIECE]
            found, letter = self._say(words | {"answer": id, "place": place, "size": size}, piece)
            if "had" not in found:
                return found, letter
            place = int(found["had"])

    def _say(self, words: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        said = self.client._client.post(
            self.address, content=pack(words, body), headers=self.headers.signed(), timeout=PATIENCE
        )
        said.raise_for_status()
        try:
            return unpack(said.content)
        except ValueError as error:
            raise httpx.RemoteProtocolError(f"no letter came, but something else: {error}") from error

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
            raise Unreachable(in_words(error, self.secure)) from error

    def _why_refused(self, error: httpx.HTTPStatusError) -> str:
        self.node = None
        off = clock_difference(error.response.headers.get("date"))
        if off is not None and abs(off) > SKEW:
            return (
                f"The clock of this machine is {told_time(abs(off))} {'ahead of' if off > 0 else 'behind'} the "
                "coordinator's, so this silo is not let in; set the one that is wrong, by NTP."
            )
        return LOCKED_OUT


def in_words(error: Exception, secure: bool) -> str:
    """A sentence for what the network or TLS said."""
    said = str(error)
    for sign, sentence in SENTENCES.items():
        if sign in said:
            return sentence + (PLAIN if sign == HUNG_UP and not secure else "")
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
