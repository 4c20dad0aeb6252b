"""Running a cell: its problem, its minimum, the algorithm, and a clock that ends it."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dualfl import kernels
from dualfl.algorithms import plugins
from dualfl.algorithms.contract import Constants
from dualfl.data import DATASETS, Dataset, load, make_problem, partition
from dualfl.data.partitions import PARTITIONS, parse, take
from dualfl.data.problem import choose_loss
from dualfl.engines import Problem, run
from dualfl.engines.history import Row
from dualfl.errors import Diverged, InputError, NotSupported
from dualfl.experiments.cells import COLUMNS, Cell, Outcome
from dualfl.experiments.local_solvers import LOCAL_SOLVERS
from dualfl.experiments.single_run import choose_algorithm, constants_of
from dualfl.experiments.synthetic import SYNTHETIC
from dualfl.objectives import L1, LinearModel
from dualfl.optimum import reference
from dualfl.optimum.pooled import pool
from dualfl.solvers.base import Solver
from dualfl.typing import Array


def run_cell(cell: Cell) -> Outcome:
    """Run it, in one thread. What does not apply and what diverges is an outcome; data that are missing are not."""
    data = inputs(cell)
    return replace(_outcome(cell), data=data)


def _outcome(cell: Cell) -> Outcome:
    with kernels.threads(1):
        problem = problem_of(cell.problem)
        try:
            return _run(cell, problem)
        except Diverged as error:
            return _nothing(cell, f"diverged: {error}")
        except (InputError, NotSupported) as error:
            return _nothing(cell, f"does not apply: {error}")
        except MemoryError:
            return _nothing(cell, "does not apply: it needs more memory than a cell may take")
        except KeyboardInterrupt:
            if not _alarm.rang:
                raise
            return _nothing(cell, "ok")  # no round in its time


def _nothing(cell: Cell, status: str) -> Outcome:
    return Outcome(cell, status, {name: np.zeros(0) for name in COLUMNS})


def _run(cell: Cell, problem: Problem) -> Outcome:
    _alarm.rang = False
    minimum = _minimum(cell.problem)
    algorithm = choose_algorithm(cell.algorithm, cell.hyperparameters)
    constants: Constants | None = None
    if cell.free:  # what is open comes from the true constants, and no step is called too long after that
        constants = constants_of(problem)
        algorithm = _resolved(algorithm, constants)
        constants = replace(constants, L=np.finfo(float).tiny)

    seconds = np.inf if cell.minutes is None else 60 * cell.minutes
    began, clock = time.process_time(), time.perf_counter()

    def enough(row: Row, theta: Array) -> bool:
        done = cell.exchanges is not None and row.exchanges >= cell.exchanges
        error = np.inf if row.relative_error is None else row.relative_error
        late = time.process_time() - began > seconds
        return done or late or (cell.target is not None and error <= cell.target)

    with _alarm(seconds):
        result = run(
            problem,
            algorithm,
            rounds=cell.rounds,
            reference=minimum,
            seed=cell.seed,
            threads=1,
            constants=constants,
            stop=enough,
            measure=None if cell.certificate else _measure(cell.problem),
        )
    if result.stopped == "interrupted" and not _alarm.rang:
        raise KeyboardInterrupt
    columns = {name: result.history.column(name) for name in COLUMNS}
    cpu = time.process_time() - began
    # Its own share of the clock: what else the machine does is no part of a cell.
    columns["seconds"] = columns["seconds"] * min(1.0, cpu / (time.perf_counter() - clock))
    status = f"diverged at round {result.rounds}" if result.stopped == "diverged" else "ok"
    return Outcome(cell, status, columns, minimum, cpu)


def _resolved(algorithm: Any, k: Constants) -> Any:
    """The open defaults filled in from theory; a step that somebody gave is taken as it is."""
    for item in fields(algorithm):
        if getattr(algorithm, item.name) is None and "compute" in item.metadata:
            algorithm = replace(algorithm, **{item.name: item.metadata["compute"](k, algorithm)})
    return algorithm


class _Alarm:
    """Interrupts a run that is still inside a round when its time is up; `run` then keeps the rounds before."""

    rang = False

    @contextlib.contextmanager
    def __call__(self, seconds: float) -> Iterator[None]:
        self.rang = False
        if seconds == np.inf or sys.platform == "win32":  # there a round that has begun is finished
            yield
            return
        before = signal.signal(signal.SIGPROF, self._ring)
        signal.setitimer(signal.ITIMER_PROF, 1.1 * seconds + 1)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def _ring(self, *_: object) -> None:
        self.rang = True
        raise KeyboardInterrupt


_alarm = _Alarm()


@lru_cache(maxsize=1)
def dataset_of(name: str, scale: str, rows: int | None, target: str | None = None) -> Dataset:
    data = SYNTHETIC[name]() if name in SYNTHETIC else load(name, scale=scale, target=target)
    if rows is None or rows >= data.n:
        return data
    some = np.linspace(0, data.n - 1, rows).astype(int)  # a file may be sorted
    columns = {name: values[some] for name, values in data.columns.items()}
    return replace(data, X=data.X[some], y=data.y[some], columns=columns)


def inputs(cell: Cell) -> str:
    """What a cell depends on beside its settings: the content of a file, the source of an algorithm from outside."""
    return "-".join(filter(None, (fingerprint(cell.dataset), plugins.fingerprint(cell.algorithm))))


def fingerprint(dataset: str) -> str:
    """Of a file's content; named sets are checked when they are read, and are what their names say."""
    if dataset in DATASETS or dataset in SYNTHETIC or not (path := Path(dataset).expanduser()).exists():
        return ""
    files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    return _digest(tuple((file, file.stat().st_size, file.stat().st_mtime_ns) for file in files))


@lru_cache(maxsize=8)
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    digest = hashlib.blake2b(digest_size=10)
    for path, *_ in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def problem_of(cell: Cell) -> Problem:
    data = dataset_of(cell.dataset, cell.scale, cell.rows, cell.target_column)
    solver = LOCAL_SOLVERS[cell.solver]
    by_label = PARTITIONS[parse(cell.partition)[0]].labelled
    if by_label and not data.classes:
        return _binned(data, cell, solver)
    return make_problem(data, cell.clients, cell.partition, cell.ridge, cell.loss, 0, solver, l1=cell.l1)


@lru_cache(maxsize=1)
def _minimum(cell: Cell) -> float:
    return reference(problem_of(cell))


@lru_cache(maxsize=1)
def _measure(cell: Cell) -> Problem | None:
    """The same energy as one client that has all rows, if there is such a client."""
    problem = problem_of(cell)
    pooled = pool(problem)
    return None if pooled is None else Problem([pooled], penalty=problem.penalty)


def _binned(data: Dataset, cell: Cell, solver: Solver | None) -> Problem:
    """A regression whose rows are dealt out by their target, put into ten bins of equal size."""
    bins = np.searchsorted(np.quantile(data.y, np.linspace(0, 1, 11)[1:-1]), data.y)
    loss = choose_loss(cell.loss, data)
    return Problem(
        [
            LinearModel(take(data.X, rows), data.y[rows], loss, cell.ridge, intercept=True, scale=data.scale)
            for rows in partition(cell.partition, bins, cell.clients)
        ],
        penalty=L1(cell.l1) if cell.l1 else None,
        solvers=solver,
    )
