"""A federation under load and faults: python -m benchmarks.soak [--analyses 500] [--silos 5] [--every 10] [--save]

Starts a coordinator and silos as operators do (`dualfl deploy start`, `dualfl deploy serve`), each started again when
it ends, as systemd would. Then one analysis after the other; in every tenth something breaks while it runs:

kill        kill -9 of a silo's process, a silo's service, the SuperLink, the proxy or the coordinator's service
stop        SIGSTOP of a silo's process or of the SuperLink
cut         every connection of a silo is cut, and new ones are refused for 20 seconds
full disk   the disk of a silo is full for 20 seconds (needs root: its folder is a small file system of its own)
clock       the clock of a silo is a day ahead for 20 seconds, as its processes see it

Every model must have the bits of the first, undisturbed one, and processes, files and memory must be in the end what
they were after the first analysis.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dualfl
from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes
from dualfl.deploy import member, project, service
from dualfl.federation.flower import runtime
from dualfl.federation.policy import OPEN
from dualfl.tables.summaries import Request

WRONG_CLOCK = """
import os, time
true = time.time

def wrong():
    return true() + float(open(os.environ["DUALFL_SOAK_CLOCK"]).read())

time.time = wrong
"""  # what Python runs before anything else in the processes of one silo
WISHES = Wishes(Request("sick"), influence=False)
BROKEN = 20.0  # seconds for which something is cut, full or wrong
DISK = 64  # MiB of the file system of a silo whose disk runs full


class Relay:
    """A cable that can be cut."""

    def __init__(self, target: int) -> None:
        self.target, self.cut, self.open = target, False, set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
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
        files = write_data(folder / "data", silos)
        settings = project.ProjectSettings(
            "127.0.0.1", tuple(self.names), runtime.free_port(), runtime.free_port(), patience=600.0
        )
        self.project = project.init(folder / "coordinator", settings)
        self.relay = Relay(settings.port)
        self.disk = small_disk(folder / self.names[-1])
        cards = [self._join(name, file) for name, file in zip(self.names, files)]
        self.project.admit(cards)
        for name in self.names:
            member.trust(folder / name, folder / "coordinator" / "for-silos" / "roster.json")
        self.services: dict[str, Kept] = {}
        self.clock = folder / "clock" / "seconds"

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
        if self.disk:
            subprocess.run(["umount", self.folder / self.names[-1]], check=False)

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
        pids = {int(kept.process.pid) for kept in self.services.values()}
        tree = children()
        for _ in range(5):
            pids |= set(itertools.chain.from_iterable(tree.get(pid, []) for pid in pids))
        memory = sum(resident(pid) for pid in pids) / 2**20
        silos = [path for name in self.names for path in (self.folder / name).rglob("*") if path.is_file()]
        return {
            "processes": len(pids),
            "memory, MB": round(memory),
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


def resident(pid: int) -> int:
    """Bytes of memory that are this process's, those shared with others divided among them."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024 * int(line.split()[1])
    return 0


@contextlib.contextmanager
def disturbed(fault: Callable[[], None] | None, seconds: float) -> Iterator[None]:
    thread = None if fault is None else threading.Thread(target=lambda: (time.sleep(seconds), fault()))
    if thread is not None:
        thread.start()
    yield
    if thread is not None:
        thread.join()


def soak(analyses: int, silos: int, every: int, hours: float, note: Callable[[dict[str, Any]], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="dualfl-soak-") as temporary:
        federation = Federation(Path(temporary), silos)
        federation.start()
        end = time.monotonic() + 3600 * hours
        try:
            expected, faults, rng = None, itertools.cycle(federation.faults.items()), np.random.default_rng(1)
            wait_for(federation)
            for number in range(1, analyses + 1):
                if time.monotonic() > end:
                    break
                name, fault = next(faults) if number % every == 0 else ("", None)
                begun, sentences = time.monotonic(), []
                study = dualfl.connect(federation.folder / "coordinator", patience=600, say=sentences.append)
                with disturbed(fault, float(rng.uniform(4, 15))):
                    try:
                        theta = study.fit(Recipe("logistic"), WISHES, fresh=True).theta
                        error = ""
                    except dualfl.DualflError as failure:
                        theta, error = np.zeros(0), str(failure)
                expected = theta if expected is None else expected
                row = {"analysis": number, "fault": name, "seconds": round(time.monotonic() - begun, 1)}
                row |= {"same bits": bool(np.array_equal(theta, expected)), "error": error} | federation.census()
                note(row)
        finally:
            federation.stop()


def wait_for(federation: Federation, seconds: float = 600.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        said = [federation.folder / name / "service" / "said.json" for name in federation.names]
        if all(path.exists() and json.loads(path.read_text())["state"] == "connected" for path in said):
            return
        time.sleep(1)
    said = [path.read_text() for path in federation.folder.glob("*.log")]
    raise SystemExit("The silos have not connected:\n" + "\n".join(said))


def table(rows: list[dict[str, Any]], asked: int) -> str:
    calm = [row["seconds"] for row in rows if not row["fault"]]
    broken = [row for row in rows if row["fault"]]
    measured = ("processes", "memory, MB", "files of silos", "experiments open at silos", "database, MB")
    lines = [
        "# A federation of five silos, one analysis after the other, with faults",
        "",
        f"By `python -m benchmarks.soak {' '.join(sys.argv[1:])}`, on two processors that others used too.",
        "",
        f"- Analyses: {len(rows)} of {asked}" + ("" if len(rows) == asked else " (the rest was not run: time)"),
        f"- Without the bits of the first: {sum(not row['same bits'] for row in rows)}",
        f"- Ended by an error: {sum(bool(row['error']) for row in rows)}",
        f"- Undisturbed: median {statistics.median(calm):.0f} s, longest {max(calm):.0f} s",
        "",
        "| fault | times | same bits | seconds, longest | longer than undisturbed by at most |",
        "|---|---|---|---|---|",
    ]
    for fault in dict.fromkeys(row["fault"] for row in broken):
        these = [row for row in broken if row["fault"] == fault]
        longest = max(row["seconds"] for row in these)
        good = sum(row["same bits"] for row in these)
        lines.append(
            f"| {fault} | {len(these)} | {good} | {longest:.0f} | {max(0.0, longest - statistics.median(calm)):.0f} s |"
        )
    lines += ["", "| | after the first | after the last |", "|---|---|---|"]
    lines += [f"| {what} | {rows[0][what]} | {rows[-1][what]} |" for what in measured]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analyses", type=int, default=500)
    parser.add_argument("--silos", type=int, default=5)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--hours", type=float, default=24.0, help="begin no analysis after so long")
    parser.add_argument("--save", type=Path, nargs="?", const=Path("results/soak.md"))
    given, rows = parser.parse_args(), []

    def note(row: dict[str, Any]) -> None:
        rows.append(row)
        print(json.dumps(row), flush=True)
        if given.save:
            given.save.write_text(table(rows, given.analyses))

    soak(given.analyses, given.silos, given.every, given.hours, note)
    print(table(rows, given.analyses))


if __name__ == "__main__":
    main()
