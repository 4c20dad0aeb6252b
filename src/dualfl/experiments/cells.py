"""Experiments are made of cells: one algorithm on one problem, run once, kept on disk and never run again.

A cell is its settings. What came of it is a small JSON file named by a digest of them, written as a whole or not at
all, so an interrupted experiment goes on where it stopped, and two experiments in one folder share what they have in
common. The time that a cell may take is not among what names it: one that its time cut short is run again when it may
take longer, and all others are as good as before. Cells run in parallel, one process a processor and one thread each.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import numpy as np

from dualfl import kernels
from dualfl.algorithms.contract import Constants
from dualfl.data import DATASETS, Dataset, load, make_problem, partition, reference
from dualfl.data.partition import PARTITIONS, parse, take
from dualfl.data.problem import choose_loss
from dualfl.engines import Problem, run
from dualfl.engines.checkpoint import write_atomically
from dualfl.engines.history import Row
from dualfl.errors import Diverged, InputError, NotSupported
from dualfl.experiments.local_solvers import LOCAL_SOLVERS
from dualfl.experiments.single import choose_algorithm, constants_of
from dualfl.experiments.synthetic import SYNTHETIC
from dualfl.objectives import L1, LinearModel
from dualfl.solvers.base import Solver
from dualfl.typing import Array

FORMAT = 2  # of the files, and of what the settings mean
COLUMNS = ("round", "exchanges", "floats_up", "floats_down", "local_gradients", "seconds", "relative_error")
STATUSES = ("ok", "diverged", "does not apply")
GIGABYTE = 2**30


@dataclass(frozen=True)
class Cell:
    """Everything that decides what a cell computes; `rows` takes only so many, spread evenly over the file, `free`
    allows steps beyond 2/L."""

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
        )

    @property
    def timeless(self) -> Cell:
        """What it computes, were there no limit of time."""
        return replace(self, minutes=None)

    @property
    def digest(self) -> str:
        text = json.dumps([FORMAT, asdict(self.timeless)], sort_keys=True)
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
        if self.cell.timeless != cell.timeless:
            return False
        return not self.cut or (cell.minutes is not None and cell.minutes <= (self.cell.minutes or np.inf))

    def reached(self, level: float) -> int | None:
        """The index of the first round whose error is at most `level`; None if there is none."""
        there = np.nonzero(self.errors <= level)[0]
        return int(there[0]) if there.size else None

    def to_json(self) -> str:
        columns = {name: [_short(x) for x in values] for name, values in self.columns.items()}
        content = {"cell": asdict(self.cell), "status": self.status, "minimum": self.minimum}
        content |= {"cpu": round(self.cpu, 3), "data": self.data, "columns": columns}
        return json.dumps(content, allow_nan=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Outcome:
        content = json.loads(text)
        columns = {
            name: np.array([np.nan if x is None else x for x in content["columns"][name]], dtype=float)
            for name in COLUMNS
        }
        status, cell = str(content["status"]), Cell(**content["cell"])
        if len({len(values) for values in columns.values()}) > 1 or not status.startswith(STATUSES):
            raise ValueError("not a cell")
        return Outcome(cell, status, columns, content["minimum"], float(content["cpu"]), content.get("data", ""))


def check_minutes(minutes: float | None) -> None:
    """None is no limit."""
    if minutes is not None and not 0 < minutes < np.inf:
        raise InputError(f"A cell needs a number of minutes > 0, and cell-minutes is {minutes:g}.")


def _short(x: float) -> float | int | None:
    """Eight digits, which is more than anybody will draw; None for what is not finite."""
    if not np.isfinite(x):
        return None
    return int(x) if float(x).is_integer() else float(f"{x:.8g}")


# -- running one ------------------------------------------------------------------------------------------


def run_cell(cell: Cell) -> Outcome:
    """Run it, in one thread. What does not apply and what diverges is an outcome; data that are missing are not."""
    data = fingerprint(cell.dataset)
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
    began = time.process_time()

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
        )
    if result.stopped == "interrupted" and not _alarm.rang:
        raise KeyboardInterrupt
    columns = {name: result.history.column(name) for name in COLUMNS}
    status = f"diverged at round {result.rounds}" if result.stopped == "diverged" else "ok"
    return Outcome(cell, status, columns, minimum, time.process_time() - began)


def _resolved(algorithm: Any, c: Constants) -> Any:
    """The open defaults filled in from theory; a step that somebody gave is taken as it is."""
    for item in fields(algorithm):
        if getattr(algorithm, item.name) is None and "compute" in item.metadata:
            algorithm = replace(algorithm, **{item.name: item.metadata["compute"](c, algorithm)})
    return algorithm


class _Alarm:
    """Interrupts a run that is still inside a round when its time is up; `run` then keeps the rounds before."""

    rang = False

    @contextlib.contextmanager
    def __call__(self, seconds: float) -> Iterator[None]:
        self.rang = False
        if seconds == np.inf or not hasattr(signal, "setitimer"):
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
def dataset_of(name: str, scale: str, rows: int | None) -> Dataset:
    data = SYNTHETIC[name]() if name in SYNTHETIC else load(name, scale=scale)
    if rows is None or rows >= data.n:
        return data
    some = np.linspace(0, data.n - 1, rows).astype(int)  # a file may be sorted
    columns = {name: values[some] for name, values in data.columns.items()}
    return replace(data, X=data.X[some], y=data.y[some], columns=columns)


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
    data = dataset_of(cell.dataset, cell.scale, cell.rows)
    solver = LOCAL_SOLVERS[cell.solver]
    by_label = PARTITIONS[parse(cell.partition)[0]].labelled
    if by_label and not data.classes:
        return _binned(data, cell, solver)
    return make_problem(data, cell.clients, cell.partition, cell.ridge, cell.loss, 0, solver, l1=cell.l1)


@lru_cache(maxsize=1)
def _minimum(cell: Cell) -> float:
    return reference(problem_of(cell))


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


# -- the store --------------------------------------------------------------------------------------------


class Store:
    """The finished cells of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, cell: Cell) -> Path:
        return self.folder / f"{cell.digest}.json"

    def get(self, cell: Cell) -> Outcome | None:
        """What came of the cell; None if it was not run, or on other data, or not for long enough, or its file is
        damaged."""
        try:
            found = Outcome.from_json(self.file(cell).read_text())
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if found.serves(cell) and found.data == fingerprint(cell.dataset) else None

    def put(self, outcome: Outcome) -> None:
        """Keep it, unless what is there tells as much: a run that was cut must not replace a longer one."""
        known = self.get(outcome.cell)
        if known is not None and outcome.cut:
            return
        write_atomically(self.file(outcome.cell), outcome.to_json().encode())

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        return [cell for cell in dict.fromkeys(cells) if self.get(cell) is None]

    def __getitem__(self, cell: Cell) -> Outcome:
        found = self.get(cell)
        if found is None:
            raise KeyError(cell.label)
        return found


Tell = Callable[[Cell, Outcome], None]


def run_all(store: Store, cells: Sequence[Cell], *, processes: int = 1, memory: float = 4.0, tell: Tell) -> None:
    """Run what the store lacks, and keep each cell as soon as it is done. `memory` is in gigabytes, a process."""
    if processes < 1:
        raise InputError(f"processes must be at least 1, and it is {processes}.")
    missing = store.missing(cells)
    if processes == 1 or len(missing) < 2:
        for cell in missing:
            outcome = run_cell(cell)
            store.put(outcome)
            tell(cell, outcome)
        return
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_worker, initargs=(memory,))
    try:
        waiting = {pool.submit(_kept, store, cell) for cell in missing}
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                outcome = future.result()
                tell(outcome.cell, outcome)
    except BaseException:
        _end(pool)
        raise
    pool.shutdown()


def _kept(store: Store, cell: Cell) -> Outcome:
    outcome = run_cell(cell)
    store.put(outcome)
    return outcome


def _worker(memory: float) -> None:
    """A process for cells: Ctrl-C is its parent's affair, it ends with its parent, and it may not take all memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        limit = int(memory * GIGABYTE)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _end_with_parent() -> None:
    """A parent that was killed could not end its workers, and they would wait for it forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _end(pool: ProcessPoolExecutor) -> None:
    """End the workers now: what they have not finished will be run again."""
    workers = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()


def processors() -> int:
    return os.cpu_count() or 1
