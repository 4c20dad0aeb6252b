"""The search for hyperparameters, as the paper made it for its Table 2, by successive halving.

Every algorithm has a grid: the paper's (`table2.GRIDS`), or the wider one that its class declares, to which the
defaults of theory are added as one more cell. All cells run first on 1/8 of the rows for half of the rounds; the best
third of each algorithm goes on to half of the rows, and the best third of these to all rows and rounds (K. Jamieson and
A. Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016). Small sets, of
which a part would be too few rows, are searched as a whole.

Criteria, all of relative energy errors e_n, smaller is better; what diverges or does not apply is worse than all else:
    area           the mean of log10 e_n over the rounds: the area under the curve of Figure 1 (the default)
    final          log10 of the last error
    rounds:1e-4    rounds until e_n <= 1e-4; the last error decides between cells that do not get there
A run that its time cut short keeps its last error for the rounds that it did not get to.

Within a budget no cell may take more than three times an equal share of its rung's time.
Finished cells are kept in a folder, so an interrupted search goes on, and a longer budget continues a shorter one.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.algorithms.registry import algorithm_class
from dualfl.errors import InputError
from dualfl.experiments.cells import Cell, Outcome
from dualfl.experiments.local_solvers import LOCAL_SOLVERS
from dualfl.experiments.store import Store, run_all
from dualfl.experiments.table2 import FIXED, GRIDS, LINES, PAPER, Line
from dualfl.files import check_regular
from dualfl.names import nearest

TUNED = Path(__file__).parent / "tuned"  # what was found for Figure 1, a file a data set
KEEP = 3  # one of so many goes on
FAIR = 3.0  # times an equal share of a rung's time is what one cell may take of it
GOLDEN = (5**0.5 - 1) / 2
LEAST = 2  # cells that go on at least
FLOOR = 1e-13  # errors below it are rounding
FEW = 4_000  # rows; smaller parts say little about a set (on 500 of digits the best rho is another), so none are taken


@dataclass(frozen=True)
class Rung:
    """A part of the search: how much of the rows and rounds a cell gets, and when its share of the time ends."""

    rows: float
    rounds: float
    ends: float


# Half of the rounds at least: what falls slowly at first and fast later, as FedDR with alpha = 2 does on MNIST, or a
# momentum that suits fifty rounds, does not show in the first twelve.
RUNGS = (Rung(1 / 8, 1 / 2, 0.4), Rung(1 / 2, 3 / 4, 0.7), Rung(1.0, 1.0, 1.0))


@dataclass(frozen=True)
class Search:
    """What is searched. `basis` is the problem with all its rows and rounds; `rows` how many there are; `at_most` so
    many cells of an algorithm's grid, from all parts of it."""

    basis: Cell
    rows: int
    algorithms: tuple[str, ...] = tuple(PAPER)
    grid: str = "wide"
    criterion: str = "area"
    rungs: tuple[Rung, ...] = RUNGS
    at_most: int | None = None

    def __post_init__(self) -> None:
        if self.grid not in ("wide", "paper"):
            raise InputError(nearest("grid", self.grid, ("wide", "paper")))
        if self.basis.solver not in LOCAL_SOLVERS:
            raise InputError(nearest("solver", self.basis.solver, LOCAL_SOLVERS))
        if not self.algorithms:
            raise InputError("There is no algorithm to search for; name one at least, such as dualfl.")
        for name in self.algorithms:
            if not self.grid_of(name):
                other = "; take the wide one" if self.grid == "paper" else ""
                raise InputError(f"{name} has no {self.grid} grid, so there is nothing to search{other}.")
            check_grid(name, self.grid_of(name))
        score(self.criterion, np.ones(1))

    @property
    def setting(self) -> dict[str, Any]:
        """The problem that hyperparameters are found for."""
        names = ("clients", "partition", "scale", "loss", "ridge", "l1", "solver")
        return {"dataset": Path(self.basis.dataset).name} | {name: getattr(self.basis, name) for name in names}

    def grid_of(self, name: str) -> Mapping[str, Sequence[Any]]:
        declared = algorithm_class(name).grid
        return declared if self.grid == "wide" else GRIDS.get(name, {})

    def candidates(self, name: str) -> list[dict[str, Any]]:
        """The cells of the grid in an order that comes to all of its parts soon; with the wide one what theory gives
        is the first."""
        grid, fixed = self.grid_of(name), FIXED.get(name, {})
        if self.grid == "wide":  # only what Figure 1 asks for too: local problems solved to the end
            fixed = {key: value for key, value in fixed.items() if key == "solve"}
        cells = [dict(zip(grid, values)) | fixed for values in itertools.product(*grid.values())]
        return spread_out(cells if self.grid == "paper" else [dict(fixed), *cells])[: self.at_most]

    @property
    def most(self) -> int:
        """Cells of all rungs, if all of them work."""
        total = 0
        for name in self.algorithms:
            count = len(self.candidates(name))
            for _ in self.rungs:
                total += count
                count = survivors(count)
        return total

    def cell(self, name: str, hyperparameters: Mapping[str, Any], rung: Rung) -> Cell:
        rows = min(self.rows, max(round(rung.rows * self.rows), FEW, self.basis.clients))
        part = rung.rounds if rows < self.rows or rung.rows == 1.0 else 1.0
        rounds = max(1, round(part * self.basis.rounds))
        exchanges = None if self.basis.exchanges is None else max(1, round(part * self.basis.exchanges))
        return replace(
            self.basis,
            algorithm=name,
            hyperparameters=dict(hyperparameters),
            rows=self.basis.rows if rows >= self.rows else rows,
            rounds=rounds,
            exchanges=exchanges,
        )


def check_grid(name: str, grid: Mapping[str, Sequence[Any]]) -> None:
    """A grid with an empty axis has no cell at all, and a search would find nothing and not say why."""
    for key, values in grid.items():
        if not len(values):
            raise InputError(f"{name}: the grid of {key} is empty; give it at least one value.")


def spread_out(candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first, then the others in steps of the golden section: a search that its budget ends has seen all parts of
    the grid, not its first values only.

    >>> [c["step"] for c in spread_out([{"step": step} for step in range(7)])]
    [0, 5, 2, 4, 1, 6, 3]
    """
    order = sorted(range(1, len(candidates)), key=lambda i: i * GOLDEN % 1)
    return candidates[:1] + [candidates[i] for i in order]


def survivors(count: int) -> int:
    """How many of so many cells go on."""
    return min(count, max(LEAST, -(-count // KEEP)))


def score(criterion: str, errors: np.ndarray[Any, Any]) -> tuple[float, ...]:
    """What is compared; smaller is better.

    >>> score("area", np.array([1.0, 0.01]))
    (-1.0,)
    >>> score("rounds:0.1", np.array([1.0, 0.01]))
    (1.0, -2.0)
    """
    kind, _, level = criterion.partition(":")
    if kind not in ("area", "final", "rounds"):
        raise InputError(nearest("criterion", kind, ("area", "final", "rounds")))
    logs = np.log10(np.maximum(np.nan_to_num(errors, nan=np.inf, posinf=1e300), FLOOR))
    if kind == "area":
        return (float(logs.mean()),)
    if kind == "final":
        return (float(logs[-1]),)
    try:
        target = float(level)
    except ValueError:
        raise InputError(f"rounds needs a level, such as rounds:1e-4, but it is {criterion!r}.") from None
    reached = np.flatnonzero(errors <= target)
    return (float(reached[0]) if reached.size else np.inf, float(logs[-1]))


@dataclass(frozen=True)
class Tried:
    """A finished cell and its score; infinite for what diverged or did not apply."""

    outcome: Outcome
    score: tuple[float, ...]

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        return self.outcome.cell.hyperparameters

    @property
    def good(self) -> bool:
        return bool(np.isfinite(self.score[-1]))


@dataclass(frozen=True)
class BestFound:
    """What the search found for one algorithm: its best cell on the last rung that it reached."""

    algorithm: str
    tried: Tried | None
    rung: int
    count: int  # cells that were run, on any rung
    untried: int = 0  # cells of its grid that there was no time for
    edge: tuple[str, ...] = ()  # hyperparameters whose best value is the last of its grid
    last: int = len(RUNGS) - 1  # the rung that completes a search

    @property
    def complete(self) -> bool:
        return self.tried is not None and self.rung == self.last


class OutOfTime(Exception):
    """The budget is spent."""


@dataclass
class Tuner:
    """Runs a search. `tell` hears of every cell as it is done.

    The budget is minutes of the clock; `by_processor`, of the processors, so that a busy machine finds the same.
    """

    search: Search
    store: Store
    minutes: float | None = None
    processes: int = 1
    tell: Callable[[Cell, Outcome], None] = lambda cell, outcome: None
    say: Callable[[str], None] = lambda sentence: None
    by_processor: bool = False
    _spent: float = 0.0  # seconds of all processors
    _began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.minutes is not None and not self.minutes > 0:
            raise InputError(f"The budget must be a number of minutes > 0, but it is {self.minutes}.")

    def run(self) -> list[BestFound]:
        """All rungs, or as many as the budget allows."""
        alive = {name: self.search.candidates(name) for name in self.search.algorithms}
        rungs, last = self.search.rungs, len(self.search.rungs) - 1
        best: dict[str, BestFound] = {name: BestFound(name, None, -1, 0, len(alive[name]), last=last) for name in alive}
        for level, rung in enumerate(rungs):
            cells = {name: [self.search.cell(name, given, rung) for given in alive[name]] for name in alive}
            cells = self._shared(cells, rung.ends - (rungs[level - 1].ends if level else 0.0))
            every = [cell for row in itertools.zip_longest(*cells.values()) for cell in row if cell is not None]
            missing = self.store.missing(every)
            self.say(
                f"Rung {level + 1} of {len(rungs)}: {len(every)} cells, {len(missing)} to run, "
                f"{every[0].rounds} rounds on {min(every[0].rows or self.search.rows, self.search.rows):,} rows."
            )
            enough_time = self._finish(missing, rung.ends)
            for name in alive:
                tried = sorted(self._tried(cells[name]), key=lambda t: t.score)
                count = best[name].count + len(tried)
                good = [t for t in tried if t.good]
                untried = best[name].untried if level else len(cells[name]) - len(tried)
                if good:
                    best[name] = BestFound(name, good[0], level, count, untried, self._edge(name, good[0]), last)
                    alive[name] = [dict(t.hyperparameters) for t in good[: survivors(len(good))]]
                else:
                    best[name], alive[name] = replace(best[name], count=count, untried=untried), []
            alive = {name: given for name, given in alive.items() if given}
            if not alive or (not enough_time and level == last):
                break
        return list(best.values())

    def _shared(self, cells: dict[str, list[Cell]], part: float) -> dict[str, list[Cell]]:
        """The cells of a rung, none of which may use up the time of the others: Scaffnew's p = 1e-4 asks for 10,000
        gradients a round, and a few such cells would leave no time for those that win."""
        if self.minutes is None:
            return cells
        most = FAIR * self.minutes * part * self.processes / max(sum(map(len, cells.values())), 1)
        return {
            name: [replace(cell, minutes=min(cell.minutes or most, most)) for cell in cells[name]] for name in cells
        }

    def _finish(self, cells: Sequence[Cell], ends: float) -> bool:
        """Run the cells until the rung's share of the budget is spent; whether all were run."""

        def tell(cell: Cell, outcome: Outcome) -> None:
            self._spent += outcome.cpu
            self.tell(cell, outcome)
            if self._late(ends) and self.store.missing(cells):
                raise OutOfTime

        if cells and self._late(ends):
            return False
        try:
            run_all(self.store, cells, processes=self.processes, tell=tell)
        except OutOfTime:
            self.say("The time of this rung is up; what is not finished is left out.")
            return False
        return True

    def _late(self, ends: float) -> bool:
        if self.minutes is None:
            return False
        spent = self._spent / self.processes if self.by_processor else time.monotonic() - self._began
        return spent > 60 * self.minutes * ends

    def _tried(self, cells: Sequence[Cell]) -> Iterator[Tried]:
        for cell in cells:
            outcome = self.store.get(cell)
            if outcome is None:
                continue
            bad = outcome.status != "ok" or not len(outcome.errors)
            worst = tuple(np.inf for _ in score(self.search.criterion, np.ones(1)))
            yield Tried(outcome, worst if bad else score(self.search.criterion, _filled(outcome)))

    def _edge(self, name: str, found: Tried) -> tuple[str, ...]:
        """Numbers at an end of a grid: the best may lie beyond it."""
        at = []
        for key, values in self.search.grid_of(name).items():
            numbers = [v for v in values if isinstance(v, int | float)]
            ends = {min(numbers), max(numbers)} if len(numbers) > 2 else set()
            if found.hyperparameters.get(key) in ends - {0}:
                at.append(key)
        return tuple(at)


def _filled(outcome: Outcome) -> np.ndarray[Any, Any]:
    """Errors of all rounds that were asked for: a run that time cut keeps its last one."""
    errors = outcome.errors
    short = outcome.cell.rounds + 1 - len(errors)
    return np.concatenate([errors, np.full(max(short, 0), errors[-1])])


# -- files ------------------------------------------------------------------------------------------------


def summary(found: Sequence[BestFound], search: Search, command: str) -> dict[str, Any]:
    """For a file that `dualfl reproduce figure1 --tuned` reads: by algorithm, the best and how it was found."""
    best = {}
    for item in found:
        if item.tried is None:
            continue
        errors = item.tried.outcome.errors
        best[item.algorithm] = {
            "hyperparameters": dict(item.tried.hyperparameters),
            "score": list(item.tried.score),
            "last error": float(errors[-1]),
            "rows": item.tried.outcome.cell.rows or search.rows,
            "rounds": len(errors) - 1,
            "cells": item.count,
            "not tried": item.untried,
            "at the edge of the grid": list(item.edge),
            "grid": search.grid,
            "criterion": search.criterion,
            "command": command,
        }
    return best


def read_best(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """What `dualfl tune` wrote: for which problem, if it says so, and the best by algorithm."""
    check_regular(path)
    try:
        content = json.loads(path.read_text())
        best = {name: {**f, "hyperparameters": dict(f["hyperparameters"])} for name, f in content["best"].items()}
        numbers = [v for found in best.values() for v in found["hyperparameters"].values()]
        if not all(isinstance(v, str | bool) or (isinstance(v, int | float) and np.isfinite(v)) for v in numbers):
            raise ValueError("neither a word nor a number")
        return dict(content.get("setting", {})), best
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a file of `dualfl tune`; write it anew, or leave it out.") from error


def known_best(path: Path, setting: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is there already, by algorithm; refused if it was found for another problem."""
    if not path.exists():
        return {}
    there, best = read_best(path)
    other = next((name for name in there if there[name] != setting.get(name)), None)
    if other is not None:
        raise InputError(
            f"{path} has values for {other} = {there[other]}, and this search is for {other} = {setting.get(other)}; "
            "give another --out."
        )
    return best


# -- as the paper prints it -------------------------------------------------------------------------------


def table(found: Sequence[BestFound], dataset: str) -> list[dict[str, str]]:
    """Table 2 beside what was found: one line a hyperparameter."""
    lines = []
    for best in found:
        printed = [line for line in LINES if line.algorithm == best.algorithm]
        lines += [_line(line, best, dataset) for line in printed]
        given = {} if best.tried is None else best.tried.hyperparameters
        others = [key for key in given if key not in [line.field for line in printed] and key != "solve"]
        lines += [_line(Line(best.algorithm, key, key, "", ""), best, dataset) for key in others]
        if not printed and not others:
            lines.append(_line(Line(best.algorithm, "all", "", "", ""), best, dataset))
    return lines


def _line(line: Line, best: BestFound, dataset: str) -> dict[str, str]:
    paper = {column: PAPER.get(line.algorithm, {}).get(column, {}).get(line.field) for column in ("mnist", "cifar10")}
    given = None if best.tried is None else best.tried.hyperparameters.get(line.field)
    if best.tried is None:
        ours = "none works" if best.count else "not tried"
    elif given is None:
        ours = "theory"
    else:
        ours = number(given) if line.field != "c" else f"1/({given:g} eta_x)"
    return {
        "algorithm": line.algorithm,
        "hyperparameter": line.symbol,
        "grid": line.grid,
        "paper MNIST": line.formula or ("" if paper["mnist"] is None else number(paper["mnist"])),
        "paper CIFAR-10": line.formula or ("" if paper["cifar10"] is None else number(paper["cifar10"])),
        f"here {dataset}": ours + (" (edge)" if line.field in best.edge else ""),
    }


def number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
