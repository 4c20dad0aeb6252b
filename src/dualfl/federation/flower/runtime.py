"""Flower's processes: started with the right environment, logged, and ended with everything they started."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dualfl.errors import InputError
from dualfl.federation.flower import lifeline
from dualfl.federation.flower.control import Control
from dualfl.federation.flower.control import RunFailed as RunFailed
from dualfl.federation.flower.control import Silent as Silent
from dualfl.files import write_atomically

APP = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "dualfl-app"
version = "1.0.0"
description = "dualfl on Flower"
license = "MIT"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "dualfl"

[tool.flwr.app.components]
serverapp = "dualfl_app.server:app"
clientapp = "dualfl_app.client:app"

[tool.flwr.app.config]
job = ""
"""


TESTED = ("1.41.0",)  # `fleet` and `deploy.superlink` use parts of Flower that are not public


LOOK, ASKED = 0.05, 3.0  # seconds between two looks at a run's folder, and two questions to the SuperLink


class Lost(RunFailed):
    """A run whose SuperLink or server app went away; it can be submitted again, and goes on where it was."""


def need_flower() -> None:
    """Refuse, in a sentence, where Flower's processes cannot run."""
    if sys.platform == "win32":
        raise InputError(
            "Deployments and flower-simulation end processes by their group, which needs Linux or macOS; on Windows, "
            "use the container (docs/deployment.md) or install dualfl in the Windows Subsystem for Linux."
        )
    if importlib.util.find_spec("flwr") is None or importlib.util.find_spec("cryptography") is None:
        raise InputError("This needs Flower, which is not installed; pip install 'dualfl[flower]'.")


def untested_version() -> str | None:
    """A sentence if another Flower is installed than the ones that deployments were tested with."""
    from importlib.metadata import version

    found = version("flwr")
    if found in TESTED:
        return None
    return (
        f"Flower {found} is installed, and deployments were tested with {', '.join(TESTED)}; if something fails, "
        f"pip install flwr=={TESTED[-1]}."
    )


def write_app(folder: Path) -> Path:
    """The app as `flwr run` takes it: two files that name ours. Silos of a deployment unpack neither."""
    write_atomically(folder / "pyproject.toml", APP.encode())
    write_atomically(folder / "dualfl_app" / "__init__.py", b'"""dualfl on Flower."""\n')
    for side in ("client", "server"):
        text = (
            f'"""The {side} app of dualfl."""\n\nfrom dualfl.federation.flower.{side} import app\n\n__all__ = ["app"]\n'
        )
        write_atomically(folder / "dualfl_app" / f"{side}.py", text.encode())
    return folder


def environment(flower_home: Path) -> dict[str, str]:
    """Ours, with Flower's own state in this folder, no calls home, and nothing installed at run time.

    Every run starts a process, so compiled modules are kept even where PYTHONDONTWRITEBYTECODE says otherwise.
    """
    return os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "FLWR_HOME": str(flower_home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",  # what one thread has freed is there for all: they live for months
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "",
    }


def without_proxy() -> dict[str, str]:
    """Whatever proxy leads out of the house, loopback is reached without it."""
    words = [os.environ.get(name, "") for name in ("no_proxy", "NO_PROXY")]
    hosts = dict.fromkeys([*",".join(words).replace(" ", "").split(","), "127.0.0.1", "localhost"])
    return dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(host for host in hosts if host))


def executable(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise InputError(f"{name} is not there; pip install 'dualfl[flower]' into the environment of dualfl.")
    return found


def connect(flower_home: Path, address: str, ca: Path | None) -> None:
    """Tell the command `flwr` where the SuperLink is: the connection is called dualfl."""
    safety = "insecure = true" if ca is None else f"root-certificates = {json.dumps(str(ca.absolute()))}"
    text = f'[superlink]\ndefault = "dualfl"\n\n[superlink.dualfl]\naddress = "{address}"\n{safety}\n'
    write_atomically(flower_home / "config.toml", text.encode())


class Process:
    """A program in a group of its own, so that it ends with all it has started."""

    def __init__(
        self, command: Sequence[str], log: Path, env: Mapping[str, str], cwd: Path | None = None, tied: bool = False
    ) -> None:
        """`tied`: it ends with this process, if it calls `lifeline.hold`."""
        log.parent.mkdir(parents=True, exist_ok=True)
        self.command, self.log = list(command), log
        env = dict(env) | ({lifeline.PARENT: str(os.getpid())} if tied else {})
        with open(log, "ab") as file:
            self.popen = subprocess.Popen(
                [executable(command[0]), *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        return self.popen.poll() is None

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def kill(self) -> None:
        """At once, with everything in its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def stop(self, seconds: float = 5.0) -> None:
        """Politely first; then whatever is left of the group is killed."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(seconds)
        self.kill()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def check_port(host: str, port: int, what: str, setting: str) -> None:
    """`setting` : the word of project.json that names it."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((host, port))
        except OSError as error:
            raise InputError(
                f"Port {port} for {what} cannot be used ({error.strerror}); stop what uses it, or take another "
                f"('{setting}' in project.json)."
            ) from None


def wait_for_port(port: int, process: Process, seconds: float = 60.0) -> None:
    """Until somebody listens there; a process that ends before is reported with its last words."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if not process.running:
            raise RunFailed(f"{process.command[0]} ended while starting; its log says:\n{process.tail()}")
        time.sleep(0.1)
    raise RunFailed(f"{process.command[0]} does not listen on port {port} after {seconds:.0f} s; see {process.log}.")


def flwr(arguments: Sequence[str], flower_home: Path) -> dict[str, Any]:
    """A `flwr` command with JSON output.

    It takes the name of a connection for that of a folder if there is one, so it runs where there is none.
    """
    done = subprocess.run(
        [executable("flwr"), *arguments, "--format", "json"],
        env=environment(flower_home) | without_proxy(),
        cwd=flower_home,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return taken(arguments, done.stdout, done.stderr)


def flwr_here(arguments: Sequence[str], flower_home: Path) -> dict[str, Any]:
    """The same in this process, whose environment and folder it changes: for many commands one after the other."""
    from unittest import mock

    from flwr.cli.app import app

    os.environ.update(environment(flower_home) | without_proxy())
    os.chdir(flower_home)
    said = io.StringIO()
    there = mock.patch.object(sys, "__stdout__", said)  # where Flower writes JSON, whatever is redirected
    with there, contextlib.redirect_stdout(said), contextlib.suppress(Exception, SystemExit):
        app([*arguments, "--format", "json"], standalone_mode=False)
    return taken(arguments, said.getvalue(), "")


def taken(arguments: Sequence[str], output: str, errors: str) -> dict[str, Any]:
    """`success` is checked, because the exit code of `flwr` says nothing."""
    start = output.find("{")
    try:
        found: dict[str, Any] = json.loads(output[start:]) if start >= 0 else {}
    except ValueError:
        found = {}
    if not found.get("success"):
        why = found.get("error-message") or errors.strip() or output.strip() or "no reason given"
        raise RunFailed(f"flwr {arguments[0]} failed: {str(why).splitlines()[-1] if why else why}")
    return found


def submit(app: Path, job: Path, flower_home: Path, silos: int | None = None) -> str:
    """Start the app on this job; returns the id of the run. Whatever ran on it before has had its turn."""
    write_atomically(job / "submission", secrets.token_hex(8).encode())
    for name in ("rows.jsonl", "outcome.json", "result.pkl"):
        (job / name).unlink(missing_ok=True)
    return Control(flower_home).start(app.absolute(), {"job": str(job.absolute())}, silos)


def watch(
    run: str,
    job: Path,
    flower_home: Path,
    on_line: Callable[[Any], None] = lambda line: None,
    alive: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Wait for the outcome; `on_line` hears of every line of progress, `alive` may raise if something has died."""
    place, looked, control = 0, time.monotonic(), Control(flower_home)
    while True:
        with contextlib.suppress(FileNotFoundError):
            with open(job / "rows.jsonl") as file:
                file.seek(place)
                text = file.read()
            whole = text[: text.rfind("\n") + 1]
            place += len(whole.encode())
            for line in whole.splitlines():
                on_line(json.loads(line))
        if (job / "outcome.json").exists():
            outcome: dict[str, Any] = json.loads((job / "outcome.json").read_text())
            if "error" in outcome:
                raise (Lost if outcome.get("lost") else RunFailed)(outcome["error"])
            return outcome
        alive()
        if time.monotonic() - looked > ASKED:  # the app may have died without a word
            looked = time.monotonic()
            try:
                now = control.status(run)
            except RunFailed as error:
                raise Lost(f"The SuperLink does not answer ({error}).") from error
            if now.startswith("finished") and not (job / "outcome.json").exists():
                raise Lost(f"Flower ended the run ({now}) before the server app said how it went.")
        time.sleep(LOOK)
