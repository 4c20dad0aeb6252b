"""A silo's folder and its service: joined once, then a SuperNode that is started again whenever it ends."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dualfl.deploy import keys, pages
from dualfl.deploy.project import MINIMUM, NAME, write_script
from dualfl.errors import InputError
from dualfl.federation.audit import AuditLog, digest
from dualfl.federation.flower import runtime
from dualfl.federation.policy import OPEN, Policy
from dualfl.federation.rows import SiloRows, read_rows
from dualfl.federation.silo_folder import OLDEST, SiloFolder
from dualfl.files import write_atomically
from dualfl.tables.delimited import is_class_target
from dualfl.tables.rules import USUAL_RULES, Rules
from dualfl.tables.summaries import summarise

LOGIN = "login"  # the key for Flower, which its processes read; `key` signs, and the keeper alone reads it
PAUSE = 5.0  # seconds before a SuperNode that ended is started again
Say = Callable[[str], None]

# What Flower says, and what an operator can do about it.
REMEDIES = {
    "CERTIFICATE_VERIFY_FAILED": "The coordinator's certificate does not fit ca.crt; get the project's ca.crt again.",
    "[code: 2004]": "The coordinator does not let this silo in: its key is not admitted there (`dualfl deploy admit`), "
    "or this silo was cut off less than a minute ago, or another process uses its key.",
    "[code: 2001]": "The coordinator wants a key; make this silo with `dualfl deploy join` and --ca.",
    "Server disconnected": "The coordinator speaks TLS and this silo does not; join again with --ca.",
    "ConnectError": "Nobody answers at the coordinator's address; is it started, and does the firewall let you out?",
}


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
        check_certificate(ca)
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
        "allow_sampling": False,
        "show_own_numbers": show_own_numbers,
        "identity": secrets.token_hex(16),
        "policy": changed(policy or default_policy(rows, ca), words).as_json(),
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
        command = [sys.executable, "-m", "dualfl", "deploy", "serve", str(folder.absolute())]
        AuditLog(folder).note("joined", name=name, coordinator=coordinator, key=keys.fingerprint(public))
        write_script(folder / "start.sh", command)
        write_atomically(folder / "dualfl-silo.service", pages.unit(f"dualfl silo {name}", command, folder).encode())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return card, rows


def default_policy(rows: SiloRows, ca: Path | None) -> Policy:
    """Safe, with the target as it is now; where there are no keys and no TLS, the federation is one user's own."""
    values = rows.used().columns[rows.target]
    task = "classification" if is_class_target(values) else "regression"
    classes = tuple(summarise(rows.used(), rows.request(False)).target.levels) if task == "classification" else ()
    return replace(Policy() if ca is not None else OPEN, task=task, classes=classes)


def changed(policy: Policy, words: Mapping[str, Any] | None) -> Policy:
    """The policy with these words, which are checked."""
    return Policy.from_json(json.loads(json.dumps(policy.as_json())) | dict(words), "--policy") if words else policy


def check_certificate(path: Path) -> None:
    from cryptography import x509

    try:
        x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise InputError(f"There is no certificate {path} ({error.strerror}); the coordinator hands it out.") from error
    except ValueError as error:
        raise InputError(f"{path} is not a certificate; the coordinator hands it out as ca.crt.") from error


def trust(folder: Path, roster: Path) -> list[tuple[str, str]]:
    """Take over the roster of all silos' keys; returns names and fingerprints, to be compared with their operators."""
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
    write_atomically(folder / "roster.json", (json.dumps(told, indent=2) + "\n").encode())
    home.log.note("roster", silos={name: keys.fingerprint(key) for name, key in told.items()})
    return [(name, keys.fingerprint(key)) for name, key in told.items()]


def note_settings(home: SiloFolder) -> None:
    """A policy with an unknown word is told before anything starts; settings that changed go to the audit log."""
    home.policy  # noqa: B018 (it is read for its sentence)
    content = (home.path / "silo.json").read_bytes()
    seen, now = home.path / "cache" / "settings.digest", digest(content)
    if not seen.exists() or seen.read_text() != now:
        home.log.note("settings", digest=now, settings=home.settings)
        write_atomically(seen, now.encode())


class Member:
    """A silo's SuperNode."""

    def __init__(self, folder: Path) -> None:
        runtime.need_flower()
        self.folder, self.home = folder.absolute(), SiloFolder(folder.absolute())
        note_settings(self.home)
        if (folder / "key").exists() and not (folder / LOGIN).exists():
            raise InputError(
                f"{folder} was made by dualfl before protocol 8, with one key for Flower and for masks; make a new "
                "folder by `dualfl deploy join` with the options of the old one, and send its card.txt to the "
                "coordinator."
            )
        self.log = self.folder / "logs" / "supernode.log"

    def command(self) -> list[str]:
        """The keeper, and the SuperNode beside it."""
        ca, port = self.folder / "ca.crt", runtime.free_port()
        safety = (
            ["--root-certificates", str(ca), "--auth-supernode-private-key", str(self.folder / LOGIN)]
            if ca.exists()
            else ["--insecure"]
        )
        return [
            *(sys.executable, "-m", "dualfl.deploy.silo_process", str(self.folder), f"127.0.0.1:{port}"),
            *(sys.executable, "-m", "dualfl.deploy.supernode", *safety),
            *("--superlink", str(self.home.settings["coordinator"])),
            *("--host", "127.0.0.1", "--port", str(port)),
        ]

    def start(self) -> runtime.Process:
        return runtime.Process(self.command(), self.log, runtime.environment(self.folder / "flower"))

    def serve(self, say: Say) -> None:
        """Keep a SuperNode running until interrupted; say why if it does not stay."""
        if sentence := runtime.untested_version():
            say(sentence)
        node: runtime.Process | None = None
        try:
            while True:
                begins = self.log.stat().st_size if self.log.exists() else 0
                node = self.start()
                say(f"Silo {self.home.name!r} connects to {self.home.settings['coordinator']} ...")
                while node.running:
                    time.sleep(0.5)
                node.kill()  # a keeper that died alone leaves its SuperNode, which would stand in the next one's way
                say(f"{explain(self.log, begins)} Trying again in {PAUSE:.0f} s.")
                time.sleep(PAUSE)
        finally:
            if node is not None:
                node.stop()


def explain(log: Path, begins: int) -> str:
    """The last words of a SuperNode, in ours where we know them."""
    with open(log, "rb") as file:
        file.seek(begins)
        words = file.read().decode(errors="replace")
    for sign, remedy in REMEDIES.items():
        if sign in words:
            return remedy
    return f"The SuperNode ended; see {log}."
