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
from typing import TYPE_CHECKING, Any

import numpy as np

from dualfl.engines.best import SMALLEST
from dualfl.errors import DualflError, InputError
from dualfl.estimators import newton_path, path_here, squares
from dualfl.estimators.newton_path import Fits, Point
from dualfl.estimators.solving import Task, solving
from dualfl.estimators.squares import Moments, Quadratic
from dualfl.objectives import (
    CLogLog,
    Cox,
    Gamma,
    Huber,
    Logistic,
    NegativeBinomial,
    Ordered,
    Poisson,
    Softmax,
    Squared,
    SquaredHinge,
    Tweedie,
)
from dualfl.silos.costs import ALL, Cost, Rows, Sample
from dualfl.silos.questions import Conversation, Exchange, Query, Silos, measured_samples, measurement
from dualfl.typing import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PURPOSE = "cross-validation"
MOST_FOLDS = 10_000
STEPS, FLAT = 60, 1e-6  # of the search for an intercept, and where its slope counts as zero


@dataclass(frozen=True)
class Fold:
    """Rows to fit, and the others, on which the fit is judged."""

    name: str
    train: Rows

    @property
    def test(self) -> Rows:
        return self.train.opposite


@dataclass(frozen=True, eq=False)
class PenaltyPath:
    """The held-out loss of each fold (a line) for each value of the penalty (a column).

    Parameters
    ----------
    parameter : str
        What was chosen: "C" or "alpha".
    values : ndarray
        The values that were tried.
    losses : ndarray
        The held-out loss of each fold and value.
    masses : ndarray
        The weight of each fold's held-out rows.
    folds : tuple[str, ...]
        The names of the folds.
    chosen : int
        The number of the value that was chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import RidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> path = RidgeCV(alphas=[0.01, 0.1], cv=2).fit(X, y, groups=[i % 2 for i in range(len(y))]).path_
    >>> path.parameter, path.losses.shape
    ('alpha', (2, 2))
    """

    parameter: str  # "C" or "alpha"
    values: Array  # from the strongest penalty to the weakest
    losses: Array
    masses: Array  # weight of the rows in each fold
    folds: tuple[str, ...]
    chosen: int

    @property
    def mean(self) -> Array:
        return weighted_mean(self.losses, self.masses)

    @property
    def standard_error(self) -> Array:
        return standard_error(self.losses, self.masses)

    @property
    def value(self) -> float:
        return float(self.values[self.chosen])

    def figure(self) -> Figure:
        """Held-out loss against the penalty, one thin line a fold, and the choice."""
        from matplotlib.figure import Figure

        from dualfl.colours import COLOURS

        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.add_subplot()
        for number, line in enumerate(self.losses):
            label = f"each of {len(self.folds)} folds" if number == 0 else None
            axes.plot(self.values, line, color="0.75", linewidth=0.8, label=label, zorder=1)
        style: dict[str, Any] = {"color": COLOURS[0], "linewidth": 1.8, "marker": "o", "markersize": 4}
        bars: dict[str, Any] = {"label": "their mean, and its standard error", "capsize": 2, "elinewidth": 0.9}
        axes.errorbar(self.values, self.mean, self.standard_error, **style, **bars)
        label = f"chosen: {self.parameter} = {self.value:.3g}"
        axes.axvline(self.value, color=COLOURS[1], linestyle="--", linewidth=1.4, label=label)
        axes.set_xscale("log")
        axes.set_xlabel(self.parameter + (" (penalty falls to the right)" if self.parameter == "C" else ""))
        axes.set_ylabel("held-out loss")
        # A fold that goes far astray may leave the picture, and nothing else.
        top = max(np.nanmax(self.mean + self.standard_error), np.nanquantile(self.losses, 0.95))
        low = np.nanmin(self.losses)
        axes.set_ylim(low - 0.05 * (top - low), top + 0.15 * (top - low))
        axes.legend(frameon=False, fontsize=9)
        axes.grid(True, which="major", color="0.88", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        return figure


def weighted_mean(losses: Array, masses: Array) -> Array:
    mean: Array = masses @ losses / masses.sum()
    return mean


def standard_error(losses: Array, masses: Array) -> Array:
    """Of the mean over folds; their weights differ little unless silos are left out."""
    share = masses / masses.sum()
    spread = share @ (losses - weighted_mean(losses, masses)) ** 2
    error: Array = np.sqrt(spread / max(len(masses) - 1, 1))
    return error


# -- all fits side by side --------------------------------------------------------------------------------


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


def choices_of_rows(folds: Sequence[Fold]) -> list[Rows]:
    return [ALL, *(fold.train for fold in folds), *(fold.test for fold in folds)]


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


def choice(losses: Array, masses: Array, rule: str) -> int:
    """The least held-out loss, or the strongest penalty within one standard error of it."""
    mean = weighted_mean(losses, masses)
    best = int(np.argmin(mean))
    if rule == "min":
        return best
    return int(np.argmax(mean <= mean[best] + standard_error(losses, masses)[best]))


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


# -- folds ------------------------------------------------------------------------------------------------


def make_folds(names: Sequence[str], cv: Any) -> list[Fold]:
    """Every silo deals its own rows into folds; or each silo in turn is left out."""
    if cv == "silo":
        if len(names) < 2:
            raise InputError(
                'cv="silo" leaves one silo out at a time, and there is only one; give cv a number of folds.'
            )
        return [Fold(name, Rows("without", silo=name)) for name in names]
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool) and cv >= 2:
        if cv > MOST_FOLDS:
            raise InputError(f"cv = {cv} folds need as many rows in a silo; take fewer, at most {MOST_FOLDS:,}.")
        return [Fold(f"fold {i + 1}", Rows("train", int(cv), i)) for i in range(int(cv))]
    raise InputError(f'cv must be a number of folds >= 2 or "silo", but it is {cv!r}.')


def check_fold(fold: Fold, train: Sample, test: Sample, classes: int) -> None:
    remedy = "take fewer folds, or more rows"
    if not train.mass or not test.mass:
        side = "test" if train.mass else "train"
        raise InputError(
            f"In {fold.name} no rows are left to {side} on, of n_samples = {train.n + test.n} in all; {remedy}."
        )
    seen = int(np.count_nonzero(train.classes))
    if classes and seen < classes:
        by_silo = fold.train.which == "without"
        folds = "take 5 folds, which are cut inside every silo and by class, or " if by_silo else ""
        raise InputError(
            f"Without {fold.name} only {seen} of {classes} classes are left to train on; "
            f"{folds}give rare classes more rows, or join them."
        )


def check_events(fold: Fold, train: Sample, test: Sample) -> None:
    """Of a Cox model, to which rows without an event beside them say nothing."""
    for side, sample in (("train", train), ("test", test)):
        if not sample.classes[1] > 0:
            remedy = "take 5 folds, or fewer" if fold.train.which == "without" else "take fewer folds"
            raise InputError(f"In {fold.name} there is no event to {side} on; {remedy}.")


# -- values -----------------------------------------------------------------------------------------------


def by_spread(model: Any) -> bool:
    """Whether the strongest penalty is bounded by the spread of columns: no closed form tells the best intercept."""
    loss = model._cost(1.0).loss
    return not loss.smooth or isinstance(loss, Huber)


def strongest_l1(silos: Silos, model: Any, sample: Sample, sums: Array | None = None) -> Conversation[float]:
    """The least l1 penalty at which all coefficients are zero (for kinked losses an upper bound), from sums.

    At w = 0 and the best intercept, it is the largest entry of the gradient. Where the best intercept is not known in
    closed form, slopes a_i have sum_i s_i a_i = 0 there, so that |sum_i s_i a_i x_i| <= max|a| std(x).
    """
    cost = model._cost(sample.mass)
    loss, intercept = cost.loss, model._intercept()
    if by_spread(model):
        spread = yield from spreads(sample, intercept == "free", sums)
        steepest = loss.delta if isinstance(loss, Huber) else max(-loss.box(np.ones(1)).lo, loss.box(np.ones(1)).hi)
        return float(np.sqrt(spread.max()) * np.max(steepest))
    costs = [replace(one, ridge=0.0, l1=0.0, shift=0.0) for one in model._costs(sample)]
    starts = [at_zero(silos, one, sample) for one in costs]
    slopes = yield from gradients(costs, starts, sample.mass)
    if intercept == "free" and loss.outputs == 1 and any(abs(g[-1]) > FLAT * np.abs(g).max() for g in slopes):
        for cost, start in zip(costs, starts):  # an offset, which the formulas do not know
            start[-1] = yield from searched_intercept(cost, float(start[-1]))
        slopes = yield from gradients(costs, starts, sample.mass)
    kept = None if intercept is True else silos.features * loss.outputs
    return max(float(np.abs(gradient[:kept]).max()) for gradient in slopes)


def gradients(costs: Sequence[Cost], thetas: Sequence[Array], mass: float) -> Conversation[list[Array]]:
    """Of the mean losses."""
    queries = [Query("gradient", {"cost": one.as_json(), "theta": x}) for one, x in zip(costs, thetas)]
    answers = yield Exchange(PURPOSE, tuple(queries))
    return [np.asarray(answer["gradient"]) / mass for answer in answers]


def searched_intercept(cost: Cost, start: float) -> Conversation[float]:
    """The best intercept of a model without columns: Newton's method, an exchange a step."""
    null, b = replace(cost, intercept=False, features=False).as_json(), np.array([start])
    for _ in range(STEPS):
        slope, bend = yield Exchange(
            PURPOSE, (Query("gradient", {"cost": null, "theta": b}), Query("information", {"cost": null, "theta": b}))
        )
        g, h = float(np.asarray(slope["gradient"])[0]), float(np.asarray(bend["hessian"])[0])
        step = float(np.clip(-g / h if h > 0 else -np.sign(g), -1.0, 1.0))
        b = b + step
        if abs(step) <= FLAT:
            break
    return float(b[0])


def at_zero(silos: Silos, cost: Cost, sample: Sample) -> Array:
    """No coefficient, and the best intercept if it is free; thresholds between levels are at their best at zero."""
    if isinstance(cost.loss, Ordered):
        return np.zeros(silos.features + cost.loss.levels - 1)
    theta = np.zeros((silos.features + (cost.intercept in ("free", True)), cost.loss.outputs))
    if cost.intercept == "free":
        theta[-1] = best_intercept(cost, sample)
    return theta.ravel()


def spreads(sample: Sample, around_mean: bool, sums: Array | None = None) -> Conversation[Array]:
    """The variance of every column, or the mean of its squares."""
    rows = asdict(sample.rows)
    if sums is None:
        (answer,) = yield Exchange(PURPOSE, (Query("columns", {"rows": rows, "center": None}),))
        sums = np.asarray(answer["sums"])
    mean = sums / sample.mass
    center = mean if around_mean else np.zeros(len(mean))
    (squares,) = yield Exchange(PURPOSE, (Query("columns", {"rows": rows, "center": center}),))
    spread: Array = np.asarray(squares["sums"]) / sample.mass
    return spread


def best_intercept(cost: Cost, sample: Sample) -> Array | float:
    """The minimiser of the mean loss over a constant predictor, from sums of the targets."""
    loss = cost.loss
    if isinstance(loss, Softmax):
        logs = np.log(sample.classes / sample.mass)
        centred: Array = logs - logs.mean()
        return centred
    mean = sample.mean if cost.positive is None else 2 * float(sample.classes[cost.positive]) / sample.mass - 1
    if isinstance(loss, Logistic):
        return float(np.log1p(mean) - np.log1p(-mean))
    if isinstance(loss, Poisson | Gamma | Tweedie | NegativeBinomial):
        return float(np.log(mean))
    if isinstance(loss, CLogLog):  # targets are -1 and 1
        return float(np.log(np.log(2) - np.log1p(-mean)))
    if isinstance(loss, Squared | SquaredHinge):
        return mean
    raise InputError(f"No closed form is known for the intercept of {loss}; give the values of the penalty yourself.")
