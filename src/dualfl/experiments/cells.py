"""A cell, one algorithm on one problem, run once; and what came of it.

A cell is its settings. What came of it is a small JSON file named by a digest of them (see `store`), so an interrupted
experiment goes on where it stopped, and two experiments in one folder share what they have in common. The time that a
cell may take is not among what names it: one that its time cut short is run again when it may take longer, and all
others are as good as before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.typing import Array

FORMAT = 2  # of the files, and of what the settings mean
COLUMNS = (
    *("round", "exchanges", "floats_up", "floats_down", "local_gradients", "seconds", "relative_error"),
    *("contacts", "payload", "certificate"),
)
STATUSES = ("ok", "diverged", "does not apply")


@dataclass(frozen=True)
class Cell:
    """Everything that decides what a cell computes; `rows` takes only so many, spread evenly over the file, `free`
    allows steps beyond 2/L. Without `certificate` E is measured on the rows of all clients in one piece; the engine
    would ask one client after the other, also for how far rounding may be off, which takes longer than an exchange."""

    dataset: str
    algorithm: str
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None
    clients: int = 8
    partition: str = "even"
    scale: str = "default"
    loss: str = "auto"
    ridge: float = 1e-2
    l1: float = 0.0
    solver: str = "default"
    rounds: int = 50
    exchanges: int | None = None
    target: float | None = None  # a relative error at which there is nothing more to see
    minutes: float | None = None  # of a processor, so that it does not matter what else the machine does
    free: bool = False
    seed: int = 0
    target_column: str | None = None  # of a file
    certificate: bool = True  # whether it is kept, too

    @property
    def problem(self) -> Cell:
        """What makes the problem: equal for all algorithms that run on it."""
        return Cell(
            self.dataset,
            "",
            {},
            self.rows,
            self.clients,
            self.partition,
            self.scale,
            self.loss,
            self.ridge,
            self.l1,
            self.solver,
            target_column=self.target_column,
        )

    @property
    def timeless(self) -> Cell:
        """What it computes, were there no limit of time, whatever of it is kept."""
        return replace(self, minutes=None, certificate=True)

    @property
    def digest(self) -> str:
        settings = asdict(self.timeless)
        del settings["certificate"]  # it changes what is kept, and nothing else
        if self.target_column is None:  # named sets have the digests that they had before files had targets
            del settings["target_column"]
        text = json.dumps([FORMAT, settings], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()

    def __hash__(self) -> int:  # hyperparameters are a dictionary
        return hash(self.digest)

    @property
    def label(self) -> str:
        """A few words for whoever watches."""
        where = self.dataset if self.scale == "default" else f"{self.dataset} ({self.scale})"
        more = "".join(f" {name}={value:.3g}" for name, value in self.hyperparameters.items() if _is_number(value))
        seed = f" seed {self.seed}" if self.seed else ""
        return f"{where} N={self.clients} {self.partition} mu={self.ridge:g}: {self.algorithm}{more}{seed}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Outcome:
    """What came of a cell: columns of its history, and how it ended ("ok", "diverged ...", "does not apply: ...")."""

    cell: Cell
    status: str
    columns: Mapping[str, Array]
    minimum: float | None = None
    cpu: float = 0.0  # seconds of one processor, measuring included
    data: str = ""  # the fingerprint of the file it was run on

    @property
    def applies(self) -> bool:
        return not self.status.startswith("does not apply")

    @property
    def errors(self) -> Array:
        """Relative energy errors of rounds 0, 1, ...; empty where there was no run."""
        return self.columns["relative_error"]

    @property
    def cut(self) -> bool:
        """Whether it was the time that ended it."""
        if self.status != "ok" or self.cell.minutes is None:
            return False
        if not len(self.errors):
            return True
        last = {name: values[-1] for name, values in self.columns.items()}
        cell = self.cell
        return not (
            last["round"] >= cell.rounds
            or (cell.exchanges is not None and last["exchanges"] >= cell.exchanges)
            or (cell.target is not None and last["relative_error"] <= cell.target)
        )

    def serves(self, cell: Cell) -> bool:
        """Whether it tells of that cell all that would be found in its time."""
        if self.cell.timeless != cell.timeless or (cell.certificate and not self.cell.certificate):
            return False
        return not self.cut or (cell.minutes is not None and cell.minutes <= (self.cell.minutes or np.inf))

    def reached(self, level: float) -> int | None:
        """The index of the first round whose error is at most `level`; None if there is none."""
        there = np.nonzero(self.errors <= level)[0]
        return int(there[0]) if there.size else None

    def to_json(self) -> str:
        """For a file. Of a long run some rounds are enough to draw it; every round at which it comes to a new power of
        ten, in truth or by proof, is among them."""
        kept = telling(self.errors, self.columns["certificate"] / abs(self.minimum or np.nan))
        columns = {name: [_short(x) for x in values[kept]] for name, values in self.columns.items()}
        content = {"cell": asdict(self.cell), "status": self.status, "minimum": self.minimum}
        content |= {"cpu": round(self.cpu, 3), "data": self.data, "columns": columns}
        return json.dumps(content, allow_nan=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Outcome:
        content = json.loads(text)
        status, cell = str(content["status"]), Cell(**content["cell"])
        stored = {
            name: np.array([np.nan if x is None else x for x in values], dtype=float)
            for name, values in content["columns"].items()
        }
        columns = {name: stored[name] if name in stored else _former(name, stored, cell) for name in COLUMNS}
        if len({len(values) for values in columns.values()}) > 1 or not status.startswith(STATUSES):
            raise ValueError("not a cell")
        return Outcome(cell, status, columns, content["minimum"], float(content["cpu"]), content.get("data", ""))


def telling(*errors: Array, most: int = 200, drawn: int = 60) -> np.ndarray[Any, Any]:
    """Indices of the rounds that are kept: all of a run of at most `most`, else the first ones, some more at equal
    ratios, the last, and the first round of every power of ten of each of the errors.

    >>> telling(np.ones(3)), len(telling(np.ones(500)))
    (array([0, 1, 2]), 48)
    """
    n = len(errors[0])
    if n <= most:
        return np.arange(n)
    kept = {0, n - 1, *np.unique(np.geomspace(1, n - 1, drawn).astype(int)).tolist()}
    for values in errors:
        for power in range(-16, 1):
            kept.update(np.flatnonzero(values <= 10.0**power)[:1].tolist())
    return np.array(sorted(kept))


def _former(name: str, stored: Mapping[str, Array], cell: Cell) -> Array:
    """A column of a cell that was run before it was counted: equal shares of the floats, and contacts nobody knows."""
    if name == "payload":
        return np.asarray((stored["floats_up"] + stored["floats_down"]) / cell.clients)
    return np.full(len(stored["round"]), np.nan)


def check_minutes(minutes: float | None, name: str = "cell-minutes") -> None:
    """None is no limit."""
    if minutes is not None and not 0 < minutes < np.inf:
        raise InputError(f"{name} must be a number of minutes > 0, but it is {minutes:g}.")


def _short(x: float) -> float | int | None:
    """Eight digits, which is more than anybody will draw; None for what is not finite."""
    if not np.isfinite(x):
        return None
    return int(x) if float(x).is_integer() else float(f"{x:.8g}")
