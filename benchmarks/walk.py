"""The walk of docs/fit.md at three real silos: its commands as they stand there, timed one by one.

    python -m benchmarks.walk [--save]

Flower carries the messages, with TLS, keys and masks; coordinator and silos are processes of this machine. After the
walk the fit is made again with a penalty chosen by cross-validation, and evaluated at the silos: all that a fit can be
asked for. Compared are the tables that the two walks end with. At most 90 s are asked for of each fit.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "results" / "walk.md"
SERVICES, MOST, READY = ("start", "serve"), 90.0, 120.0
FIT = "dualfl fit --study study --target readmitted --model logistic"
EVERYTHING = f"{FIT} --penalty l1 --alpha cv --out chosen"
SILOS = ("at-north", "at-river", "at-hill")


def blocks() -> Iterator[list[str]]:
    """The commands of the page, block by block, lines that go on joined."""
    page = (ROOT / "docs" / "fit.md").read_text(encoding="utf-8")
    for block in re.findall(r"(?:^    .*\n)+", page, re.MULTILINE):
        lines = re.sub(r"\\\n\s*", "", block).splitlines()
        if lines[0].split()[0] in ("cd", "dualfl"):
            yield [line.strip() for line in lines]


def tables(text: str) -> list[list[str]]:
    """The coefficients and the silos, without the suffix of files."""
    first, last = text.index("coefficient  "), text.index("files  ")
    return [line.split() for line in text[first:last].replace(".csv", "").splitlines() if "---" not in line]


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Walk:
    """Commands in one folder; services run until the end."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.services = folder, list[subprocess.Popen[bytes]]()
        self.port, self.inner = free_ports(2)
        self.times: list[tuple[str, float]] = []
        self.environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def words(self, line: str) -> list[str]:
        """With ports that are free."""
        line = line.removesuffix("&").replace("localhost:9443", f"localhost:{self.port}")
        more = f" --port {self.port} --superlink-port {self.inner}" if "deploy init" in line else ""
        return shlex.split(line + more)

    def run(self, line: str, ends: int | None = 0) -> str:
        began = time.perf_counter()
        done = subprocess.run(
            self.words(line), cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        self.times.append((line, time.perf_counter() - began))
        print(f"{self.times[-1][1]:6.1f} s  {line}", flush=True)
        if ends is not None and done.returncode != ends:
            raise SystemExit(f"{line}\n{done.stdout}{done.stderr}")
        return done.stdout

    def serve(self, line: str) -> None:
        with open(self.folder / f"service-{len(self.services)}.txt", "wb") as log:
            self.services.append(
                subprocess.Popen(self.words(line), cwd=self.folder, env=self.environment, stdout=log, stderr=log)
            )

    def wait(self) -> None:
        """Until everybody is there, as `deploy status` says."""
        began = time.perf_counter()
        while time.perf_counter() - began < READY:
            done = subprocess.run(
                self.words("dualfl deploy status study"),
                cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.stdout.count(" connected ") == len(SILOS):
                break
            time.sleep(0.5)
        self.times.append(("until all silos are connected", time.perf_counter() - began))
        print(f"{self.times[-1][1]:6.1f} s  {self.times[-1][0]}", flush=True)

    def end(self) -> None:
        for one in reversed(self.services):
            one.terminate()
        for one in self.services:
            one.wait(60)


def main(given: list[str]) -> None:
    found = [block for block in blocks() if any("dualfl fit" in line for line in block)]
    files, far = found[0], next(block for block in found if block[0].startswith("dualfl deploy init"))
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "hospitals"
        shutil.copytree(ROOT / "examples" / "hospitals", folder)
        walk, fits = Walk(folder), list[str]()
        here = tables(walk.run(files[1]))
        try:
            for line in far:
                if line.split()[2] in SERVICES:
                    walk.serve(line)
                    continue
                if "dualfl fit" in line and not fits:
                    walk.wait()
                waits = "dualfl fit" in line and not fits  # for the operators
                told = walk.run(line, 2 if waits else 0)
                fits += [told] if "dualfl fit" in line else []
            took = time.perf_counter() - began
            walk.run(EVERYTHING, 2)
            for silo in SILOS:
                walk.run(f"dualfl deploy approve {silo} --all once")
            walk.run(EVERYTHING)
            walk.run("dualfl evaluate chosen --study study", 2)
            for silo in SILOS:
                walk.run(f"dualfl deploy approve {silo} --all once")
            walk.run("dualfl evaluate chosen --study study")
        finally:
            walk.end()
    same = tables(fits[-1]) == here
    lines = list(report(walk.times, took, same))
    print("\n".join(lines))
    if "--save" in given:
        PLACE.write_text("\n".join(lines) + "\n")


def report(times: list[tuple[str, float]], took: float, same: bool) -> Iterator[str]:
    slowest = max(seconds for line, seconds in times if line.startswith(FIT))
    yield from ("# The walk of docs/fit.md at three real silos", "", "`python -m benchmarks.walk`", "")
    yield from (f"Load of the machine at the end, of {os.cpu_count()} processors: {os.getloadavg()[0]:.1f}.", "")
    yield f"The tables of the files and of the silos are {'the same' if same else 'NOT the same'}."
    yield (
        f"The walk took {took:.0f} s in all; the slowest fit at the silos {slowest:.1f} s; {MOST:.0f} s are asked for: "
        + ("reached." if slowest <= MOST else "MISSED.")
    )
    yield from ("", "| command | seconds |", "|---|---:|")
    for line, seconds in times:
        yield f"| `{line}` | {seconds:.1f} |"


if __name__ == "__main__":
    main(sys.argv[1:])
