"""Real services, as operators start them: killed, stopped, cut off, behind a proxy. `make test-deploy` runs this."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("flwr", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from real import Real

from dualfl.deploy import service
from dualfl.deploy.condition import condition
from dualfl.deploy.running import under_way
from dualfl.federation.flower import runtime

pytestmark = pytest.mark.faults
RECOVERY = 90.0  # seconds, for any single kill
FIRST = 600.0  # for the first start, where nothing is measured: all programs load their libraries at once


class OutgoingProxy:
    """CONNECT and nothing else, as companies have it."""

    def __init__(self) -> None:
        self.asked = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near) -> None:
        head = b""
        with near, contextlib.suppress(OSError):
            while b"\r\n\r\n" not in head:
                head += near.recv(4096)
            verb, target = head.split()[:2]
            self.asked.append((verb, target))
            host, port = target.decode().split(":")
            with socket.create_connection((host, int(port))) as far:
                near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=self._pass, args=(far, near), daemon=True)
                back.start()
                self._pass(near, far)
                back.join()

    def _pass(self, source, sink) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                sink.sendall(piece)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


class Services:
    def __init__(self, folder: Path) -> None:
        self.real = Real(folder)
        self.folder, self.study = folder, folder / "coordinator"
        (folder / "dualfl").mkdir()  # as after a clone: Flower takes the name of its connection for this folder
        self.outgoing, self.begun = OutgoingProxy(), {}

    def command(self, *words, **env):
        with open(self.folder / f"{words[0]}.log", "ab") as log:
            command = [sys.executable, "-m", "dualfl", "deploy", *map(str, words)]
            return subprocess.Popen(command, cwd=self.folder, env=os.environ | env, stdout=log, stderr=log)

    def start(self, name: str) -> None:
        verb = "start" if name == "coordinator" else "serve"
        more = {"HTTPS_PROXY": self.outgoing.url} if name == "beta" else {}
        self.begun[name] = self.command(verb, name, "--page", "0", **more)

    def connected(self) -> bool:
        states = {silo["name"]: silo for silo in condition(self.study)["silos"]}
        fresh = all(silo["state"] == "connected" for silo in states.values())
        return fresh and all(condition(self.folder / name)["state"] == "connected" for name in self.real.names)

    def pids(self, name: str) -> dict[str, int]:
        record = service.read_record(self.folder / name)
        found = {"service": record["service"]["pid"]} | {key: part["pid"] for key, part in record["parts"].items()}
        if name == "coordinator":  # Flower's SuperExec, and the process that bears runs
            found["superexec"] = child(found["superlink"])
            found["nursery"] = child(found["superexec"])
        return found


def child(pid: int) -> int:
    """The first process that this one has started; 0 if there is none."""
    return int((subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split() or [0])[0])


def until(true, seconds=RECOVERY):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    made = Services(tmp_path_factory.mktemp("services"))
    try:
        for name in ("coordinator", *made.real.names):
            made.start(name)
        until(made.connected, FIRST)
        yield made
    finally:
        for name in ("coordinator", *made.real.names):
            service.stop(made.folder / name)
        for process in made.begun.values():
            process.wait(30)
        made.outgoing.listener.close()


def test_a_silo_reaches_the_coordinator_through_an_outgoing_proxy(services):
    port = services.real.project.settings.port
    assert (b"CONNECT", f"127.0.0.1:{port}".encode()) in services.outgoing.asked


def test_kill_9_of_serve_leaves_nothing_and_the_next_one_is_let_in_at_once(services):
    before = services.pids("alpha")
    os.kill(before["service"], signal.SIGKILL)
    services.begun["alpha"].wait()
    until(lambda: all(service.identity(pid) is None for pid in before.values()), 5.0)
    services.start("alpha")
    until(lambda: condition(services.folder / "alpha")["state"] == "connected" and services.connected())


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("beta", "silo"),
        ("coordinator", "superlink"),
        ("coordinator", "proxy"),
        ("coordinator", "superexec"),
        ("coordinator", "nursery"),
    ],
)
def test_a_part_that_is_killed_or_hangs_is_replaced_without_a_hand(services, name, part, sign):
    if (part, sign) == ("nursery", signal.SIGSTOP):
        pytest.skip("is noticed when a run is ordered, by test_nursery.py")
    until(lambda: services.pids(name)[part])
    before = services.pids(name)[part]
    os.kill(before, sign)
    until(lambda: services.pids(name)[part] not in (0, before), RECOVERY)
    until(lambda: service.identity(before) is None, 5.0)  # nor does it stay behind
    until(services.connected)


def test_kill_9_of_start_frees_the_ports_and_the_next_one_goes_on(services):
    before = services.pids("coordinator")
    os.kill(before["service"], signal.SIGKILL)
    services.begun["coordinator"].wait()
    until(lambda: all(service.identity(pid) is None for pid in before.values()), 10.0)
    settings = services.real.project.settings
    for host, port in (("127.0.0.1", settings.superlink_port), ("0.0.0.0", settings.port)):
        runtime.check_port(host, port, "it", "port")
    services.start("coordinator")
    until(services.connected, 180.0)


def test_a_polite_restart_of_a_silo_does_not_lock_it_out(services):
    log = services.folder / "beta" / "logs" / "service.log"
    before = len(log.read_text())
    assert service.stop(services.folder / "beta") == services.begun["beta"].pid
    assert services.begun["beta"].wait(30) == 0
    began = time.monotonic()
    services.start("beta")
    until(lambda: condition(services.folder / "beta")["state"] == "connected", 60.0)
    assert "not admitted" not in log.read_text()[before:] and time.monotonic() - began < 60


def test_sigterm_ends_a_run_with_what_it_has_and_the_same_command_goes_on(services):
    words = ("run", "coordinator", "--algorithm", "dualfl", "--rounds", "400", "--name", "ended")
    work = services.study / "runs" / "ended" / "work"
    one = services.command(*words)
    until(lambda: (work / "rows.jsonl").exists() and (work / "checkpoint.npz").exists(), 180.0)
    assert [name for name, *_ in under_way(services.study)] == ["ended"]
    done = subprocess.run(
        [sys.executable, "-m", "dualfl", "deploy", "stop", "coordinator", "--run", "all"],
        cwd=services.folder,
        capture_output=True,
        text=True,
    )
    assert "Ended: ended." in done.stdout
    assert one.wait(60) != 0 and (work / "checkpoint.npz").exists()
    assert not (services.study / "runs" / "ended" / "model.npz").exists()
    until(lambda: not list(under_way(services.study)), 10.0)
    assert services.command(*words).wait(300) == 0
    assert json.loads((services.study / "runs" / "ended" / "run.json").read_text())
