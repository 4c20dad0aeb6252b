"""What came of a cross-validation: the held-out losses along a path of penalties, and the choice among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualfl.typing import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class PenaltyPath:
    """The held-out loss of each fold (a line) for each value of the penalty (a column).

    Parameters
    ----------
    parameter : str
        What was chosen: "C" or "alpha".
    values : ndarray
        The values that were tried, from the strongest penalty to the weakest.
    losses : ndarray
        The held-out loss of each fold and value.
    masses : ndarray
        The weight of each fold's held-out rows.
    folds : tuple[str, ...]
        The names of the folds.
    chosen : int
        The number of the value that was chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import RidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> path = RidgeCV(alphas=[0.01, 0.1], cv=2).fit(X, y, groups=[i % 2 for i in range(len(y))]).path_
    >>> path.parameter, path.losses.shape
    ('alpha', (2, 2))
    """

    parameter: str
    values: Array
    losses: Array
    masses: Array
    folds: tuple[str, ...]
    chosen: int

    @property
    def mean(self) -> Array:
        return weighted_mean(self.losses, self.masses)

    @property
    def standard_error(self) -> Array:
        return standard_error(self.losses, self.masses)

    @property
    def value(self) -> float:
        return float(self.values[self.chosen])

    def figure(self) -> Figure:
        """Held-out loss against the penalty, one thin line a fold, and the choice."""
        from matplotlib.figure import Figure

        from dualfl.colours import COLOURS

        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.add_subplot()
        for number, line in enumerate(self.losses):
            label = f"each of {len(self.folds)} folds" if number == 0 else None
            axes.plot(self.values, line, color="0.75", linewidth=0.8, label=label, zorder=1)
        style: dict[str, Any] = {"color": COLOURS[0], "linewidth": 1.8, "marker": "o", "markersize": 4}
        bars: dict[str, Any] = {"label": "their mean, and its standard error", "capsize": 2, "elinewidth": 0.9}
        axes.errorbar(self.values, self.mean, self.standard_error, **style, **bars)
        label = f"chosen: {self.parameter} = {self.value:.3g}"
        axes.axvline(self.value, color=COLOURS[1], linestyle="--", linewidth=1.4, label=label)
        axes.set_xscale("log")
        axes.set_xlabel(self.parameter + (" (penalty falls to the right)" if self.parameter == "C" else ""))
        axes.set_ylabel("held-out loss")
        # A fold that goes far astray may leave the picture, and nothing else.
        top = max(np.nanmax(self.mean + self.standard_error), np.nanquantile(self.losses, 0.95))
        low = np.nanmin(self.losses)
        axes.set_ylim(low - 0.05 * (top - low), top + 0.15 * (top - low))
        axes.legend(frameon=False, fontsize=9)
        axes.grid(True, which="major", color="0.88", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        return figure


def weighted_mean(losses: Array, masses: Array) -> Array:
    mean: Array = masses @ losses / masses.sum()
    return mean


def standard_error(losses: Array, masses: Array) -> Array:
    """Of the mean over folds; their weights differ little unless silos are left out."""
    share = masses / masses.sum()
    spread = share @ (losses - weighted_mean(losses, masses)) ** 2
    error: Array = np.sqrt(spread / max(len(masses) - 1, 1))
    return error


def choice(losses: Array, masses: Array, rule: str) -> int:
    """The least held-out loss, or the strongest penalty within one standard error of it."""
    mean = weighted_mean(losses, masses)
    best = int(np.argmin(mean))
    if rule == "min":
        return best
    return int(np.argmax(mean <= mean[best] + standard_error(losses, masses)[best]))
