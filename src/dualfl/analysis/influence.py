"""How much each silo moved the answer: the fit without it, side by side with the fit with it.

The penalty and the scaling stay what they are; only the rows of the silo are left out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dualfl.analysis.agreeing import Agreed, OwnCounts
from dualfl.analysis.inference import check_determined
from dualfl.analysis.models import Fitted
from dualfl.errors import InputError
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


def left_out(silos: Silos, model: Fitted, whole_sample: Sample, agreed: Agreed) -> Conversation[list[Sample | str]]:
    """What the others have, for each silo that shows its own counts; or why there is no fit without it."""
    rows = [Rows("without", silo=name) for name in silos.names]
    queries = [] if model.loss.nonnegative else [measurement(rows, model.loss, model._class_count)]
    if model.ridge == model.l1 == 0:
        queries += [Query("products", {"rows": asdict(one)}) for one in rows]
    answers = list((yield Exchange("the fits without a silo", tuple(queries)))) if queries else []
    least = [0.0] * len(rows) if model.loss.nonnegative else [s.least for s in measured_samples(rows, answers.pop(0))]
    found: list[Sample | str] = []
    for i, (one, own) in enumerate(zip(rows, agreed.own)):
        assert own is not None
        sample = replace(others(one, whole_sample, own, agreed), least=least[i])
        products = whole(np.asarray(answers[i]["products"])) if answers else None
        found.append(obstacle(sample, agreed, model._class_count, products) or sample)
    return found


def others(rows: Rows, total: Sample, own: OwnCounts, agreed: Agreed) -> Sample:
    """What is left of all rows without those of one silo."""
    n = total.n - own.rows
    classes = total.classes - own.classes
    targets = float(classes @ np.arange(len(classes))) if len(classes) else total.targets - own.target
    squares = agreed.overview.target_squares - own.target_squares
    return Sample(rows, float(n), n, targets, 0.0, classes, squares)


def obstacle(sample: Sample, agreed: Agreed, classes: int, products: Array | None) -> str:
    """Why the others do not determine a model."""
    if classes and np.count_nonzero(sample.classes) < classes:
        return "no other silo has one of the classes"
    overview = agreed.overview
    spread = sample.squares - sample.n * (sample.mean - overview.target_mean) ** 2
    if not classes and spread <= 64 * np.finfo(float).eps * overview.target_squares:
        return "the others have one value of the target only"
    if products is not None:
        try:
            check_determined(products, agreed.schema.names)
        except InputError as error:
            return str(error)
    return ""


def stacked(model: Any) -> Array:
    """Coefficients and, last, intercepts; one column an output."""
    return np.vstack([np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)[None]])
