"""Hyperparameters for the matrix: every grid, searched once for each task and mu, on its Dirichlet 0.5 partition (the
first one of a table of one's own).

What is found there is used on all partitions of that task and mu: a search on every one of them would tune to the
partition, and cost four times as much; the matrix itself has no row with that partition. At most five candidates of a
grid are tried, from all parts of it, and theory's values are the first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dualfl.algorithms.registry import algorithm_class
from dualfl.experiments.cells import Cell, Outcome
from dualfl.experiments.matrix import FAMILY, SIZES, VARIANTS, Matrix, MatrixRow
from dualfl.experiments.running import dataset_of
from dualfl.experiments.store import Store
from dualfl.experiments.tune import Rung, Search, Tuner, read_best, summary
from dualfl.files import write_atomically

PARTITION, ROUNDS = "dirichlet:0.5", 24
CANDIDATES = 5  # of a method
# All candidates for eight exchanges, and the best of each method's for all. Sets are small, so a part of their rows
# would save nothing.
RUNGS = (Rung(1.0, 1 / 3, 0.5), Rung(1.0, 1.0, 1.0))


def tuned_file(folder: Path, row: MatrixRow) -> Path:
    return folder / f"{row.about or row.task}-{row.ridge:g}.json"


def search_row(matrix: Matrix, row: MatrixRow) -> MatrixRow:
    """The row on which hyperparameters for this one are searched."""
    split = PARTITION if matrix.own is None else matrix.own.partitions[0]
    return row._replace(task=matrix.task(row).tuned_as or row.task, partition=split)


def searched(matrix: Matrix) -> list[MatrixRow]:
    """The rows on which searches are made."""
    return list(dict.fromkeys(search_row(matrix, row) for row in matrix.chosen))


def left(matrix: Matrix, folder: Path) -> list[MatrixRow]:
    """Those of them whose search has not been made."""
    return [row for row in searched(matrix) if not tuned_file(folder, row).exists()]


def read_tuned(folder: Path, matrix: Matrix) -> dict[tuple[str, float], dict[str, Mapping[str, Any]]]:
    """What searches have found; empty where none was made."""
    found: dict[tuple[str, float], dict[str, Mapping[str, Any]]] = {}
    for row in matrix.all_rows:
        file = tuned_file(folder, search_row(matrix, row))
        if (row.task, row.ridge) not in found and file.exists():
            _, best = read_best(file)
            found[row.task, row.ridge] = {name: entry["hyperparameters"] for name, entry in best.items()}
    return found


def tune(
    matrix: Matrix,
    folder: Path,
    minutes: float,
    *,
    processes: int = 1,
    command: str = "",
    tell: Callable[[Cell, Outcome], None] = lambda cell, outcome: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Search for each task and mu of the chosen rows, `minutes` of the processors each; a search that is done is not
    made again."""
    for row in left(matrix, folder):
        say(f"{row.problem}, mu = {row.ridge:g}:")
        search = search_of(matrix, row)
        found = Tuner(search, Store(folder / "cells"), minutes, processes, tell, say, by_processor=True).run()
        record = {"setting": search.setting, "best": summary(found, search, command)}
        write_atomically(tuned_file(folder, row), (json.dumps(record, indent=1) + "\n").encode())


def search_of(matrix: Matrix, row: MatrixRow) -> Search:
    basis = replace(matrix.cell(row, "gd"), hyperparameters={}, algorithm="", rounds=ROUNDS, exchanges=ROUNDS)
    names = tuple(n for n in matrix.algorithms if n not in VARIANTS and n not in FAMILY and algorithm_class(n).grid)
    rows = dataset_of(basis.dataset, basis.scale, basis.rows, basis.target_column).n
    return Search(replace(basis, rows=SIZES[matrix.size]), rows, names, "wide", "area", RUNGS, CANDIDATES)
