"""A silo's folder, as its operator makes it: joined once, with the keys of all other silos taken in."""

from __future__ import annotations

import json
import secrets
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dualfl.deploy import certificates, keys, pages
from dualfl.deploy.project import MINIMUM, NAME
from dualfl.deploy.service import LOGIN
from dualfl.errors import InputError
from dualfl.federation.audit import AuditLog
from dualfl.federation.policy import OPEN, Policy
from dualfl.federation.rows import SiloRows, read_rows
from dualfl.federation.silo_folder import OLDEST, SiloFolder
from dualfl.files import write_atomically
from dualfl.tables.delimited import is_class_target
from dualfl.tables.refusals import IN_FILES, Unfit
from dualfl.tables.rules import USUAL_RULES, Rules
from dualfl.tables.summaries import summarise, used


def join(
    folder: Path,
    name: str,
    data: Path,
    target: str | None,
    coordinator: str,
    ca: Path | None,
    *,
    rules: Rules = USUAL_RULES,
    minimum: int = MINIMUM,
    allow_plain: bool | None = None,
    policy: Policy | None = None,
    words: Mapping[str, Any] | None = None,
    show_own_numbers: bool = False,
) -> tuple[str, SiloRows]:
    """Write a silo's folder; returns its card, which is all that is handed over, and what its file holds.

    allow_plain : whether the coordinator may run without masks; None: only where there is no TLS either.
    words : of the policy, where they are to be other than usual.
    show_own_numbers : whether others see this silo's rows, its loss, and what the fit without it would change.
    """
    if NAME.fullmatch(name) is None:
        raise InputError(f"A silo's name is made of small letters, digits and hyphens, but it is {name!r}.")
    host, _, port = coordinator.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise InputError(
            f"The coordinator is HOST:PORT, such as example.org:9443, with a port from 1 to 65535, but it is "
            f"{coordinator!r}."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already; give a new folder, so that no key is overwritten.")
    if minimum < 1:
        raise InputError(f"minimum must be at least 1 silo, but it is {minimum}.")
    if ca is not None:
        certificates.read(ca)
    rows = read_rows(data, target, rules)  # a file that cannot be read is known now, not in the first round
    private, public = keys.new_key_pair()
    login, login_public = keys.new_key_pair()
    card = keys.make_card(name, private, public, login_public)
    settings = {
        "name": name,
        "data": str(data.absolute()),
        "target": target,
        "ignore": list(rules.drop),
        "categorical": list(rules.categorical),
        "na": list(rules.na),
        "decimal": rules.decimal,
        **{word: value for word, value in rules.as_json().items() if word not in OLDEST},
        "coordinator": coordinator,
        "minimum": minimum,
        "allow_plain": ca is None if allow_plain is None else allow_plain,
        "show_own_numbers": show_own_numbers,
        "identity": secrets.token_hex(16),
        "policy": with_words(policy or default_policy(rows, ca), words).as_json(),
    }
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)  # also one that was there: rows and uploads will lie in it
        keys.write_secret(folder / "key", private)
        write_atomically(folder / "key.pub", f"{public} {name}\n".encode())
        keys.write_secret(folder / LOGIN, login)
        write_atomically(folder / "card.txt", f"{card}\n".encode())
        if ca is not None:
            write_atomically(folder / "ca.crt", ca.read_bytes())
        write_atomically(folder / "silo.json", (json.dumps(settings, indent=2) + "\n").encode())
        AuditLog(folder).note("joined", name=name, coordinator=coordinator, key=keys.fingerprint(public))
        pages.write_service(folder, "serve", "silo", f"dualfl silo {name}")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return card, rows


def default_policy(rows: SiloRows, ca: Path | None) -> Policy:
    """Safe, with the target as it is now; where there are no keys and no TLS, the federation is one user's own."""
    request = replace(rows.request(False), remedies=IN_FILES)  # options: there is no silo.json yet
    try:
        kept = used(rows.table, request)[0]
        task = "classification" if is_class_target(kept.columns[rows.target]) else "regression"
        told = summarise(kept, replace(request, numeric_target=task == "regression"))
    except Unfit as error:
        check = f"dualfl check {shlex.quote(rows.table.name)} --target {shlex.quote(rows.target)}"
        raise InputError(f"{error} `{check}` lists all that is wrong, and options that `join` takes, too.") from error
    classes = tuple(told.target.levels) if task == "classification" else ()
    return replace(Policy() if ca is not None else OPEN, task=task, classes=classes)


def with_words(policy: Policy, words: Mapping[str, Any] | None) -> Policy:
    """The policy with these words, which are checked."""
    return Policy.from_json(json.loads(json.dumps(policy.as_json())) | dict(words), "--policy") if words else policy


def trust(folder: Path, roster: Path) -> list[tuple[str, str, str]]:
    """Take over the roster of all silos' keys; returns names, fingerprints and what changed.

    Every line is to be compared with the operator of that silo.
    """
    home = SiloFolder(folder)
    try:
        found = dict(json.loads(roster.read_text()))
        told = {str(name): keys.check_public(str(key), str(name)) for name, key in sorted(found.items())}
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{roster} is not a roster ({error}); the coordinator hands it out as roster.json.") from error
    mine = keys.check_public((folder / "key.pub").read_text(), home.name)
    if told.get(home.name) != mine:
        raise InputError(f"{roster} has another key for {home.name!r} than this silo's own; do not trust it.")
    path = folder / "roster.json"
    before = home.registered() if path.exists() else {}
    write_atomically(path, (json.dumps(told, indent=2) + "\n").encode())
    home.log.note("roster", silos={name: keys.fingerprint(key) for name, key in told.items()})
    return [
        *((name, keys.fingerprint(key), changed(before, name, key)) for name, key in told.items()),
        *((name, keys.fingerprint(key), "gone") for name, key in before.items() if name not in told),
    ]


def changed(before: dict[str, str], name: str, key: str) -> str:
    """What is new about a silo's key; nothing the first time, when all are."""
    if not before or before.get(name) == key:
        return ""
    return f"CHANGED, was {keys.fingerprint(before[name])}" if name in before else "new"
