"""GIANT: globally improved approximate Newton direction.

S. Wang, F. Roosta-Khorasani, P. Xu and M. W. Mahoney, "GIANT: globally improved approximate Newton method for
distributed optimization", 2018.

    g = E'(x)                                   first exchange
    p = mean_j H_j(x)^{-1} g                    second; each client by conjugate gradients
    E(x - t p) for t = 1, 1/4, 1/16, ...        third; the first t with E <= E(x) - 0.1 t <g, p> is taken

Since the mean of inverses is at least the inverse of the mean, the unit step can overshoot, and on unlike clients it
diverges without the line search. Near the solution energies agree to rounding, and then the unit step is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.second_order.conjugate_gradients import conjugate_gradients
from dualfl.typing import Array

STEPS = tuple(4.0**-i for i in range(7))
SUFFICIENT = 0.1
BEYOND = 1e100  # stands for an energy that overflows, as a Poisson loss can: such a step is too long


@dataclass(frozen=True)
class Local:
    x: Array


@dataclass(frozen=True)
class Server:
    x: Array
    bound: float


@dataclass(frozen=True)
class GIANT(Algorithm):
    """GIANT with a line search; clients solve their Newton system to `accuracy`."""

    accuracy: float = 1e-4
    line_search: bool = True
    mu: float = theory("mu", lambda k, a: k.mu, zero=True)  # for the certificate only

    name = "giant"
    needs = frozenset({"gradient", "hessian"})
    grid: ClassVar = {"accuracy": [1e-1, 1e-2, 1e-4]}
    card = Card(
        "GIANT",
        2018,
        "Wang, Roosta-Khorasani, Xu and Mahoney",
        exchanges="3",
        up="2d + 10",
        down="3d",
        rate="local linear-quadratic; faster the more alike the clients",
    )

    def check(self, k: Constants) -> None:
        self.require(0 < self.accuracy < 1, "accuracy", "it must lie in (0, 1)")

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d), -np.inf)

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.remember, x=s.x)
        g, E = m.g, m.E
        p = (yield ask(self.newton, g=g)).p
        step = 1.0
        if self.line_search:
            energies = (yield ask(self.energies, p=p)).E
            step = chosen(E, energies, float(g @ p))
        return Server(s.x - step * p, max(s.bound, self.lower_bound(at, self.mu, s.x, m)))

    def model(self, s: Server) -> Array:
        return s.x

    def bound(self, s: Server) -> float:
        return s.bound

    @client_step
    def remember(self, f: ClientCost, c: Any, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        return at.send(g=g).also(**at.measured(f, x, E)), Local(x)

    @client_step
    def newton(self, f: ClientCost, c: Local, at: Place, g: Array) -> tuple[Upload, Local]:
        p = conjugate_gradients(lambda v: f.hessian_times(c.x, v), g, self.accuracy, most=200)
        return at.send(p=p), c

    @client_step
    def energies(self, f: ClientCost, c: Local, at: Place, p: Array) -> tuple[Upload, Local]:
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
