"""The dispersion of a negative binomial model, searched for together with its coefficients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dualfl.engines.result import Result
from dualfl.errors import NoMinimiser
from dualfl.estimators.solving import Task
from dualfl.silos.costs import ALL, Cost, Sample
from dualfl.silos.questions import Conversation, Exchange, Query, Silos, measuring
from dualfl.typing import Array

STEPS, SETTLED = 60, 1e-9  # of the search for a dispersion
BOUNDLESS = 1e6  # sizes, in means of the counts, beyond which there is none: rounding hides what is left of it


class NoDispersion(NoMinimiser):
    """Counts that spread no more than Poisson's."""


def searching_dispersion(
    silos: Silos, model_of: Callable[[float], Any]
) -> Conversation[tuple[float, list[Result], Sample]]:
    """The most likely dispersion, and the model around it: one after the other, until both stay what they are."""
    dispersion, start = 1.0, None
    for _ in range(STEPS):
        model = model_of(dispersion)
        (sample,) = yield from measuring([ALL], model._cost(1.0).loss, 0, "the dispersion")
        (results,) = yield from model._solving(silos, [Task(model, sample, start)], "the dispersion")
        start = [results[0].theta]
        found = yield from likeliest(model._costs(sample)[0], results[0].theta, dispersion, sample.mean)
        settled, dispersion = abs(found / dispersion - 1) <= SETTLED, found
        if settled:
            break
    model_of(dispersion)
    return dispersion, results, sample


def likeliest(cost: Cost, theta: Array, dispersion: float, mean: float) -> Conversation[float]:
    """The dispersion that fits best around these means: Newton's method in the logarithm of the size."""
    size = 1 / dispersion
    for _ in range(STEPS):
        given = {"cost": cost.as_json(), "theta": theta, "size": size}
        (sums,) = yield Exchange("the dispersion", (Query("dispersion", given),))
        slope, bend = size * float(sums["slope"]), size**2 * float(sums["bend"]) - size * float(sums["slope"])
        step = slope / bend if bend > 0 else np.sign(slope)
        size *= float(np.exp(np.clip(step, -1.5, 1.5)))
        if not size < BOUNDLESS * max(mean, 1.0):
            raise NoDispersion(
                "The dispersion has no estimate, as the counts spread no more than Poisson's around this model: take "
                "Poisson's, or give one."
            )
        if abs(step) <= SETTLED / 10:
            break
    return 1 / size
