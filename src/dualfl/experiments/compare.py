"""Several algorithms on one problem, under one account.

Nothing that an algorithm does changes how it is measured: all start at zero, run the same number of rounds, and are
counted by the engine. One that does not apply says why, and one that diverges is reported as diverged, with the round;
neither is ever a number that looks like a result.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualfl.algorithms.contract import Algorithm
from dualfl.arguments import check, checked
from dualfl.engines import Problem, Result, run
from dualfl.engines.history import History, Row
from dualfl.errors import Diverged, InputError, NotSupported

LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
COUNTS = {"rounds": "round", "exchanges": "exchanges", "floats": "floats"}


@dataclass(frozen=True)
class Entry:
    """One algorithm in a comparison: its result, or why there is none."""

    name: str
    algorithm: Algorithm
    result: Result | None
    status: str  # "ok", "diverged at round n", or "does not apply: ..."

    @property
    def history(self) -> History:
        return History() if self.result is None else self.result.history

    @property
    def final_error(self) -> float:
        """The relative error of the last round; nan where there is no result."""
        ok = self.status == "ok" and len(self.history) > 0
        return float(self.history.column("relative_error")[-1]) if ok else np.nan

    def reached(self, level: float, count: str) -> float | None:
        """Rounds, exchanges or floats until the relative error is at most `level`; None if never."""
        for row in self.history:
            if row.relative_error is not None and row.relative_error <= level:
                return row.floats_up + row.floats_down if count == "floats" else float(getattr(row, COUNTS[count]))
        return None


@dataclass(frozen=True)
class Comparison:
    """The entries, in the order in which they were asked for."""

    entries: tuple[Entry, ...]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __getitem__(self, name: str) -> Entry:
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(name)

    def ranking(self) -> list[Entry]:
        """By exchanges to the smallest level reached, best first; what did not run comes last."""

        def key(entry: Entry) -> tuple[float, ...]:
            reached = [entry.reached(level, "exchanges") for level in reversed(LEVELS)]
            error = entry.final_error
            return (*(np.inf if r is None else r for r in reached), np.inf if np.isnan(error) else error)

        return sorted(self.entries, key=key)

    def summary_csv(self) -> str:
        """One row an algorithm."""
        levels = [f"{count}_to_{level:.0e}" for level in LEVELS for count in COUNTS]
        head = ["name", "hyperparameters", "rounds", *levels, "final_error", "local_gradients", "seconds", "status"]
        return _csv(head, (self._summary(entry) for entry in self.entries))

    @staticmethod
    def _summary(entry: Entry) -> list[Any]:
        last: Row | None = entry.history[-1] if len(entry.history) else None
        reached = [entry.reached(level, count) for level in LEVELS for count in COUNTS]
        hyperparameters = json.dumps(dataclasses.asdict(entry.algorithm))
        final: list[Any] = ["", "", ""]
        if last is not None:
            final = [entry.final_error, last.local_gradients, last.seconds]
        return [
            entry.name,
            hyperparameters,
            "" if last is None else last.round,
            *("" if r is None else int(r) for r in reached),
            *final,
            entry.status,
        ]

    def history_csv(self) -> str:
        """All rounds of all algorithms."""
        rows = ([entry.name, *("" if v is None else v for v in row)] for entry in self.entries for row in entry.history)
        return _csv(["name", *Row._fields], rows)


def _csv(head: list[str], rows: Iterable[list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()


@checked
def compare(
    problem: Problem,
    algorithms: Iterable[Algorithm],
    *,
    rounds: int = 50,
    reference: float | None = None,
    tell: Callable[[Entry], None] | None = None,
    **options: Any,
) -> Comparison:
    """Run every algorithm on the problem for as many rounds, and put their accounts side by side.

    `tell` hears of each entry as it is done. Other options go to `run`.

    >>> from dualfl.algorithms import DualFL
    >>> from dualfl.algorithms.server import ServerLBFGS
    >>> from dualfl.objectives import Quadratic
    >>> clients = [Quadratic(np.diag([1.0, 4.0]), b) for b in np.eye(2)]
    >>> both = compare(Problem(clients), [DualFL(), ServerLBFGS()], rounds=20, reference=-0.15625)
    >>> [entry.name for entry in both.ranking()]
    ['dualfl', 'lbfgs']
    """
    chosen = list(algorithms)
    for algorithm in chosen:
        check("each of the algorithms", algorithm, Algorithm)
    if not chosen:
        raise InputError("There is nothing to compare: give at least one algorithm.")
    entries = []
    for name, algorithm in zip(names(chosen), chosen):
        entry = one(problem, name, algorithm, rounds=rounds, reference=reference, **options)
        entries.append(entry)
        if tell is not None:
            tell(entry)
        if entry.result is not None and entry.result.stopped == "interrupted":
            break
    return Comparison(tuple(entries))


def names(algorithms: list[Algorithm]) -> list[str]:
    """Their names, numbered where one occurs twice."""
    plain = [algorithm.name for algorithm in algorithms]
    return [n if plain.count(n) == 1 else f"{n}-{plain[: i + 1].count(n)}" for i, n in enumerate(plain)]


def one(problem: Problem, name: str, algorithm: Algorithm, **options: Any) -> Entry:
    try:
        result = run(problem, algorithm, **options)
    except Diverged as error:
        return Entry(name, algorithm, None, f"diverged: {error}")
    except (InputError, NotSupported) as error:
        return Entry(name, algorithm, None, f"does not apply: {error}")
    status = f"diverged at round {result.rounds}" if result.stopped == "diverged" else "ok"
    return Entry(name, result.algorithm, result, status)
