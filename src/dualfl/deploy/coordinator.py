"""The coordinator's service: a SuperLink on loopback, the proxy in front of it, and the keys of all admitted silos.

`python -m dualfl.deploy.coordinator FOLDER` is what `dualfl deploy start` becomes. It imports little, since it does
little but look: who reads a project whole, or talks to Flower, is another process.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dualfl.deploy.certificates import is_valid, lifetimes
from dualfl.deploy.condition import condition, warnings
from dualfl.deploy.service import Record, Say, alone_in, as_service
from dualfl.deploy.status_page import shown
from dualfl.deploy.supervisor import Part, Supervisor, Warnings
from dualfl.deploy.upkeep import check_in
from dualfl.errors import InputError
from dualfl.federation.flower import runtime

LOOK = 1.0  # seconds between two looks
ASKED = 5.0  # seconds between two questions whether a part still answers
RETRY = 15.0  # seconds before keys that could not be registered are tried again
PATIENCE = 4.0  # seconds for the answer
HANGS = 20.0  # seconds without an answer after which a part hangs


class Coordinator:
    """The two programs, and what it takes to have them run."""

    def __init__(self, folder: Path) -> None:
        runtime.need_flower()
        self.folder = folder.absolute()
        self.settings: dict[str, Any] = json.loads((self.folder / "project.json").read_text())
        self.port, self.inner = int(self.settings.get("port", 9443)), int(self.settings.get("superlink_port", 9340))
        self.tls = bool(self.settings.get("tls", True))
        self.supervisor: Supervisor | None = None
        self._registered: tuple[float, ...] = ()
        self._again = 0.0

    # -- parts -------------------------------------------------------------------------------------

    @property
    def parts(self) -> dict[str, Part]:
        logs, env = self.folder / "logs", runtime.environment(self.folder / "flower") | runtime.without_proxy()
        superlink = Part(
            "The SuperLink",
            self._superlink_command,
            logs / "superlink.log",
            env | {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.02"},
            ask=Answers(self.inner, self.tls),
            limit=HANGS,
            ready=self._superlink_ready,
        )
        proxy = Part(
            "The proxy",
            self._proxy_command,
            logs / "proxy.log",
            env,
            ask=Answers(self.port, self.tls),
            limit=HANGS,
            ready=lambda process: runtime.wait_for_port(self.port, process),
        )
        return {"superlink": superlink, "proxy": proxy}

    def _superlink_command(self) -> list[str]:
        command = [
            *(sys.executable, "-m", "dualfl.deploy.superlink"),
            *("--host", "127.0.0.1", "--port", str(self.inner)),
            *("--database", str(self.folder / "state.db")),
            "--disable-runtime-dependency-installation",
        ]
        if not self.tls:
            return [*command, "--insecure"]
        certificates = self.folder / "certificates"
        command += ["--ssl-ca-certfile", str(certificates / "ca.crt")]
        command += ["--ssl-certfile", str(certificates / "server.pem")]
        return [*command, "--ssl-keyfile", str(certificates / "server.key"), "--enable-supernode-auth"]

    def _superlink_ready(self, process: runtime.Process) -> None:
        runtime.wait_for_port(self.inner, process)
        self._registered = ()  # its database may have been lost
        with contextlib.suppress(runtime.RunFailed):  # it is tried again later
            self.register()  # before the proxy lets anybody come: who is not registered yet is told that he never was

    def _proxy_command(self) -> list[str]:
        scheme = "https" if self.tls else "http"
        return [
            *(sys.executable, "-m", "dualfl.deploy.proxy", "0.0.0.0", str(self.port)),
            f"{scheme}://127.0.0.1:{self.inner}",
            str(self.folder / "certificates") if self.tls else "",
            str(self.folder / "service" / "seen.json"),
        ]

    def connect(self) -> None:
        """Note where runs find the SuperLink: the folder may have been moved since, or another port chosen."""
        ca = self.folder / "certificates" / "ca.crt" if self.tls else None
        runtime.connect(self.folder / "flower", f"127.0.0.1:{self.inner}", ca)

    def register(self) -> None:
        """Tell the SuperLink who was admitted, or revoked, since this was called last."""
        changed = tuple(times(self.folder / "logins.json"))
        if self.tls and changed != self._registered:
            done = subprocess.run(
                [sys.executable, "-m", "dualfl.deploy.registration", str(self.folder)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                raise runtime.RunFailed(f"Silos' keys could not be registered: {done.stderr.strip()[-300:]}")
            self._registered = changed

    def register_within(self, seconds: float) -> None:
        """Until it is done: on a busy machine the SuperLink may not answer at first."""
        end = time.monotonic() + seconds
        while True:
            try:
                return self.register()
            except runtime.RunFailed:
                if time.monotonic() > end:
                    raise
                time.sleep(LOOK)

    def _register_patiently(self, say: Say) -> None:
        """A SuperLink that is being started may not answer yet; that is no reason to look after nothing else."""
        if time.monotonic() >= self._again:
            try:
                self.register()
            except runtime.RunFailed as error:
                self._again = time.monotonic() + RETRY
                say(f"{error} It is tried again.")

    # -- running -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def running(self, say: Say = lambda sentence: None) -> Iterator[Record]:
        """All parts; nothing is left running if one of them does not start."""
        self.check_certificates()
        with alone_in(self.folder, "coordinator", say) as record:
            check_in(self.folder, say)
            runtime.check_port("127.0.0.1", self.inner, "the SuperLink", "superlink_port")
            runtime.check_port("0.0.0.0", self.port, "the silos", "port")
            self.connect()
            self.supervisor = Supervisor(self.parts, record, say)
            try:
                self.supervisor.start()
                yield record
            finally:
                self.supervisor.stop()

    def check_certificates(self) -> None:
        """Silos could not connect, and their operators could not mend it."""
        for one in self.certificates():
            if not is_valid(one):
                raise InputError(one["sentence"])

    def certificates(self) -> list[dict[str, Any]]:
        return lifetimes(self.folder / "certificates", ("server.pem", "ca.crt"))

    def serve(self, say: Say, port: int = 0) -> None:
        """Until interrupted; whatever ends or hangs is started again, and who is admitted meanwhile is let in.

        port : of the status page on loopback; 0: none.
        """
        if sentence := runtime.untested_version():
            say(sentence)
        warned = Warnings(lambda: warnings(self.folder, self.certificates))
        certificate = self.folder / "certificates" / "server.pem"
        with self.running(say), shown(lambda: condition(self.folder), port, say):
            assert self.supervisor is not None
            served = list(times(certificate))
            self._register_patiently(say)
            say(f"Silos may connect to {self.settings['host']}:{self.port}. Stop with Ctrl-C.")
            while True:
                time.sleep(LOOK)
                self.supervisor.look()
                warned.look(say)
                if served != list(times(certificate)):
                    served = list(times(certificate))
                    self.supervisor.renew(
                        "The certificate was renewed; SuperLink and proxy are started with the new one."
                    )
                self._register_patiently(say)


class Answers:
    """Whether somebody answers HTTP on a port of this machine; asked now and then."""

    def __init__(self, port: int, tls: bool) -> None:
        self.port, self.tls, self.asked, self.well = port, tls, 0.0, True

    def __call__(self) -> bool:
        if time.monotonic() - self.asked >= ASKED:
            self.well, self.asked = self._ask(), time.monotonic()
        return self.well

    def _ask(self) -> bool:
        if self.tls:  # whether it lives; that its certificate is good is for silos to see
            context = ssl._create_unverified_context()
            link: http.client.HTTPConnection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=PATIENCE, context=context
            )
        else:
            link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            link.request("GET", "/")
            link.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            link.close()
        return True


def times(*paths: Path) -> Iterator[float]:
    for path in paths:
        yield path.stat().st_mtime if path.exists() else 0.0


if __name__ == "__main__":
    place = Path(sys.argv[1])
    sys.exit(as_service(place, lambda say: Coordinator(place).serve(say, int(sys.argv[2]))))
