"""Files: read whole, written whole or not at all, by one process at a time, and where the user's cache is."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import secrets
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

from dualfl.errors import InputError


def write_atomically(path: Path, data: bytes, mode: int = 0o666) -> None:
    """All of `data` at `path`, or nothing: a reader or a crash never sees half a file. `mode` as for `os.open`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        # Not mkstemp, whose files nobody else may read, unless `mode` says so, and then from their first byte on.
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _keep_names(path.parent)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:  # a full disk does not say whose
            error.filename = str(path)
        raise


def in_words(error: OSError) -> str:
    """A sentence for what the system says of a file.

    >>> in_words(OSError(errno.ENOSPC, "No space left on device", "x.csv"))
    'The disk is full (x.csv: No space left on device); make room, and try again.'
    """
    what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk is full ({what}); make room, and try again."
    return f"{error.filename or 'A file'} cannot be used: {error.strerror or error}."


def _keep_names(folder: Path) -> None:
    """A new name lasts, even if the power fails now; where folders can be opened, which is not everywhere."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


@contextlib.contextmanager
def locked(folder: Path, mode: int = 0o644) -> Iterator[None]:
    """One process, and one thread of it, at a time; who comes later waits. The lock ends with its process."""
    from filelock import FileLock  # here, because it loads asyncio

    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock", mode=mode):
        yield


def mark(folder: Path) -> str:
    """Which folder this is, of this machine: a copy has another mark, and one that is only renamed the same."""
    found = os.stat(folder)
    return f"{found.st_dev}:{found.st_ino}"


def check_regular(path: Path) -> None:
    """A device may never end, and of a pipe the first bytes are gone once somebody has looked at them."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(f"{path} is a device or a pipe, and data are read from files; save it as a file first.")


def contents(path: Path) -> bytes:
    """All bytes of a file, unpacked if it is gzipped."""
    check_regular(path)
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read ({error}); get the file again.") from error


def beginning(path: Path, count: int = 8) -> bytes:
    """The first bytes of a file, unpacked if it is gzipped."""
    check_regular(path)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(count)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read ({error}); get the file again.") from error


def cache_folder() -> Path:
    """This user's cache for dualfl, where the platform wants it; DUALFL_CACHE overrides it."""
    if named := os.environ.get("DUALFL_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "dualfl"
