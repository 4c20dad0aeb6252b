"""How much slower than the best algorithm of the library is what `auto` picks for a network?

    python -m benchmarks.networks [--save]          from results/matrix, in a second; --save writes results/networks.md

For every cell of the matrix and every network, `auto` with cost = "time" chooses from what it would have surveyed. The
time of every algorithm is then that of its measured run to 1e-6: exchanges x latency + bits of a client / bandwidth +
computing, which clients do at the same time. The regret is the ratio of the time of the choice to the least of all.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualfl.algorithms.contract import Constants, Facts
from dualfl.algorithms.few_exchanges import Auto
from dualfl.algorithms.few_exchanges.time_model import Network
from dualfl.objectives.penalties import L1, Penalty

RESULTS = Path(__file__).parents[1] / "results"
LATENCIES, BANDWIDTHS = (1e-3, 0.05, 1.0, 10.0), (1.0, 10.0, 100.0, 10_000.0)  # seconds, Mbit/s
MEDIAN, MOST, WORST = 1.2, 1.5, 2.0  # what is asked of the median, of 95 % and of all
N = 8
# What a survey tells of each task: features, classes and rows of all clients together.
TASKS = {
    "mnist": (Facts("Softmax", True, False, True, 785, 10, False, 5), 60_000, None),
    "logistic": (Facts("Logistic", True, False, True, 124, 1, False, 5), 22_696, None),
    "svm": (Facts("Hinge", False, True, False, 124, 1, False, 5), 22_696, None),
    "lasso": (Facts("Squared", True, False, True, 201, 1, False, 5), 5_000, L1(0.1)),
}
lines: list[str] = []


class Run(NamedTuple):
    """An algorithm's way to 1e-6 in one cell."""

    exchanges: float
    floats: float
    seconds: float

    def on(self, network: Network) -> float:
        return network.seconds(self.exchanges, self.floats / N, self.seconds / N)


Cell = tuple[str, str, float]


def say(text: str = "") -> None:
    print(text, flush=True)
    lines.append(text)


def measured() -> dict[Cell, dict[str, Run]]:
    """All finished runs of the matrix."""
    cells: dict[Cell, dict[str, Run]] = {}
    with open(RESULTS / "matrix" / "matrix.csv") as file:
        for row in csv.DictReader(file):
            if row["exchanges_to_1e-06"] and row["task"] in TASKS:
                figures = (float(row[f"{what}_to_1e-06"] or 0) for what in ("exchanges", "floats", "seconds"))
                cells.setdefault((row["task"], row["partition"], float(row["mu"])), {})[row["algorithm"]] = Run(
                    *figures
                )
    return cells


def choice(cell: Cell, network: Network) -> str:
    """The algorithm that `auto` picks."""
    task, _, mu = cell
    facts, rows, penalty = TASKS[task]
    known = Constants(mu=mu, L=np.nan, N=N, d=facts.D * facts.k, n=rows // N, facts=facts)
    held: Penalty | None = penalty
    return Auto(cost="time", latency=network.latency, bandwidth=network.bandwidth).specialise(known, held)[0].name


def regrets(cells: dict[Cell, dict[str, Run]], network: Network) -> list[tuple[float, Cell, str, str]]:
    """One for each cell: the ratio, what was picked, and what was best."""
    found = []
    for cell, runs in cells.items():
        picked = choice(cell, network)
        times = {name: run.on(network) for name, run in runs.items()}
        best = min(times, key=times.__getitem__)
        taken = times.get(picked, times.get("auto", np.inf) if picked in ("one-shot", "fedipm") else np.inf)
        found.append((taken / times[best], cell, picked, best))
    return found


def upper(ratios: Any) -> float:
    """What 95 % are below; one that never came to its end is infinite."""
    return float(np.quantile(ratios, 0.95, method="higher"))


def main() -> None:
    cells = measured()
    say("# `auto` on networks")
    say()
    say(f"Printed by `python -m benchmarks.networks --save` from the {len(cells)} cells of results/matrix.")
    say()
    say("| latency | bandwidth | median | 95 % | worst | picked in the worst cell | best there |")
    say("|---:|---:|---:|---:|---:|---|---|")
    everything: list[tuple[float, Cell, str, str]] = []
    for latency in LATENCIES:
        for bandwidth in BANDWIDTHS:
            found = regrets(cells, Network(latency, bandwidth))
            everything += found
            ratios = np.array([one[0] for one in found])
            worst = max(found)
            task, partition, mu = worst[1]
            say(
                f"| {1e3 * latency:g} ms | {bandwidth:,g} Mbit/s | {np.median(ratios):.2f} | {upper(ratios):.2f} | "
                f"{ratios.max():.2f} | {worst[2]}: {task}, {partition}, {mu:g} | {worst[3]} |"
            )
    ratios = np.array([one[0] for one in everything])
    say()
    figures = (float(np.median(ratios)), upper(ratios), float(ratios.max()))
    for name, figure, asked in zip(("median", "95 %", "worst"), figures, (MEDIAN, MOST, WORST)):
        say(f"* {name} of all: {figure:.2f} ({'kept' if figure <= asked else 'missed'}: at most {asked:g})")
    if "--save" in sys.argv[1:]:
        (RESULTS / "networks.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
