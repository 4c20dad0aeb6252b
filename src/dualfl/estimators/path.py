"""Choosing the penalty without pooling: cross-validation along a warm-started path, from sums.

Every fold is a federated fit on the rows outside it. The rows inside it give one sum a silo: their loss under the
model, the same loss that is minimised. No row, no score and no fold leaves a silo.

* cv = k: each silo deals its own rows into k folds, class by class.
* cv = "silo": each silo in turn is left out; the error is that on an organisation nobody has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dualfl.engines.progress import Bar
from dualfl.errors import InputError
from dualfl.estimators.silos import total_mass
from dualfl.estimators.solving import FitCost, federated_problem
from dualfl.objectives import Logistic, Poisson, Softmax, Squared, SquaredHinge
from dualfl.silos.chamber import SiloRows
from dualfl.streams import Stream
from dualfl.tables.moments import Moments, moments
from dualfl.typing import AnyArray, Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Fold(NamedTuple):
    name: str
    train: list[SiloRows]
    test: list[SiloRows]


@dataclass(frozen=True, eq=False)
class PenaltyPath:
    """The held-out loss of each fold (a line) for each value of the penalty (a column)."""

    parameter: str  # "C" or "alpha"
    values: Array  # from the strongest penalty to the weakest
    losses: Array
    masses: Array  # weight of the rows in each fold
    folds: tuple[str, ...]
    chosen: int
    exchanges: int  # of all fits on the path

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


def follow(
    model_of: Callable[[float], Any],
    silos: list[SiloRows],
    values: Array,
    folds: Sequence[Fold],
    parameter: str,
    rule: str = "min",
    progress: bool = False,
) -> PenaltyPath:
    """Fit every fold along the path, each fit started where the one before it ended."""
    if rule not in ("min", "1se"):
        raise InputError(f'rule must be "min" or "1se", but it is {rule!r}.')
    losses = np.empty((len(folds), len(values)))
    exchanges = 0
    with Bar("cross-validation", len(folds) * len(values), progress) as bar:
        for i, fold in enumerate(folds):
            start = None
            for j, value in enumerate(values):
                model = model_of(float(value))
                results = model._solve(fold.train, start)
                start = [result.theta for result in results]
                exchanges += sum(result.history[-1].exchanges for result in results)
                losses[i, j] = held_out(model, start, fold.test)
                bar.step()
    masses = np.array([total_mass(fold.test) for fold in folds])
    return PenaltyPath(
        parameter, values, losses, masses, tuple(f.name for f in folds), choice(losses, masses, rule), exchanges
    )


def choice(losses: Array, masses: Array, rule: str) -> int:
    """The least held-out loss, or the strongest penalty within one standard error of it."""
    mean = weighted_mean(losses, masses)
    best = int(np.argmin(mean))
    if rule == "min":
        return best
    return int(np.argmax(mean <= mean[best] + standard_error(losses, masses)[best]))


def held_out(model: Any, thetas: Sequence[Array], silos: list[SiloRows]) -> float:
    """The mean loss of rows that were not fitted: one sum a silo."""
    loss = FitCost(model._cost(total_mass(silos)).loss)
    parts = [federated_problem(part, loss, model._intercept()) for part in model._problems(silos)]
    return sum(problem.value(theta) for problem, theta in zip(parts, thetas))


# -- folds ------------------------------------------------------------------------------------------------


def make_folds(silos: list[SiloRows], cv: Any, classes: int = 0, seed: int = 0) -> list[Fold]:
    """`classes`: how many classes the targets number, 0 for real targets."""
    if cv == "silo":
        folds = _silo_folds(silos)
    elif isinstance(cv, int | np.integer) and not isinstance(cv, bool) and cv >= 2:
        folds = _row_folds(silos, int(cv), classes > 0, seed)
    else:
        raise InputError(f'cv must be a number of folds >= 2 or "silo", but it is {cv!r}.')
    for fold in folds:
        _check_fold(fold, classes, by_silo=cv == "silo")
    return folds


def _silo_folds(silos: list[SiloRows]) -> list[Fold]:
    if len(silos) < 2:
        raise InputError('cv="silo" leaves one silo out at a time, and there is only one; give cv a number of folds.')
    return [Fold(silo.name, silos[:j] + silos[j + 1 :], [silo]) for j, silo in enumerate(silos)]


def _row_folds(silos: list[SiloRows], k: int, stratify: bool, seed: int) -> list[Fold]:
    most = max(silo.n for silo in silos)
    if k > most:
        samples = f"{most:,} sample{'s' * (most > 1)}"
        raise InputError(f"cv = {k} folds need a silo of as many rows, and the largest has {samples}; take fewer.")
    numbers = [_dealt(silo, j, k, stratify, seed) for j, silo in enumerate(silos)]
    folds = []
    for fold in range(k):
        train = [silo.rows(np.flatnonzero(number != fold)) for silo, number in zip(silos, numbers)]
        test = [silo.rows(np.flatnonzero(number == fold)) for silo, number in zip(silos, numbers)]
        folds.append(Fold(f"fold {fold + 1}", [s for s in train if s.mass > 0], [s for s in test if s.mass > 0]))
    return folds


def _dealt(silo: SiloRows, j: int, k: int, stratify: bool, seed: int) -> AnyArray:
    """The fold of each row: shuffled, sorted by class, and dealt out like cards, each silo beginning elsewhere."""
    order = Stream(seed, "folds", j, -1, 0).permutation(silo.n)
    if stratify:
        order = order[np.argsort(silo.y[order], kind="stable")]
    number = np.empty(silo.n, dtype=int)
    number[order] = (np.arange(silo.n) + j) % k
    return number


def _check_fold(fold: Fold, classes: int, by_silo: bool) -> None:
    remedy = "take fewer folds, or more rows"
    if not fold.train or not fold.test:
        total = sum(silo.n for silo in (*fold.train, *fold.test))
        side = "test" if fold.train else "train"
        raise InputError(f"In {fold.name} no rows are left to {side} on, of n_samples = {total} in all; {remedy}.")
    if classes:
        seen = np.unique(np.concatenate([np.unique(silo.y) for silo in fold.train]))
        if len(seen) < classes:
            folds = "take 5 folds, which are cut inside every silo and by class, or " if by_silo else ""
            raise InputError(
                f"Without {fold.name} only {len(seen)} of {classes} classes are left to train on; "
                f"{folds}give rare classes more rows, or join them."
            )


# -- values -----------------------------------------------------------------------------------------------


def strongest_l1(model: Any, silos: list[SiloRows]) -> float:
    """The least l1 penalty at which all coefficients are zero (for kinked losses an upper bound), from sums.

    At w = 0 and the best intercept, it is the largest entry of the gradient. Kinked losses have slopes a_i with
    sum_i s_i a_i = 0 there, so that |sum_i s_i a_i x_i| <= max|a| std(x).
    """
    mass = total_mass(silos)
    loss, intercept = model._cost(mass).loss, model._intercept()
    problems = model._problems(silos)
    if not loss.smooth:
        total = _moments(silos)
        spread = total.variance + (0.0 if intercept == "free" else total.mean**2)
        box = loss.box(np.ones(1))
        return float(np.sqrt(spread.max()) * max(-box.lo, box.hi))
    worst = 0.0
    for part in problems:
        pooled = federated_problem(part, FitCost(loss), intercept).pooled
        theta = np.zeros(pooled.shape).reshape(pooled.shape[0], -1)
        if intercept == "free":
            theta[-1] = best_intercept(loss, part)
        gradient = pooled.gradient(theta.ravel()).reshape(theta.shape)
        worst = max(worst, float(np.abs(gradient[:-1] if intercept == "free" else gradient).max()))
    return worst


def _moments(silos: list[SiloRows]) -> Moments:
    total = moments(silos[0].X, silos[0].weights)
    for silo in silos[1:]:
        total = total + moments(silo.X, silo.weights)
    return total


def best_intercept(loss: Any, silos: list[SiloRows]) -> Array | float:
    """The minimiser of the mean loss over a constant predictor, from sums of the targets."""
    if isinstance(loss, Softmax):
        shares = sum(_share(silo, np.eye(loss.classes)[silo.y.astype(int)]) for silo in silos)
        logs = np.log(np.asarray(shares) / total_mass(silos))
        centred: Array = logs - logs.mean()
        return centred
    mean = float(np.sum([_share(silo, silo.y) for silo in silos])) / total_mass(silos)
    if isinstance(loss, Logistic):
        return float(np.log1p(mean) - np.log1p(-mean))
    if isinstance(loss, Poisson):
        return float(np.log(mean))
    if isinstance(loss, Squared | SquaredHinge):
        return mean
    raise InputError(f"No closed form is known for the intercept of {loss}; give the values of the penalty yourself.")


def _share(silo: SiloRows, values: AnyArray) -> Any:
    return values.sum(axis=0) if silo.weights is None else silo.weights @ values
