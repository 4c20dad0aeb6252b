"""What keeps a folder in order over years: which version served it last, backups, and old experiments.

A backup has everything but what an experiment under way needs: its secrets. A silo that goes on from an old copy of
them would answer other questions under masks that it has used. So what was open when a backup was made is over in the
folder that is restored, and a folder that finds itself in another place than before ends what is open in it.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from dualfl.deploy.condition import works
from dualfl.deploy.service import SERVICE, Say, running
from dualfl.errors import InputError
from dualfl.federation.protocol import PROTOCOL
from dualfl.files import mark, write_atomically
from dualfl.version import __version__

SERVED = "served.json"  # in service/: the version that served the folder last, and where the folder was
EXPERIMENTS, ENDED = "experiments", "ended"
LEFT_OUT = {"coordinator": {SERVICE, "logs"}, "silo": {SERVICE, "logs", "cache", EXPERIMENTS, "flower"}}
DATABASE, BESIDE = ".db", (".db-wal", ".db-shm")  # Flower's, and what SQLite keeps beside one that is open
PRIVATE = 0o600


def kind_of(folder: Path) -> str:
    for kind, name in (("coordinator", "project.json"), ("silo", "silo.json")):
        if (folder / name).exists():
            return kind
    raise InputError(f"{folder} is neither a coordinator's folder nor a silo's.")


# -- versions and places ---------------------------------------------------------------------------------------


def check_in(folder: Path, say: Say) -> None:
    """Before a folder is served: refuse one of a newer version, and end what a copy must not go on with."""
    path = folder / SERVICE / SERVED
    try:
        before = json.loads(path.read_text())
    except (OSError, ValueError):
        before = {}
    if int(before.get("protocol", 0)) > PROTOCOL:
        raise InputError(
            f"{folder} was served by dualfl {before.get('version')} with protocol {before['protocol']}, and this is "
            f"dualfl {__version__} with protocol {PROTOCOL}; install that version, or a newer one, here."
        )
    here = mark(folder)
    if before and before.get("place") != here and kind_of(folder) == "silo":
        ended = end_open(folder)
        if ended:
            say(
                f"This folder was copied or restored, so what was open in it is over ({ended} experiments): masks must "
                "not be used twice. Start such analyses anew."
            )
    content = {"version": __version__, "protocol": PROTOCOL, "place": here}
    if content != before:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomically(path, json.dumps(content).encode())


def end_open(folder: Path) -> int:
    """All experiments of a silo's folder are over; returns how many there were."""
    found = [path for path in (folder / EXPERIMENTS).glob("*") if path.is_dir()]
    for path in found:
        write_atomically(folder / ENDED / path.name, b"", PRIVATE)
        shutil.rmtree(path, ignore_errors=True)
    return len(found)


# -- backups ---------------------------------------------------------------------------------------------------


def backup(folder: Path, to: Path) -> int:
    """Write an archive that only its owner may read; returns how many files are in it."""
    kind, count = kind_of(folder), 0
    if to.exists():
        raise InputError(f"{to} is there already; give a new file.")
    if to.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{to} lies in the folder that is backed up; give a place on another disk.")
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for path in sorted(folder.rglob("*")):
            within = path.relative_to(folder)
            if within.parts[0] in LEFT_OUT[kind] or not path.is_file() or path.is_symlink():
                continue
            if path.name.endswith(BESIDE):
                continue
            with contextlib.suppress(FileNotFoundError):  # it went meanwhile
                if path.suffix == DATABASE:
                    add_database(archive, path, within)
                else:
                    archive.add(path, str(within), recursive=False)
                count += 1
        for path in sorted((folder / EXPERIMENTS).glob("*")) if kind == "silo" else []:
            archive.addfile(tarfile.TarInfo(f"{ENDED}/{path.name}"))  # whoever restores this has it behind him
    write_atomically(to, data.getvalue(), PRIVATE)
    return count


def add_database(archive: tarfile.TarFile, path: Path, within: Path) -> None:
    """As it is at one moment, whoever writes to it meanwhile: a plain copy may be torn."""
    with tempfile.TemporaryDirectory() as temporary:
        whole = Path(temporary) / path.name
        with contextlib.closing(sqlite3.connect(path)) as ours, contextlib.closing(sqlite3.connect(whole)) as copy:
            ours.backup(copy)
        archive.add(whole, str(within), recursive=False)


def restore(archive: Path, folder: Path) -> str:
    """Into a new folder; returns whether it is a coordinator's or a silo's."""
    if archive.exists() and not archive.is_file():  # a device would be read for ever
        raise InputError(f"{archive} is no file; give a backup by `dualfl deploy backup`.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already; give a new folder, and move the old one away.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    before = os.umask(0o077)
    try:
        with tarfile.open(archive) as packed:
            safely: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4
            packed.extractall(folder, **safely)
        settle(folder)
        return kind_of(folder)
    except (OSError, EOFError, tarfile.TarError, InputError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            error.filename = str(folder)
            raise
        reason = str(error).splitlines()[0].rstrip(":")  # tarfile lists what it tried, a line each
        raise InputError(f"{archive} is not a backup by `dualfl deploy backup` ({reason}); take another.") from error
    finally:
        os.umask(before)


def settle(folder: Path) -> None:
    """Units, scripts and pages name the folder, which was another when they were written."""
    from dualfl.deploy import pages, project

    if kind_of(folder) == "coordinator":
        project.write_where(folder, project.Project(folder).settings)
    else:
        name = json.loads((folder / "silo.json").read_text())["name"]
        pages.write_service(folder, "serve", "silo", f"dualfl silo {name}")


# -- old experiments -------------------------------------------------------------------------------------------


def purge(folder: Path, days: float) -> tuple[int, int]:
    """Delete what is left of experiments that nobody touched for so long; returns how many, and how many bytes."""
    kind, limit = kind_of(folder), time.time() - days * 86_400
    if kind == "silo":
        old = [path for path in (folder / EXPERIMENTS).glob("*") if path.is_dir() and newest(path) < limit]
        for path in old:
            write_atomically(folder / ENDED / path.name, b"", PRIVATE)
    else:
        old = [work for work in works(folder) if newest(work) < limit]
    size = sum(file.stat().st_size for path in old for file in path.rglob("*") if file.is_file())
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    return len(old), size


def newest(folder: Path) -> float:
    return max((path.stat().st_mtime for path in (folder, *folder.rglob("*"))), default=0.0)


def check_not_served(folder: Path, what: str) -> None:
    if pid := running(folder):
        raise InputError(
            f"{folder} is being served by process {pid}; stop it first (`dualfl deploy stop {folder}`), then {what}."
        )
