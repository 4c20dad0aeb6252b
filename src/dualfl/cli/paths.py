"""Places on the command line: folders, and files that are read whole, so that devices and pipes are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dualfl.files import check_regular


class FileToRead(click.Path):
    """A file whose end is reached: /dev/zero has none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path: Any = super().convert(value, param, ctx)
        check_regular(path)
        return path


FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = FileToRead(path_type=Path, dir_okay=False)
