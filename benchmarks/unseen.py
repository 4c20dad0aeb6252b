"""Hard conditioning on sets that nobody tuned for: python -m benchmarks.unseen [names of sets] [--mu 1e-6] [--save]

`auto` with cost="exchanges" on tables of scikit-learn, raw and standardised, on rows whose columns are nearly dependent,
and on parts of a8a and MNIST where DUALFL_DATA names a folder that has them; 8 clients, three partitions. A line says
after how many exchanges the server holds a model of relative error 1e-6, with a penalised and with a free intercept, and
after how many that is certified. Asked: at most 40, certified at most 4 later, and a free intercept costs at most one
exchange more. A line where one of these is missed says so.

The true error is against E* of a run that its certificate ends at 1e-10, or at what rounding allows.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets

from dualfl.algorithms.registry import make
from dualfl.data import load
from dualfl.data.partitions import partition as split
from dualfl.engines import Problem, run
from dualfl.errors import InputError
from dualfl.objectives import LinearModel, Logistic, Softmax
from dualfl.typing import Array

PLACE = Path(__file__).parents[1] / "results" / "unseen.md"
PARTITIONS = ("even", "dirichlet:0.5", "label")
LEVEL, MOST, LATE, MANY = 1e-6, 120, 4, 40
HEAD = "| set | partition | penalised: there, certified | free: there, certified | floats up / d | CPU s | |"


class Table(NamedTuple):
    X: Any
    y: Array
    scale: float = 1.0


def standardised(X: Array) -> Array:
    spread = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def bundled(loader: Callable[..., Any], raw: bool) -> Table:
    X, y = loader(return_X_y=True)
    return Table(X if raw else standardised(X), y)


def median_split(raw: bool) -> Table:
    """Diabetes: whether the disease went on faster than for half of the patients."""
    X, y = datasets.load_diabetes(return_X_y=True, scaled=False)
    return Table(X if raw else standardised(X), (y > np.median(y)).astype(float))


def drawn(X: Array, noise: float, rng: np.random.Generator, classes: int) -> Table:
    """Labels of these rows by a linear model."""
    scores = X @ rng.normal(size=(X.shape[1], classes))
    scores = scores / scores.std() + noise * rng.gumbel(size=scores.shape)
    return Table(X, scores.argmax(axis=1).astype(float))


def neighbours() -> Table:
    """Every column is nearly the one before it."""
    rng = np.random.default_rng(1)
    steps = rng.normal(size=(2000, 60))
    for j in range(1, 60):
        steps[:, j] = 0.99 * steps[:, j - 1] + np.sqrt(1 - 0.99**2) * steps[:, j]
    return drawn(steps, 0.3, rng, 2)


def factors() -> Table:
    """Five factors and a little of each column's own: condition 1e6."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 5)) @ rng.normal(size=(5, 80)) + 1e-2 * rng.normal(size=(3000, 80))
    return drawn(X, 0.5, rng, 4)


def units() -> Table:
    """Columns in units from 1e-3 to 1e3."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 40))
    found = drawn(X, 0.5, rng, 2)
    return found._replace(X=X * 10.0 ** rng.uniform(-3, 3, size=40))


def of_file(name: str, rows: int) -> Table:
    data = load(name)
    return Table(data.X[:rows], np.asarray(data.y[:rows], dtype=float), data.scale)


SETS: dict[str, Callable[[], Table]] = {
    "iris raw": lambda: bundled(datasets.load_iris, True),
    "wine": lambda: bundled(datasets.load_wine, False),
    "wine raw": lambda: bundled(datasets.load_wine, True),
    "breast cancer": lambda: bundled(datasets.load_breast_cancer, False),
    "breast cancer raw": lambda: bundled(datasets.load_breast_cancer, True),
    "diabetes": lambda: median_split(False),
    "diabetes raw": lambda: median_split(True),
    "neighbours": neighbours,
    "units": units,
    "factors": factors,
    "digits raw": lambda: bundled(datasets.load_digits, True),
    "a8a, 4,000 rows": lambda: of_file("a8a", 4000),
    "MNIST, 2,000 rows": lambda: of_file("mnist", 2000),
}


def problem_of(table: Table, partition: str, mu: float, free: bool) -> Problem:
    names, labels = np.unique(table.y, return_inverse=True)
    parts = split(partition, labels, 8, 0)
    intercept: Any = "free" if free else True
    loss: Any = Softmax(len(names)) if len(names) > 2 else Logistic()
    y = labels.astype(float) if len(names) > 2 else 2.0 * labels - 1.0
    return Problem([LinearModel(table.X[i], y[i], loss, mu, intercept=intercept, scale=table.scale) for i in parts])


class Seen(NamedTuple):
    """Exchanges to the level, true and certified, or None; numbers sent by a client, in units of d."""

    there: int | None
    certified: int | None
    floats: float

    def __str__(self) -> str:
        return ", ".join("-" if n is None else str(n) for n in (self.there, self.certified))

    @property
    def late(self) -> bool:
        return self.there is None or self.certified is None or self.certified > self.there + LATE


def measured(problem: Problem, star: float) -> Seen:
    best, there, certified, floats = np.inf, None, None, 0.0

    def enough(row: Any, theta: Any) -> bool:
        nonlocal best, there, certified, floats
        best = min(best, row.energy)
        if there is None and best - star <= LEVEL * abs(star):
            there, floats = row.exchanges, row.floats_up / problem.N / problem.d
        if certified is None and row.certificate is not None and row.certificate <= LEVEL * abs(best):
            certified = row.exchanges
        return there is not None and certified is not None

    # clients of a few rows show second-order sums: these rows are public
    run(problem, make("auto", least_rows=1, cost="exchanges"), rounds=MOST, stop=enough)
    return Seen(there, certified, floats)


def minimum(problem: Problem) -> float:
    result = run(problem, make("auto", least_rows=1, cost="exchanges"), rounds=4 * MOST, tol=1e-10)
    assert result.energy is not None
    return float(result.energy)


def missed(penalised: Seen, free: Seen) -> str:
    said = []
    if penalised.there is None or penalised.there > MANY:
        said.append(f"more than {MANY}")
    if penalised.late:
        said.append("certified late")
    if free.there is None or (penalised.there is not None and free.there > penalised.there + 1):
        said.append("free intercept costs more")
    if free.late:
        said.append("free certified late")
    return "**missed**: " + ", ".join(said) if said else "kept"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help=", ".join(SETS))
    parser.add_argument("--mu", type=float, default=1e-6)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    if unknown := [name for name in given.sets if name not in SETS]:
        parser.error(f"there is no set {unknown[0]!r}; there are: {', '.join(SETS)}.")
    lines = [
        "# Hard conditioning on sets that nobody tuned for",
        "",
        f"Printed by `python -m benchmarks.unseen --mu {given.mu:g}`: exchanges to a relative error of {LEVEL:g}, and "
        f"until it is certified, with 8 clients; load of the machine: {os.getloadavg()[0]:.1f}.",
        "",
        HEAD,
        "|---|---|---:|---:|---:|---:|---|",
    ]
    print("\n".join(lines), flush=True)
    for name in given.sets or SETS:
        try:
            table = SETS[name]()
        except InputError as absent:
            lines.append(f"| {name} | | | | | | left out: {absent} |")
            print(lines[-1], flush=True)
            continue
        stars = [minimum(problem_of(table, "even", given.mu, free)) for free in (False, True)]
        for partition in PARTITIONS:
            began = time.process_time()
            seen = [
                measured(problem_of(table, partition, given.mu, free), star) for free, star in zip((False, True), stars)
            ]
            used, floats = time.process_time() - began, seen[0].floats
            words = [name, partition, *map(str, seen), f"{floats:,.0f}", f"{used:.1f}", missed(*seen)]
            lines.append(f"| {' | '.join(words)} |")
            print(lines[-1], flush=True)
    lines.append(f"\n{sum('missed' in line for line in lines)} lines missed something.\n")
    print(lines[-1])
    if given.save:
        PLACE.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
