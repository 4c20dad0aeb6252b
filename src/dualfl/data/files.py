"""Where files lie: the folder that DUALFL_DATA names, then the user's cache, where downloads go."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from pathlib import Path

from dualfl.errors import InputError

VARIABLE = "DUALFL_DATA"


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


def data_folders() -> list[Path]:
    """Where data files are looked for, in this order."""
    named = os.environ.get(VARIABLE)
    return ([Path(named).expanduser()] if named else []) + [cache_folder() / "data"]


def find(file: str) -> Path | None:
    """The file, plain or gzipped, in the first folder that has it."""
    for folder in data_folders():
        for path in (folder / file, folder / f"{file}.gz"):
            if path.is_file():
                return path
    return None


def contents(path: Path) -> bytes:
    """All bytes of a file, unpacked if it is gzipped."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read ({error}); get the file again.") from error


def beginning(path: Path, count: int = 8) -> bytes:
    """The first bytes of a file, unpacked if it is gzipped."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(count)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read ({error}); get the file again.") from error
