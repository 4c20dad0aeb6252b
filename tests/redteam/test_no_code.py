"""A coordinator that submits an app of its own, and a local user who takes a silo's tasks or submits runs."""

import hashlib
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

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Flower uses what others have deprecated
    from flwr.app import ConfigRecord, Context, Message, RecordDict
    from flwr.supercore.constant import TaskType
    from flwr.supercore.fab import Fab
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
    from flwr.supercore.object_store import ObjectStoreFactory
    from flwr.supercore.run import Run
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.supernode.main import create_app
    from flwr.supernode.nodestate import NodeStateFactory

    from dualfl.federation.flower.executor import NOT_OURS, Executor

from dualfl.deploy.superlink import Mine, hexadecimal, is_mine, owner
from dualfl.federation.flower.records import to_content

SECRET = b"of this start"
HOSTILE = b"an app that would return the data file and the keys, were it ever unpacked"


@pytest.fixture
def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def serve(port):
    """Apps on loopback, in threads."""
    servers = []

    def start(app):
        server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", port, log_level="error", ws="none"))
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


@pytest.fixture
def supernode(serve):
    """The runtime port of a SuperNode as Flower has it, and what is in its state; `put` gives it a message."""
    objects = ObjectStoreFactory()
    states = NodeStateFactory(objectstore_factory=objects)
    serve(create_app(states, SECRET))
    state, store = states.state(), objects.store()
    state.set_node_id(7)
    run = Run.create_empty(11)
    run.fab_hash = hashlib.sha256(HOSTILE).hexdigest()
    state.store_run(run)
    state.store_fab(Fab(run.fab_hash, HOSTILE, {}))
    state.set_run_series_context(run.series_id, Context(11, 7, {}, RecordDict(), {}))

    def put(content):
        state.create_task(task_type=TaskType.CLIENT_APP, run_id=11, fab_hash=run.fab_hash)
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 11, 1, 1
        message = Message(content, dst_node_id=7, message_type="train")
        message.metadata.__dict__ |= {"_run_id": 11, "_src_node_id": 1}
        message.metadata.__dict__["_message_id"] = message.object_id
        store.preregister(11, get_object_tree(message))
        for name, each in get_all_nested_objects(message).items():
            store.put(name, each.deflate())
        state.store_message(message)

    state.put = put
    return state


@pytest.fixture
def executor(port):
    made = []

    def make(secret, answer):
        made.append(Executor(f"127.0.0.1:{port}", secret, answer))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_f_an_app_is_never_unpacked_and_its_messages_are_refused(supernode, executor, monkeypatch):
    heard = []

    def answer(request):
        heard.append(request)
        return b"an answer"

    monkeypatch.setattr("flwr.cli.install.install_from_fab", lambda *a, **k: pytest.fail("unpacked"))
    silo = executor(SECRET, answer)
    assert not silo.once()
    supernode.put(RecordDict({"steal": ConfigRecord({"path": "patients.csv"})}))
    assert silo.once() and heard == []
    (reply,) = supernode.get_messages_legacy(is_reply=True)
    assert reply.has_error() and reply.error.reason == NOT_OURS
    supernode.put(to_content(b"a question"))
    assert silo.once() and heard == [b"a question"]
    (reply,) = supernode.get_messages_legacy(is_reply=True)
    assert not reply.has_error()


def test_f_a_local_user_without_the_secret_gets_no_task(supernode, executor, port):
    supernode.put(to_content(b"a question"))
    stranger = executor(b"a guess", lambda request: b"forged")
    assert not stranger.once()
    kind = {"content-type": "application/protobuf"}
    bare = httpx.post(f"http://127.0.0.1:{port}/v1/runtime/acquire-task", content=b"", headers=kind)
    assert bare.status_code in (401, 403)
    assert supernode.get_messages_legacy(is_reply=True) == []
    assert executor(SECRET, lambda request: b"true").once()


# -- the coordinator's own port --------------------------------------------------------------------------

TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2400 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 77 1
   1: 0100007F:C350 0100007F:2400 01 00000000:00000000 00:00000000 00000000  1001        0 78 1
   2: 0100007F:C351 0100007F:2400 05 00000000:00000000 00:00000000 00000000     0        0 0 1
   3: 0100007F:C352 0100007F:2400 01 00000000:00000000 00:00000000 00000000     0        0 0 1
"""


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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose a connection is")
def test_f_another_user_of_the_coordinators_machine_does_not_reach_the_control_port(serve, port):
    serve(Mine(hello))
    address = f"http://127.0.0.1:{port}/v1/control/start-run"
    assert httpx.get(address).text == "control"
    assert not is_mine(("127.0.0.1", 9), ("127.0.0.1", port))
    if os.getuid() == 0:  # only root can be somebody else
        done = subprocess.run([sys.executable, "-c", ASK, address], capture_output=True, text=True)
        assert "403" in done.stderr
