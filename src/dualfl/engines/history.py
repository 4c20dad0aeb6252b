"""What happened in a run, one row a round: a small typed table that goes to CSV, JSON lines or pandas."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualfl.typing import Array


class Row(NamedTuple):
    """One round. Counts are totals since the start, over all clients together.

    Parameters
    ----------
    round : int
        Rounds so far.
    exchanges : int
        Exchanges so far.
    floats_up : int
        Floats that clients have sent.
    floats_down : int
        Floats that clients have received.
    local_gradients : float
        Local gradients so far, all clients.
    seconds : float
        Seconds in rounds so far.
    energy : float or None
        E of the model.
    relative_error : float or None
        (E - E*)/|E*|, if E* was given.
    certificate : float or None
        The proven bound of E - E*, if there is one.
    local_iterations : int
        The most local iterations of a client in this round.
    capped : int
        Local solves that ended at their cap.
    contacts : int, default 0
        Contacts with single clients so far.
    payload : float, default 0.0
        The floats of the longest line so far, for the time on a network.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> row = dualfl.run(problem, dualfl.DualFL(), rounds=3).history[-1]
    >>> row.round, row.exchanges, row.contacts
    (3, 3, 9)
    """

    round: int
    exchanges: int
    floats_up: int
    floats_down: int
    local_gradients: float
    seconds: float
    energy: float | None  # E(theta) of this round's model
    relative_error: float | None  # (E(theta) - E*) / |E*|, if E* is known
    certificate: float | None  # proven bound of E - E* for the best model so far
    local_iterations: int  # of the local solvers, this round, all clients
    capped: int  # local solves of this round that ended at their cap
    contacts: int = 0  # how often a client was asked: one of N clients is one, all are N
    payload: float = 0.0  # floats up and down over one client's line: of each exchange, the mean of those asked


@dataclass
class History:
    """The rows of a run, and the local iterations M_n of every client in every round.

    Parameters
    ----------
    rows : list[Row], optional
        One `Row` a round.
    iterations : list[list[int]], optional
        Local iterations of every client in every round.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> history = dualfl.run(problem, dualfl.DualFL(), rounds=5).history
    >>> len(history), history[-1].exchanges
    (6, 5)
    """

    rows: list[Row] = field(default_factory=list)
    iterations: list[list[int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    def column(self, name: str) -> Array:
        """A column as floats; what is missing is nan."""
        place = Row._fields.index(name)
        return np.array([np.nan if row[place] is None else row[place] for row in self.rows], dtype=float)

    def rounds_to(self, relative_error: float, count: str = "round") -> float:
        """The first round (or exchange, or float) at which the relative error is at most this; inf if never."""
        for row in self.rows:
            if row.relative_error is not None and row.relative_error <= relative_error:
                return float(getattr(row, count))
        return np.inf

    def to_csv(self, path: Path | str | None = None) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(Row._fields)
        writer.writerows(["" if value is None else value for value in row] for row in self.rows)
        return _write(text.getvalue(), path)

    def to_jsonl(self, path: Path | str | None = None) -> str:
        return _write("".join(json.dumps(_plain(row)) + "\n" for row in self.rows), path)

    def to_pandas(self) -> Any:
        """A pandas DataFrame; pandas must be installed."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=Row._fields)


def _plain(row: Row) -> dict[str, Any]:
    """A row as JSON takes it, which knows no infinity."""
    return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in row._asdict().items()}


def _write(text: str, path: Path | str | None) -> str:
    if path is not None:
        from dualfl.files import write_atomically

        write_atomically(Path(path), text.encode())
    return text
