"""Beyond the paper's single setting: every algorithm on problems, partitions and ridges that are not alike.

    softmax on MNIST and CIFAR-10, logistic regression and the hinge SVM on a8a, the lasso on correlated features
    x  shuffled, Dirichlet(0.5), Dirichlet(0.1), one label a client
    x  mu = 1e-2, 1e-4
    x  all algorithms that apply, with the defaults of theory, and some of them once more as they are used in practice

A cell ends when the relative error is 1e-6, at 200 exchanges, or when its time is up. It counts rounds, exchanges,
contacts and floats to 1e-4 and to 1e-6. The lasso has the ridge too, so that all algorithms have their strong
convexity; its targets are put into ten bins of equal size where a partition asks for labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dualfl.algorithms.registry import ALGORITHMS, algorithm_class
from dualfl.errors import InputError
from dualfl.experiments.cells import Cell, Outcome, check_minutes
from dualfl.experiments.network import Network
from dualfl.experiments.store import Store
from dualfl.names import nearest

LEVELS = (1e-4, 1e-6)
MOST = 200  # exchanges
QUICK_ROWS = 4_000
COUNTS = ("rounds", "exchanges", "contacts", "floats", "seconds")


class Task(NamedTuple):
    """A problem: its data, its loss, and how many clients share it."""

    dataset: str
    loss: str
    title: str
    labels: int  # so many clients when each has one label
    l1: float = 0.0


TASKS = {
    "mnist": Task("mnist", "softmax", "softmax, MNIST", 10),
    "cifar10": Task("cifar10", "softmax", "softmax, CIFAR-10", 10),
    "logistic": Task("a8a", "logistic", "logistic, a8a", 8),
    "svm": Task("a8a", "hinge", "hinge SVM, a8a", 8),
    "lasso": Task("correlated", "squared", "lasso, 5,000 x 200", 10, l1=0.1),
}
PARTITIONS = {
    "shuffled": "shuffled",
    "dirichlet:0.5": "Dirichlet 0.5",
    "dirichlet:0.1": "Dirichlet 0.1",
    "labels:1": "one label",
}
RIDGES = (1e-2, 1e-4)
N = 8


# Theory takes clients for as unlike as they can be where nobody has measured it; these two are better than that.
VARIANTS: dict[str, tuple[str, Callable[[float], dict[str, Any]]]] = {
    "dane, mu_D = 0": ("dane", lambda ridge: {"mu_D": 0.0}),
    "disco, mu_P = mu": ("disco", lambda ridge: {"mu_P": ridge, "accuracy": 0.2}),
}


# Theory has no steps for losses with kinks, whose L is infinite: these methods, which need none, get those of L = 1. On
# the SVM that is the best of five powers of ten for FedDR, with either mu.
WITH_KINKS: dict[str, Callable[[float], dict[str, Any]]] = {
    "fedpd": lambda ridge: {"eta": ridge**-0.5},
    "feddr": lambda ridge: {"eta": ridge**-0.5},
    "feddyn": lambda ridge: {"alpha": ridge**0.5},
    "fedsplit": lambda ridge: {"s": ridge**-0.5},
    "fedprox": lambda ridge: {"a": ridge**0.5},
}


def hyperparameters(name: str, ridge: float, loss: str) -> tuple[str, dict[str, Any]]:
    """The algorithm behind a column, and what it gets beside the defaults. Rows are public here, so that clients with
    few of them need not be protected: partitions such as Dirichlet 0.1 leave some with one row."""
    given: dict[str, Any] = WITH_KINKS[name](ridge) if loss == "hinge" and name in WITH_KINKS else {}
    if name in VARIANTS:
        name, settings = VARIANTS[name]
        given = settings(ridge)
    return name, given | ({"least_rows": 1} if hasattr(algorithm_class(name), "least_rows") else {})


class MatrixRow(NamedTuple):
    """One line of the table."""

    task: str
    partition: str
    ridge: float

    @property
    def title(self) -> str:
        return f"{TASKS[self.task].title}, {PARTITIONS[self.partition]}, mu = {self.ridge:g}"

    def has(self, word: str) -> bool:
        """Whether a word such as svm, labels:1, 0.01 or mnist/shuffled means this row, among others."""
        return set(word.split("/")) <= {self.task, self.partition, f"{self.ridge:g}"}


@dataclass(frozen=True)
class Matrix:
    """What to run. `rows` are words such as svm or mnist/shuffled, any of which will do; `only` are algorithms."""

    rows: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    minutes: float = 3.0
    quick: bool = False

    def __post_init__(self) -> None:
        check_minutes(self.minutes)
        for name in self.only:
            algorithm_class(name)
        for word in self.rows:
            names = [*TASKS, *PARTITIONS, *(f"{ridge:g}" for ridge in RIDGES)]
            for part in word.split("/"):
                if part not in names:
                    raise InputError(nearest("row", part, names))
            if not any(row.has(word) for row in ROWS):
                raise InputError(
                    f"No row is {word!r}: a row has one task, one partition and one mu, as in svm/shuffled."
                )

    @property
    def chosen(self) -> list[MatrixRow]:
        return [row for row in ROWS if not self.rows or any(row.has(word) for word in self.rows)]

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The columns: algorithms, each followed by its variants."""
        names: list[str] = []
        for name in self.only or ALGORITHMS:
            names += [name, *(variant for variant, (base, _) in VARIANTS.items() if base == name)]
        return tuple(names)

    def cell(self, row: MatrixRow, name: str) -> Cell:
        task = TASKS[row.task]
        algorithm, given = hyperparameters(name, row.ridge, task.loss)
        return Cell(
            task.dataset,
            algorithm,
            given,
            rows=QUICK_ROWS if self.quick else None,
            clients=task.labels if row.partition == "labels:1" else N,
            partition=row.partition,
            loss=task.loss,
            ridge=row.ridge,
            l1=task.l1,
            rounds=MOST,
            exchanges=MOST,
            target=min(LEVELS),
            minutes=self.minutes,
        )

    @property
    def cells(self) -> list[Cell]:
        """Row by row, so that a process reads a problem once and uses it often."""
        return [self.cell(row, name) for row in self.chosen for name in self.algorithms]


ROWS = [MatrixRow(task, partition, ridge) for task in TASKS for partition in PARTITIONS for ridge in RIDGES]


# -- what came of it --------------------------------------------------------------------------------------


class Score(NamedTuple):
    """Counts to one level; nan where it was not reached."""

    rounds: float
    exchanges: float
    contacts: float
    floats: float
    seconds: float  # on the network


NEVER = Score(np.nan, np.nan, np.nan, np.nan, np.nan)


def score(outcome: Outcome, level: float, network: Network) -> Score:
    index = outcome.reached(level)
    if index is None:
        return NEVER
    c = {name: float(values[index]) for name, values in outcome.columns.items()}
    floats = c["floats_up"] + c["floats_down"]
    seconds = network.seconds(np.array(c["exchanges"]), np.array(c["payload"]), c["seconds"], outcome.cell.clients)
    return Score(c["round"], c["exchanges"], c["contacts"], floats, float(seconds))


class Ending(NamedTuple):
    """What ended a cell, where it was then, and after how many exchanges."""

    what: str  # one of the words below, "diverged ..." or "does not apply: ..."
    error: float = np.nan
    exchanges: float = 0.0

    @property
    def applies(self) -> bool:
        return not self.what.startswith("does not apply")


REACHED, EXCHANGES, TIME = "reached", f"{MOST} exchanges", "time"


class MatrixTable(NamedTuple):
    """All scores, `scores[row][algorithm][level]`, and how each cell ended."""

    rows: Sequence[MatrixRow]
    algorithms: Sequence[str]
    scores: dict[MatrixRow, dict[str, dict[float, Score]]]
    endings: dict[MatrixRow, dict[str, Ending]]

    def best(self, row: MatrixRow, level: float, count: str) -> float:
        """The smallest count of a row; nan if nobody reached the level."""
        values = [getattr(self.scores[row][name][level], count) for name in self.algorithms]
        return float(np.nanmin(values)) if np.isfinite(values).any() else np.nan

    def applies(self, row: MatrixRow, name: str) -> bool:
        return self.endings[row][name].applies

    @property
    def used(self) -> list[str]:
        """The algorithms that apply to some row."""
        return [name for name in self.algorithms if any(self.applies(row, name) for row in self.rows)]


def table(matrix: Matrix, store: Store, network: Network) -> MatrixTable:
    """From finished cells; all must be there."""
    scores: dict[MatrixRow, dict[str, dict[float, Score]]] = {}
    endings: dict[MatrixRow, dict[str, Ending]] = {}
    for row in matrix.chosen:
        outcomes = {name: store[matrix.cell(row, name)] for name in matrix.algorithms}
        scores[row] = {
            name: {level: score(outcome, level, network) for level in LEVELS} for name, outcome in outcomes.items()
        }
        endings[row] = {name: ending(outcome) for name, outcome in outcomes.items()}
    return MatrixTable(matrix.chosen, matrix.algorithms, scores, endings)


def ending(outcome: Outcome) -> Ending:
    if not len(outcome.errors):
        return Ending(outcome.status if outcome.status != "ok" else TIME)
    error, exchanges = float(outcome.errors[-1]), float(outcome.columns["exchanges"][-1])
    reached = REACHED if error <= min(LEVELS) else TIME if outcome.cut else EXCHANGES
    return Ending(reached if outcome.status == "ok" else outcome.status, error, exchanges)


def csv_rows(found: MatrixTable) -> list[list[Any]]:
    """One row a cell; `best` names the counts to 1e-6 in which nobody is better, `ended_by` what ended the cell."""
    counts = [f"{count}_to_{level:.0e}" for level in LEVELS for count in COUNTS]
    lines: list[list[Any]] = [
        ["task", "partition", "mu", "algorithm", *counts, "best", "last_error", "exchanges", "ended_by"]
    ]
    for row in found.rows:
        for name in found.algorithms:
            scores = found.scores[row][name]
            values = [getattr(scores[level], count) for level in LEVELS for count in COUNTS]
            end = found.endings[row][name]
            best = [count for count in COUNTS if getattr(scores[1e-6], count) == found.best(row, 1e-6, count)]
            lines.append(
                [
                    *(row.task, row.partition, f"{row.ridge:g}", name),
                    *("" if np.isnan(v) else f"{v:.6g}" for v in values),
                    " ".join(best),
                    *("" if np.isnan(end.error) else f"{end.error:.3g}", f"{end.exchanges:.0f}", end.what),
                ]
            )
    return lines


def markdown(found: MatrixTable, network: Network) -> str:
    """For each row the algorithms that reach 1e-6 or 1e-4, by exchanges; the best of every column is bold."""
    text = [
        "Rounds, exchanges, contacts with single clients and floats (all clients, up and down) to relative errors of "
        f"1e-4 / 1e-6, and the seconds on a network with {network}; a dash is a level that was not reached within "
        f"{MOST} exchanges or the time of a cell. The best of each column is bold.",
    ]
    for row in found.rows:
        ranked = sorted(
            (name for name in found.algorithms if not np.isnan(found.scores[row][name][1e-4].exchanges)),
            key=lambda name: [
                np.nan_to_num(found.scores[row][name][level].exchanges, nan=np.inf) for level in (1e-6, 1e-4)
            ],
        )
        out = [name for name in found.algorithms if found.applies(row, name) and name not in ranked]
        text += ["", f"### {row.title}", ""]
        if ranked:
            text += [f"| algorithm | {' | '.join(COUNTS)} |", "|---" + "|---:" * len(COUNTS) + "|"]
            text += [
                f"| {name} | " + " | ".join(_entry(found, row, name, count) for count in COUNTS) + " |"
                for name in ranked
            ]
            text.append("")
        text.append(f"Not to 1e-4: {', '.join(out) or 'none'}.")
    return "\n".join(text) + "\n"


def _entry(found: MatrixTable, row: MatrixRow, name: str, count: str) -> str:
    parts = []
    for level in LEVELS:
        value = getattr(found.scores[row][name][level], count)
        shown = "-" if np.isnan(value) else f"{value:.3g}" if count in ("floats", "seconds") else f"{value:.0f}"
        parts.append(f"**{shown}**" if value == found.best(row, level, count) else shown)
    return " / ".join(parts)
