"""All that the world can reach of a coordinator: Flower's fleet path, and nothing else.

Flower serves silos, control and its own runtime on one port, and asks nobody who submits code for a name. So it listens
on loopback only, and this stands in front: POST to /v1/fleet/NAME is passed on, everything else gets 403. Requests that
are too large, too many at once or too many from one address are turned away before anybody looks at their key.

Whom the SuperLink has let in is noted, with the time of the last word and what the silo says of its version; and whose
clock is so wrong that nobody lets him in.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import json
import os
import re
import ssl
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from dualfl.deploy.service import allow_many_files
from dualfl.deploy.tidying import Tidy
from dualfl.federation.flower import lifeline
from dualfl.lines import plain_text

FLEET = re.compile(rb"/v1/fleet/[a-z-]+")
HOP_BY_HOP = {
    b"host",
    b"connection",
    b"keep-alive",
    b"transfer-encoding",
    b"te",
    b"trailer",
    b"upgrade",
    b"proxy-connection",
}


def allowed(method: str, raw_path: bytes, query: bytes) -> bool:
    """Whether a request may pass. The path is looked at as it came, before anybody decodes it.

    >>> allowed("POST", b"/v1/fleet/pull-messages", b"")
    True
    >>> allowed("POST", b"/v1/fleet/../control/start-run", b""), allowed("GET", b"/v1/fleet/x", b"")
    (False, False)
    """
    return method == "POST" and not query and FLEET.fullmatch(raw_path) is not None


LARGEST = 16 << 20  # bytes of a request; Flower cuts what is larger into pieces of 5 MiB
CONNECTIONS = 4000  # a silo holds one while it waits, and makes another for its heartbeat
KEPT = 60  # seconds for which a connection without a request is kept
GRACE = 2  # seconds that silos who wait for a letter have when this ends
RATE, BURST = 50.0, 1000.0  # requests a second of one address, and how many at once; a silo makes one an exchange
ADDRESSES = 10_000  # that are remembered
TIDIED = 60.0  # seconds between two times that memory is tidied


class TooLarge(Exception):
    """A request that Flower would never send."""


class Bucket:
    """How many requests an address may still make: it fills by `RATE` a second up to `BURST`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str) -> bool:
        now = self.clock()
        left, since = self.left.pop(address, (BURST, now))
        left = min(BURST, left + RATE * (now - since))
        self.left[address] = (max(left - 1.0, 0.0), now)
        while len(self.left) > ADDRESSES:
            self.left.popitem(last=False)
        return left >= 1.0


KEY, SIGNED_AT = "flwr-public-key", "flwr-timestamp"
TOLD = ("version", "protocol", "policy")  # headers of our own silos, as in dualfl-version
NOTED = 5.0  # seconds between two notes
POINT = 97  # bytes of a public key on P-384, at the end of every way of writing it
SKEW = 60.0  # seconds by which clocks may differ before it is said
STRANGERS = 1000  # whose clock is remembered: who is not let in may be anybody


def key_id(written: bytes) -> str:
    """The same for a key as OpenSSH, PEM or DER have it."""
    return hashlib.sha256(written[-POINT:]).hexdigest()[:32]


def key_of(headers: Any) -> str:
    """Whose request this is, or says it is."""
    return key_id(base64.b64decode(base64.b64decode(headers[KEY]).split(b"-----")[2]))


class Seen:
    """Who was let in, and when last; written to a file now and then."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.noted = path, 0.0
        self.silos: dict[str, dict[str, Any]] = {}
        self.clocks: OrderedDict[str, float] = OrderedDict()  # seconds by which that of a silo is ahead
        self.turned_away: dict[str, int] = {}
        if path is not None:
            with contextlib.suppress(OSError, ValueError, KeyError):
                self.silos = dict(json.loads(path.read_text())["silos"])

    def note(self, headers: Any, status: int, up: int) -> None:
        if status >= 400:
            self.turned_away[str(status)] = self.turned_away.get(str(status), 0) + 1
            with contextlib.suppress(ValueError, LookupError, TypeError):
                self._note_clock(key_of(headers), datetime.datetime.fromisoformat(headers[SIGNED_AT]).timestamp())
        elif KEY in headers:
            with contextlib.suppress(ValueError, LookupError):
                who = key_of(headers)
                before = self.silos.get(who, {"requests": 0, "bytes": 0})
                told = {word: plain_text(headers.get(f"dualfl-{word}", ""), 40) for word in TOLD}
                self.silos[who] = {
                    "time": time.time(),
                    "requests": before["requests"] + 1,
                    "bytes": before["bytes"] + up,
                    **told,
                }
                self.clocks.pop(who, None)
        if self.path is not None and time.monotonic() - self.noted > NOTED:
            self.write(self.path)

    def _note_clock(self, who: str, theirs: float) -> None:
        """Of one who was refused."""
        ahead = theirs - time.time()
        self.clocks.pop(who, None)
        if abs(ahead) > SKEW:
            self.clocks[who] = ahead
        while len(self.clocks) > STRANGERS:
            self.clocks.popitem(last=False)

    def write(self, path: Path) -> None:
        self.noted = time.monotonic()
        content = {"silos": self.silos, "clocks": self.clocks, "turned_away": self.turned_away, "time": time.time()}
        beside = path.with_name(f".{path.name}")
        with contextlib.suppress(OSError):  # a full disk must not end the proxy
            beside.write_text(json.dumps(content))  # not flushed to the disk: it is of this minute
            os.replace(beside, path)


async def limited(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The body piece by piece, up to the limit: who sends more is cut off before Flower has it all."""
    size = 0
    async for piece in stream:
        size += len(piece)
        if size > LARGEST:
            raise TooLarge
        yield piece


def make_app(target: str, ca: Path | None, seen: Path | None = None) -> Any:
    """The proxy as an ASGI app; `target` is the SuperLink's address on loopback."""
    import httpx
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, StreamingResponse

    verify: Any = True if ca is None else ssl.create_default_context(cafile=str(ca))
    client = httpx.AsyncClient(
        base_url=target,
        verify=verify,
        timeout=httpx.Timeout(600, connect=10),
        limits=httpx.Limits(max_connections=None, keepalive_expiry=KEPT / 2),  # every silo holds one
        trust_env=False,
    )

    bucket, book, tidy = Bucket(), Seen(seen), Tidy()
    tidied = time.monotonic()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal tidied
        if scope["type"] != "http":
            return
        if time.monotonic() - tidied > TIDIED:
            tidied = time.monotonic()
            tidy()
        request = Request(scope, receive)
        path = scope.get("raw_path") or scope["path"].encode()
        if not allowed(scope["method"], path, scope.get("query_string", b"")):
            await PlainTextResponse("Forbidden: only the fleet path is open.\n", 403)(scope, receive, send)
            return
        if not bucket.take((scope.get("client") or ("",))[0]):
            await PlainTextResponse("Too many requests.\n", 429)(scope, receive, send)
            return
        length = request.headers.get("content-length", "0")
        if not length.isdigit() or int(length) > LARGEST:
            await PlainTextResponse("Too large.\n", 413)(scope, receive, send)
            return
        headers = [(k, v) for k, v in request.headers.raw if k.lower() not in HOP_BY_HOP]
        passed = client.build_request("POST", path.decode(), headers=headers, content=limited(request.stream()))
        try:
            answer = await client.send(passed, stream=True)
        except TooLarge:
            await PlainTextResponse("Too large.\n", 413)(scope, receive, send)
            return
        except httpx.HTTPError:
            await PlainTextResponse("The SuperLink is not there.\n", 502)(scope, receive, send)
            return
        book.note(request.headers, answer.status_code, int(length))
        response = StreamingResponse(answer.aiter_raw(), answer.status_code)
        response.raw_headers = [(k.lower(), v) for k, v in answer.headers.raw if k.lower() not in HOP_BY_HOP]
        try:
            await response(scope, receive, send)
        finally:
            await answer.aclose()

    return app


def main(host: str, port: int, target: str, certificates: str, seen: str = "") -> None:
    import uvicorn

    ca: Path | None = None
    tls: dict[str, Any] = {}
    if certificates:
        folder = Path(certificates)
        ca = folder / "ca.crt"
        tls = {"ssl_certfile": str(folder / "server.pem"), "ssl_keyfile": str(folder / "server.key")}
    uvicorn.run(
        make_app(target, ca, Path(seen) if seen else None),
        host=host,
        port=port,
        log_level="warning",
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEPT,
        timeout_graceful_shutdown=GRACE,
        **tls,
    )


if __name__ == "__main__":
    lifeline.hold()
    allow_many_files()
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
