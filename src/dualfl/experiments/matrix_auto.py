"""`auto` against all others on the matrix: exchanges, what is proven, payload, and the time on many networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dualfl.experiments.cells import Outcome
from dualfl.experiments.matrix import FAMILY, LEVELS, Matrix, MatrixRow
from dualfl.experiments.matrix_scores import middle, score
from dualfl.experiments.network import Network
from dualfl.experiments.store import Store

LEVEL = min(LEVELS)
NETWORKS = [
    Network(latency, bandwidth) for latency in (0.001, 0.05, 1.0, 10.0) for bandwidth in (1.0, 10.0, 100.0, 10_000.0)
]
Runs = Mapping[MatrixRow, Mapping[str, Outcome]]  # who reached the level, by row


class Regret(NamedTuple):
    """How much longer `auto` takes than the fastest method of a row, on one network."""

    factor: float  # inf where auto does not get there and another does
    fastest: str
    row: MatrixRow


def reached(matrix: Matrix, store: Store) -> dict[MatrixRow, dict[str, Outcome]]:
    """The runs, those in the middle of their seeds, that got to 1e-6."""
    found: dict[MatrixRow, dict[str, Outcome]] = {}
    for row in matrix.chosen:
        runs = {name: middle([store[cell] for cell in matrix.runs(row, name)], LEVEL) for name in matrix.algorithms}
        found[row] = {name: run for name, run in runs.items() if run.reached(LEVEL) is not None}
    return found


def certified(outcome: Outcome, level: float = LEVEL) -> float:
    """Exchanges until E - E* <= level |E*| is proven; nan if it never was."""
    assert outcome.minimum is not None
    proven = np.flatnonzero(outcome.columns["certificate"] <= level * abs(outcome.minimum))
    return float(outcome.columns["exchanges"][proven[0]]) if len(proven) else np.nan


def regrets(runs: Runs, network: Network) -> list[Regret]:
    """One for every row that somebody solves."""
    found = []
    for row, solved in runs.items():
        seconds = {name: score(run, LEVEL, network).seconds for name, run in solved.items()}
        if seconds:
            fastest = min(seconds, key=lambda name: seconds[name])
            found.append(Regret(seconds.get("auto", np.inf) / seconds[fastest], fastest, row))
    return found


def markdown(runs: Runs, networks: Sequence[Network] = NETWORKS) -> str:
    """Two tables: exchanges and floats by row, and time by network."""
    lines = [
        "Exchanges of `auto` to a relative error of 1e-6, when that is proven, and the best of the methods that `auto` "
        "does not choose from; floats over a client's line, `auto` over that rival and over the method that sends "
        "least. A dash: nobody, or never.",
        "",
        "| problem | auto | proven | next best | its exchanges | floats to its | floats to the least |",
        "|---|---:|---:|---|---:|---:|---:|",
        *(_row(row, solved) for row, solved in runs.items()),
        "",
        "Time of `auto` on a network over that of the fastest method, over all rows that somebody solves. Computing "
        "time is what was measured here; the family is what `auto` chooses from.",
        "",
        "| network | auto or its family is fastest | median | 95 % | worst | where, and who is fastest there |",
        "|---|---:|---:|---:|---:|---|",
        *(_network(regrets(runs, network), network) for network in networks),
    ]
    return "\n".join(lines) + "\n"


def _row(row: MatrixRow, solved: Mapping[str, Outcome]) -> str:
    cost = {name: score(run, LEVEL, Network()) for name, run in solved.items()}
    sent = {name: float(run.columns["payload"][run.reached(LEVEL) or 0]) for name, run in solved.items()}
    rivals = sorted((cost[name].exchanges, name) for name in solved if name not in FAMILY)
    fewest, rival = rivals[0] if rivals else (np.nan, "-")
    if "auto" not in solved:
        return f"| {row.title} | - | - | {rival} | {_whole(fewest)} | - | - |"
    floats = f"{sent['auto'] / sent[rival]:.2g}" if rivals else "-"
    least = f"{sent['auto'] / min(sent.values()):.2g}"
    proven = certified(solved["auto"])
    return (
        f"| {row.title} | {cost['auto'].exchanges:.0f} | {_whole(proven)} | {rival} | {_whole(fewest)} | {floats} "
        f"| {least} |"
    )


def _whole(value: float) -> str:
    return f"{value:.0f}" if np.isfinite(value) else "-"


def _network(found: Sequence[Regret], network: Network) -> str:
    if not found:
        return f"| {network} | - | - | - | - | nobody solves anything |"
    factors = np.array([regret.factor for regret in found])
    worst = max(found, key=lambda regret: regret.factor)
    high = np.quantile(factors, 0.95, method="higher")
    first = sum(regret.fastest in FAMILY for regret in found)
    return (
        f"| {network} | {first} of {len(found)} | {np.median(factors):.2f} | {high:.2f} "
        f"| {worst.factor:.2f} | {worst.row.title}: {worst.fastest} |"
    )
