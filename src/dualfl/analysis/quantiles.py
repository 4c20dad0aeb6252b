"""Quartiles of numbers that lie in several places, from counts of how many are not above given edges.

The quartile p of n numbers is R's and NumPy's (type 7): between the order statistics floor(h) and floor(h) + 1 of
h = (n - 1) p. Each of these is searched by itself. Cantelli's inequality says where to begin without asking anybody for
the least and the largest number: of n numbers with mean m and standard deviation s (of the n), the middle half lies in

    [m - sqrt(3) s,  m + sqrt(3) s],

and what is between the shares p and 1 - p within sqrt((1 - p)/p) deviations.

Then the cell with the order statistic is cut into cells, and so on, until it is narrow against the distance of the
quartiles, or has too few rows to be cut: no cell is cut that has fewer than twice `least` rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dualfl.typing import Array

SHARES = (0.25, 0.5, 0.75)
CELLS = 64  # at most, of one cut
NARROW = 1e-3  # of the distance between the outer quartiles
TINY = 1e-9  # of the spread, where the quartiles are all the same number
PASSES = 12


class Bracket(NamedTuple):
    """An order statistic is above `low` and not above `high`; so many numbers are not above each."""

    low: float
    high: float
    below: float
    upto: float

    @property
    def rows(self) -> float:
        return self.upto - self.below

    def place(self, rank: int) -> tuple[float, float]:
        """The order statistic of this rank, as if numbers lay evenly, and how far off that may be."""
        share = (rank + 0.5 - self.below) / max(self.rows, 1.0)
        value = self.low + (self.high - self.low) * min(max(share, 0.0), 1.0)
        return value, max(value - self.low, self.high - value)


class Quartiles(NamedTuple):
    """The three of them, or others that were asked for, and a bound of their errors."""

    values: tuple[float, ...]
    error: float


@dataclass
class Search:
    """The search for the quartiles of one column; n, mean and the spread of the n are known."""

    n: int
    mean: float
    spread: float
    least: int
    shares: tuple[float, ...] = SHARES

    def __post_init__(self) -> None:
        self.ranks = sorted({rank for p in self.shares for rank in self._ranks(p)[:2]})
        rarest = min(min(self.shares), 1 - max(self.shares))
        rarest = max(min(rarest, 0.5), 1 / max(self.n, 1))
        # An order statistic has one row more on its side than the share says.
        far = np.sqrt((1 - rarest) / rarest) if rarest < 1 else 0.0
        reach = far * self.spread * (1 + 1e-9) + 4 * np.finfo(float).eps * abs(self.mean)
        whole = Bracket(self.mean - reach, self.mean + reach, 0.0, float(self.n))
        self.brackets = dict.fromkeys(self.ranks, whole)
        self.passes = 0

    def _ranks(self, p: float) -> tuple[int, int, float]:
        """The two order statistics, counted from 0, and how far the quartile is from the first to the second."""
        h = (self.n - 1) * p
        return int(h), min(int(h) + 1, self.n - 1), h - int(h)

    def _cells(self, one: Bracket) -> int:
        """Into how many cells to cut; 1 is none."""
        if self.passes >= PASSES or not one.high > one.low:
            return 1
        wide = max(b.high for b in self.brackets.values()) - min(b.low for b in self.brackets.values())
        if self.passes and one.high - one.low <= max(NARROW * wide, TINY * self.spread):
            return 1
        if one.rows < 2 * self.least:
            return 1
        return CELLS if self.least == 0 else int(min(CELLS, one.rows // self.least))

    def edges(self) -> list[Array]:
        """What is to be counted next: edges of cells, the outer ones included; nothing at the end."""
        self.asked = [one for one in dict.fromkeys(self.brackets.values()) if self._cells(one) > 1]
        return [np.linspace(one.low, one.high, self._cells(one) + 1) for one in self.asked]

    def told(self, edges: Sequence[Array], counts: Sequence[Array]) -> None:
        """Go on with how many numbers are not above each edge."""
        self.passes += 1
        for one, places, below in zip(self.asked, edges, counts):
            for rank in self.ranks:
                if self.brackets[rank] == one:
                    i = int(np.clip(np.searchsorted(below, rank + 1), 1, len(places) - 1))
                    self.brackets[rank] = Bracket(*map(float, (places[i - 1], places[i], below[i - 1], below[i])))

    def found(self) -> Quartiles | None:
        """None where there are too few rows to say anything."""
        if self.n == 0 or self.n < 2 * self.least:
            return None
        if not self.spread > 0:
            return Quartiles((self.mean,) * len(self.shares), 0.0)
        values, errors = [], []
        for p in self.shares:
            first, second, part = self._ranks(p)
            (a, off), (b, other) = (self.brackets[rank].place(rank) for rank in (first, second))
            values.append((1 - part) * a + part * b)
            errors.append((1 - part) * off + part * other)
        return Quartiles(tuple(values), max(errors))
