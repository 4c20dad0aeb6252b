"""The coordinator's service: a SuperLink on loopback, the proxy in front of it, and the keys of all admitted silos."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dualfl.deploy import keys
from dualfl.deploy.project import Project
from dualfl.errors import InputError
from dualfl.federation.flower import runtime
from dualfl.files import write_atomically

Say = Callable[[str], None]


class Coordinator:
    """The two processes, and what it takes to have them run."""

    def __init__(self, project: Project) -> None:
        runtime.need_flower()
        self.project, self.settings = project, project.settings
        self.superlink: runtime.Process | None = None
        self.proxy: runtime.Process | None = None
        self._checked = False

    # -- processes ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Both, and every key registered; nothing is left running if one of them does not start."""
        runtime.check_port("127.0.0.1", self.settings.superlink_port, "the SuperLink")
        runtime.check_port("0.0.0.0", self.settings.port, "the silos")
        try:
            self.start_superlink()
            self.start_proxy()
        except BaseException:
            self.stop()
            raise

    def start_superlink(self) -> None:
        folder, settings = self.project.folder.absolute(), self.settings
        command = [
            *(sys.executable, "-m", "dualfl.deploy.superlink"),
            *("--host", "127.0.0.1", "--port", str(settings.superlink_port)),
            *("--database", str(folder / "state.db")),
            "--disable-runtime-dependency-installation",
        ]
        if settings.tls:
            certificates = folder / "certificates"
            command += ["--ssl-ca-certfile", str(certificates / "ca.crt")]
            command += ["--ssl-certfile", str(certificates / "server.pem")]
            command += ["--ssl-keyfile", str(certificates / "server.key"), "--enable-supernode-auth"]
        else:
            command += ["--insecure"]
        environment = runtime.environment(self.project.flower_home)
        environment["FLWR_SUPEREXEC_TASK_POLL_INTERVAL"] = "0.2"
        self.superlink = runtime.Process(command, folder / "logs" / "superlink.log", environment)
        runtime.wait_for_port(settings.superlink_port, self.superlink)
        self.register()

    def start_proxy(self) -> None:
        folder, settings = self.project.folder.absolute(), self.settings
        scheme = "https" if settings.tls else "http"
        command = [
            sys.executable,
            *("-m", "dualfl.deploy.proxy", "0.0.0.0", str(settings.port)),
            f"{scheme}://127.0.0.1:{settings.superlink_port}",
            str(folder / "certificates") if settings.tls else "",
        ]
        self.proxy = runtime.Process(
            command, folder / "logs" / "proxy.log", runtime.environment(self.project.flower_home)
        )
        runtime.wait_for_port(settings.port, self.proxy)

    def stop(self) -> None:
        for process in (self.proxy, self.superlink):
            if process is not None:
                process.stop()

    def serve(self, say: Say) -> None:
        """Until interrupted; whatever ends is started again, and who is admitted meanwhile is let in."""
        if sentence := runtime.untested_version():
            say(sentence)
        try:
            self.start()
            say(f"Silos may connect to {self.settings.host}:{self.settings.port}. Stop with Ctrl-C.")
            while True:
                time.sleep(1)
                if self.superlink is not None and not self.superlink.running:
                    say("The SuperLink ended and is started again; see logs/superlink.log.")
                    self.start_superlink()
                if self.proxy is not None and not self.proxy.running:
                    say("The proxy ended and is started again; see logs/proxy.log.")
                    self.start_proxy()
                self.register()
        finally:
            self.stop()

    # -- keys --------------------------------------------------------------------------------------

    def register(self) -> None:
        """Tell the SuperLink the keys of all admitted silos that it does not know yet."""
        if not self.settings.tls:
            return
        logins, known = self.project.logins, self.project.nodes
        if known and not self._checked:  # a database that was lost knows nobody any more
            there = {str(node["node-id"]) for node in nodes(self.project)}
            known = {name: entry for name, entry in known.items() if entry["node"] in there}
        self._checked = True
        new = [name for name, key in logins.items() if known.get(name, {}).get("key") != key]
        for name in new:  # each is noted at once: Flower takes a key only once, so none may be forgotten
            known = known | {name: {"key": logins[name], "node": self._node(name, logins[name])}}
            write_atomically(self.project.flower_home / "nodes.json", (json.dumps(known, indent=2) + "\n").encode())

    def _node(self, name: str, key: str) -> str:
        """The number that the SuperLink gives to this key, or gave before a start that was interrupted noted it."""
        path = self.project.flower_home / f"{name}.pub"
        write_atomically(path, f"{key} {name}\n".encode())
        try:
            found = runtime.flwr(["supernode", "register", str(path), "dualfl"], self.project.flower_home)
        except runtime.RunFailed:
            number = node_of(self.project.folder / "state.db", key)
            if number is None:
                raise
            return number
        return str(found["node-id"])


def node_of(database: Path, key: str) -> str | None:
    """The node that has this key. `flwr supernode list` tells no keys, so the SuperLink's database is read."""
    with contextlib.suppress(sqlite3.Error):
        link = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
        with contextlib.closing(link):
            found = link.execute("SELECT node_id FROM node WHERE public_key = ?", (keys.pem(key),)).fetchone()
        return None if found is None else str(found[0] % 2**64)  # SQLite keeps unsigned numbers as signed ones
    return None


def nodes(project: Project) -> list[dict[str, Any]]:
    """The nodes that the SuperLink knows."""
    try:
        found = runtime.flwr(["supernode", "list", "dualfl"], project.flower_home)
    except runtime.RunFailed as error:
        raise InputError(
            f"The SuperLink does not answer ({error}); start it with `dualfl deploy start {project.folder}`."
        ) from error
    return list(found.get("nodes", []))
