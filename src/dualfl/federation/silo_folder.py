"""A silo's folder: who it is, where its rows are, and what its operator insists on.

    silo.json               its name, its data file, what its operator insists on
    key, key.pub, roster.json   its registered key, and the keys of all silos
    salt                    a random number for the digest of its data, which never leaves
    cache/                  its rows, encoded, so that the data file is parsed once
    experiments/ID/         what it keeps of one experiment (`experiment`)
    logs/silo.log           what went wrong, with the words that the coordinator must not read

What is written here only its owner may read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from dualfl.errors import InputError
from dualfl.federation.audit import AuditLog
from dualfl.federation.policy import OPEN, Policy
from dualfl.federation.rows import SiloRows, digest_of, no_file, read_rows
from dualfl.files import locked, write_atomically
from dualfl.names import nearest
from dualfl.tables.refusals import Unfit
from dualfl.tables.roles import ROLES
from dualfl.tables.rules import Rules

PRIVATE = 0o600  # rows, uploads without masks and secrets: nobody else on this machine reads them
LOG, FULL = "logs/silo.log", 5 << 20  # bytes after which it is put aside, in place of the one before
RULES = (
    "columns",
    "id",
    "categorical",
    "na",
    "recode",
    "decimal",
    "commas",
    "encoding",
    "fold_case",
    "dates",
)  # of silo.json
OLDEST = ("drop", "categorical", "na", "decimal")  # rules that every version had


def write(path: Path, data: bytes) -> None:
    write_atomically(path, data, PRIVATE)


class SiloFolder:
    """A silo's folder and what its operator wrote there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.settings: dict[str, Any] = json.loads((path / "silo.json").read_text())
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is not a silo's folder ({error}); make one with `dualfl deploy join`.") from error

    @property
    def name(self) -> str:
        return str(self.settings["name"])

    @property
    def data(self) -> Path:
        return self.path / str(self.settings["data"])  # an absolute path stays what it is

    @property
    def data_digest(self) -> str:
        """Of the data file; read again only if its size or time has changed."""
        if not self.data.is_file():
            raise no_file(self.data)
        stat = self.data.stat()
        seen = [str(self.data), stat.st_size, stat.st_mtime_ns]
        note = self.path / "cache" / "digest.json"
        with contextlib.suppress(OSError, ValueError, KeyError):
            noted = json.loads(note.read_text())
            if noted["seen"] == seen:
                return str(noted["digest"])
        digest = digest_of(self.data)
        write(note, json.dumps({"seen": seen, "digest": digest}).encode())
        return digest

    @property
    def fingerprint(self) -> str:
        """Of all that decides what is read: the file, and by which rules."""
        rules = self.rules
        lists = [sorted(names) for names in (rules.drop, rules.categorical, rules.na)]
        decisive = [self.data_digest, self.settings.get("target"), *lists, rules.decimal]
        others = {word: value for word, value in rules.as_json().items() if word not in OLDEST}
        decisive += [others] if others else []  # where there are none, the number is that of older versions
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()

    @property
    def rules(self) -> Rules:
        """How the data file is read; silo.json calls columns that stay out 'ignore'."""
        given = {word: self.settings[word] for word in RULES if word in self.settings}
        try:
            return Rules.from_json(given | {"drop": self.settings.get("ignore", ())})
        except InputError as error:
            raise Unfit(
                f"{self.path / 'silo.json'}: {error}", "its silo.json has a rule that cannot be used"
            ) from error

    @property
    def salted(self) -> str:
        """A fingerprint that may travel: nobody who guesses the file can check the guess without the salt."""
        return hashlib.sha256(self.salt + self.fingerprint.encode()).hexdigest()[:32]

    def rows(self, held_out: bool = False) -> SiloRows:
        """As others may hear of them: of the data file, or of the one that is kept for evaluations, if there is one."""
        from dualfl.federation.guarded import guarded

        path = self.path / str(self.settings["held_out"]) if held_out and "held_out" in self.settings else self.data
        return guarded(read_rows(path, self.settings.get("target"), self.rules), self.policy, self.clusters)

    @property
    def roles(self) -> Mapping[str, Sequence[str]] | None:
        """Which columns may be the time, weight, offset, ... of a row (`tables.roles`); None: whichever is asked for.

        Whoever chooses weights, or what is compared with what, can choose one patient, so the operator says it.
        """
        if "roles" not in self.settings:
            return {} if (self.path / "ca.crt").exists() else None
        given = self.settings["roles"]
        fits = isinstance(given, dict) and all(isinstance(names, list) for names in given.values())
        if not fits or not all(isinstance(name, str) for names in given.values() for name in names):
            raise InputError('silo.json: "roles" must be an object of lists of columns, as {"time": ["days"]}.')
        for role in given:
            if role not in ROLES:
                raise InputError("silo.json: " + nearest("role of a column", role, ROLES))
        return {role: tuple(names) for role, names in given.items()}

    @property
    def clusters(self) -> tuple[str, ...]:
        """Columns whose labels never leave, so rare ones are not joined."""
        return tuple((self.roles or {}).get("cluster", ()))

    @cached_property
    def policy(self) -> Policy:
        """What the operator insists on. A folder with a certificate and no policy has the safe one."""
        if "policy" in self.settings:
            return Policy.from_json(self.settings["policy"], "silo.json")
        return Policy() if (self.path / "ca.crt").exists() else OPEN

    @property
    def log(self) -> AuditLog:
        return AuditLog(self.path)

    @property
    def salt(self) -> bytes:
        """A random number that never leaves."""
        path = self.path / "salt"
        if not path.exists():
            with locked(self.path, PRIVATE):
                if not path.exists():
                    write(path, secrets.token_bytes(32))
        return path.read_bytes()

    @property
    def masked_only(self) -> bool:
        """A silo that joined with a certificate sends nothing without masks, unless its operator allowed it."""
        allowed = self.settings.get("allow_plain", not (self.path / "ca.crt").exists())
        return bool(self.settings.get("secure_only")) or not allowed

    @property
    def withholds(self) -> bool:
        """Whether this silo's own numbers are seen by nobody, only in sums with those of others."""
        return not self.settings.get("show_own_numbers", False)

    def note(self, words: str) -> None:
        """For the operator alone."""
        path = self.path / LOG
        with contextlib.suppress(OSError):  # a full disk must not hide what is wrong
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size > FULL:  # whoever sends nonsense without end fills no disk
                os.replace(path, path.with_name(f"{path.name}.1"))
            with open(path, "a", opener=lambda name, flags: os.open(name, flags, PRIVATE)) as file:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {words.rstrip()}\n")

    def without_paths(self, words: str) -> str:
        """A sentence that may travel."""
        if "data" in self.settings:
            words = words.replace(str(self.data.absolute()), "its data file")
        return words.replace(str(self.path.absolute()), "its folder")

    @property
    def has_roster(self) -> bool:
        return (self.path / "roster.json").exists()

    def registered(self) -> dict[str, str]:
        """The public keys of all silos, as the operators exchanged them."""
        try:
            return dict(json.loads((self.path / "roster.json").read_text()))
        except (OSError, ValueError) as error:
            raise InputError(
                "secure aggregation needs the roster of all silos' keys, and this silo has none; get it from the "
                "coordinator, compare fingerprints, and run `dualfl deploy trust`"
            ) from error
