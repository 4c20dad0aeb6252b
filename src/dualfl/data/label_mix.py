"""Who has what: how the labels of a data set are spread over the clients, as a picture and as one number.

With p_j the shares of the labels on client j, p those of all rows, and w_j the client's share of the rows,

    heterogeneity = sum_j w_j TV(p_j, p) / (1 - sum_k p(k)^2),      TV(p, q) = sum_k |p(k) - q(k)| / 2.

The denominator is the largest value that the sum can have, so the number goes from 0, where every client has the mix
of all rows, to 1, where every client has rows of one label only. Real targets are put into ten bins with about as many
rows each. Few rows are never quite alike: shuffled rows have about 0.4 sqrt(labels / rows of a client).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dualfl.data.dataset import Dataset
from dualfl.data.partitions import Rows

WIDTH = 80
SHADES = {5: "░", 20: "▒", 50: "▓", 100: "█"}  # up to so many percent
SHOWN = 16  # clients in a picture
BINS = 10
NUMBERED, SHADED = 13, 65  # so many labels fit with numbers, or as shades alone


@dataclass(frozen=True, eq=False)
class Mix:
    """counts[j, k] rows of label k on client j.

    Parameters
    ----------
    counts : ndarray
        Rows of label k on client j.
    labels : tuple[str, ...]
        The labels.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.data import Mix
    >>> int(Mix(np.array([[5, 0], [0, 5]]), ("a", "b")).counts.sum())
    10
    """

    counts: npt.NDArray[np.intp]
    labels: tuple[str, ...]

    @staticmethod
    def of(data: Dataset, parts: Sequence[Rows]) -> Mix:
        y, names = (data.y, data.classes) if data.classes else _binned(data.y)
        return Mix(np.stack([np.bincount(y[rows], minlength=len(names)) for rows in parts]), names)

    @property
    def sizes(self) -> npt.NDArray[np.intp]:
        rows: npt.NDArray[np.intp] = self.counts.sum(axis=1)
        return rows

    @property
    def heterogeneity(self) -> float:
        """0: every client has the same mix of labels; 1: every client has one label.

        >>> Mix(np.array([[4, 0], [0, 4]]), ("a", "b")).heterogeneity
        1.0
        >>> Mix(np.array([[3, 1], [1, 3]]), ("a", "b")).heterogeneity
        0.5
        """
        w = self.sizes / self.sizes.sum()
        shares = self.counts / self.sizes[:, None]
        pooled = self.counts.sum(axis=0) / self.sizes.sum()
        largest = 1 - float(pooled @ pooled)
        distance = np.abs(shares - pooled).sum(axis=1) / 2
        return float(w @ distance) / largest if largest > 0 else 0.0

    def picture(self) -> str:
        """A table of shades, clients by labels, 80 columns wide: shades and numbers are percents of a client's rows.
        Of many clients, some are shown; many labels share a column."""
        counts, labels = self._columns()
        numbered = len(labels) <= NUMBERED
        width = 5 if numbered else max(1, SHADED // len(labels))
        lines = [self._head(labels, width)] if width > 1 else []
        for j in self._shown():
            share = counts[j] / counts[j].sum()
            cells = " " * (width == 1) + "".join(_cell(s, width, numbered) for s in share)
            lines.append(f"{j:>6}{self.sizes[j]:>8,}{cells}".rstrip())
        return "\n".join([*lines, "", *self._legend(len(labels), width)])

    def _head(self, labels: Sequence[str], width: int) -> str:
        return f"{'client':>6}{'rows':>8}" + "".join(f"{name[: width - 1]:>{width}}" for name in labels)

    def _shown(self) -> list[int]:
        N = len(self.counts)
        return list(range(N)) if N <= SHOWN else sorted({round(i) for i in np.linspace(0, N - 1, SHOWN)})

    def _columns(self) -> tuple[npt.NDArray[np.intp], Sequence[str]]:
        """Labels that share a column where there are too many."""
        if len(self.labels) <= SHADED:
            return self.counts, self.labels
        groups = np.array_split(np.arange(len(self.labels)), SHADED)
        merged = np.stack([self.counts[:, group].sum(axis=1) for group in groups], axis=1)
        return merged, [self.labels[group[0]] for group in groups]

    def _legend(self, columns: int, width: int) -> list[str]:
        N, K = self.counts.shape
        *some, most = SHADES.items()
        scale = ", ".join(f"{shade} to {percent}" for percent, shade in some)
        lines = [f"Percents of a client's rows: {scale}, {most[1]} more; a dot is none."]
        if width == 1:
            lines.insert(0, f"Left to right, {K} labels{'' if K == columns else f' in {columns} columns'}.")
        if N > SHOWN:
            lines.append(f"{SHOWN} of {N:,} clients are shown.")
        held = (self.counts > 0).sum(axis=1)
        lines.append(f"Each client has {_range(self.sizes)} rows and {_range(held)} of {K} labels.")
        return [*lines, f"Heterogeneity {self.heterogeneity:.3f} (0: all clients alike, 1: one label each)."]


def _binned(y: Any) -> tuple[npt.NDArray[np.intp], tuple[str, ...]]:
    """The bin of each real target, and where the bins begin."""
    edges = np.unique(np.quantile(y, np.linspace(0, 1, BINS + 1)[1:-1]))
    return np.searchsorted(edges, y, side="right"), ("low", *(f"{edge:.3g}" for edge in edges))


def _range(numbers: npt.NDArray[np.intp]) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _cell(share: float, width: int, numbered: bool) -> str:
    if share == 0:
        return f"{'.':>{width}}"
    percent = max(1, round(100 * share))
    shade = next(shade for most, shade in SHADES.items() if percent <= most)  # by the number that is shown
    return (f"{shade}{percent:>{width - 2}}" if numbered else shade * max(1, width - 1)).rjust(width)
