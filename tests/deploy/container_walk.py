"""A coordinator and three silos in containers, by the commands in the compose files' comments, and one analysis.

`python tests/deploy/container_walk.py FOLDER` needs podman, podman-compose and the image (DUALFL_IMAGE, or
localhost/dualfl); Debian's packages are podman, crun, catatonit, netavark and iptables. Every container has a network
of its own: silos reach the coordinator by its published port.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

CONTAINERS = Path(__file__).parents[2] / "containers"
HOSPITALS = Path(__file__).parents[2] / "examples" / "hospitals"
IMAGE = os.environ.get("DUALFL_IMAGE", "localhost/dualfl")
NAMES, TARGET = ("hill", "north", "river"), "readmitted"
USER = 10001
LIMITS = """[containers]
cgroups = "disabled"
default_ulimits = ["nofile={files}:{files}", "nproc=4096:4096"]
"""  # podman asks for more than a machine may have to give


def podman(*words: object) -> str:
    done = subprocess.run(["podman", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"podman {' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


class Organisation:
    """A folder with a compose file, as somebody would have it on a machine of his own."""

    def __init__(self, place: Path, name: str, kind: str, folder: str) -> None:
        self.place, self.name, self.kind = place / name, name, kind
        self.state = self.place / folder
        self.state.mkdir(parents=True)
        shutil.copyfile(CONTAINERS / f"compose.{kind}.yaml", self.place / "compose.yaml")
        os.chown(self.state, USER, USER)

    def once(self, *words: str) -> str:
        """A command in a container that is gone afterwards: docker run --rm."""
        data = self.place / "patients.csv"
        mounts = ["-v", f"{self.state}:/state"] + (["-v", f"{data}:/data/patients.csv:ro"] if data.exists() else [])
        return podman("run", "--rm", *mounts, IMAGE, *words)

    def compose(self, *words: str) -> None:
        command = [sys.executable, "-m", "podman_compose", "-p", f"dualfl-{self.name}", "--in-pod", "0", *words]
        done = subprocess.run(command, cwd=self.place, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")

    def inside(self, *words: str) -> str:
        """A command in the container that runs: docker compose exec."""
        return podman("exec", f"dualfl-{self.name}_{self.kind}_1", *words)

    def takes(self, path: Path) -> None:
        shutil.copyfile(path, self.state / path.name)
        os.chown(self.state / path.name, USER, USER)


def address() -> str:
    """Of this machine, as a container sees it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("192.0.2.1", 9))  # nothing is sent
        return str(s.getsockname()[0])


def until(what: str, true, seconds: float = 600.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not after {seconds:.0f} s.")
        time.sleep(1)


def walk(place: Path) -> None:
    host, files = address(), [HOSPITALS / f"{name}.csv" for name in NAMES]
    north = Organisation(place, "coordinator", "coordinator", "study")
    north.once("deploy", "init", "/state/study", "--silos", ",".join(NAMES), "--host", host)
    handed = north.state / "study" / "for-silos"
    silos = []
    for path, name in zip(files, NAMES):
        silo = Organisation(place, name, "silo", "silo")
        shutil.copyfile(path, silo.place / "patients.csv")
        silo.takes(handed / "ca.crt")
        where = ["--coordinator", f"{host}:9443", "--ca", "/state/ca.crt"]
        data = ["--data", "/data/patients.csv", "--target", TARGET, "--policy", "least_per_cell=1"]
        silo.once("deploy", "join", "/state/my-silo", "--name", name, *where, *data)
        shutil.copyfile(silo.state / "my-silo" / "card.txt", north.state / f"{name}.txt")
        silos.append(silo)
    north.once("deploy", "admit", "/state/study", *(f"/state/{name}.txt" for name in NAMES))
    for silo in silos:
        silo.takes(handed / "roster.json")
        silo.once("deploy", "trust", "/state/my-silo", "/state/roster.json")
    with contextlib.ExitStack() as stack:
        for one in (north, *silos):
            one.compose("up", "-d")
            stack.callback(one.compose, "down", "-t", "20")
        served(north, silos)
        fit(north, silos)


def served(north: Organisation, silos: list[Organisation]) -> None:
    """All are connected; nobody is root, and nobody can write outside his folder."""

    def connected() -> bool:
        with contextlib.suppress(OSError, ValueError):
            seen = json.loads((north.state / "study" / "service" / "seen.json").read_text())
            return len(seen["silos"]) == len(silos)
        return False

    until("the silos connect", connected)
    print("connected:", ", ".join(silo.name for silo in silos))
    for one, port in ((north, 9341), (silos[0], 9342)):
        assert one.inside("python", "-c", "import os; print(os.getuid())").strip() == str(USER)
        wrote = one.inside("python", "-c", WRITE)
        assert wrote.split() == ["/state", "/tmp"], wrote
        look = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/metrics', timeout=5).status)"
        assert one.inside("python", "-c", look).strip() == "200"  # what the healthcheck asks
    print("user", USER, "writes to /state and /tmp alone; status pages answer")


WRITE = """
import os
for place in ("/", "/opt/dualfl", "/etc", "/usr/bin", "/home", "/state", "/tmp"):
    try:
        open(os.path.join(place, ".written"), "w").close()
    except OSError:
        continue
    os.remove(os.path.join(place, ".written"))
    print(place)
"""


def fit(north: Organisation, silos: list[Organisation]) -> None:
    """The first time the plan waits for the operators; when they have approved it, there is a result."""
    words = ["fit", "--study", "/state/study", "--target", TARGET, "--model", "logistic", "--out", "/state/fit"]
    command = ["podman", "exec", f"dualfl-{north.name}_{north.kind}_1", "dualfl", *words]
    first = subprocess.run(command, capture_output=True, text=True)
    assert first.returncode == 2 and "the plan waits for this silo's operator" in first.stderr, first
    for silo in silos:
        said = silo.inside("dualfl", "deploy", "approve", "/state/my-silo", "--all", "once")
        assert f"target       {TARGET}" in said and "Noted: once." in said, said
    begun = time.monotonic()
    second = subprocess.run(command, capture_output=True, text=True)
    print(second.stdout + second.stderr)
    assert second.returncode == 0 and (north.state / "fit" / "model.json").exists()
    print(f"fitted in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    given = Path(sys.argv[1]).absolute()
    given.mkdir(parents=True, exist_ok=True)
    limits = given / "containers.conf"
    limits.write_text(LIMITS.format(files=resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    os.environ.setdefault("CONTAINERS_CONF", str(limits))
    walk(given)
