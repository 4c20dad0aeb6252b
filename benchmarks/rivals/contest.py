"""One fit, several programs: who reaches the same true error in how much processor time."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np

TRUE_ERROR = 1e-6
LADDER = tuple(10.0**-i for i in range(1, 15))


class Model(NamedTuple):
    """Features by outputs, and an intercept each; what is said of the fit beside its time."""

    W: np.ndarray
    b: np.ndarray
    told: str = ""


class Contender(NamedTuple):
    """A program, and the tolerances that are tried, the loosest first; one that has only one is taken as it is."""

    name: str
    fit: Callable[[float], Model]
    tols: Sequence[float] = LADDER


@dataclass
class Timed:
    """What became of a contender."""

    name: str
    tol: float
    error: float
    cpu: float
    told: str

    @property
    def reached(self) -> bool:
        return self.error <= TRUE_ERROR


def model_of(estimator: Any, told: str = "") -> Model:
    """A fitted scikit-learn estimator, or one that looks like it."""
    W = np.atleast_2d(np.asarray(estimator.coef_, dtype=float)).T
    return Model(W, np.atleast_1d(np.asarray(estimator.intercept_, dtype=float)), told)


def contest(
    contenders: Sequence[Contender], energy: Callable[[Model], float], turns: int, patience: float
) -> list[Timed]:
    """Every contender at the loosest tolerance that reaches the error, by turns.

    E* is the lowest energy that anybody reached, each going two steps of the ladder further. `patience` is what one fit
    may take before tighter tolerances are given up.
    """
    tries = {one.name: climb(one, energy, patience) for one in contenders}
    least = min(E for steps in tries.values() for _, E in steps)
    chosen = {}
    for one in contenders:
        good = [(tol, E) for tol, E in tries[one.name] if relative(E, least) <= TRUE_ERROR]
        chosen[one.name] = good[0] if good else min(tries[one.name], key=lambda step: step[1])
    seconds: dict[str, list[float]] = {one.name: [] for one in contenders}
    told: dict[str, str] = {}
    for _ in range(turns):
        for one in contenders:
            began = time.process_time()
            model = quietly(one.fit, chosen[one.name][0])
            seconds[one.name].append(time.process_time() - began)
            told[one.name] = model.told
    return [
        Timed(name, tol, relative(E, least), median(seconds[name]), told[name]) for name, (tol, E) in chosen.items()
    ]


def climb(one: Contender, energy: Callable[[Model], float], patience: float) -> list[tuple[float, float]]:
    """(tolerance, energy) from the loosest on, until two more steps gain nothing worth speaking of."""
    steps: list[tuple[float, float]] = []
    for tol in one.tols:
        began = time.process_time()
        steps.append((tol, energy(quietly(one.fit, tol))))
        gc.collect()
        energies = [E for _, E in steps]
        if time.process_time() - began > patience:
            break
        if len(energies) > 3 and relative(energies[-4], min(energies)) <= TRUE_ERROR / 10:
            break
    return steps


def quietly(fit: Callable[[float], Model], tol: float) -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(tol)


def relative(E: float, least: float) -> float:
    return (E - least) / abs(least)
