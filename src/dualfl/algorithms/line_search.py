"""A line search in one exchange: clients send E at several step lengths, and the server takes one.

    E(x - t p) for t = 1, 1/4, 1/16, ...;    the first t with E <= E(x) - 0.1 t <g, p> is taken

Near the solution energies agree to rounding, and then the unit step is taken.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Ask, Means, Place, Upload, ask, client_step
from dualfl.typing import Array

STEPS = tuple(4.0**-i for i in range(7))
SUFFICIENT = 0.1
BEYOND = 1e100  # stands for an energy that overflows, as a Poisson loss can: such a step is too long


@dataclass(frozen=True)
class Server:
    x: Array
    bound: float


class Searching(Algorithm):
    """What Newton-like methods share: a model x, a lower bound, and the exchange of the search.

    A client's state has x, the point where the round began.
    """

    def search(self, E: float, g: Array, p: Array) -> Generator[Ask, Means, float]:
        energies = (yield ask(self.energies, p=p)).E
        return chosen(E, energies, float(g @ p))

    def model(self, s: Any) -> Array:
        x: Array = s.x
        return x

    def bound(self, s: Any) -> float:
        return float(s.bound)

    @client_step
    def energies(self, f: ClientCost, c: Any, at: Place, p: Array) -> tuple[Upload, Any]:
        with np.errstate(over="ignore", invalid="ignore"):
            values = f.along(c.x, -p, STEPS)
        return at.send(E=np.where(values < BEYOND, values, BEYOND)), c


def chosen(E: float, energies: Array, slope: float) -> float:
    """The first step that decreases E enough; the unit step where rounding hides every decrease."""
    if slope <= 1e-13 * max(abs(E), 1e-300):
        return 1.0
    for step, energy in zip(STEPS, energies):
        if energy <= E - SUFFICIENT * step * slope:
            return step
    return float(STEPS[int(np.argmin(energies))]) if energies.min() < E else 0.0
