"""Public tables and what R says of them: tests/fixtures/models, made by the script there."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "fixtures" / "models"


@cache
def oracles() -> dict[str, dict[str, Any]]:
    found = json.loads((FOLDER / "oracles.json").read_text())
    return {name: {key: np.array(v, dtype=float) for key, v in entry.items()} for name, entry in found.items()}


class Table:
    """Columns by name: `y`, others that a test asks for by name, and the features X."""

    def __init__(self, name: str, *special: str) -> None:
        with (FOLDER / f"{name}.csv").open() as file:
            rows = list(csv.reader(file))
        columns = {key: np.array(values, dtype=float) for key, *values in zip(*rows)}
        self.y = columns.pop("y")
        self.special = {key: columns.pop(key) for key in special}
        self.names = list(columns)
        self.X = np.column_stack(list(columns.values()))

    def __getitem__(self, key: str) -> Any:
        return self.special[key]


def silos(n: int, kind: str, y: Any) -> Any:
    """Which row belongs to whom: dealt out, sorted by outcome, or all but a few rows in one place."""
    if kind == "shuffled":
        return (np.arange(n) * 7919) % 3
    if kind == "by outcome":
        return (np.argsort(np.argsort(y, kind="stable")) * 3) // n
    return np.where(np.arange(n) < 4, 1, 0)


SPLITS = ["shuffled", "by outcome", "tiny silo"]
