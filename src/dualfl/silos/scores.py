"""How the sums of an evaluation travel.

A silo never sends a row, a prediction or a rank. What it sends is in `classification_scores`, `regression_scores` and
`survival_scores`; there `+` joins the sums of silos.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from dualfl.silos.classification_scores import ClassificationSums
from dualfl.silos.regression_scores import RegressionSums
from dualfl.silos.survival_scores import SurvivalSums

Sums = ClassificationSums | RegressionSums | SurvivalSums


def to_wire(sums: Sums, centre: float, counts: bool) -> dict[str, Any]:
    """Numbers that add up over silos; targets around a centre that all know. Only `counts` have a deviance, and only
    probabilities a log loss."""
    wire = {one.name: getattr(sums, one.name) for one in fields(sums)}
    if isinstance(sums, RegressionSums):
        apart = sums.y_mean - centre
        wire |= {"y_mean": sums.mass * apart, "y_squares": sums.y_squares + sums.mass * apart**2}
        del wire["quantile"]
        if not counts:
            del wire["deviance_sum"]
    wire["n"] = float(sums.n)
    return {name: value for name, value in wire.items() if not np.isnan(value).any()}


def from_wire(wire: Mapping[str, Any], classes: bool, quantile: float, centre: float) -> Sums:
    """The way back, of one silo or of all."""
    given = dict(wire) | {"n": round(float(wire["n"]))}
    if "concordant" in given:
        return SurvivalSums(**given)
    if classes:
        return ClassificationSums(**{"log_loss_sum": np.nan, **given})
    mass = float(given["mass"])
    apart = float(given["y_mean"]) / mass
    squares = max(float(given["y_squares"]) - mass * apart**2, 0.0)
    found = {"deviance_sum": np.nan, **given, "y_mean": centre + apart, "y_squares": squares}
    return RegressionSums(**found, quantile=quantile)
