"""Where a path of penalties begins: the least l1 penalty at which all coefficients are zero, from sums over silos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.estimators.folds import PURPOSE
from dualfl.objectives import (
    CLogLog,
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
from dualfl.silos.costs import Cost, Sample
from dualfl.silos.questions import Conversation, Exchange, Query, Silos
from dualfl.typing import Array

STEPS, FLAT = 60, 1e-6  # of the search for an intercept, and where its slope counts as zero


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
        for j, (cost, start) in enumerate(zip(costs, starts)):  # an offset, which the formulas do not know
            starts[j] = np.append(start[:-1], (yield from searched_intercept(cost, float(start[-1]))))
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
