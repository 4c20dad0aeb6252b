"""The whole fit: tables of silos in, a model with its proof, its errors and the part that each silo had in it out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dualfl.analysis import inference
from dualfl.analysis.influence import Without, drop_each, stacked
from dualfl.analysis.ledger import Spent, cross_validation, threshold
from dualfl.analysis.models import SMALL_RIDGE, Fitted, Recipe
from dualfl.errors import InputError, NoMinimiser
from dualfl.estimators.metrics import Evaluation, evaluate
from dualfl.estimators.path import PenaltyPath, follow, held_out, make_folds, strongest_l1
from dualfl.estimators.silos import SiloRows, total_mass
from dualfl.objectives import Huber, Logistic, Poisson, Softmax, Squared
from dualfl.tables.encoding import Scaling, features, scaling, targets
from dualfl.tables.reading import Table
from dualfl.tables.rules import USUAL_RULES, Rules
from dualfl.tables.schema import Request, Schema, Summary, agree, listed_briefly, summarise, used
from dualfl.typing import Array

WEAKEST, LARGEST_RIDGE, SMALLEST_RIDGE = 1e-3, 10.0, 1e-4  # of the paths of penalties
PENALTIES = {True: 20, False: 11}  # so many on a path with an l1 part, and without
FAINT = 1e-6  # a ridge that only keeps coefficients finite
TUNING = 1.35  # Huber's: 95 % as good as least squares where there are no outliers


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
    level: float = 0.95
    influence: bool = True
    said_nothing: bool = False  # about the penalty, so that it is the small ridge
    rules: Rules = USUAL_RULES  # by which new files are read
    warnings: tuple[str, ...] = ()  # what is odd about the tables, a sentence each


@dataclass(frozen=True, eq=False)
class Fit:
    """What came of it. Arrays are features and, last, the intercept, by outputs, for the columns as they are."""

    recipe: Recipe
    wishes: Wishes
    schema: Schema
    summaries: tuple[Summary, ...]
    scaling: Scaling
    estimator: Fitted  # of the scaled columns
    theta: Array
    errors: inference.Errors | None
    no_errors: str
    losses: tuple[float, ...]  # of each silo
    evaluation: Evaluation
    without: tuple[Without, ...]
    path: PenaltyPath | None
    notes: tuple[str, ...]
    coding: str
    before: tuple[Spent, ...] = ()  # what the choice of delta and of alpha took

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.summaries)

    @property
    def outputs(self) -> tuple[str, ...]:
        """What each column of theta is about: a class, or nothing where there is one number."""
        if not self.schema.classes:
            return ("",)
        return self.schema.classes[1:] if self.theta.shape[1] == 1 else self.schema.classes

    @property
    def standard_errors(self) -> Array | None:
        return None if self.errors is None else self.errors.standard.reshape(self.theta.shape)

    def moved(self, without: Without) -> Array | None:
        """By how much leaving the silo out changes each coefficient."""
        return None if without.theta is None else self.scaling.back @ without.theta - self.theta

    def in_errors(self, change: Array) -> Array:
        """Changes in standard errors; nan where there is none, or none but 0, as for a perfect fit."""
        errors, unknown = self.standard_errors, np.full(change.shape, np.nan)
        return unknown if errors is None else np.divide(change, errors, out=unknown, where=errors > 0)


def fit_tables(
    tables: Sequence[Table],
    recipe: Recipe,
    wishes: Wishes,
    *,
    progress: bool = False,
    say: Callable[[str], None] | None = None,
) -> Fit:
    """Fit one model to the tables of all silos, none of which sees another's rows."""
    request = wishes.request
    summaries = [summarise(table, request) for table in tables]
    coding = wishes.coding or ("full" if recipe.share > 0 else "reference")
    if coding == "full" and recipe.penalty == "none":
        raise InputError(
            "--coding full needs a penalty, because levels add up to 1; take --coding reference or a penalty."
        )
    schema = agree(summaries, request, coding=coding, positive=wishes.positive, allow_empty=wishes.allow_empty)
    check_targets(summaries, schema, recipe)
    kept = [used(table, request)[0] for table in tables]
    matrices = [features(table, schema) for table in kept]
    scaled = scaling(matrices, wishes.standardise)
    silos = [SiloRows(table.name, scaled.scaled(X), targets(table, schema)) for table, X in zip(kept, matrices)]

    recipe, before = with_delta(recipe, silos)
    path = None
    if wishes.cross_validate:
        if say is not None:
            say("choosing alpha by cross-validation")
        path, spent = choose_penalty(recipe, wishes, silos, len(schema.classes), progress)
        recipe, before = replace(recipe, alpha=path.value), [*before, spent]
    if recipe.penalty == "none":
        inference.check_determined(grams(silos), schema.names)
    try:
        estimator, notes = fit_estimator(recipe, silos, len(schema.classes), progress)
    except NoMinimiser as error:
        raise InputError(separating_columns(recipe, silos, schema)) from error
    errors, reason = infer_errors(recipe, wishes, estimator, silos, scaled, schema)
    without: list[Without] = []
    if wishes.influence:
        without = drop_each(lambda: recipe.estimator(len(schema.classes)), estimator, silos, schema.names, progress)
    thetas = [result.theta for result in estimator.results_]
    names = [silo.name for silo in silos]
    return Fit(
        recipe,
        wishes,
        schema,
        tuple(summaries),
        scaled,
        estimator,
        scaled.back @ stacked(estimator),
        errors,
        reason,
        tuple(held_out(estimator, thetas, [silo]) for silo in silos),
        evaluate(estimator, [(silo.X, silo.y) for silo in silos], names),
        tuple(without),
        path,
        tuple(notes),
        coding,
        tuple(before),
    )


def check_targets(summaries: Sequence[Summary], schema: Schema, recipe: Recipe) -> None:
    """Targets that this model can be fitted to."""
    if recipe.model == "logistic" and len(schema.classes) > 2:
        raise InputError(
            f"Column {schema.target!r} has {len(schema.classes)} classes ({listed_briefly(schema.classes)}), and "
            "logistic is for two; take --model multinomial, or svm."
        )
    if recipe.kind.classes:
        return
    if recipe.model == "poisson":
        for one in summaries:
            if one.target.least < 0:
                raise InputError(
                    f"{one.name} has {one.target.least:g} in column {schema.target!r}, the target, and poisson is for "
                    "counts >= 0; correct the file, or take --model linear."
                )
    if all(one.target.squares == 0 and one.target.mean == summaries[0].target.mean for one in summaries):
        raise InputError(
            f"Column {schema.target!r}, the target, is {summaries[0].target.mean:g} in every row of every file "
            f"({summaries[0].name}, ...), so there is nothing to explain; give another --target."
        )


def fit_estimator(
    recipe: Recipe, silos: list[SiloRows], classes: int, progress: bool = False
) -> tuple[Fitted, list[str]]:
    """The estimator, and what it warned of."""
    estimator = recipe.estimator(classes, progress)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", ConvergenceWarning)
        estimator.fit_silos([(silo.X, silo.y) for silo in silos], [silo.name for silo in silos])
    notes = [str(one.message) for one in heard if issubclass(one.category, ConvergenceWarning)]
    return estimator, [note for note in notes if estimator.certificate_ is not None or recipe.penalty != "none"]


def with_delta(recipe: Recipe, silos: list[SiloRows]) -> tuple[Recipe, list[Spent]]:
    """Huber's threshold in the unit of the target: 1.35 times the spread around a linear fit, from sums."""
    if recipe.model != "huber" or recipe.delta is not None:
        return recipe, []
    ridge = recipe.ridge or SMALL_RIDGE
    linear = Recipe("linear", "l2", ridge, tol=recipe.tol).estimator().fit_silos([(silo.X, silo.y) for silo in silos])
    theta = linear.results_[0].theta
    spread = np.sqrt(sum(inference.squared_residuals(silo, theta) for silo in silos) / total_mass(silos))
    return replace(recipe, delta=float(TUNING * spread) or 1.0), [threshold(linear, silos)]


# -- the penalty ------------------------------------------------------------------------------------------


def choose_penalty(
    recipe: Recipe, wishes: Wishes, silos: list[SiloRows], classes: int, progress: bool
) -> tuple[PenaltyPath, Spent]:
    """Cross-validation inside the silos, or over them; and what it took."""
    if recipe.penalty == "none":
        raise InputError("--alpha cv chooses a penalty, and --penalty is none; take --penalty l2, l1 or elastic-net.")

    made: list[Fitted] = []

    def model(alpha: float) -> Any:
        made.append(replace(recipe, alpha=alpha).estimator(classes))
        return made[-1]

    folds = make_folds(silos, wishes.cv, classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = follow(model, silos, penalties(recipe, model(1.0), silos), folds, "alpha", wishes.rule, progress)
    return path, cross_validation(path, made, folds, silos, recipe.share > 0)


def penalties(recipe: Recipe, model: Fitted, silos: list[SiloRows]) -> Array:
    """From the strongest to the weakest: with an l1 part, from where nothing is left."""
    count = PENALTIES[recipe.share > 0]
    if recipe.share == 0:
        return np.geomspace(LARGEST_RIDGE, SMALLEST_RIDGE, count)
    if isinstance(model.loss, Huber):  # slopes are at most delta and sum to 0, and columns have about unit spread
        strongest = model.loss.delta * max(float(np.abs(silo.X).max()) for silo in silos)
    else:
        strongest = strongest_l1(model, silos)
    return np.geomspace(1.0, WEAKEST, count) * (strongest or 1.0) / recipe.share


# -- errors -----------------------------------------------------------------------------------------------


def infer_errors(
    recipe: Recipe, wishes: Wishes, estimator: Fitted, silos: list[SiloRows], scaled: Scaling, schema: Schema
) -> tuple[inference.Errors | None, str]:
    """Standard errors for the columns as they are, or why there are none."""
    loss, theta = estimator.loss, stacked(estimator).ravel()
    reason = inference.obstacle(loss, recipe.l1, len(theta), sum(silo.n for silo in silos))
    if reason:
        return None, reason
    silos = estimator._problems(silos)[0]  # with targets as the loss takes them
    H = np.sum([inference.information(silo, loss, theta) for silo in silos], axis=0)
    if recipe.penalty == "none" and isinstance(loss, Logistic | Softmax | Poisson):
        curvature, involved = inference.flattest(H, grams(silos), loss, schema.names)
        if curvature < inference.ENDLESS:
            raise InputError(separation_sentence(involved, silos, schema))
    residuals = 0.0
    if isinstance(loss, Squared):
        residuals = sum(inference.squared_residuals(silo, theta) for silo in silos)
    errors = inference.standard_errors(H, loss, recipe.ridge, total_mass(silos), residuals, wishes.level)
    back = np.kron(scaled.back, np.eye(loss.outputs))
    return replace(errors, covariance=back @ errors.covariance @ back.T), ""


def grams(silos: Sequence[SiloRows]) -> Array:
    total: Array = np.sum([inference.gram(silo) for silo in silos], axis=0)
    return total


def separating_columns(recipe: Recipe, silos: list[SiloRows], schema: Schema) -> str:
    """Which columns have no finite coefficients: a faint ridge keeps them finite, and the likelihood is flat there."""
    faint = replace(recipe, penalty="l2", alpha=FAINT, tol=1e-4)
    estimator, _ = fit_estimator(faint, silos, len(schema.classes))
    theta, prepared = stacked(estimator).ravel(), estimator._problems(silos)[0]
    H = np.sum([inference.information(silo, estimator.loss, theta) for silo in prepared], axis=0)
    return separation_sentence(inference.flattest(H, grams(silos), estimator.loss, schema.names)[1], silos, schema)


def separation_sentence(involved: str, silos: Sequence[SiloRows], schema: Schema) -> str:
    what = "class" if schema.classes else "value"
    return (
        f"Some values of the columns {involved} in {', '.join(silo.name for silo in silos[:4])} occur with one {what} "
        f"of {schema.target!r} only, so without a penalty the coefficients would grow for ever; take --penalty l2, "
        "or leave the columns out with --drop."
    )
