"""How much each silo moved the answer: the fit without it, side by side with the fit with it.

The penalty and the scaling stay what they are; only the rows of the silo are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dualfl.analysis.agreeing import Agreed, OwnCounts
from dualfl.analysis.fitted import Fitted
from dualfl.analysis.models import Recipe
from dualfl.errors import InputError
from dualfl.estimators.standard_errors import check_determined
from dualfl.objectives import Cox
from dualfl.silos.costs import Rows, Sample
from dualfl.silos.questions import Conversation, Exchange, Query, Silos, measured_samples, measurement
from dualfl.silos.verbs import whole
from dualfl.typing import Array


@dataclass(frozen=True, eq=False)
class Without:
    """The coefficients without one silo, features and the intercept by outputs, for scaled columns; or why there are
    none."""

    silo: str
    theta: Array | None = None
    reason: str = ""


def left_out(
    silos: Silos,
    model: Fitted,
    whole_sample: Sample,
    agreed: Agreed,
    products_of: Callable[[Recipe, Rows], Query],
    recipe: Recipe,
) -> Conversation[list[Sample | str]]:
    """What the others have, for each silo that shows its own counts; or why there is no fit without it."""
    rows = [Rows("without", silo=name) for name in silos.names]
    counted = model.loss.nonnegative and whole_sample.mass == agreed.overview.rows  # enough is known of the others
    queries = [] if counted else [measurement(rows, model.loss, model._class_count, agreed.overview.target_mean)]
    if model.ridge == model.l1 == 0:
        queries += [products_of(recipe, one) for one in rows]
    answers = list((yield Exchange("the fits without a silo", tuple(queries)))) if queries else []
    measured = [] if counted else measured_samples(rows, answers.pop(0))
    found: list[Sample | str] = []
    for i, (one, own) in enumerate(zip(rows, agreed.own)):
        assert own is not None
        sample = others(one, whole_sample, own, agreed) if counted else measured[i]
        products = whole(np.asarray(answers[i]["products"])) if answers else None
        found.append(obstacle(sample, agreed, model, products, recipe) or sample)
    return found


def others(rows: Rows, total: Sample, own: OwnCounts, agreed: Agreed) -> Sample:
    """What is left of all rows without those of one silo."""
    n = total.n - own.rows
    classes = total.classes - own.classes
    targets = float(classes @ np.arange(len(classes))) if len(classes) else total.targets - own.target
    squares = agreed.overview.target_squares - own.target_squares
    return Sample(rows, float(n), n, targets, 0.0, classes, squares)


def obstacle(sample: Sample, agreed: Agreed, model: Fitted, products: Array | None, recipe: Recipe) -> str:
    """Why the others do not determine a model."""
    classes = model._class_count
    if not sample.mass > 0:
        return "no other silo has a row that counts"
    if isinstance(model.loss, Cox):
        if not sample.classes[1] > 0:
            return "no other silo has an event"
    elif classes and np.count_nonzero(sample.classes) < classes:
        return "no other silo has one of the classes"
    overview = agreed.overview
    spread = sample.squares - sample.n * (sample.mean - overview.target_mean) ** 2
    if not classes and spread <= 64 * np.finfo(float).eps * overview.target_squares:
        return "the others have one value of the target only"
    if products is not None:
        try:
            strata = agreed.schema.roles.get("strata", "")
            check_determined(products, agreed.schema.names, recipe.within_silos, strata)
        except InputError as error:
            return str(error)
    return ""
