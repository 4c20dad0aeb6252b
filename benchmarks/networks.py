"""How much slower than the best algorithm of the library is what `auto` picks for a network?

    python -m benchmarks.networks [--save] [ROWS]      --save writes results/networks.md; ROWS as of `reproduce matrix`

For every row of the small matrix and every network, `auto` with cost = "time" chooses from what its survey tells. Its
choice runs, and so do its rivals: those that are best somewhere in a matrix of results/, by exchanges and floats, and
whoever else can be (`STRONG`). The time of a run to 1e-6 is exchanges x latency + bits of a client / bandwidth +
processor time, which clients spend at the same time; it is the less of two runs. The regret is the ratio of the time of
the choice to the least of all. The survey is left out, as are the exchanges until the error is proven.
"""

from __future__ import annotations

import csv
import os
import sys
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy is imported

import numpy as np  # noqa: E402

from dualfl import kernels  # noqa: E402
from dualfl.algorithms.contract import Algorithm, Constants  # noqa: E402
from dualfl.algorithms.few_exchanges import Auto  # noqa: E402
from dualfl.algorithms.few_exchanges.time_model import Network  # noqa: E402
from dualfl.engines.decision import ClientsHere, inquiry_of  # noqa: E402
from dualfl.experiments.cells import Cell  # noqa: E402
from dualfl.experiments.matrix import Matrix, MatrixRow  # noqa: E402
from dualfl.experiments.running import problem_of, run_cell  # noqa: E402

RESULTS = Path(__file__).parents[1] / "results"
MATRICES = ("matrix-small", "matrix")
ROWS = ("logistic", "lasso", "svm", "raw", "digits", "mnist/0.01")
STRONG = ("auto", "sketched-newton", "prox-newton", "fedipm", "one-shot", "lbfgs", "local-secants", "dane, mu_D = 0",
          "giant", "disco, mu_P = mu", "bundle")  # fmt: skip
LATENCIES, BANDWIDTHS = (1e-3, 0.05, 1.0, 10.0), (1.0, 10.0, 100.0, 10_000.0)  # seconds, Mbit/s
NETWORKS = [Network(latency, bandwidth) for latency in LATENCIES for bandwidth in BANDWIDTHS]
MEDIAN, MOST, WORST = 1.2, 1.5, 2.0  # what is asked of the median, of 95 % and of all
LEVEL, TURNS, SHOWN = 1e-6, 2, 12
PATIENCE, LONG = 0.03, 2.0  # minutes of a processor for a run of a rival, and of a choice
lines: list[str] = []


class Run(NamedTuple):
    """An algorithm's way to 1e-6 in one row; floats and seconds are a client's."""

    exchanges: float
    floats: float
    seconds: float

    def on(self, network: Network) -> float:
        return network.seconds(*self)


class Regret(NamedTuple):
    """Of a choice, on one row and one network."""

    ratio: float
    network: Network
    row: MatrixRow
    picked: str
    best: str


def say(text: str = "") -> None:
    print(text, flush=True)
    lines.append(text)


def front(row: MatrixRow) -> set[str]:
    """Who sends least for as few exchanges in a stored matrix; there the rows of a data set may be more."""
    names: set[str] = set()
    for folder in MATRICES:
        found = []
        with open(RESULTS / folder / "matrix.csv") as file:
            for line in csv.DictReader(file):
                same = (line["task"], line["partition"], float(line["mu"])) == (row.task, row.partition, row.ridge)
                if same and line["exchanges_to_1e-06"]:
                    sent = float(line["floats_to_1e-06"])
                    found.append((float(line["exchanges_to_1e-06"]), sent, line["algorithm"]))
        least = np.inf
        for _, floats, name in sorted(found):
            if floats < least:
                least = floats
                names.add(name)
    return names


@cache
def facts(cell: Cell) -> Constants:
    """What the survey of a network's `auto` tells."""
    return ClientsHere(problem_of(cell)).inquire(inquiry_of(Auto(cost="time", latency=1.0)))


def choice(matrix: Matrix, row: MatrixRow, network: Network) -> Algorithm:
    """What `auto` picks. Rows are public here, as in the matrix."""
    cell = matrix.cell(row, "auto").problem
    auto = Auto(cost="time", latency=network.latency, bandwidth=network.bandwidth, least_rows=1)
    return auto.specialise(facts(cell), problem_of(cell).penalty)[0]


def measured(cell: Cell, minutes: float = PATIENCE) -> Run | None:
    """The quicker of two runs; None if it does not get there."""
    key = replace(cell, target=LEVEL, minutes=minutes)
    found = []
    for _ in range(TURNS):
        outcome = run_cell(key)
        at = outcome.reached(LEVEL)
        if at is None:
            return None
        sent = outcome.columns["floats_up"][at] + outcome.columns["floats_down"][at]
        found.append(Run(outcome.columns["exchanges"][at], sent / cell.clients, outcome.cpu / cell.clients))
        if outcome.cpu > 2:
            break
    return min(found, key=lambda run: run.seconds)


def as_cell(matrix: Matrix, row: MatrixRow, algorithm: Algorithm) -> Cell:
    given: dict[str, Any] = {name: value for name, value in asdict(algorithm).items() if value is not None}
    return replace(matrix.cell(row, "auto"), algorithm=algorithm.name, hyperparameters=given)


def compared(matrix: Matrix, row: MatrixRow) -> list[Regret]:
    """One for each network."""
    picks = {network: as_cell(matrix, row, choice(matrix, row, network)) for network in NETWORKS}
    runs: dict[str, Run | None] = {name: measured(matrix.cell(row, name)) for name in {*STRONG, *front(row)}}
    own = {str(cell.hyperparameters) + cell.algorithm: cell for cell in picks.values()}
    mine = {key: measured(cell, LONG) for key, cell in own.items()}
    found = []
    for network, cell in picks.items():
        run = mine[str(cell.hyperparameters) + cell.algorithm]
        times = {name: each.on(network) for name, each in runs.items() if each is not None}
        taken = run.on(network) if run is not None else np.inf
        best = min(times, key=times.__getitem__)
        ratio = max(taken / times[best], 1.0) if np.isfinite(taken) else np.inf
        found.append(Regret(ratio, network, row, cell.algorithm, best))
    worst = max(found)
    print(f"  {row.word}: worst {worst.ratio:.2f} on {worst.network} ({worst.picked}; {worst.best})", file=sys.stderr)
    return found


def upper(ratios: Any) -> float:
    """What 95 % are below; one that never came to its end is infinite."""
    return float(np.quantile(ratios, 0.95, method="higher"))


def main() -> None:
    asked = tuple(word for word in sys.argv[1:] if not word.startswith("--"))
    matrix = Matrix(full=True, rows=asked or ROWS)
    everything = [regret for row in matrix.chosen for regret in compared(matrix, row)]
    say("# `auto` on networks")
    say()
    command = " ".join(["python -m benchmarks.networks", *asked, "--save"])
    say(
        f"Printed by `{command}`: {len(matrix.chosen)} rows of the matrix ({matrix.about}), {len(NETWORKS)} networks. "
        f"{kernels.describe()}; one thread; load of the machine {os.getloadavg()[0]:.1f}."
    )
    say()
    say("| latency | bandwidth | median | 95 % | worst | picked in the worst row | best there |")
    say("|---:|---:|---:|---:|---:|---|---|")
    for network in NETWORKS:
        found = [regret for regret in everything if regret.network == network]
        ratios, worst = np.array([regret.ratio for regret in found]), max(found)
        say(
            f"| {1e3 * network.latency:g} ms | {network.bandwidth:,g} Mbit/s | {np.median(ratios):.2f} | "
            f"{upper(ratios):.2f} | {ratios.max():.2f} | {worst.picked}: {worst.row.word} | {worst.best} |"
        )
    ratios = np.array([regret.ratio for regret in everything])
    say()
    figures = (float(np.median(ratios)), upper(ratios), float(ratios.max()))
    for name, figure, limit in zip(("median", "95 %", "worst"), figures, (MEDIAN, MOST, WORST)):
        say(f"* {name} of all: {figure:.2f} ({'kept' if figure <= limit else 'missed'}: at most {limit:g})")
    say()
    say("The worst:")
    say()
    say("| regret | network | row | picked | best |")
    say("|---:|---|---|---|---|")
    for regret in sorted(everything, reverse=True)[:SHOWN]:
        say(f"| {regret.ratio:.2f} | {regret.network} | {regret.row.word} | {regret.picked} | {regret.best} |")
    if "--save" in sys.argv[1:]:
        (RESULTS / "networks.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
