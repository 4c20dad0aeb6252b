"""Several algorithms on one problem, under one account.

Nothing that an algorithm does changes how it is measured: all start at zero, have the same rounds and the same
tolerance, and are counted by the engine. Methods that toss coins run once for every seed, and their counts are medians
with the smallest and the largest beside them. One that does not apply says why, and one that diverges is reported as
diverged, with the round; neither is ever a number that looks like a result.

Three measures of communication, after Bylinkin and Beznosikov: exchanges, contacts with single clients, and the time
that a stated network needs for waiting and for the payload; beside them rounds, floats, local gradients and seconds.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualfl.algorithms.contract import Algorithm
from dualfl.arguments import check, checked
from dualfl.engines import Problem, Result, run
from dualfl.engines.history import History, Row
from dualfl.errors import Diverged, InputError, NotSupported
from dualfl.experiments.network import Network
from dualfl.typing import Array

UNFIT = "does not apply: "
LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
COUNTS = {
    "rounds": "round",
    "exchanges": "exchanges",
    "contacts": "contacts",
    "floats": "floats",
    "network": "network",
    "gradients": "local_gradients",
    "seconds": "seconds",
}


def count_of(history: History, count: str, network: Network | None = None) -> Array:
    """A column of COUNTS, of all rounds. `network` is seconds of waiting and sending, computing left out."""
    if count == "floats":
        return history.column("floats_up") + history.column("floats_down")
    if count == "network":
        return (network or Network()).seconds(history.column("exchanges"), history.column("payload"))
    return history.column(COUNTS.get(count, count))


@dataclass(frozen=True)
class Entry:
    """One algorithm in a comparison: its results, one a seed, or why there is none."""

    name: str
    algorithm: Algorithm
    runs: tuple[Result, ...]
    status: str  # "ok", "diverged at round n", or "does not apply: ..."
    given: tuple[str, ...] = ()  # the hyperparameters that are not theory's
    levels: tuple[float, ...] = LEVELS

    @property
    def result(self) -> Result | None:
        """Of several seeds that in the middle, by the exchanges to the smallest level and by the last error."""

        def far(result: Result) -> tuple[float, ...]:
            error = result.history.column("relative_error")
            reached = [first(result.history, level, "exchanges") for level in reversed(self.levels)]
            return (*reached, float(np.nan_to_num(error[-1], nan=np.inf)) if len(error) else np.inf)

        return sorted(self.runs, key=far)[(len(self.runs) - 1) // 2] if self.runs else None

    @property
    def history(self) -> History:
        return History() if self.result is None else self.result.history

    @property
    def choice(self) -> str:
        """What `auto` picked, and why; "" if the algorithm was given."""
        return "" if self.result is None else self.result.choice

    @property
    def final_error(self) -> float:
        """The median relative error of the last round; nan where there is no result."""
        last = [run.history.column("relative_error")[-1] for run in self.runs if len(run.history)]
        return float(np.median(last)) if self.status == "ok" and last else np.nan

    def each(self, level: float, count: str, network: Network | None = None) -> list[float]:
        """For every seed the count at which the relative error is at most `level`; inf if never."""
        return [first(run.history, level, count, network) for run in self.runs]

    def reached(self, level: float, count: str, network: Network | None = None) -> float | None:
        """The median count to a level; None if half of the seeds never reach it."""
        found = sorted(self.each(level, count, network))
        middle = found[(len(found) - 1) // 2] if found else np.inf
        if len(found) % 2 == 0 and found and np.isfinite(found[len(found) // 2]):
            middle = (middle + found[len(found) // 2]) / 2
        return middle if np.isfinite(middle) else None


def levels_to(tol: float | None) -> tuple[float, ...]:
    """The levels that runs are asked for: with a tolerance, at which they end, none below it.

    >>> levels_to(1e-5)
    (0.01, 0.0001, 1e-05)
    """
    return LEVELS if tol is None else (*(level for level in LEVELS if level > tol), tol)


def level_text(level: float) -> str:
    """In a column's head: a power of ten as 1e-06, and anything else to the digits it has."""
    short = f"{level:.0e}"
    return short if float(short) == level else f"{level:g}"


def first(history: History, level: float, count: str, network: Network | None = None) -> float:
    """The count at which the relative error is at most `level` for the first time; inf if never."""
    there = np.flatnonzero(history.column("relative_error") <= level)
    return float(count_of(history, count, network)[there[0]]) if len(there) else np.inf


@dataclass(frozen=True)
class Comparison:
    """The entries, in the order in which they were asked for."""

    entries: tuple[Entry, ...]
    levels: tuple[float, ...] = LEVELS

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
            reached = [entry.reached(level, "exchanges") for level in reversed(self.levels)]
            error = entry.final_error
            return (*(np.inf if r is None else r for r in reached), np.inf if np.isnan(error) else error)

        return sorted(self.entries, key=key)

    def summary_csv(self) -> str:
        """One row an algorithm: medians over its seeds, and of the exchanges also the smallest and the largest."""
        levels = [f"{count}_to_{level_text(level)}" for level in self.levels for count in COUNTS]
        bands = [f"exchanges_to_{level_text(level)}_{end}" for level in self.levels for end in ("least", "most")]
        head = ["name", "hyperparameters", "given", "seeds", "rounds", *levels, *bands]
        head += ["final_error", "local_gradients", "seconds", "choice", "status"]
        return _csv(head, (self._summary(entry) for entry in self.entries))

    def _summary(self, entry: Entry) -> list[Any]:
        last: Row | None = entry.history[-1] if len(entry.history) else None
        reached = [entry.reached(level, count) for level in self.levels for count in COUNTS]
        ends = [end(entry.each(level, "exchanges"), default=np.inf) for level in self.levels for end in (min, max)]
        final: list[Any] = ["", "", ""]
        if last is not None:
            final = [entry.final_error, last.local_gradients, last.seconds]
        return [
            entry.name,
            json.dumps(dataclasses.asdict(entry.algorithm)),
            " ".join(entry.given),
            len(entry.runs),
            "" if last is None else last.round,
            *("" if r is None else f"{r:.10g}" for r in reached),
            *("" if not np.isfinite(r) else f"{r:.10g}" for r in ends),
            *final,
            entry.choice,
            entry.status,
        ]

    def history_csv(self) -> str:
        """All rounds of all algorithms; of several seeds the one in the middle."""
        rows = ([entry.name, *("" if v is None else v for v in row)] for entry in self.entries for row in entry.history)
        return _csv(["name", *Row._fields], rows)

    def seeds_csv(self) -> str:
        """All rounds of all seeds, numbered from 0."""
        rows = (
            [entry.name, number, *("" if v is None else v for v in row)]
            for entry in self.entries
            for number, run in enumerate(entry.runs)
            for row in run.history
        )
        return _csv(["name", "seed", *Row._fields], rows)


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
    tol: float | None = None,
    seeds: int = 1,
    seed: int = 0,
    tell: Callable[[Entry], None] | None = None,
    **options: Any,
) -> Comparison:
    """Run several algorithms on one problem, for the same number of rounds, and compare what they cost and reach.

    Parameters
    ----------
    problem : Problem
        The clients and their penalty, such as `dualfl.make_problem("digits")`.
    algorithms : iterable of Algorithm
        The algorithms. Two with the same name are distinguished by their hyperparameters.
    rounds : int, default 50
        The largest number of rounds of each algorithm.
    reference : float, optional
        The smallest energy E*, for relative errors; `dualfl.reference` finds it.
    tol : float, optional
        End a run at this relative error; it needs `reference`.
    seeds : int, default 1
        The number of runs of an algorithm that draws random numbers, with seed, seed + 1, ...; others run once.
    seed : int, default 0
        The first of these seeds.
    tell : callable, optional
        Called with each entry when it is done.
    **options : Any
        Further options of `dualfl.run`.

    Returns
    -------
    Comparison
        One entry for each algorithm; `ranking()` has the best one first.

    Raises
    ------
    InputError
        If there is nothing to compare, or `tol` has no `reference`.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.algorithms.server import ServerLBFGS
    >>> clients = [dualfl.Quadratic(np.diag([1.0, 4.0]), b) for b in np.eye(2)]
    >>> problem = dualfl.Problem(clients)
    >>> both = dualfl.compare(problem, [dualfl.DualFL(), ServerLBFGS()], rounds=20, reference=-0.15625)
    >>> [entry.name for entry in both.ranking()]
    ['dualfl', 'lbfgs']
    """
    chosen = list(algorithms)
    for algorithm in chosen:
        check("each of the algorithms", algorithm, Algorithm)
    if not chosen:
        raise InputError("There is nothing to compare: give at least one algorithm.")
    if seeds < 1:
        raise InputError(f"seeds is how often a method with random numbers runs, at least once, but it is {seeds}.")
    if tol is not None and not 0 < tol < np.inf:
        raise InputError(f"tol is a relative error at which a run ends, > 0, but it is {tol}.")
    if tol is not None and reference is None:
        raise InputError("tol is a relative error, which needs a reference, E*; `dualfl.reference` finds it.")
    options |= {"rounds": rounds, "reference": reference}
    if tol is not None:
        options["stop"] = lambda row, theta: row.relative_error is not None and row.relative_error <= tol
    entries = []
    for name, algorithm in zip(numbered([each.name for each in chosen]), chosen):
        entry = replace(one(problem, name, algorithm, range(seed, seed + seeds), **options), levels=levels_to(tol))
        entries.append(entry)
        if tell is not None:
            tell(entry)
        if any(result.stopped == "interrupted" for result in entry.runs):
            break
    return Comparison(tuple(entries), levels_to(tol))


def numbered(plain: list[str]) -> list[str]:
    """Names, numbered where one occurs twice.

    >>> numbered(["gd", "dualfl", "gd"])
    ['gd-1', 'dualfl', 'gd-2']
    """
    return [n if plain.count(n) == 1 else f"{n}-{plain[: i + 1].count(n)}" for i, n in enumerate(plain)]


def draws(algorithm: Algorithm, N: int) -> bool:
    """Whether another seed could give another result."""
    sampled = any(0 < (getattr(algorithm, name, None) or N) < N for name in ("C", "c"))
    return sampled or not algorithm.card.deterministic


def one(problem: Problem, name: str, algorithm: Algorithm, seeds: Iterable[int], **options: Any) -> Entry:
    """One algorithm, once a seed, or just once if no seed can change it."""
    runs: list[Result] = []
    chosen = given(algorithm)
    for seed in seeds:
        try:
            runs.append(run(problem, algorithm, seed=seed, **options))
        except Diverged as error:
            return Entry(name, algorithm, (), f"diverged: {error}", chosen)
        except (InputError, NotSupported) as error:
            return Entry(name, algorithm, (), f"{UNFIT}{error}", chosen)
        if runs[-1].stopped in ("diverged", "interrupted") or not draws(runs[-1].algorithm, problem.N):
            break
    last = runs[-1]
    status = f"diverged at round {last.rounds}" if last.stopped == "diverged" else "ok"
    return Entry(name, last.algorithm, tuple(runs), status, chosen)


def given(algorithm: Algorithm) -> tuple[str, ...]:
    """The hyperparameters that somebody chose."""
    return tuple(
        field.name for field in dataclasses.fields(algorithm) if getattr(algorithm, field.name) != field.default
    )
