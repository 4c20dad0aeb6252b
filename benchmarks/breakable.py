"""A coordinator and silos as services of this machine, and everything that can break of them (`benchmarks.soak`)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dualfl.deploy import member, project, service
from dualfl.federation.flower import runtime
from dualfl.federation.policy import OPEN

WRONG_CLOCK = """
import os, time
true = time.time

def wrong():
    return true() + float(open(os.environ["DUALFL_SOAK_CLOCK"]).read())

time.time = wrong
"""  # what Python runs before anything else in the processes of one silo
BROKEN = 20.0  # seconds for which something is cut, full or wrong
PROGRAMS = {
    "dualfl.deploy.coordinator": "coordinator's service",
    "dualfl.deploy.superlink": "SuperLink",
    "dualfl.deploy.nursery": "SuperExec, and who bears runs",
    "dualfl.deploy.proxy": "proxy",
    "dualfl.deploy.silo_service": "silos' services",
    "dualfl.deploy.silo_process": "silos' processes",
}
DISK = 64  # MiB of the file system of a silo whose disk runs full


class Relay:
    """A cable that can be cut."""

    def __init__(self, target: int, port: int = 0) -> None:
        self.target, self.cut, self.open = target, False, set()
        self.listener = socket.create_server(("127.0.0.1", port), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self.listener.accept()
            try:
                if self.cut:
                    raise OSError
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            for one, other in ((near, far), (far, near)):
                self.open.add(one)
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                sink.sendall(piece)
        for each in (source, sink):
            self.open.discard(each)
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def cut_all(self) -> None:
        self.cut = True
        for each in list(self.open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Kept:
    """A command that is started again whenever it ends, as systemd does it."""

    def __init__(self, command: list[str], env: dict[str, str], log: Path) -> None:
        self.command, self.env, self.log, self.ended, self.starts = command, env, log, False, 0
        self._start()
        self.thread = threading.Thread(target=self._keep, daemon=True)
        self.thread.start()

    def _start(self) -> None:
        self.starts += 1
        with open(self.log, "ab") as file:
            self.process = subprocess.Popen(
                self.command, env=self.env, stdout=file, stderr=file, stdin=subprocess.DEVNULL
            )

    def _keep(self) -> None:
        while not self.ended:
            self.process.wait()
            if not self.ended:
                time.sleep(5)
                self._start()

    def stop(self) -> None:
        self.ended = True
        self.process.terminate()
        self.process.wait()


def write_data(folder: Path, silos: int, rows: int = 60, columns: int = 5) -> list[Path]:
    rng, paths = np.random.default_rng(7), []
    folder.mkdir(parents=True)
    for j in range(silos):
        X = rng.normal(size=(rows, columns))
        y = (X.sum(axis=1) + 2 * rng.normal(size=rows) > 0).astype(int)
        lines = [",".join(map(repr, [*x, t])) for x, t in zip(X.tolist(), y.tolist())]
        paths.append(folder / f"{j}.csv")
        paths[-1].write_text(",".join([*(f"x{k}" for k in range(columns)), "sick"]) + "\n" + "\n".join(lines) + "\n")
    return paths


class Federation:
    """A coordinator and silos as services of this machine."""

    def __init__(self, folder: Path, silos: int) -> None:
        self.folder, self.names = folder, [f"silo-{j}" for j in range(silos)]
        self.services: dict[str, Kept] = {}
        self.clock = folder / "clock" / "seconds"
        there = (folder / "coordinator").exists()
        self.disk = os.path.ismount(folder / self.names[-1]) if there else small_disk(folder / self.names[-1])
        if there:
            self.project = project.Project(folder / "coordinator")
            settings = json.loads((folder / self.names[0] / "silo.json").read_text())
            self.relay = Relay(self.project.settings.port, int(settings["coordinator"].rpartition(":")[2]))
            return
        ports = runtime.free_port(), runtime.free_port()
        self.project = project.init(
            folder / "coordinator", project.ProjectSettings("127.0.0.1", tuple(self.names), *ports, patience=600.0)
        )
        self.relay = Relay(self.project.settings.port)
        files = write_data(folder / "data", silos)
        self.project.admit([self._join(name, file) for name, file in zip(self.names, files)])
        for name in self.names:
            member.trust(folder / name, folder / "coordinator" / "for-silos" / "roster.json")

    def _join(self, name: str, file: Path) -> str:
        port = self.relay.port if name == self.names[0] else self.project.settings.port
        ca = self.folder / "coordinator" / "for-silos" / "ca.crt"
        return member.join(self.folder / name, name, file, "sick", f"127.0.0.1:{port}", ca, policy=OPEN)[0]

    def start(self) -> None:
        for name in ("coordinator", *self.names):
            env = dict(os.environ)
            if name == self.names[1]:
                self.clock.parent.mkdir(exist_ok=True)
                self.clock.write_text("0")
                (self.clock.parent / "sitecustomize.py").write_text(WRONG_CLOCK)
                path = os.pathsep.join(filter(None, [str(self.clock.parent), env.get("PYTHONPATH", "")]))
                env |= {"PYTHONPATH": path, "DUALFL_SOAK_CLOCK": str(self.clock)}
            verb = "start" if name == "coordinator" else "serve"
            command = [sys.executable, "-m", "dualfl", "deploy", verb, str(self.folder / name), "--page", "0"]
            self.services[name] = Kept(command, env, self.folder / f"{name}.log")

    def stop(self) -> None:
        for kept in self.services.values():
            kept.stop()

    def remove(self) -> None:
        if self.disk:
            subprocess.run(["umount", self.folder / self.names[-1]], check=False)
        shutil.rmtree(self.folder)

    def pid(self, name: str, part: str | None) -> int:
        record = service.read_record(self.folder / name)
        return int(record["service"]["pid"] if part is None else record["parts"][part]["pid"])

    # -- faults --------------------------------------------------------------------------------------

    @property
    def faults(self) -> dict[str, Callable[[], None]]:
        found: dict[str, Callable[[], None]] = {
            "kill a silo's process": lambda: os.kill(self.pid(self.names[2], "silo"), signal.SIGKILL),
            "cut the connection": self.cut,
            "kill the SuperLink": lambda: os.kill(self.pid("coordinator", "superlink"), signal.SIGKILL),
            "stop a silo's process": lambda: os.kill(self.pid(self.names[3], "silo"), signal.SIGSTOP),
            "kill a silo's service": lambda: os.kill(self.pid(self.names[2], None), signal.SIGKILL),
            "kill the proxy": lambda: os.kill(self.pid("coordinator", "proxy"), signal.SIGKILL),
            "stop the SuperLink": lambda: os.kill(self.pid("coordinator", "superlink"), signal.SIGSTOP),
            "kill the coordinator's service": lambda: os.kill(self.pid("coordinator", None), signal.SIGKILL),
            "clock a day ahead": self.step,
        }
        if self.disk:
            found["full disk"] = self.fill
        return found

    def cut(self) -> None:
        self.relay.cut_all()
        time.sleep(BROKEN)
        self.relay.cut = False

    def fill(self) -> None:
        full = self.folder / self.names[-1] / "full"
        with contextlib.suppress(OSError), open(full, "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        time.sleep(BROKEN)
        full.unlink()

    def step(self) -> None:
        self.clock.write_text("86400")
        time.sleep(BROKEN)
        self.clock.write_text("0")

    # -- what is there -------------------------------------------------------------------------------

    def census(self) -> dict[str, float]:
        """Processes, memory and files of all of it."""
        tree, found = children(), [int(kept.process.pid) for kept in self.services.values()]
        for pid in found:
            found += tree.get(pid, [])
        memory = dict.fromkeys(PROGRAMS.values(), 0.0)
        for pid in found:
            memory[program(pid)] = memory.get(program(pid), 0.0) + own_memory(pid) / 2**20
        born = sum("dualfl.deploy.nursery" in command_of(pid) for pid in found)
        silos = [path for name in self.names for path in (self.folder / name).rglob("*") if path.is_file()]
        return {
            "processes": len(found),
            "run processes": born - 2,  # beside the SuperExec and the process that bears them
            "memory, MB": round(sum(memory.values())),
            **{f"- {whose}": round(size, 1) for whose, size in memory.items()},
            "files of silos": len([path for path in silos if "ended" not in path.parts]),
            "experiments open at silos": sum(
                len(list((self.folder / n / "experiments").glob("*"))) for n in self.names
            ),
            "database, MB": round((self.folder / "coordinator" / "state.db").stat().st_size / 2**20, 1),
        }


def small_disk(folder: Path) -> bool:
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}m", "tmpfs", str(folder)]
    return os.geteuid() == 0 and shutil.which("mount") is not None and subprocess.run(command).returncode == 0


def children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = stat.read_text().rpartition(")")[2].split()
            found.setdefault(int(words[1]), []).append(int(stat.parent.name))
    return found


def command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def program(pid: int) -> str:
    """What people call this process."""
    return next((title for module, title in PROGRAMS.items() if module in command_of(pid)), "others")


def own_memory(pid: int) -> int:
    """Bytes that are this process's own; what it shares with those it was forked from is divided among them.

    Libraries that are mapped from files are left out: they cannot grow, and how much of them counts for a process
    depends on who else on the machine has them.
    """
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon:"):
                return 1024 * int(line.split()[1])
    return 0
