"""How much each silo moved the answer: the fit without it, side by side with the fit with it.

The penalty and the scaling stay what they are; only the rows of the silo are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

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


def left_out(
    silos: Silos, model: Fitted, columns: Sequence[str], target_mean: float
) -> Conversation[list[Sample | str]]:
    """What the others have, for each silo; or why there is no fit without it."""
    classes = model._class_count
    rows = [Rows("without", silo=name) for name in silos.names]
    queries = [measurement(rows, model.loss, classes, target_mean)]
    if model.ridge == model.l1 == 0:
        queries += [Query("products", {"rows": asdict(one)}) for one in rows]
    answers = yield Exchange("the fits without a silo", tuple(queries))
    found: list[Sample | str] = []
    for i, sample in enumerate(measured_samples(rows, answers[0])):
        products = whole(np.asarray(answers[1 + i]["products"])) if len(answers) > 1 else None
        found.append(obstacle(sample, classes, products, columns) or sample)
    return found


def obstacle(sample: Sample, classes: int, products: Array | None, columns: Sequence[str]) -> str:
    """Why the others do not determine a model."""
    if classes and np.count_nonzero(sample.classes) < classes:
        return "no other silo has one of the classes"
    if not classes and sample.squares <= sample.n * (np.finfo(float).eps * sample.mean) ** 2:
        return "the others have one value of the target only"
    if products is not None:
        try:
            check_determined(products, columns)
        except InputError as error:
            return str(error)
    return ""


def stacked(model: Any) -> Array:
    """Coefficients and, last, intercepts; one column an output."""
    return np.vstack([np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)[None]])
