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
REFERENCE = 1e-9  # what dualfl proves of E*, before the contest
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


class Try(NamedTuple):
    """A fit at one tolerance."""

    tol: float
    energy: float
    cpu: float
    told: str


def contest(
    contenders: Sequence[Contender], energy: Callable[[Model], float], turns: int, patience: float
) -> list[Timed]:
    """Every contender at the loosest tolerance that reaches the error, by turns.

    E* is the lowest energy that anybody reached, and dualfl once more to a proven 1e-9. `patience` is what one fit may
    take before tighter tolerances are given up. With one turn the time is that of the try itself.
    """
    least = energy(quietly(contenders[0].fit, REFERENCE))
    chosen: dict[str, Try] = {}
    for one in contenders:
        tries = climb(one, energy, least, patience)
        least = min(least, *(each.energy for each in tries))
        good = [each for each in tries if relative(each.energy, least) <= TRUE_ERROR]
        chosen[one.name] = good[0] if good else min(tries, key=lambda each: each.energy)
    seconds = {one.name: [chosen[one.name].cpu] if turns == 1 else [] for one in contenders}
    for _ in range(turns if turns > 1 else 0):
        for one in contenders:
            began = time.process_time()
            quietly(one.fit, chosen[one.name].tol)
            seconds[one.name].append(time.process_time() - began)
    return [
        Timed(name, each.tol, relative(each.energy, least), median(seconds[name]), each.told)
        for name, each in chosen.items()
    ]


def climb(one: Contender, energy: Callable[[Model], float], least: float, patience: float) -> list[Try]:
    """From the loosest tolerance on, until one reaches the error."""
    tries: list[Try] = []
    for tol in one.tols:
        gc.collect()
        began = time.process_time()
        model = quietly(one.fit, tol)
        tries.append(Try(tol, 0.0, time.process_time() - began, model.told)._replace(energy=energy(model)))
        if tries[-1].cpu > patience or relative(tries[-1].energy, least) <= TRUE_ERROR:
            break
    return tries


def quietly(fit: Callable[[float], Model], tol: float) -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(tol)


def relative(E: float, least: float) -> float:
    return (E - least) / abs(least)
