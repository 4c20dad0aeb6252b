"""Choosing the penalty without pooling: cross-validation from sums, all fits side by side.

Every fold is a federated fit on the rows outside it, for every penalty; what all of them ask travels in one message, so
the longest of them decides how many exchanges they take. The rows inside the fold give one sum a silo: their loss under
the model, the same loss that is minimised. No row, no score and no fold leaves a silo. Least squares takes two
exchanges in all: the moments of each fold tell everything.

Where a silo has a baseline hazard or an intercept of its own, the loss of some rows depends on those beside them. Then
the loss of a fold is that of all rows less that of the rows outside it, both under the model of the latter, as Verweij
and van Houwelingen (Statistics in Medicine 1993) have it for Cox's partial likelihood. It is divided by the held-out
events for Cox, and by the held-out rows for all others.

* cv = k: each silo deals its own rows into k folds, class by class.
* cv = "silo": each silo in turn is left out; the error is that on an organisation nobody has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from dualfl.engines.best import SMALLEST
from dualfl.errors import DualflError, InputError
from dualfl.estimators import newton_path, path_here, squares
from dualfl.estimators.folds import PURPOSE, Fold, check_events, check_fold, choices_of_rows
from dualfl.estimators.newton_path import Fits, Point
from dualfl.estimators.penalty_path import PenaltyPath, choice
from dualfl.estimators.solving import Task, solving
from dualfl.estimators.squares import Moments, Quadratic
from dualfl.estimators.strongest_penalty import by_spread, strongest_l1
from dualfl.objectives import Cox
from dualfl.silos.costs import ALL, Cost, Sample
from dualfl.silos.questions import Conversation, Exchange, Query, Silos, measured_samples, measurement
from dualfl.typing import Array


@dataclass(frozen=True, eq=False)
class Dealt:
    """The folds, and what all silos together have: in all rows, outside every fold, and inside it."""

    folds: Sequence[Fold]
    whole: Sample
    train: list[Sample]
    test: list[Sample]
    starts: list[Point] = field(default_factory=list)  # every loss at zero, where Newton's method may begin
    sums: Array | None = None  # of all columns, if they are needed
    events: bool = False  # whether events count, the second class, in place of rows

    @property
    def masses(self) -> Array:
        return np.array([float(sample.classes[1]) if self.events else sample.mass for sample in self.test])

    def strongest(self, silos: Silos, model: Any) -> Conversation[float]:
        """The least l1 penalty at which all coefficients are zero."""
        return strongest_l1(silos, model, self.whole, self.sums)

    def judged(self, silos: Silos, models: Sequence[Any]) -> Conversation[Array]:
        """Fit every fold with every penalty, all side by side; the loss of each fit on the rows it has not seen."""
        loss = models[0]._cost(1.0).loss
        if self.starts and newton_path.small(silos, loss, len(self.starts), len(models)):
            try:
                return (yield from self._by_newton(models))
            except newton_path.Stalled:  # algorithms with more safeguards then do
                pass
        if path_here.suits(silos, models[0]):
            known = path_here.followed(silos, models, self.train, PURPOSE)
            if known is not None:
                return (yield from self.losses(models, known))
        tasks = [Task(model, sample, of_path=True) for sample in self.train for model in models]
        found = yield from solving(silos, tasks, PURPOSE)
        thetas = []
        for outcome in found:
            if isinstance(outcome, DualflError):
                raise outcome
            thetas.append([result.theta for result in outcome])
        return (yield from self.losses(models, thetas))

    def _by_newton(self, models: Sequence[Any]) -> Conversation[Array]:
        """One pass over the rows for all penalties."""
        groups, starts = [], iter(self.starts)
        for fold, train in zip(self.folds, self.train):
            for costs in zip(*(model._costs(train) for model in models)):
                groups.append((Fits(costs, train.mass, next(starts), float(models[0].tol)), fold.test))
        yield from newton_path.fitting([fits for fits, _ in groups], int(models[0].max_iter), PURPOSE)
        sums = yield from newton_path.judging(groups, PURPOSE)
        each = np.array(sums).reshape(len(self.folds), -1, len(models)).sum(axis=1)
        mean: Array = each / self.masses[:, None]
        return mean

    def losses(self, models: Sequence[Any], thetas: Sequence[Sequence[Array]]) -> Conversation[Array]:
        """The loss of each fit, fold after fold, on the rows it has not seen, by one exchange."""
        tasks = [Task(model, sample) for sample in self.train for model in models]
        held = [sample for sample in self.test for _ in models]
        sums = yield from judging(tasks, held, thetas)
        mean: Array = sums.reshape(len(self.folds), len(models)) / self.masses[:, None]
        return mean


def following(
    silos: Silos,
    model_of: Callable[[float], Any],
    values_of: Callable[[Dealt], Conversation[Array]],
    folds: Sequence[Fold],
    parameter: str,
    rule: str = "min",
) -> Conversation[tuple[PenaltyPath, Sample]]:
    """Judge every penalty on every fold; and what all silos have in all rows, which was found out on the way."""
    if rule not in ("min", "1se"):
        raise InputError(f'rule must be "min" or "1se", but it is {rule!r}.')
    model = model_of(1.0)
    dealt = yield from (dealing_moments if squares.possible(model, silos) else dealing)(silos, model, folds)
    values = yield from values_of(dealt)
    losses = yield from dealt.judged(silos, [model_of(float(value)) for value in values])
    names, masses = tuple(fold.name for fold in folds), dealt.masses
    return PenaltyPath(parameter, values, losses, masses, names, choice(losses, masses, rule)), dealt.whole


def dealing(silos: Silos, model: Any, folds: Sequence[Fold]) -> Conversation[Dealt]:
    """What all silos together have, by one exchange; where Newton's method will do, with it the losses at zero."""
    rows = choices_of_rows(folds)
    queries = [measurement(rows, model._cost(1.0).loss, model._class_count)]
    costs = [one.without_penalty for fold in folds for one in model._costs(Sample(fold.train, 1.0, 1, 0.0, 0.0))]
    zeros = [np.zeros((1, (silos.features + bool(one.intercept)) * one.loss.outputs)) for one in costs]
    newton = newton_path.suits(model) and newton_path.small(silos, costs[0].loss, len(costs), 1)
    newton = newton and not path_here.suits(silos, model)
    if newton:
        queries.append(newton_path.looking(costs, zeros))
    elif by_spread(model) and model._cost(1.0).l1:
        queries.append(Query("columns", {"rows": asdict(ALL), "center": None}))
    first, *others = yield Exchange(PURPOSE, tuple(queries))
    dealt = checked_folds(folds, measured_samples(rows, first), model)
    if not others:
        return dealt
    if not newton:
        return replace(dealt, sums=np.asarray(others[0]["sums"]))
    masses = np.repeat([train.mass for train in dealt.train], len(costs) // len(folds))
    return replace(dealt, starts=newton_path.starts(costs, zeros, others[0], list(masses)))


def checked_folds(folds: Sequence[Fold], samples: Sequence[Sample], model: Any) -> Dealt:
    whole, *others = samples
    events = isinstance(model._cost(1.0).loss, Cox)
    dealt = Dealt(folds, whole, others[: len(folds)], others[len(folds) :], events=events)
    for fold, inside, outside in zip(folds, dealt.train, dealt.test):
        if events:
            check_events(fold, inside, outside)
        else:
            check_fold(fold, inside, outside, model._class_count)
    return dealt


def judging(tasks: Sequence[Task], held: Sequence[Sample], thetas: Sequence[Sequence[Array]]) -> Conversation[Array]:
    """The summed loss of each fit on rows that it has not seen, by one exchange."""
    costs, models, places, signs = [], [], [], []
    for i, (task, sample, theta) in enumerate(zip(tasks, held, thetas)):
        for cost, one in zip(task.model._costs(task.sample), theta):
            parts = [(ALL, 1.0), (task.sample.rows, -1.0)] if compares_rows(cost) else [(sample.rows, 1.0)]
            for rows, sign in parts:
                costs.append(replace(cost, rows=rows, ridge=0.0, l1=0.0, shift=0.0).as_json())
                models.append(one)
                places.append(i)
                signs.append(sign)
    (answer,) = yield Exchange(PURPOSE, (Query("losses", {"costs": costs, "thetas": models}),))
    each = np.asarray(answer["losses"]) * signs
    sums: Array = np.bincount(places, each, minlength=len(tasks)).astype(np.float64)
    return sums


def compares_rows(cost: Cost) -> bool:
    """Whether the loss of a row depends on the rows beside it: a baseline or an intercept is fitted to them."""
    return cost.intercept == "own" or isinstance(cost.loss, Cox)


# -- least squares ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DealtMoments(Dealt):
    """Of least squares: the moments of the rows inside every fold, too, around a centre."""

    inside: list[Moments] = field(default_factory=list)
    center: Array = field(default_factory=lambda: np.zeros(0))

    def strongest(self, silos: Silos, model: Any) -> Conversation[float]:
        yield from ()
        return float(np.abs(Quadratic.of(added(self.inside), model._intercept()).r).max())

    def judged(self, silos: Silos, models: Sequence[Any]) -> Conversation[Array]:
        """From the moments alone; silos are asked only where these have too few digits."""
        losses, doubt, thetas = np.empty((len(self.folds), len(models))), 0.0, []
        for i, inside in enumerate(self.inside):
            outside = added([*self.inside[:i], *self.inside[i + 1 :]])
            try:
                found = squares.fitted(outside, models, self.train[i])
            except squares.NotProven:
                return (yield from Dealt.judged(self, silos, models))
            for j, one in enumerate(found):
                thetas.append([squares.theta(one, self.center, models[0]._intercept())])
                total, off = inside.residuals(one)
                losses[i, j] = total / 2 / inside.mass
                doubt = max(doubt, off / max(total, SMALLEST))
        return losses if doubt <= squares.DIGITS else (yield from self.losses(models, thetas))


def dealing_moments(silos: Silos, model: Any, folds: Sequence[Fold]) -> Conversation[Dealt]:
    """What all silos together have, and the moments of every fold, by two exchanges."""
    samples, center = yield from squares.means(silos, model, choices_of_rows(folds), PURPOSE)
    dealt = checked_folds(folds, samples, model)
    inside = yield from squares.moments_of([fold.test for fold in folds], center, PURPOSE)
    return DealtMoments(**vars(dealt), inside=inside, center=center)


def added(moments: Sequence[Moments]) -> Moments:
    return Moments(np.sum([one.A for one in moments], axis=0))
