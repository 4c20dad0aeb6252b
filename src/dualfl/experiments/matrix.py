"""Beyond the paper's single setting: every algorithm on problems, partitions and ridges that are not alike.

    logistic regression and the hinge SVM on a8a, the lasso on correlated features, softmax on digits, MNIST, CIFAR-10,
    and data as people have them: iris with its columns as they come, neither centred nor scaled, and a8a in the hands
    of a thousand clients

    around Dirichlet(0.1) and mu = 1e-2, of which one is varied at a time: shuffled, one label a client, mu = 1e-4

`full=True` has every partition with every mu. All algorithms that apply run, with the defaults of theory or with what
`matrix_tuning` found, and some of them once more as they are used in practice.

Small on purpose: at most 2,000 rows of every set, so that every cell comes to its end, which is a relative error of
1e-6, 500 exchanges, or divergence. `size="whole"` takes all rows. The lasso has the ridge too, so that all algorithms
have their strong convexity; its targets are put into ten bins of equal size where a partition asks for labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from dualfl.algorithms.registry import ALGORITHMS, algorithm_class
from dualfl.data.partitions import parse
from dualfl.data.problem import how_many
from dualfl.errors import InputError
from dualfl.experiments.cells import Cell, check_minutes
from dualfl.experiments.running import dataset_of
from dualfl.names import nearest

LEVELS = (1e-4, 1e-6)
MOST = 500  # exchanges
AUTO_TARGET = 1e-10  # `auto` goes on until its certificate has come to 1e-6 as well
SIZES: dict[str, int | None] = {"small": 2_000, "quick": 400, "whole": None}  # rows of every data set
RIDGES = (1e-2, 1e-4)
CENTRE = ("dirichlet:0.1", 1e-2)  # of which the matrix varies one at a time
N = 8
PARTITIONS = {
    "shuffled": "shuffled",
    "dirichlet:0.5": "Dirichlet 0.5",
    "dirichlet:0.1": "Dirichlet 0.1",
    "labels:1": "one label",
}


class Task(NamedTuple):
    """A problem: its data, its loss, and how many clients share it."""

    dataset: str
    loss: str
    title: str
    labels: int  # so many clients when each has one label
    l1: float = 0.0
    scale: str = "default"
    clients: int = N
    partitions: tuple[str, ...] = tuple(PARTITIONS)
    target: str | None = None  # the column to predict, of a file
    tuned_as: str = ""  # the task whose hyperparameters it takes, if not its own
    natural: Mapping[str, int] = MappingProxyType({})  # how many clients a partition has, where a column says it

    def clients_of(self, partition: str) -> int:
        return self.labels if partition == "labels:1" else self.natural.get(partition, self.clients)


OWN = "own"  # what rows of a table of one's own are called


def own_task(
    dataset: str, target: str | None, clients: int | None, partitions: tuple[str, ...], size: str = "small"
) -> Task:
    """A table of one's own, or any named set: its loss suits its target. Where nobody says how many clients there are,
    a column does, by its values in the rows that are taken."""
    columns = [given for given in partitions if parse(given)[0] == "column"]
    if clients is not None and clients < 1:
        raise InputError(f"clients must be at least 1, but it is {clients}.")
    if not partitions:
        raise InputError("A data set of your own needs a partition at least, such as column:hospital or shuffled.")
    natural = {}
    if clients is None and columns:
        data = dataset_of(dataset, "default", SIZES[size], target)
        natural = {given: how_many(data, None, given) for given in columns}
    many = N if clients is None else clients
    title = Path(dataset).name
    return Task(dataset, "auto", title, many, clients=many, partitions=partitions, target=target, natural=natural)


# In the order in which they are run: what is cheap first.
TASKS = {
    "logistic": Task("a8a", "logistic", "logistic, a8a", 8),
    "lasso": Task("correlated", "squared", "lasso, 200 columns", 10, l1=0.1),
    "svm": Task("a8a", "hinge", "hinge SVM, a8a", 8),
    "raw": Task("iris", "softmax", "softmax, iris, raw columns", 3, scale="raw"),
    "digits": Task("digits", "softmax", "softmax, digits", 10),
    "mnist": Task("mnist", "softmax", "softmax, MNIST", 10),
    "cifar10": Task("cifar10", "softmax", "softmax, CIFAR-10", 10),
    "many": Task(
        "a8a",
        "logistic",
        "logistic, a8a, 1,000 clients",
        0,
        clients=1_000,
        partitions=("shuffled", "dirichlet:0.5"),
        tuned_as="logistic",  # a search with 1,000 clients would take a hundred times as long
    ),
}

FAMILY = ("auto", "sketched-newton", "fedipm", "prox-newton", "one-shot")  # `auto`, and what it chooses from

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

# What a search found, by (task, mu) and algorithm.
Values = Mapping[tuple[str, float], Mapping[str, Mapping[str, Any]]]


def hyperparameters(
    name: str, ridge: float, loss: str = "", tuned: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[str, dict[str, Any]]:
    """The algorithm behind a column, and what it gets beside the defaults. Rows are public here, so that clients with
    few of them need not be protected: partitions such as Dirichlet 0.1 leave some with one row."""
    given: dict[str, Any] = WITH_KINKS[name](ridge) if loss == "hinge" and name in WITH_KINKS else {}
    if name in VARIANTS:
        name, settings = VARIANTS[name]
        given = settings(ridge)
    else:
        given |= (tuned or {}).get(name, {})
    return name, given | ({"least_rows": 1} if hasattr(algorithm_class(name), "least_rows") else {})


class MatrixRow(NamedTuple):
    """One line of the table."""

    task: str
    partition: str
    ridge: float
    about: str = ""  # of a table of one's own, its name

    @property
    def problem(self) -> str:
        return self.about or TASKS[self.task].title

    @property
    def title(self) -> str:
        return f"{self.problem}, {PARTITIONS.get(self.partition, self.partition)}, mu = {self.ridge:g}"

    @property
    def central(self) -> bool:
        """Whether it differs from the centre in one thing at most."""
        partition, ridge = CENTRE
        return self.partition != "dirichlet:0.5" and (self.partition == partition or self.ridge == ridge)

    @property
    def word(self) -> str:
        """By which this row, and no other, is chosen."""
        return f"{self.task}/{self.partition}/{self.ridge:g}"

    def has(self, word: str) -> bool:
        """Whether a word such as svm, labels:1, 0.01 or mnist/shuffled means this row, among others."""
        return word == self.word or set(word.split("/")) <= {self.task, self.partition, f"{self.ridge:g}"}


@dataclass(frozen=True)
class Matrix:
    """What to run.

    rows : words such as svm or mnist/shuffled, any of which will do.
    only : algorithms.
    minutes : the largest processor time of a cell; None lets every cell come to its end.
    size : "small", "quick" or "whole", see SIZES.
    seeds : how often methods run that toss coins.
    tuned : hyperparameters that a search found, by (task, mu) and algorithm.
    own : a table of one's own, in the place of all tasks.
    full : every partition with every mu, not those of the centre only.
    """

    rows: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    minutes: float | None = None
    size: str = "small"
    seeds: int = 3
    tuned: Values = field(default_factory=dict)
    own: Task | None = None
    full: bool = False

    def __post_init__(self) -> None:
        check_minutes(self.minutes)
        if self.size not in SIZES:
            raise InputError(nearest("size", self.size, SIZES))
        if self.seeds < 1:
            raise InputError(f"seeds is how often methods run that toss coins, at least 1, but it is {self.seeds}.")
        for name in self.only:
            algorithm_class(name)
        for word in self.rows:
            if any(row.word == word for row in self.all_rows):
                continue  # also where a column's name has a slash
            names = list(dict.fromkeys(part for row in self._there_are for part in row.word.split("/")))
            for part in word.split("/"):
                if part not in names:
                    raise InputError(nearest("row", part, names))
            if not any(row.has(word) for row in self._there_are):
                raise InputError(
                    f"No row is {word!r}: a row has one task, one partition and one mu, as in svm/shuffled."
                )
            if not any(row.has(word) for row in self.all_rows):
                raise InputError(f"{word} is a row of the full matrix only; ask for that too (--full).")

    @property
    def _there_are(self) -> list[MatrixRow]:
        return ALL_ROWS if self.own is None else self.all_rows

    @property
    def all_rows(self) -> list[MatrixRow]:
        """The rows that there are to choose from."""
        if self.own is None:
            return ALL_ROWS if self.full else ROWS
        return [MatrixRow(OWN, split, ridge, self.own.title) for split in self.own.partitions for ridge in RIDGES]

    @property
    def chosen(self) -> list[MatrixRow]:
        return [row for row in self.all_rows if not self.rows or any(row.has(word) for word in self.rows)]

    def task(self, row: MatrixRow) -> Task:
        return TASKS[row.task] if self.own is None else self.own

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The columns: algorithms, each followed by its variants."""
        names: list[str] = []
        for name in self.only or ALGORITHMS:
            names += [name, *(variant for variant, (base, _) in VARIANTS.items() if base == name)]
        return tuple(names)

    def cell(self, row: MatrixRow, name: str, seed: int = 0) -> Cell:
        task = self.task(row)
        algorithm, given = hyperparameters(name, row.ridge, task.loss, self.tuned.get((row.task, row.ridge)))
        return Cell(
            task.dataset,
            algorithm,
            given,
            rows=SIZES[self.size],
            clients=task.clients_of(row.partition),
            partition=row.partition,
            scale=task.scale,
            loss=task.loss,
            ridge=row.ridge,
            l1=task.l1,
            rounds=MOST,
            exchanges=MOST,
            target=AUTO_TARGET if name == "auto" else min(LEVELS),
            minutes=self.minutes,
            seed=seed,
            target_column=task.target,
            certificate=name == "auto",
        )

    def runs(self, row: MatrixRow, name: str) -> list[Cell]:
        """The cell of every seed; one, if no seed changes anything."""
        base = VARIANTS[name][0] if name in VARIANTS else name
        seeds = 1 if algorithm_class(base).card.deterministic else self.seeds
        return [self.cell(row, name, seed) for seed in range(seeds)]

    @property
    def cells(self) -> list[Cell]:
        """Row by row, so that a process reads a problem once and uses it often."""
        return [cell for row in self.chosen for cell in self.line(row)]

    def line(self, row: MatrixRow) -> list[Cell]:
        """All cells of a row."""
        return [cell for name in self.algorithms for cell in self.runs(row, name)]

    @property
    def about(self) -> str:
        """Which rows these are, for titles."""
        rows = SIZES[self.size]
        return "all rows of every set" if rows is None else f"at most {rows:,} rows of every set"

    def of(self, rows: Iterable[MatrixRow]) -> Matrix:
        """The same on these rows only."""
        return replace(self, rows=tuple(row.word for row in rows))


ALL_ROWS = [
    MatrixRow(name, partition, ridge) for ridge in RIDGES for name, t in TASKS.items() for partition in t.partitions
]
ROWS = [row for row in ALL_ROWS if row.central]
