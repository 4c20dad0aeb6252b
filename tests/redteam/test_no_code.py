"""A coordinator that submits an app of its own, and a local user who answers for a silo or submits runs."""

import os
import socket
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("flwr", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
import httpx
import uvicorn

sys.path.insert(0, str(Path(__file__).parents[1] / "deploy"))
from fleet_double import SuperLink

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Flower uses what others have deprecated
    from dualfl.federation.flower.fleet import Fleet

from dualfl.deploy import certificates, keys
from dualfl.deploy.superlink import Mine, hexadecimal, is_mine, owner


@pytest.fixture
def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def serve(port):
    """Apps on loopback, in threads."""
    servers = []

    def start(app, **options):
        server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", port, log_level="error", ws="none", **options))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        servers.append((server, thread))
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)

    yield start
    for server, thread in servers:
        server.should_exit = True
        thread.join()


@pytest.mark.unrefused("letters that are none never reach the keeper")
def test_f_an_app_is_never_fetched_and_its_messages_are_refused(tmp_path, monkeypatch):
    heard = []

    def answer(request):
        heard.append(request)
        return b"an answer"

    monkeypatch.setattr("flwr.cli.install.install_from_fab", lambda *a, **k: pytest.fail("unpacked"))
    # No other user of the silo's machine can take its tasks or answer for it: it opens no port.
    monkeypatch.setattr(socket.socket, "listen", lambda *a: pytest.fail("a port"))
    certificates.write_certificates(tmp_path, "example.org")
    silo = Fleet("example.org:1", tmp_path / "ca.crt", keys.new_key_pair()[0], tmp_path / "node.json", {})
    silo.client._client.close()
    superlink = silo.client = SuperLink()
    superlink.put(b"a question")
    assert silo.once(answer) and heard == [b"a question"]
    silo.once(answer)
    # Whatever a coordinator submits to Flower, this silo asks for letters of dualfl and for nothing else.
    assert superlink.replies() == [b"an answer"] and set(superlink.called) == {"ActivateNode", "talk"}
    silo.close()


# -- the coordinator's own port --------------------------------------------------------------------------

TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2400 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 77 1
   1: 0100007F:C350 0100007F:2400 01 00000000:00000000 00:00000000 00000000  1001        0 78 1
   2: 0100007F:C351 0100007F:2400 05 00000000:00000000 00:00000000 00000000     0        0 0 1
   3: 0100007F:C352 0100007F:2400 01 00000000:00000000 00:00000000 00000000     0        0 0 1
"""


@pytest.mark.unrefused("at the coordinator")
def test_whose_a_connection_is_by_the_kernels_table():
    server = ("127.0.0.1", 0x2400)
    lines = TABLE.splitlines()
    assert hexadecimal("127.0.0.1", 80) == "0100007F:0050"
    assert owner(lines, ("127.0.0.1", 50000), server) == 1001
    # Whoever sends a request and closes his socket at once would be listed as root.
    assert owner(lines, ("127.0.0.1", 50001), server) is None
    assert owner(lines, ("127.0.0.1", 50002), server) is None
    assert owner(lines, ("127.0.0.1", 50003), server) is None


async def hello(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"control"})


ASK = """
import encodings.idna, os, urllib.request, sys
os.setuid(65534)
print(urllib.request.urlopen(sys.argv[1]).status)
"""


@pytest.mark.unrefused("at the coordinator")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose a connection is")
def test_f_another_user_of_the_coordinators_machine_does_not_reach_the_control_port(serve, port):
    guard = Mine(hello)
    serve(guard, http=guard.protocol())
    address = f"http://127.0.0.1:{port}/v1/control/start-run"
    with httpx.Client() as client:
        assert client.get(address).text == client.get(address).text == "control"
        assert list(guard.known.values()) == [True]  # the kernel was asked once for both
    assert not is_mine(("127.0.0.1", 9), ("127.0.0.1", port))
    if os.getuid() == 0:  # only root can be somebody else
        done = subprocess.run([sys.executable, "-c", ASK, address], capture_output=True, text=True)
        assert "403" in done.stderr
