"""What a fit without messages came to, and what its messages would have been."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple

from dualfl.engines.history import Row
from dualfl.typing import Array


class Found(NamedTuple):
    """A model, E there, how far off that may be by rounding, and the gap that is proven."""

    x: Array
    energy: float
    rounding: float
    gap: float


@dataclass
class Account:
    """What silos would have sent, and one row a step; an energy rides on the exchange that follows it."""

    silos: int
    began: float = field(default_factory=time.perf_counter)
    rows: list[Row] = field(default_factory=list)
    exchanges: int = 0
    up: int = 0  # of one silo
    down: int = 0

    def exchange(self, up: int, down: int) -> None:
        self.exchanges, self.up, self.down = self.exchanges + 1, self.up + up, self.down + down

    def note(self, energy: float, certificate: float | None = None) -> Row:
        """The row of the next round."""
        made, N = self.exchanges, self.silos
        seconds = time.perf_counter() - self.began
        self.rows.append(
            Row(
                len(self.rows), made, N * self.up, N * self.down, float(N * made), seconds, energy, None, certificate,
                0, 0, N * made, float(self.up + self.down),
            )
        )  # fmt: skip
        return self.rows[-1]
