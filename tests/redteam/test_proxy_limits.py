"""h: a stranger who posts much, or often, is turned away before anybody looks at a key."""

import asyncio
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("flwr", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from dualfl.deploy import proxy

pytestmark = pytest.mark.unrefused("the proxy of the coordinator")


def status(app, pieces, headers=()):
    """What comes back to a POST on the fleet path."""
    left, sent = list(pieces), []

    async def receive():
        return {"type": "http.request", "body": left.pop(0) if left else b"", "more_body": bool(left)}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "raw_path": b"/v1/fleet/push-object", "path": "/v1/fleet/push-object"}
    scope |= {"query_string": b"", "headers": list(headers), "client": ("192.0.2.1", 9)}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], len(left)


@pytest.fixture
def app():
    return proxy.make_app("http://127.0.0.1:9", None)


def test_h_what_is_too_large_is_cut_off(app):
    said, _ = status(app, [b""], [(b"content-length", b"400000000")])
    assert said == 413
    assert status(app, [b""], [(b"content-length", b"-1")])[0] == 413
    assert status(app, [b"small"])[0] == 502  # nobody is behind this proxy


def test_h_a_stream_that_does_not_end_is_cut_off():
    taken = []

    async def stream():
        for _ in range(400):
            taken.append(1)
            yield bytes(1 << 20)

    async def read():
        async for _ in proxy.limited(stream()):
            pass

    with pytest.raises(proxy.TooLarge):
        asyncio.run(read())
    assert len(taken) == 17


def test_h_one_address_has_so_many_requests_and_others_theirs():
    now = [0.0]
    bucket = proxy.Bucket(lambda: now[0])
    assert sum(bucket.take("192.0.2.1") for _ in range(2000)) == proxy.BURST
    assert bucket.take("192.0.2.2")
    now[0] = 1.0
    assert sum(bucket.take("192.0.2.1") for _ in range(100)) == proxy.RATE
    for number in range(proxy.ADDRESSES + 5):
        bucket.take(str(number))
    assert len(bucket.left) == proxy.ADDRESSES
