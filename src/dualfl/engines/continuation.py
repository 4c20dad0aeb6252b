"""Costs that are not strongly convex: solve the regularised problem, and make the regularisation vanish.

    E^alpha(theta) = E(theta) + (alpha/2)|theta|^2          (with a free intercept: alpha on its coordinates alone)

DualFL on E^alpha takes nu = alpha and, for L-smooth costs, rho = alpha/(L + alpha), else rho = 0; these are its own
defaults, since E^alpha has mu = alpha and smoothness L + alpha. At its minimiser theta^alpha the gradient of E is
-alpha theta^alpha, so the right alpha for a target epsilon is epsilon/(2 R0), R0 >= |theta^alpha|, which nobody knows
in advance. Hence: start with a large alpha, run until E^alpha' is small against the bias that alpha leaves, divide
alpha by 4, go on from there, and stop when the measured |E'(theta)| of the ORIGINAL problem is at most epsilon.

Nonsmooth costs have no gradient to measure, so there alpha must be given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from dualfl.algorithms.contract import Algorithm
from dualfl.arguments import checked
from dualfl.engines.history import History, Row
from dualfl.engines.launch import run
from dualfl.engines.request import RunKeywords
from dualfl.engines.result import Result
from dualfl.errors import InputError
from dualfl.objectives.base import Objective
from dualfl.problem import Problem
from dualfl.typing import Array

SHRINK = 4.0
SETTLED = 0.1  # E^alpha is solved well enough when |E^alpha'| is this small against alpha |theta|
NO_CERTIFICATE = "the cost is not strongly convex, so its dual gives no lower bound of E*"


@dataclass(frozen=True)
class Stage:
    """One regularised problem on the way."""

    alpha: float
    rounds: int
    gradient_norm: float  # |E'(theta)| of the original problem; nan for nonsmooth costs


@dataclass(frozen=True)
class Continuation:
    """The result, in terms of the original problem, and the stages that led to it.

    Parameters
    ----------
    result : Result
        The result for the original problem.
    stages : list[Stage]
        The results of each strength of the added ridge.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> clients = [dualfl.Quadratic(np.diag([1.0, 0.0]), np.array([1.0, 0.0])) for _ in range(2)]
    >>> found = dualfl.engines.run_regularised(dualfl.Problem(clients), dualfl.DualFL(), alpha=1e-3, rounds=50)
    >>> len(found.stages) >= 1
    True
    """

    result: Result
    stages: list[Stage]

    @property
    def rounds(self) -> int:
        """Communication rounds of all stages together."""
        return sum(stage.rounds for stage in self.stages)


@checked
def run_regularised(
    problem: Problem,
    algorithm: Algorithm,
    *,
    alpha: float | None = None,
    epsilon: float | None = None,
    rounds: int = 1000,
    **options: Unpack[RunKeywords],
) -> Continuation:
    """Minimise a cost that is convex and no more.

    Give `alpha` for one regularised problem, or `epsilon` to have |E'(theta)| <= epsilon with alpha found on the way.
    `rounds` limits all stages together; other options go to `run`. What is reported, the errors in the history among
    it, is of the original problem.

    Parameters
    ----------
    problem : Problem
        The clients and their penalty.
    algorithm : Algorithm
        What runs on them.
    alpha : float, optional
        The strength of the added ridge, or the first of them.
    epsilon : float, optional
        The accuracy that is asked for.
    rounds : int, default 1000
        Most rounds.
    **options : object
        Options of `dualfl.run`.

    Returns
    -------
    Continuation
        The result, and the stages that led to it.

    Examples
    --------
    >>> from dualfl.algorithms import DualFL
    >>> from dualfl.objectives import Quadratic
    >>> flat = Problem([Quadratic(np.diag([1.0, 0.0]), np.array([b, 0.0])) for b in (1.0, 3.0)])
    >>> found = run_regularised(flat, DualFL(), epsilon=1e-3)
    >>> found.stages[-1].gradient_norm <= 1e-3, found.result.theta.round(2)
    (True, array([2., 0.]))
    """
    if (alpha is None) == (epsilon is None):
        raise InputError("Give either alpha, the regularisation, or epsilon, the gradient norm to reach.")
    E = problem.pooled
    if epsilon is not None:
        check_epsilon(epsilon, E)
    stages: list[Stage] = []
    history = History()
    theta: Array | None = None
    now = first_alpha(problem) if alpha is None else alpha
    while True:
        left = rounds - sum(stage.rounds for stage in stages)
        stop = None if epsilon is None else rest_is_bias(E, now, epsilon)
        result = run(
            problem.regularised(now), algorithm, measure=problem, rounds=left, start=theta, stop=stop, **options
        )
        theta = result.algorithm.model(result.state)
        norm = float(np.linalg.norm(E.gradient(theta))) if E.smooth else np.nan
        stages.append(Stage(now, result.rounds, norm))
        history = joined(history, result.history)
        if epsilon is None or norm <= epsilon or result.stopped != "tol":
            result = replace(result, theta=theta, history=history, certificate_reason=NO_CERTIFICATE)
            return Continuation(result, stages)
        now /= SHRINK


def check_epsilon(epsilon: float, E: Objective) -> None:
    if not epsilon > 0:
        raise InputError(f"epsilon must be positive, but it is {epsilon}.")
    if not E.smooth:
        raise InputError("epsilon is a norm of the gradient, and this cost has none everywhere; give alpha instead.")


def first_alpha(problem: Problem) -> float:
    """Large: a tenth of the largest smoothness, or 1 where that is infinite."""
    L = max(f.L for f in problem.clients)
    return L / 10 if np.isfinite(L) else 1.0


def rest_is_bias(E: Objective, alpha: float, epsilon: float) -> Callable[[Row, Array], bool]:
    """Whether this alpha has given what it can: E' is small already, or all of it that is left is alpha's bias."""

    def stop(row: Row, theta: Array) -> bool:
        g = E.gradient(theta)
        bias = alpha * (theta if E.free is None else np.where(E.free, theta, 0.0))
        solved = np.linalg.norm(g + bias) <= SETTLED * np.linalg.norm(bias)
        return bool(np.linalg.norm(g) <= epsilon or (row.round > 0 and solved))

    return stop


def joined(before: History, after: History) -> History:
    """Two histories as one; the second starts where the first ended."""
    if not before.rows:
        return after
    last = before[-1]
    counted = ("round", "exchanges", "floats_up", "floats_down", "local_gradients", "seconds", "contacts", "payload")
    rows = [row._replace(**{c: getattr(row, c) + getattr(last, c) for c in counted}) for row in after.rows[1:]]
    return History(before.rows + rows, before.iterations + after.iterations[1:])
