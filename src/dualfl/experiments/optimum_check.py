"""The gate: does an algorithm reach the POOLED optimum on clients that are not alike? `dualfl algorithms --check`.

Small problems with known minimisers, 8 clients, 20 coefficients, clients as unlike as they can be:

    quadratic   every client has an eigenbasis of its own, every spectrum reaches from 1 to 100
    logistic    10 to 200 rows a client, features and labels shifted from client to client, mu = 0.01, L about 1
    hinge       the same rows with the hinge loss, for methods that take nothing smoother

An algorithm passes if its relative energy error falls to 1e-9. Those that drift by design must NOT pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dualfl.algorithms.contract import Algorithm
from dualfl.engines import Problem, run
from dualfl.errors import BrokenAlgorithm, DualflError
from dualfl.objectives import Hinge, LinearModel, Logistic, Objective, Quadratic
from dualfl.solvers import SDCA, DampedNewton, GradientNorm, PrimalDualGap, minimise
from dualfl.typing import Array

N, D = 8, 20
PASS = 1e-9
MOST = 20_000  # rounds after which an algorithm has had its chance


@cache
def quadratic() -> tuple[Problem, float]:
    rng = np.random.default_rng(0)
    clients: list[Objective] = []
    for _ in range(N):
        Q = np.linalg.qr(rng.standard_normal((D, D)))[0]
        H = Q * 100 ** np.r_[0.0, 1.0, rng.uniform(0, 1, D - 2)] @ Q.T
        clients.append(Quadratic((H + H.T) / 2, H @ rng.standard_normal(D)))
    return solved(clients)


def silos() -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(1)
    data = []
    for rows in (10, 200, 35, 60, 120, 15, 80, 25):
        X = 0.3 * (rng.standard_normal((rows, D)) + rng.standard_normal(D))
        y = np.where(X @ rng.standard_normal(D) + 0.3 * rng.standard_normal(rows) > 0, 1.0, -1.0)
        data.append((X, y))
    return data


@cache
def logistic() -> tuple[Problem, float]:
    return solved([LinearModel(X, y, Logistic(), ridge=0.01) for X, y in silos()])


@cache
def hinge() -> tuple[Problem, float]:
    data = silos()
    X, y = (np.concatenate(part) for part in zip(*data))
    pooled = LinearModel(X, y, Hinge(), ridge=0.01)
    star = minimise(pooled, solver=SDCA(), stop=PrimalDualGap(1e-13, cap=20_000)).value
    return Problem([LinearModel(rows, labels, Hinge(), ridge=0.01) for rows, labels in data]), star


def solved(clients: list[Objective]) -> tuple[Problem, float]:
    """The problem, and E* by Newton's method on the pooled cost."""
    problem = Problem(clients, solvers=DampedNewton())
    return problem, minimise(problem.pooled, solver=DampedNewton(), stop=GradientNorm(1e-12, cap=60)).value


PROBLEMS: dict[str, Callable[[], tuple[Problem, float]]] = {
    "quadratic": quadratic,
    "logistic": logistic,
    "hinge": hinge,
}


@dataclass(frozen=True)
class Verdict:
    """What one algorithm did on one problem."""

    algorithm: str
    problem: str
    rounds: float  # to 1e-8; inf if never
    exchanges: float
    error: float  # the smallest reached
    applies: bool
    drifts: bool  # by design
    reason: str = ""

    @property
    def holds(self) -> bool:
        """Exact methods pass, drifting ones do not; what does not apply proves nothing either way."""
        return not self.applies or (self.error <= PASS) != self.drifts


def check(algorithm: Algorithm, name: str, most: int = MOST) -> Verdict:
    """Run one algorithm on one problem until it passes or has had its chance."""
    if name == "hinge" and "dual" not in algorithm.needs:
        reason = f"{algorithm.name} is checked on smooth costs."
        return Verdict(algorithm.name, name, np.inf, np.inf, np.nan, False, algorithm.drifts, reason)
    problem, star = PROBLEMS[name]()
    span = problem.value(np.zeros(D)) - star  # what there is to gain; errors are relative to it

    def enough(row: Any, theta: Array) -> bool:
        return bool(row.energy - star <= PASS / 10 * span)

    # Drifting methods level off long before; there is no need to watch them for long.
    rounds = 300 if algorithm.drifts else most
    try:
        result = run(problem, algorithm, rounds=rounds, threads=1, stop=enough)
    except BrokenAlgorithm:
        raise
    except DualflError as error:
        return Verdict(algorithm.name, name, np.inf, np.inf, np.nan, False, algorithm.drifts, str(error))
    errors = (result.history.column("energy") - star) / span
    there = np.nonzero(errors <= 1e-8)[0]
    row = result.history[int(there[0])] if there.size else None
    return Verdict(
        algorithm.name,
        name,
        np.inf if row is None else row.round,
        np.inf if row is None else row.exchanges,
        float(np.nanmin(errors)),
        True,
        algorithm.drifts,
    )
