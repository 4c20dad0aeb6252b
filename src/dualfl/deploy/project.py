"""The coordinator's folder: settings, certificates, the roster of silos, and pages for people."""

from __future__ import annotations

import ipaddress
import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualfl.analysis.model_kinds import SMALL_RIDGE
from dualfl.deploy import certificates, keys, pages
from dualfl.errors import InputError
from dualfl.federation.flower import runtime
from dualfl.files import write_atomically
from dualfl.names import nearest

if TYPE_CHECKING:
    from dualfl.algorithms.contract import Algorithm

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")
MINIMUM = 3  # silos, below which a sum is hardly a secret
LABEL = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"
HOST = re.compile(rf"(?=.{{1,253}}\Z){LABEL}(\.{LABEL})*")  # a name in the DNS
TASKS = ("classification", "regression")
INTERCEPTS = ("free", "penalised")


@dataclass(frozen=True)
class ProjectSettings:
    """What project.json says."""

    host: str
    silos: tuple[str, ...]
    port: int = 9443
    superlink_port: int = 9340
    tls: bool = True
    secure: bool = True
    loss: str = "auto"
    ridge: float = SMALL_RIDGE
    l1: float = 0.0
    intercept: str = "free"  # from ridge and l1; or "penalised"
    solver: str | None = None
    task: str | None = None
    standardise: bool = True
    patience: float = 3600.0


# What project.json may hold where Settings has these types.
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("text", lambda x: isinstance(x, str)),
    "str | None": ("text or null", lambda x: x is None or isinstance(x, str)),
    "tuple[str, ...]": ("a list of names", lambda x: isinstance(x, list) and all(isinstance(y, str) for y in x)),
    "bool": ("true or false", lambda x: isinstance(x, bool)),
    "int": ("a whole number", lambda x: isinstance(x, int) and not isinstance(x, bool)),
    "float": ("a number", lambda x: isinstance(x, int | float) and not isinstance(x, bool)),
}


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = read_settings(folder / "project.json")

    @property
    def certificates(self) -> Path:
        return self.folder / "certificates"

    @property
    def flower_home(self) -> Path:
        return (self.folder / "flower").absolute()

    @property
    def roster(self) -> dict[str, str]:
        return read_table(self.folder / "roster.json", "admit the silos again")

    @property
    def logins(self) -> dict[str, str]:
        """The keys by which silos log in to Flower; they sign nothing that other silos read."""
        return read_table(self.folder / "logins.json", "admit the silos again")

    @property
    def revoked(self) -> dict[str, str]:
        """Fingerprints of keys that count no more, and whose they were."""
        return read_table(self.folder / "revoked.json", "revoke those keys again")

    @property
    def nodes(self) -> dict[str, dict[str, str]]:
        """The silos that are registered with the SuperLink: key and number of each."""
        return read_table(self.flower_home / "nodes.json", "start the coordinator again")

    @property
    def missing(self) -> list[str]:
        """Silos that have not handed over a key."""
        known = self.roster.keys() & self.logins.keys()
        return [name for name in self.settings.silos if name not in known] if self.settings.tls else []

    def check_complete(self) -> None:
        """Refuse to ask silos before all are there."""
        if self.missing:
            raise InputError(
                f"Silo {self.missing[0]!r} has not been admitted; get its card.txt and `dualfl deploy admit` it."
            )

    def admit(self, cards: list[str]) -> list[tuple[str, str]]:
        """Put silos on the roster; returns their names and fingerprints. All cards are good, or none is taken."""
        roster, logins = self.roster, self.logins
        taken = []
        for card in cards:
            name = card.split()[0] if card.split() else ""
            if name not in self.settings.silos:
                raise InputError(nearest("silo", name, self.settings.silos) + " The names are in project.json.")
            _, public, login = keys.read_card(card)
            if roster.get(name, public) != public:
                raise InputError(
                    f"Silo {name!r} is on the roster with another key, {keys.fingerprint(roster[name])}; if its "
                    f"operator has made a new one, revoke the old one first (`dualfl deploy revoke`)."
                )
            self.check_not_revoked(name, public, login)
            if public in [k for n, k in roster.items() if n != name]:
                raise InputError(f"The key of {name!r} is another silo's key already; every silo makes its own.")
            roster[name], logins[name] = public, login
            taken.append((name, keys.fingerprint(public)))
        self.write_roster(roster, logins)
        return taken

    def note_revoked(self, name: str, *public: str) -> None:
        """These keys are never taken again: whoever has stolen one keeps it, and Flower takes a key only once."""
        revoked = self.revoked | {keys.fingerprint(key): name for key in public}
        write_atomically(self.folder / "revoked.json", (json.dumps(revoked, indent=2) + "\n").encode())

    def check_not_revoked(self, name: str, *public: str) -> None:
        if not self.revoked.keys().isdisjoint(map(keys.fingerprint, public)):
            raise InputError(
                f"The key of {name!r} was revoked here, and a revoked key is never taken again; its operator makes a "
                "new one (`dualfl deploy rotate`) and sends the new card.txt."
            )

    def write_roster(self, roster: dict[str, str], logins: dict[str, str]) -> None:
        """For this service, which lets in who is in `logins`, and for the silos."""
        text = json.dumps(roster, indent=2, sort_keys=True) + "\n"
        write_atomically(self.folder / "roster.json", text.encode())
        write_atomically(self.folder / "logins.json", (json.dumps(logins, indent=2, sort_keys=True) + "\n").encode())
        write_atomically(self.folder / "for-silos" / "roster.json", text.encode())


def read_table(path: Path, remedy: str) -> dict[str, Any]:
    """An object of JSON; an empty one if there is no such file."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); mend it, or delete it and {remedy}.") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} must hold an object, {{...}}, and does not; mend it, or delete it and {remedy}.")
    return found


def read_settings(path: Path) -> ProjectSettings:
    try:
        given = json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"{path.parent} is not a project; make one with `dualfl deploy init {path.parent}`.") from None
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); mend it, or make the project anew.") from error
    check_content(given, path)
    settings = ProjectSettings(**given | {"silos": tuple(given["silos"])})
    check(settings)
    return settings


def check_content(given: Any, path: Path) -> None:
    """Settings that people may have edited are an object, with the names and the kinds of values that we know."""
    if not isinstance(given, dict):
        raise InputError(f"{path} must hold an object of settings, {{...}}, but it holds {json.dumps(given)[:20]}.")
    known = {field.name: str(field.type) for field in fields(ProjectSettings)}
    for name, value in given.items():
        if name not in known:
            raise InputError(f"{path}: " + nearest("setting", name, known))
        what, fits = KINDS[known[name]]
        if not fits(value):
            raise InputError(f"{path}: {name} must be {what}, but it is {json.dumps(value)}.")
    for name in ("host", "silos"):
        if name not in given:
            raise InputError(f"{path} lacks {name}, which every project has; add it, or make the project anew.")


def check(settings: ProjectSettings) -> None:
    silos = settings.silos
    for name in silos:
        if NAME.fullmatch(name) is None:
            raise InputError(f"A silo's name is made of small letters, digits and hyphens, but one is {name!r}.")
    twice = sorted({name for name in silos if silos.count(name) > 1})
    if twice:
        raise InputError(f"Two silos are called {twice[0]!r}; every silo needs a name of its own.")
    if settings.secure and not settings.tls:
        raise InputError("Secure aggregation needs the silos' keys, which --insecure does without; add --no-secure.")
    if settings.secure and len(silos) < MINIMUM:
        raise InputError(
            f"There are {len(silos)} silos, and secure aggregation hides a silo among at least {MINIMUM}; "
            "find another, or go without it (--no-secure)."
        )
    if not silos:
        raise InputError("A project needs silos; name them, as in --silos north,south,west.")
    for port in (settings.port, settings.superlink_port):
        if not 0 < port < 65536:
            raise InputError(f"A port lies between 1 and 65535, but one is {port}.")
    if settings.port == settings.superlink_port:
        raise InputError(f"The proxy and the SuperLink behind it cannot both listen on port {settings.port}.")
    check_host(settings.host)
    check_model(settings)


def check_host(host: str) -> None:
    """Something that silos can look up and a certificate can name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if HOST.fullmatch(host) is None:
            name, colon, port = host.rpartition(":")
            hint = "; the port is given apart, by --port" if colon and name and port.isdigit() else ""
            raise InputError(
                f"The host is a name in plain letters such as fl.north.org, or an address such as 192.0.2.7, "
                f"but it is {host!r}{hint}."
            ) from None


def check_model(settings: ProjectSettings) -> None:
    """What silos would refuse in the first round is known now."""
    suits = task_of(settings.loss)
    for what, value in (("ridge", settings.ridge), ("l1", settings.l1)):
        if not 0 <= value < math.inf:
            raise InputError(f"{what} must be a finite number >= 0, but it is {value}.")
    if settings.task is not None and settings.task not in TASKS:
        raise InputError(nearest("task", settings.task, TASKS))
    if settings.task is not None and suits not in (None, settings.task):
        raise InputError(
            f"The loss {settings.loss} is for {suits}, and the task is {settings.task}; give another of them."
        )
    if settings.intercept not in INTERCEPTS:
        raise InputError(nearest("intercept", settings.intercept, INTERCEPTS))
    if not settings.patience > 0:
        raise InputError(f"patience must be a number of seconds > 0, but it is {settings.patience}.")


def task_of(loss: str) -> str | None:
    """The task that a loss is for, once its name and its number are known to be good; None: any."""
    if loss == "auto":
        return None
    from dualfl.data.problem import REGRESSION, parse_loss  # most projects have no loss of their own

    name, number = parse_loss(loss)
    if number:
        REGRESSION[name](*number)  # says itself what is wrong with its number
    return "regression" if name in REGRESSION else "classification"


def init(folder: Path, settings: ProjectSettings) -> Project:
    """Write a project folder; nothing is left behind if something is wrong."""
    check(settings)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already; give a new folder, so that no key is overwritten.")
    try:
        write_project(folder, settings)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Project(folder)


def write_project(folder: Path, settings: ProjectSettings) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    write_atomically(folder / "project.json", (json.dumps(asdict(settings), indent=2) + "\n").encode())
    if settings.tls:
        certificates.write_certificates(folder / "certificates", settings.host)
        write_atomically(folder / "for-silos" / "ca.crt", (folder / "certificates" / "ca.crt").read_bytes())
    runtime.write_app(folder / "app")
    write_where(folder, settings)
    write_atomically(folder / "for-silos" / "SILO.md", pages.silo(settings).encode())


def write_where(folder: Path, settings: ProjectSettings) -> None:
    """What names the folder itself; one that is restored elsewhere has it written anew."""
    ca = folder / "certificates" / "ca.crt" if settings.tls else None
    runtime.connect(folder / "flower", f"127.0.0.1:{settings.superlink_port}", ca)
    pages.write_service(folder, "start", "coordinator", "dualfl coordinator")
    write_atomically(folder / "COORDINATOR.md", pages.coordinator(folder, settings).encode())


def plain(settings: ProjectSettings) -> dict[str, Any]:
    """What decides the objective, apart from the data."""
    return {name: getattr(settings, name) for name in ("loss", "ridge", "l1", "intercept", "solver")}


def check_algorithm(settings: ProjectSettings, algorithm: Algorithm) -> None:
    """Refuse, before anybody is asked, a method that cannot do without a penalty on the intercept."""
    if settings.intercept == "free" and algorithm.strongly_convex:
        raise InputError(
            f'{algorithm.name} needs a penalty on the intercept too, but it is free; set "intercept" to '
            '"penalised" in project.json, or take --algorithm auto.'
        )
