"""The keys of all admitted silos, as the SuperLink knows them: `python -m dualfl.deploy.registration FOLDER`."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dualfl.deploy import keys
from dualfl.deploy.project import Project
from dualfl.errors import DualflError, InputError
from dualfl.federation.flower import runtime
from dualfl.files import write_atomically

UNREGISTERED = "unregistered"  # what Flower says of a node that was taken out
Flwr = Callable[[Sequence[str], Path], dict[str, Any]]


def register(project: Project, flwr: Flwr | None = None) -> None:
    """Tell the SuperLink the keys of admitted silos that it does not know, and take from it those that went."""
    flwr = flwr or runtime.flwr
    if not project.settings.tls:
        return
    logins, known = project.logins, project.nodes
    if known:  # a database that was lost knows nobody any more
        there = {str(node["node-id"]) for node in nodes(project)}
        known = {name: entry for name, entry in known.items() if entry["node"] in there}
    for name in [name for name, entry in known.items() if logins.get(name) != entry["key"]]:
        with contextlib.suppress(runtime.RunFailed):  # it is out already
            flwr(["supernode", "unregister", known[name]["node"], "dualfl"], project.flower_home)
        known = {other: entry for other, entry in known.items() if other != name}
        write_nodes(project, known)
    refused = None
    for name in [name for name in logins if name not in known]:
        try:
            number = node_for(project, name, logins[name], flwr)
        except InputError as error:  # that is no reason to let the others wait
            refused = error
            continue
        # Each is noted at once: Flower takes a key only once, so none may be forgotten.
        known = known | {name: {"key": logins[name], "node": number}}
        write_nodes(project, known)
    if refused is not None:
        raise refused


def write_nodes(project: Project, known: dict[str, Any]) -> None:
    write_atomically(project.flower_home / "nodes.json", (json.dumps(known, indent=2) + "\n").encode())


def node_for(project: Project, name: str, key: str, flwr: Flwr) -> str:
    """The number that the SuperLink gives to this key, or gave before a start that was interrupted noted it."""
    path = project.flower_home / f"{name}.pub"
    write_atomically(path, f"{key} {name}\n".encode())
    try:
        found = flwr(["supernode", "register", str(path), "dualfl"], project.flower_home)
    except runtime.RunFailed:
        number, status = node_of(project.folder / "state.db", key)
        if number is None:
            raise
        if status == UNREGISTERED:
            raise InputError(
                f"The key of silo {name!r} was taken out before, and Flower takes it no more: revoke it (`dualfl "
                "deploy revoke`), let its operator make a new one (`dualfl deploy rotate`), and admit the new card.txt."
            ) from None
        return number
    return str(found["node-id"])


def node_of(database: Path, key: str) -> tuple[str | None, str]:
    """The node that has this key, and how Flower has it.

    `flwr supernode list` tells no keys, so the SuperLink's database is read.
    """
    with contextlib.suppress(sqlite3.Error):
        link = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
        with contextlib.closing(link):
            found = link.execute("SELECT node_id, status FROM node WHERE public_key = ?", (keys.pem(key),)).fetchone()
        if found is not None:
            return str(found[0] % 2**64), str(found[1])  # SQLite keeps unsigned numbers as signed ones
    return None, ""


def nodes(project: Project) -> list[dict[str, Any]]:
    """The nodes that the SuperLink knows."""
    try:
        found = runtime.flwr(["supernode", "list", "dualfl"], project.flower_home)
    except runtime.RunFailed as error:
        raise InputError(
            f"The SuperLink does not answer ({error}); start it with `dualfl deploy start {project.folder}`."
        ) from error
    return list(found.get("nodes", []))


if __name__ == "__main__":
    try:
        register(Project(Path(sys.argv[1]).absolute()), runtime.flwr_here)
    except DualflError as error:
        sys.exit(str(error))
