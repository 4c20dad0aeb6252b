"""What a folder of results holds, read back: curves, hyperparameters, the partition, coefficients, how it was made.

`dualfl run`, `compare`, `reproduce` and `fit` all write history.csv and a few files beside it; a reader here takes what
is there, and says in a sentence which file and line is not what it must be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualfl.data.label_mix import Mix
from dualfl.engines.history import Row
from dualfl.errors import InputError
from dualfl.experiments.network import Network
from dualfl.outputs import resolved
from dualfl.report.reading import json_object, number, table
from dualfl.typing import Array

HISTORY, SUMMARY, PARTITION, COEFFICIENTS = "history.csv", "summary.csv", "partition.json", "coefficients.csv"
INFLUENCE, MODEL, PATH = "influence.csv", "model.json", "path.csv"
REPORT = "report.html"
RECORDS = ("run.json", "comparison.json", "reproduce.json", "fit.json")  # what was asked, and with which versions
COUNTS = ("round", "exchanges", "contacts", "floats", "network", "local_gradients", "seconds")
NEW = ("contacts", "payload")  # columns that version 0.1.0 did not count
FIT = ("feature", "class", "coefficient", "std_error", "low", "high")
MOVED = ("silo", "feature", "class", "change", "in_std_errors")
TRIED = ("alpha", "held_out_loss", "std_error", "chosen")
GIVEN, THEORY = "given", "by theory"  # where the value of a hyperparameter is from


@dataclass(frozen=True)
class Curve:
    """One algorithm's way to its result: what was spent, and how good the model was then."""

    name: str
    columns: dict[str, Array]  # those of history.csv; what is missing is nan
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    status: str = "ok"
    sources: dict[str, str] = field(default_factory=dict)  # GIVEN or THEORY, where that is known

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def count(self, name: str) -> Array:
        """A total since the start: one of COUNTS; nan where nobody counted it."""
        if name == "network":
            return Network().seconds(self.columns["exchanges"], self.columns["payload"])
        return self.columns["floats_up"] + self.columns["floats_down"] if name == "floats" else self.columns[name]

    @property
    def error(self) -> Array:
        """(E - E*)/|E*|."""
        return self.columns["relative_error"]

    @property
    def bound(self) -> Array:
        """The proven bound of E - E*, divided by the best |E| so far."""
        with np.errstate(divide="ignore", invalid="ignore"):
            bound: Array = self.columns["certificate"] / np.abs(np.fmin.accumulate(self.columns["energy"]))
        return bound

    @property
    def measure(self) -> Array:
        """The error, or what is proven of it where E* is not known."""
        return self.error if known(self.error) else self.bound

    def reached(self, level: float, count: str) -> float | None:
        """What was spent when the measure was at most `level` for the first time; None if never."""
        there = np.flatnonzero(self.measure <= level)
        return float(self.count(count)[there[0]]) if len(there) else None


@dataclass(frozen=True)
class Partition:
    """How many rows of each label every client holds."""

    clients: tuple[str, ...]
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    heterogeneity: float | None = None


@dataclass(frozen=True)
class Coefficient:
    feature: str
    label: str  # the class, where there are several
    value: float
    error: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Move:
    """How far a coefficient goes when a silo is left out; nan where there is no model without it."""

    silo: str
    feature: str
    label: str
    change: float
    in_errors: float  # the same in standard errors


@dataclass(frozen=True)
class Tried:
    """A penalty that cross-validation tried."""

    alpha: float
    loss: float
    error: float  # nan with a single fold
    chosen: bool


@dataclass(frozen=True)
class Results:
    """All that a folder has to show."""

    path: Path
    label: str
    curves: tuple[Curve, ...] = ()
    record: dict[str, Any] = field(default_factory=dict)
    partition: Partition | None = None
    coefficients: tuple[Coefficient, ...] = ()
    influence: tuple[Move, ...] = ()
    tried: tuple[Tried, ...] = ()
    spread: dict[str, float] = field(default_factory=dict)  # the standard deviation of each column, where it is known

    @property
    def is_fit(self) -> bool:
        """Whether it is a model of somebody's tables, and no experiment."""
        return bool(self.coefficients) and "target" in self.part("data")

    def parts(self, name: str) -> list[dict[str, Any]]:
        """A list of the record; empty if there is none."""
        found = self.record.get(name)
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    def part(self, name: str) -> dict[str, Any]:
        """A part of the record, such as its settings; empty if there is none."""
        return part(self.record, name)

    def text_of(self, name: str) -> str:
        """A text of the record; empty if there is none."""
        found = self.record.get(name)
        return found if isinstance(found, str) else ""

    @property
    def version(self) -> str | None:
        version = self.part("environment").get("dualfl")
        return None if version is None else str(version)


def part(record: dict[str, Any], name: str) -> dict[str, Any]:
    found = record.get(name)
    return found if isinstance(found, dict) else {}


def known(values: Array) -> bool:
    return bool(np.isfinite(values).any())


# -- folders ----------------------------------------------------------------------------------------------


def read_all(folders: Sequence[Path], *, any_version: bool = False) -> list[Results]:
    """The results of these folders; one that has none itself stands for the folders in it that have."""
    paths = [path for folder in folders for path in with_results(folder)]
    seen: set[Path] = set()
    for path in paths:
        if resolved(path) in seen:
            raise InputError(f"{path} is given twice; give every folder once.")
        seen.add(resolved(path))
    found = by_own_labels([read(path, label) for path, label in zip(paths, labels(paths))])
    versions = {one.version: one for one in found if one.version is not None}
    if len(versions) > 1 and not any_version:
        made = ", ".join(f"{one.path} by dualfl {version}" for version, one in versions.items())
        raise InputError(f"These results are of several versions ({made}); run them again, or add --any-version.")
    return found


def with_results(folder: Path) -> list[Path]:
    """The folder, or else those of its folders that hold results."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {what}; give the folder of a run, as `dualfl run --out DIR` writes it.")
    if holds_results(folder):
        return [folder]
    found = [path for path in sorted(folder.iterdir()) if path.is_dir() and holds_results(path)]
    if not found:
        raise InputError(
            f"{folder} has no results: there is no {HISTORY} in it or in a folder of it; "
            "give a folder that `dualfl run`, `compare` or `fit` wrote."
        )
    return found


def holds_results(folder: Path) -> bool:
    return (folder / HISTORY).is_file() or (folder / COEFFICIENTS).is_file()


def labels(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart."""
    parts = [resolved(path).parts for path in paths]
    for length in range(1, max(map(len, parts), default=1) + 1):
        ends = ["/".join(part[-length:]).replace("//", "/") for part in parts]
        if len(set(ends)) == len(ends):
            break
    return ends if paths else []


def by_own_labels(found: list[Results]) -> list[Results]:
    """By the labels that the records have for readers, if these tell all apart."""
    own = [one.text_of("label") or one.label for one in found]
    return [replace(one, label=label) for one, label in zip(found, own)] if len(set(own)) == len(own) else found


def read(folder: Path, label: str = "") -> Results:
    """What this folder holds."""
    record = read_record(folder)
    curves: tuple[Curve, ...] = ()
    if (folder / HISTORY).is_file():
        curves = tuple(read_curves(folder, record))
    return Results(
        path=folder,
        label=label or resolved(folder).name,
        curves=curves,
        record=record,
        partition=read_partition(folder / PARTITION) if (folder / PARTITION).is_file() else None,
        coefficients=read_coefficients(folder / COEFFICIENTS) if (folder / COEFFICIENTS).is_file() else (),
        influence=tuple(read_influence(folder / INFLUENCE)) if (folder / INFLUENCE).is_file() else (),
        tried=tuple(read_path(folder / PATH)) if (folder / PATH).is_file() else (),
        spread=read_spread(folder / MODEL) if (folder / MODEL).is_file() else {},
    )


def read_record(folder: Path) -> dict[str, Any]:
    """The JSON file that says what was run; empty if there is none."""
    for name in RECORDS:
        if (folder / name).is_file():
            return json_object(folder / name)
    return {}


# -- tables -----------------------------------------------------------------------------------------------


class About(NamedTuple):
    """What summary.csv says of an algorithm; `given` are the names of hyperparameters, None if it does not say."""

    hyperparameters: dict[str, Any]
    status: str = "ok"
    given: tuple[str, ...] | None = None


def read_curves(folder: Path, record: dict[str, Any]) -> Iterator[Curve]:
    """The curves of history.csv, and of summary.csv the algorithms that have none."""
    path = folder / HISTORY
    rows: dict[str, list[list[float]]] = {}
    alone = str(part(record, "algorithm").get("algorithm", resolved(folder).name))
    for line, cells in table(path, [column for column in Row._fields if column not in NEW]):
        values = [number(cells.get(column, ""), path, line, column) for column in Row._fields]
        rows.setdefault(cells.get("name", alone), []).append(values)
    about = dict(read_summary(folder / SUMMARY)) if (folder / SUMMARY).is_file() else {}
    if not rows and not about:
        raise InputError(f"{path} has no round in it; the run did not begin, run it again.")
    for name in dict.fromkeys([*about, *rows]):
        columns = np.array(rows.get(name, []), dtype=float).reshape(-1, len(Row._fields))
        told = about.get(name, About(of_record(record)))
        whence = sources(record, told.hyperparameters, told.given)
        yield Curve(name, dict(zip(Row._fields, columns.T)), told.hyperparameters, told.status, whence)


def of_record(record: dict[str, Any]) -> dict[str, Any]:
    """The hyperparameters of a single run."""
    return {key: value for key, value in part(record, "algorithm").items() if key != "algorithm"}


def sources(record: dict[str, Any], values: Iterable[str], given: Iterable[str] | None = None) -> dict[str, str]:
    """Which of these hyperparameters were given and which are theory's; what the record does not tell is left out."""
    settings, name = part(record, "settings"), part(record, "algorithm").get("algorithm")
    given = set(part(settings, "hyperparameters") if given is None else given)
    theory = record.get(THEORY)
    if not isinstance(theory, list):
        told = "settings" in record and settings.get("algorithm", name) == name  # `auto` gives values of its own
        theory = list(values) if told else []
    return {key: GIVEN if key in given else THEORY for key in values if key in given or key in theory}


def read_summary(path: Path) -> Iterator[tuple[str, About]]:
    for line, cells in table(path, ("name", "hyperparameters", "status")):
        try:
            chosen = dict(json.loads(cells["hyperparameters"] or "{}"))
        except (TypeError, ValueError):
            raise InputError(f"{path}, line {line}: the hyperparameters are not JSON; run it again.") from None
        given = tuple(cells["given"].split()) if "given" in cells else None
        yield cells["name"], About(chosen, cells["status"], given)


def partition_file(mix: Mix) -> bytes:
    """What partition.json holds: how many rows of each label every client has."""
    content = {
        "clients": [str(j) for j in range(len(mix.counts))],
        "labels": list(mix.labels),
        "counts": mix.counts.tolist(),
        "heterogeneity": mix.heterogeneity,
    }
    return (json.dumps(content) + "\n").encode()


def read_partition(path: Path) -> Partition:
    content = json_object(path)
    try:
        clients, labels = (tuple(map(str, content[name])) for name in ("clients", "labels"))
        counts = tuple(tuple(int(count) for count in row) for row in content["counts"])
        share = content.get("heterogeneity")
        found = Partition(clients, labels, counts, None if share is None else float(share))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path} is not a partition ({error!r}); run it again.") from error
    if len(counts) != len(clients) or any(len(row) != len(labels) for row in counts):
        raise InputError(
            f"{path} must have {len(clients)} rows of {len(labels)} counts, but it does not; run it again."
        )
    return found


def read_coefficients(path: Path) -> tuple[Coefficient, ...]:
    found = []
    for line, cells in table(path, FIT):
        values = [number(cells[column], path, line, column) for column in FIT[2:]]
        if np.isnan(values[0]):
            raise InputError(f"{path}, line {line}: the coefficient is missing; fit the model again.")
        error, low, high = (None if np.isnan(value) else value for value in values[1:])
        found.append(Coefficient(cells["feature"], cells["class"], values[0], error, low, high))
    if not found:
        raise InputError(f"{path} has no coefficient in it; fit the model again.")
    return tuple(found)


def read_influence(path: Path) -> Iterator[Move]:
    for line, cells in table(path, MOVED):
        change, in_errors = (number(cells[column], path, line, column) for column in MOVED[3:])
        yield Move(cells["silo"], cells["feature"], cells["class"], change, in_errors)


def read_path(path: Path) -> Iterator[Tried]:
    for line, cells in table(path, TRIED):
        alpha, loss, error, chosen = (number(cells[column], path, line, column) for column in TRIED)
        yield Tried(alpha, loss, error, chosen == 1)


def read_spread(path: Path) -> dict[str, float]:
    """How far each column spreads; empty where the model was fitted to columns as they are."""
    content = json_object(path)
    spread, columns = part(content, "scaling").get("spread"), content.get("columns")
    if not isinstance(spread, list) or not isinstance(columns, list) or len(spread) != len(columns):
        return {}
    found = {str(name): float(value) for name, value in zip(columns, spread) if isinstance(value, int | float)}
    return found if any(value != 1 for value in found.values()) else {}
