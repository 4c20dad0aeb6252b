"""What came of the matrix: counts to two levels, how each cell ended, and who is best.

Of a method that tosses coins there are several runs of a cell, and the one in the middle counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dualfl.experiments.cells import Outcome
from dualfl.experiments.matrix import LEVELS, MOST, Matrix, MatrixRow
from dualfl.experiments.network import Network
from dualfl.experiments.store import Store

COUNTS = ("rounds", "exchanges", "contacts", "floats", "seconds")


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


class Unfinished(NamedTuple):
    """A row of which cells are missing."""

    row: MatrixRow
    missing: int
    cells: int


def unfinished(matrix: Matrix, store: Store) -> list[Unfinished]:
    """The rows that are not whole: a cell of theirs has not been run, or was cut by its time."""
    found = []
    for row in matrix.chosen:
        cells = matrix.line(row)
        missing = [cell for cell in cells if (kept := store.get(cell)) is None or kept.cut]
        if missing:
            found.append(Unfinished(row, len(missing), len(cells)))
    return found


def list_of(rows: Sequence[Unfinished]) -> str:
    """For whoever reads the results: what is not there."""
    if not rows:
        return "Nothing is missing: every cell of the matrix has come to its end.\n"
    lines = [f"* {item.row.title} (`{item.row.word}`): {item.missing} of {item.cells} cells" for item in rows]
    return "\n".join([f"Not finished, {len(rows)} rows:", "", *lines]) + "\n"


def table(matrix: Matrix, store: Store, network: Network) -> MatrixTable:
    """From finished cells; all must be there."""
    scores: dict[MatrixRow, dict[str, dict[float, Score]]] = {}
    endings: dict[MatrixRow, dict[str, Ending]] = {}
    for row in matrix.chosen:
        runs = {name: [store[cell] for cell in matrix.runs(row, name)] for name in matrix.algorithms}
        scores[row] = {
            name: {level: score(middle(outcomes, level), level, network) for level in LEVELS}
            for name, outcomes in runs.items()
        }
        endings[row] = {name: ending(middle(outcomes, min(LEVELS))) for name, outcomes in runs.items()}
    return MatrixTable(matrix.chosen, matrix.algorithms, scores, endings)


def middle(outcomes: Sequence[Outcome], level: float) -> Outcome:
    """Of several seeds the run in the middle: by the exchanges to the level, then by the last error."""

    def far(outcome: Outcome) -> tuple[float, float]:
        if outcome.status != "ok" or not len(outcome.errors):
            return np.inf, np.inf
        index = outcome.reached(level)
        reached = np.inf if index is None else float(outcome.columns["exchanges"][index])
        return reached, float(np.nan_to_num(outcome.errors[-1], nan=np.inf))

    return sorted(outcomes, key=far)[(len(outcomes) - 1) // 2]


def ending(outcome: Outcome) -> Ending:
    if not len(outcome.errors):
        return Ending(outcome.status if outcome.status != "ok" else TIME)
    error, exchanges = float(outcome.errors[-1]), float(outcome.columns["exchanges"][-1])
    reached = REACHED if error <= min(LEVELS) else TIME if outcome.cut else EXCHANGES
    return Ending(reached if outcome.status == "ok" else outcome.status, error, exchanges)


def places(found: MatrixTable, name: str, count: str = "exchanges") -> dict[MatrixRow, tuple[int, int] | None]:
    """In each row the place of an algorithm by a count to 1e-6, and among how many that apply; None where it does not
    apply. Who gets there is before who does not, and those are ordered by the errors at which they ended."""
    level = min(LEVELS)

    def far(row: MatrixRow, other: str) -> tuple[float, float]:
        value, end = getattr(found.scores[row][other][level], count), found.endings[row][other]
        diverged = not np.isfinite(end.error) or end.what.startswith("diverged")
        return (value, 0.0) if np.isfinite(value) else (np.inf, np.inf if diverged else end.error)

    result: dict[MatrixRow, tuple[int, int] | None] = {}
    for row in found.rows:
        rivals = [other for other in found.algorithms if found.applies(row, other)]
        mine = far(row, name) if name in rivals else None
        result[row] = None if mine is None else (1 + sum(far(row, other) < mine for other in rivals), len(rivals))
    return result


def places_table(found: MatrixTable, name: str) -> str:
    """Row by row the place of an algorithm among all that apply, by exchanges to 1e-6, and who is first."""
    level = min(LEVELS)
    lines = [f"| problem | place of {name} | its exchanges | fewest | by |", "|---|---:|---:|---:|---|"]
    for row, place in places(found, name).items():
        mine, best = found.scores[row][name][level].exchanges, found.best(row, level, "exchanges")
        first = [other for other in found.algorithms if found.scores[row][other][level].exchanges == best]
        where = "does not apply" if place is None else f"{place[0]} of {place[1]}"
        fewest = "-" if np.isnan(best) else f"{best:.0f}"
        shown = "-" if np.isnan(mine) else f"{mine:.0f}"
        lines.append(f"| {row.title} | {where} | {shown} | {fewest} | {', '.join(first) or 'nobody'} |")
    return "\n".join(lines)


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
    has_dualfl = "dualfl" in found.algorithms
    places_of = places(found, "dualfl") if has_dualfl else {}
    text = [
        "Rounds, exchanges, contacts with single clients and floats (all clients, up and down) to relative errors of "
        f"1e-4 / 1e-6, and the seconds on a network with {network}; a dash is a level that was not reached within "
        f"{MOST} exchanges or the time of a cell. The best of each column is bold.",
        *(["", places_table(found, "dualfl")] if has_dualfl else []),
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
        place = places_of.get(row)
        if place is not None:
            text += ["", f"DualFL: place {place[0]} of {place[1]} by exchanges."]
    return "\n".join(text) + "\n"


def _entry(found: MatrixTable, row: MatrixRow, name: str, count: str) -> str:
    parts = []
    for level in LEVELS:
        value = getattr(found.scores[row][name][level], count)
        shown = "-" if np.isnan(value) else f"{value:.3g}" if count in ("floats", "seconds") else f"{value:.0f}"
        parts.append(f"**{shown}**" if value == found.best(row, level, count) else shown)
    return " / ".join(parts)
