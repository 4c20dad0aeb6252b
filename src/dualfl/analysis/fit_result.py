"""What is asked of a whole fit beyond its recipe, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dualfl.analysis.agreeing import Overview, OwnCounts
from dualfl.analysis.fitted import Fitted
from dualfl.analysis.influence import Without
from dualfl.analysis.models import Recipe
from dualfl.estimators import standard_errors
from dualfl.estimators.metrics import Evaluation
from dualfl.estimators.penalty_path import PenaltyPath
from dualfl.estimators.statistics import Coefficients, FitStatistics, coefficients, ratio_name
from dualfl.silos.ledger import Spent
from dualfl.silos.survival_tests import ChiSquare
from dualfl.tables.encoding import Scaling
from dualfl.tables.rules import USUAL_RULES, Rules
from dualfl.tables.schema import Request, Schema
from dualfl.tables.terms import Term
from dualfl.typing import Array


@dataclass(frozen=True)
class Wishes:
    """What is asked beyond the recipe."""

    request: Request
    coding: str | None = None  # None: "full" where the penalty selects, "reference" otherwise
    positive: str | None = None
    allow_empty: bool = False
    standardise: bool = True
    cross_validate: bool = False
    cv: int | str = 5
    rule: str = "min"
    alpha_of_sum: bool = False  # whether alpha stands beside the sum of the losses, not their mean
    level: float = 0.95
    influence: bool = True
    first: str = ""  # the silo in whose order columns come; "" is the first by name
    said_nothing: bool = False  # about the penalty, so that it is the small ridge
    terms: tuple[Term, ...] = ()  # of a formula; without one, every column is a term
    rules: Rules = USUAL_RULES  # by which new files are read
    warnings: tuple[str, ...] = ()  # what is odd about the tables, a sentence each


@dataclass(frozen=True, eq=False)
class Fit:
    """What came of it. Arrays are features and, last, the intercept, by outputs, for the columns as they are."""

    recipe: Recipe
    wishes: Wishes
    silos: tuple[str, ...]
    schema: Schema
    overview: Overview
    own: tuple[OwnCounts | None, ...]  # of each silo; None: withheld
    scaling: Scaling
    estimator: Fitted  # of the scaled columns
    theta: Array
    errors: standard_errors.Errors | None
    no_errors: str
    losses: tuple[float | None, ...]  # of each silo
    loss: float  # of all rows
    evaluation: Evaluation
    without: tuple[Without, ...]
    path: PenaltyPath | None
    notes: tuple[str, ...]
    coding: str
    statistics: FitStatistics | None = None
    more: Mapping[str, Any] = field(default_factory=dict)  # `checks`, `baselines`, `site effect`, where there are any
    spent: tuple[Spent, ...] = ()
    far: bool = False  # silos of a deployment, not files of this machine

    @property
    def place(self) -> str:
        """What a silo is called."""
        return "silo" if self.far else "file"

    def in_order(self, names: Sequence[str]) -> Fit:
        """With the silos in this order, where they are shown."""
        places = [self.silos.index(name) for name in names]
        each: dict[str, Any] = {
            name: tuple(getattr(self, name)[i] for i in places) for name in ("silos", "own", "losses")
        }
        without = tuple(sorted(self.without, key=lambda one: list(names).index(one.silo)))
        scores = {name: self.evaluation.silos[name] for name in names if name in self.evaluation.silos}
        return replace(self, **each, without=without, evaluation=replace(self.evaluation, silos=scores))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the lines of theta."""
        return self.estimator.names(self.schema.names)

    @property
    def checks(self) -> tuple[ChiSquare, ...]:
        """Of proportional hazards: one for each coefficient and one for all."""
        found: tuple[ChiSquare, ...] = self.more.get("checks", ())
        return found

    @property
    def events(self) -> int | None:
        """Rows of the second class, where there are two."""
        return int(self.overview.classes[1]) if len(self.schema.classes) == 2 else None

    @property
    def coefficients(self) -> Coefficients | None:
        """Tests and intervals of all entries of theta, one behind the other."""
        if self.errors is None:
            return None
        return coefficients(self.theta.ravel(), self.errors.covariance, self.errors.df, self.wishes.level)

    @property
    def ratio_name(self) -> str:
        """What exp of a coefficient is called; empty where it means nothing."""
        return ratio_name(self.estimator.loss)

    @property
    def rows(self) -> int:
        return self.overview.rows

    @property
    def outputs(self) -> tuple[str, ...]:
        """What each column of theta is about: a class, or nothing where there is one number."""
        if not self.schema.classes or "time" in self.schema.roles or self.recipe.model == "ordinal":
            return ("",)
        return self.schema.classes[1:] if self.theta.shape[1] == 1 else self.schema.classes

    @property
    def standard_errors(self) -> Array | None:
        return None if self.errors is None else self.errors.standard.reshape(self.theta.shape)

    def moved(self, without: Without) -> Array | None:
        """By how much leaving the silo out changes each coefficient."""
        return None if without.theta is None else self.estimator.back(self.scaling) @ without.theta - self.theta

    def in_errors(self, change: Array) -> Array:
        """Changes in standard errors; nan where there is none, or none but 0, as for a perfect fit."""
        errors, unknown = self.standard_errors, np.full(change.shape, np.nan)
        return unknown if errors is None else np.divide(change, errors, out=unknown, where=errors > 0)
