"""Files of results as they are read: JSON objects and tables, or a sentence that says which line is damaged."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.errors import InputError


def json_object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged, it is not JSON ({error}); run it again.") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} must hold a JSON object, but it holds a {type(found).__name__}; run it again.")
    return found


def table(path: Path, needed: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file with their line numbers; all columns needed are there in each."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is damaged: it is not UTF-8 text; run it again.") from error
    try:
        lines = csv.reader(io.StringIO(text, newline=""), strict=True)
        head = next(lines, [])
        for name in needed:
            if name not in head:
                raise InputError(f"{path} has no column {name!r}; it is damaged, or of another version; run it again.")
        for cells in lines:
            if len(cells) != len(head):
                raise InputError(
                    f"{path}, line {lines.line_num}: there are {len(cells)} cells and the head has {len(head)}; "
                    "the file is damaged, run it again."
                )
            yield lines.line_num, dict(zip(head, cells))
    except csv.Error as error:
        raise InputError(f"{path} is damaged ({error}); run it again.") from error


def number(text: str, path: Path, line: int, column: str) -> float:
    """A cell as a number; nan if it is empty."""
    try:
        return float(text) if text else np.nan
    except ValueError:
        raise InputError(
            f"{path}, line {line}: {column} must be a number or empty, but it is {text[:40]!r}; run it again."
        ) from None
