"""Who belongs to a standing federation: silos that join, leave, change their keys or are shut out."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from dualfl.deploy import keys
from dualfl.deploy.project import Project, ProjectSettings, check
from dualfl.deploy.service import LOGIN
from dualfl.deploy.upkeep import check_not_served
from dualfl.errors import InputError
from dualfl.federation.silo_folder import SiloFolder
from dualfl.files import write_atomically
from dualfl.names import nearest


def write_settings(project: Project, settings: ProjectSettings) -> None:
    check(settings)
    write_atomically(project.folder / "project.json", (json.dumps(asdict(settings), indent=2) + "\n").encode())
    project.settings = settings


def add(project: Project, names: tuple[str, ...]) -> None:
    """New silos of a standing federation; each hands in a card then."""
    there = [name for name in names if name in project.settings.silos]
    if there:
        raise InputError(f"Silo {there[0]!r} belongs to the project already.")
    write_settings(project, replace(project.settings, silos=(*project.settings.silos, *names)))


def revoke(project: Project, name: str) -> str:
    """Shut a silo out at once; returns the fingerprint of the key that counts no more."""
    if name not in project.settings.silos:
        raise InputError(nearest("silo", name, project.settings.silos))
    roster, logins = project.roster, project.logins
    if name not in roster:
        raise InputError(f"Silo {name!r} has no key here that could be revoked; it was never admitted, or is out.")
    gone, login = roster.pop(name), logins.pop(name, None)
    project.note_revoked(name, gone, *([login] if login else []))
    project.write_roster(roster, logins)
    return keys.fingerprint(gone)


def remove(project: Project, name: str) -> None:
    """A silo that leaves the federation for good."""
    if name not in project.settings.silos:
        raise InputError(nearest("silo", name, project.settings.silos))
    settings = replace(project.settings, silos=tuple(other for other in project.settings.silos if other != name))
    check(settings)  # before its key is gone: too few may be left
    if name in project.roster:
        revoke(project, name)
    write_settings(project, settings)


def rotate(folder: Path) -> tuple[str, str]:
    """New keys of a silo; returns its new card, and the fingerprint of the old key."""
    home = SiloFolder(folder)
    check_not_served(folder, "rotate its keys")
    before = keys.fingerprint(keys.check_public((folder / "key.pub").read_text(), home.name))
    private, public = keys.new_key_pair()
    login, login_public = keys.new_key_pair()
    card = keys.make_card(home.name, private, public, login_public)
    keys.write_secret(folder / "key", private)
    write_atomically(folder / "key.pub", f"{public} {home.name}\n".encode())
    keys.write_secret(folder / LOGIN, login)
    write_atomically(folder / "card.txt", f"{card}\n".encode())
    home.log.note("rotated", key=keys.fingerprint(public), before=before)
    return card, before
