"""Where files lie: the folder that DUALFL_DATA names, then the user's cache, where downloads go."""

from __future__ import annotations

import os
from pathlib import Path

from dualfl.files import cache_folder

VARIABLE = "DUALFL_DATA"


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
