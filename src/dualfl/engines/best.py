"""The best model of a run, and what is proven of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dualfl.engines.result import Energy
from dualfl.typing import Array

SMALLEST = float(np.finfo(float).tiny)  # no certificate is 0, not even that of E = 0
CONTRADICTION = (
    "the clients' answers contradict each other: what they sent proves that no model has an energy below {bound:.9g}, "
    "and one with {least:.9g} was measured"
)


@dataclass(frozen=True)
class Best:
    """The best model and the best lower bound so far.

    Of models whose energies differ by less than rounding may have done, the last one is kept: near the minimiser the
    lowest energy is the luckiest one. `least` is what E* is at most, so a model counts as long as it may be below it.

    Both bounds of the certificate, E <= energy + rounding and E* >= bound, hold whatever was rounded on the way (see
    `objectives.rounding`, and each `Algorithm.bound`), so their difference is a proof. It is never below `rounding`.
    """

    theta: Array
    energy: float = np.inf
    rounding: float = 0.0
    bound: float = -np.inf
    least: float = np.inf
    doubt: float = 0.0  # the rounding of the model that gave `least`

    def updated(self, theta: Array, energy: Energy, bound: float) -> Best:
        E, off = energy
        bound = max(self.bound, bound)
        # What is surely higher is not better, nor is a model so far out that rounding hides how high it is.
        better = E + off <= self.least + 3 * self.doubt if np.isfinite(off) else E < self.energy
        lowest = (E + off, off) if E + off < self.least else (self.least, self.doubt)
        if better or not np.isfinite(self.energy):
            return Best(theta, E, off, bound, *lowest)
        return replace(self, bound=bound, least=lowest[0], doubt=lowest[1])

    @property
    def contradicted(self) -> bool:
        """Whether the lower bound is above an energy by more than rounding explains."""
        return self.bound > self.least

    @property
    def certificate(self) -> float | None:
        gap = self.energy + self.rounding - self.bound
        if not np.isfinite(gap) or self.contradicted:
            return None
        return max(gap, self.rounding, SMALLEST)
