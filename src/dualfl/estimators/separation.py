"""Which direction separates, for fits without a penalty whose coefficients grow for ever.

Faint penalties keep coefficients finite. As they go to zero, the model goes to infinity along a direction that
separates: of the largest margin where it is a ridge, and of few columns where it is an l1 penalty. The difference of
two such models is that direction, up to what the weaker penalty still moves elsewhere, so entries that are small beside
the largest are taken for zero, in several ways. What comes of it is a guess: silos say of each whether it separates
(`silos.separation`), in one exchange, and of those that do the one with the fewest columns is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dualfl.errors import DualflError
from dualfl.estimators.solving import FitLimits, Task, solving
from dualfl.objectives import CLogLog, Logistic, Ordered
from dualfl.silos.costs import Cost, Sample
from dualfl.silos.questions import Conversation, Exchange, Query, Silos
from dualfl.silos.separation import SEPARABLE
from dualfl.typing import Array

FAINT = (1e-5, 1e-8)  # penalties, for columns of spread 1
SMALL = (0.0, 1e-3, 1e-2, 0.05, 0.2)  # of the largest entry: what may be taken for zero
SIMPLE = 12  # the largest denominator of entries, as parts of the largest, that are guessed
ROUNDS, TOL = 60, 1e-6
SHOWN = 4  # columns of a combination


class Faint:
    """A model with a faint penalty in place of none."""

    def __init__(self, model: Any, ridge: float, l1: float) -> None:
        self.model, self.ridge, self.l1, self.algorithm = model, ridge, l1, "auto"

    def _costs(self, sample: Sample) -> list[Cost]:
        costs = [replace(cost, ridge=self.ridge, l1=self.l1, shift=0.0) for cost in self.model._costs(sample)]
        # What separates two classes does so by any link, and clog-log models hardly move: by log log of a penalty.
        return [replace(cost, loss=Logistic()) if isinstance(cost.loss, CLogLog) else cost for cost in costs]

    def _limits(self, sample: Sample) -> FitLimits:
        limits: FitLimits = self.model._limits(sample)
        return replace(limits, tol=TOL, rounds=ROUNDS, proof_follows=False, progress=False)


@dataclass(frozen=True, eq=False)
class Direction:
    """That silos say separates; for the columns as they are, a line a column, and last the intercept or thresholds."""

    entries: Array
    strength: Array  # of each column: its entries times its spread

    @property
    def columns(self) -> list[int]:
        """Those that it is made of, the strongest first."""
        return [int(i) for i in np.argsort(-self.strength, kind="stable") if self.strength[i] > 0]

    @property
    def falls(self) -> bool:
        """Whether the predictor falls with the strongest column."""
        return bool(self.entries[self.columns[0], 0] < 0)

    def combination(self, names: Sequence[str]) -> str:
        """age + 0.52 bmi - 3.1 sex=f, the strongest first, which has the weight 1."""
        columns = self.columns
        if len(columns) == 1:
            return f"the column {names[columns[0]]}"
        weights = self.entries[columns, 0] / self.entries[columns[0], 0]
        parts = [term(float(weight), names[i]) for i, weight in zip(columns[:SHOWN], weights)]
        text = " ".join(parts).removeprefix("+ ")
        more = f" and {len(columns) - SHOWN} more columns" if len(columns) > SHOWN else ""
        return f"the combination {text}{more}"


def term(weight: float, name: str) -> str:
    sign = "-" if weight < 0 else "+"
    return f"{sign} {name}" if abs(weight) == 1 else f"{sign} {abs(weight):.3g} {name}"


def separating(
    silos: Silos, model: Any, sample: Sample, spread: Array, back: Array | None = None
) -> Conversation[Direction | None]:
    """A direction that separates; None where none was found.

    spread : of the columns as they are.
    back : takes a model as it is fitted to one of the columns as they are; None if they are fitted so.
    """
    cost = replace(model._costs(sample)[0], ridge=0.0, l1=0.0, shift=0.0)
    if not isinstance(cost.loss, SEPARABLE):
        return None
    unit = 1.0 if back is not None else float(np.min(spread)) ** 2
    weak, weaker = (faint * min(unit, 1.0) for faint in FAINT)
    tasks = [Faint(model, weak, 0.0), Faint(model, weaker, 0.0), Faint(model, 0.0, weak), Faint(model, 0.0, weaker)]
    found = yield from solving(silos, [Task(task, sample) for task in tasks])
    models = [None if isinstance(one, DualflError) else as_matrix(one[0].theta, cost) for one in found]
    back = np.eye(len(next((m for m in models if m is not None), np.zeros((0, 1))))) if back is None else back
    guesses = list(unique(guessed(models, back, spread)))
    if not guesses:
        return None
    there = np.linalg.inv(back)
    asked = [np.ascontiguousarray(there @ one).ravel() for one in guesses]
    (answer,) = yield Exchange("the fit", (Query("separation", {"cost": cost.as_json(), "directions": asked}),))
    wrong, right = np.asarray(answer["wrong"]), np.asarray(answer["right"])
    good = [one for one, w, r in zip(guesses, wrong, right) if round(float(w)) == 0 and round(float(r)) > 0]
    directions = [Direction(one, strength_of(one, spread)) for one in good]
    return min(directions, key=lambda one: len(one.columns), default=None)


def as_matrix(theta: Array, cost: Cost) -> Array:
    """Lines of columns, then of intercepts or whole thresholds."""
    matrix = np.array(theta).reshape(-1, cost.loss.outputs)
    if isinstance(cost.loss, Ordered):
        matrix[len(matrix) - len(cost.loss.base) :, 0] += cost.loss.base
    return matrix


def guessed(models: Sequence[Array | None], back: Array, spread: Array) -> Iterator[Array]:
    """From the models of both kinds of penalties, those of few columns first."""
    for weak, weaker in ((models[2], models[3]), (models[0], models[1])):
        if weaker is None:
            continue
        ways = [weaker] if weak is None else [weaker - weak, weaker]
        for way in ways:
            raw = back @ way
            if raw.shape[1] > 1:
                raw = raw - raw.mean(axis=1, keepdims=True)  # what all classes share changes nothing
            size = np.abs(raw)
            size[: len(spread)] *= spread[:, None]
            largest = float(size[: len(spread)].max(initial=0.0))
            if not 0 < largest < np.inf:
                continue
            for small in SMALL:
                kept = np.where(size > small * largest, raw, 0.0)
                yield kept / np.abs(kept).max()
                yield simplified(kept)


def simplified(raw: Array) -> Array:
    """With entries that are simple fractions of the largest: overlapping rows of categories need the exact ones."""
    share = raw / np.abs(raw).max()
    rounded = [float(Fraction(float(value)).limit_denominator(SIMPLE)) for value in share.ravel()]
    return np.array(rounded).reshape(raw.shape)


def unique(guesses: Iterator[Array]) -> Iterator[Array]:
    seen = set()
    for one in guesses:
        key = one.tobytes()
        if key not in seen and np.isfinite(one).all():
            seen.add(key)
            yield one


def strength_of(raw: Array, spread: Array) -> Array:
    return np.asarray(np.abs(raw[: len(spread)]).max(axis=1) * spread)
