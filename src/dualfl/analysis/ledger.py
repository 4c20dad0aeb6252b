"""What a whole fit cost: every exchange, and the numbers that silos and server sent in it.

Runs of an algorithm count themselves. What else is asked takes one exchange each, and its numbers follow from what a
silo sends: symmetric matrices by their upper half, names and texts not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from dualfl.analysis.models import Fitted
from dualfl.estimators.metrics import Sums
from dualfl.estimators.path import Fold, PenaltyPath
from dualfl.objectives import Huber, Squared
from dualfl.silos.chamber import SiloRows

if TYPE_CHECKING:
    from dualfl.analysis.whole_fit import Fit


@dataclass(frozen=True)
class Spent:
    """For one purpose; numbers are those of all silos together, up and down."""

    what: str
    exchanges: int
    numbers: int


def ledger(fit: Fit) -> Iterator[Spent]:
    """All purposes that this fit had."""
    N, p, columns = len(fit.summaries), fit.theta.size, len(fit.schema.names)
    yield Spent("the fit", fit.estimator.n_exchanges_, fit.estimator.numbers_)
    yield Spent("columns and levels", 1, numbers_in_summaries(fit))
    if fit.wishes.standardise:
        yield Spent("the scaling", 1, N * (5 * columns + 1))  # deviations and squares up, centre, mean and spread down
    yield from fit.before
    if fit.recipe.penalty == "none":
        yield Spent("products of columns", 1, N * half(columns + 1))
    if fit.errors is not None:
        yield Spent("errors", 1, N * (p + half(p) + isinstance(fit.estimator.loss, Squared)))
    yield Spent("the table of silos", 1, N * (p + 1) + sum(map(entries, fit.evaluation.silos.values())))
    exchanges, numbers = (sum(getattr(one, name) for one in fit.without) for name in ("exchanges", "numbers"))
    if exchanges:
        yield Spent("the fits without a silo", exchanges, numbers)


def numbers_in_summaries(fit: Fit) -> int:
    """Numbers in the summaries of silos, and in the schema that they get."""
    up = 0
    for one in fit.summaries:
        up += 3 + sum(5 + len(column.levels) for column in (*one.columns.values(), one.target))
    return up + len(fit.summaries) * sum(feature.kind == "numeric" for feature in fit.schema.features)


def entries(sums: Sums) -> int:
    """Numbers in the sums that one silo sends about a model."""
    return sum(np.size(getattr(sums, field.name)) for field in fields(sums))


def half(n: int) -> int:
    """Numbers in a symmetric matrix."""
    return n * (n + 1) // 2


def threshold(linear: Fitted, silos: Sequence[SiloRows]) -> Spent:
    """Huber's delta: a linear fit, and its squared residuals."""
    columns = silos[0].X.shape[1]
    return Spent("huber's delta", linear.n_exchanges_ + 1, linear.numbers_ + len(silos) * (columns + 2))


def cross_validation(
    path: PenaltyPath, models: Sequence[Fitted], folds: Sequence[Fold], silos: Sequence[SiloRows], l1: bool
) -> Spent:
    """All fits on the path, the held-out loss of each, and with an l1 part where the path begins."""
    loss, columns = models[0].loss, silos[0].X.shape[1]
    p = models[0].outputs * (columns + 1)
    exchanges = path.exchanges + path.losses.size
    numbers = sum(getattr(model, "numbers_", 0) for model in models)
    numbers += len(path.values) * sum(len(fold.test) for fold in folds) * (p + 1)
    if l1 and (isinstance(loss, Huber) or not loss.smooth):  # the largest entry, or moments
        exchanges, numbers = exchanges + 1, numbers + len(silos) * (1 if loss.smooth else 3 * columns + 1)
    elif l1:  # the best intercept, and the gradient there
        exchanges, numbers = exchanges + 2, numbers + len(silos) * (p // (columns + 1) + 2 * p)
    return Spent("cross-validation", exchanges, numbers)
