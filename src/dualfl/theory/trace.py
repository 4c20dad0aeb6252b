"""A run, round by round, with everything that server and clients remember."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualfl.algorithms.contract import Algorithm, Constants
from dualfl.algorithms.dual.dualfl import momentum
from dualfl.engines import InProcess, Problem
from dualfl.engines.driver import Driver
from dualfl.typing import Array


@dataclass(frozen=True)
class Moment:
    """After round n - 1, so that `theta` is the paper's theta^(n)."""

    n: int
    theta: Array
    server: Any
    clients: list[Any]
    iterations: list[int]  # M_{n-1} of every client


class Trace:
    """`algorithm` on `problem`, one round each time it is asked; `algorithm` is then the resolved one."""

    def __init__(self, problem: Problem, algorithm: Algorithm, constants: Constants | None = None) -> None:
        self.engine = InProcess(problem, algorithm, threads=1, constants=constants)
        self.algorithm: Any = self.engine.algorithm

    def rounds(self, count: int) -> Iterator[Moment]:
        engine, driver = self.engine, Driver(self.engine.algorithm, self.engine.place)
        before = [cost.iterations for cost in engine.costs]
        while driver.round < count:
            asked = driver.ask()
            if asked is not None:
                driver.tell(engine.exchange(engine.algorithm, driver, asked))
            if driver.between_rounds and driver.round > 0:
                states = [silo.state for silo in engine.silos]
                theta = engine.algorithm.model(driver.state)
                after = [cost.iterations for cost in engine.costs]
                yield Moment(driver.round, theta, driver.state, states, [b - a for a, b in zip(before, after)])
                before = after


def dual_sequences(moments: Sequence[Moment], nu: float, rho: float) -> tuple[Array, Array]:
    """The xi^(n) and eta^(n) that the paper defines from a run of DualFL.

    xi^(n), n = 1, 2, ..., as an array (n, client, d), and eta^(n), n = 0, 1, ..., of the same shape: a client's zeta
    after round n is zeta^(n), and what it sent is theta_j^(n+1).
    """
    xi = np.array([[nu * (c.zeta - c.sent) for c in m.clients] for m in moments])
    eta = np.array([[nu * c.zeta for c in m.clients] for m in moments])
    theta = [np.zeros_like(moments[0].theta)] + [m.theta for m in moments]
    for n in range(1, len(moments)):
        _, beta = momentum(moments[n - 1].clients[0].t, rho)  # beta_{n-1}
        eta[n] += nu * (beta * theta[n - 1] - (1 + beta) * theta[n])
    return xi, eta
