"""The whole fit: silos in, a model with its proof, its errors and the part that each silo had in it out.

It is one conversation (`dualfl.silos`): from its description to questions, in an order that depends on the answers
alone. So it runs the same on files of this machine and on silos far away, and whoever knows the description and the
answers can tell what must be asked next.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dualfl.analysis import inference
from dualfl.analysis.agreeing import Agreed, ColumnWishes, Overview, OwnCounts, agreeing
from dualfl.analysis.influence import Without, left_out, stacked
from dualfl.analysis.models import SMALL_RIDGE, Fitted, Recipe
from dualfl.engines.engine import Result
from dualfl.errors import DualflError, InputError, NoMinimiser
from dualfl.estimators.metrics import Evaluation
from dualfl.estimators.path import Dealt, PenaltyPath, following, make_folds
from dualfl.estimators.solving import Task, solving, warn_unless_certified
from dualfl.objectives import Logistic, Poisson, Softmax, Squared
from dualfl.silos.chamber import Chamber, Dealing
from dualfl.silos.costs import ALL, Cost, Sample
from dualfl.silos.here import SilosHere, added
from dualfl.silos.ledger import Spent
from dualfl.silos.predictor import Predictor
from dualfl.silos.questions import Conversation, Exchange, Query, Silos, drive, measuring
from dualfl.silos.scores import BINS, from_wire
from dualfl.silos.verbs import whole
from dualfl.tables.encoding import Scaling
from dualfl.tables.reading import Table
from dualfl.tables.rules import USUAL_RULES, Rules
from dualfl.tables.schema import Request, Schema, listed_briefly
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
    silos: tuple[str, ...]
    schema: Schema
    overview: Overview
    own: tuple[OwnCounts | None, ...]  # of each silo; None: withheld
    scaling: Scaling
    estimator: Fitted  # of the scaled columns
    theta: Array
    errors: inference.Errors | None
    no_errors: str
    losses: tuple[float | None, ...]  # of each silo
    loss: float  # of all rows
    evaluation: Evaluation
    without: tuple[Without, ...]
    path: PenaltyPath | None
    notes: tuple[str, ...]
    coding: str
    spent: tuple[Spent, ...] = ()
    far: bool = False  # silos of a deployment, not files of this machine

    @property
    def place(self) -> str:
        """What a silo is called."""
        return "silo" if self.far else "file"

    @property
    def rows(self) -> int:
        return self.overview.rows

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
    silos = SilosHere([Chamber(table, Dealing(0, j)) for j, table in enumerate(tables)])
    fit = drive(fitting(silos, recipe, wishes, progress=progress, say=say), silos)
    return replace(fit, spent=silos.ledger.entries)


def fitting(
    silos: Silos,
    recipe: Recipe,
    wishes: Wishes,
    *,
    progress: bool = False,
    say: Callable[[str], None] | None = None,
) -> Conversation[Fit]:
    """The whole fit, wherever the silos are."""
    coding = wishes.coding or ("full" if recipe.share > 0 else "reference")
    if coding == "full" and recipe.penalty == "none":
        raise InputError(
            "--coding full needs a penalty, because levels add up to 1; take --coding reference or a penalty."
        )
    agreed = yield from agreeing(silos, column_wishes(recipe, wishes, coding))
    check_classes(agreed.schema, recipe)
    yield Exchange("the fit", (agreed.note,))
    classes = len(agreed.schema.classes)
    sample = yield from whole_sample(silos, recipe, agreed)

    recipe = yield from with_delta(silos, recipe, sample)
    path = None
    if wishes.cross_validate:
        if say is not None:
            say("choosing alpha by cross-validation")
        path = yield from choosing(silos, recipe, wishes, classes, sample)
        recipe = replace(recipe, alpha=path.value)
    products = np.zeros((0, 0))
    if recipe.penalty == "none":
        (answer,) = yield Exchange("products of columns", (Query("products", {"rows": {}}),))
        products = whole(np.asarray(answer["products"]))
        inference.check_determined(products, agreed.schema.names)
    estimator, without, notes = yield from solved(silos, recipe, wishes, agreed, sample, progress)
    return (
        yield from described(silos, recipe, wishes, agreed, estimator, tuple(without), path, notes, coding, products)
    )


def column_wishes(recipe: Recipe, wishes: Wishes, coding: str) -> ColumnWishes:
    return ColumnWishes(
        wishes.request, coding, wishes.positive, wishes.allow_empty, wishes.standardise, least_target(recipe)
    )


def least_target(recipe: Recipe) -> float | None:
    """What no target may be below, for models of counts."""
    return 0.0 if recipe.model == "poisson" else None


def check_classes(schema: Schema, recipe: Recipe) -> None:
    """Targets that this model can be fitted to."""
    if recipe.model == "logistic" and len(schema.classes) > 2:
        raise InputError(
            f"Column {schema.target!r} has {len(schema.classes)} classes ({listed_briefly(schema.classes)}), and "
            "logistic is for two; take --model multinomial, or svm."
        )


def whole_sample(silos: Silos, recipe: Recipe, agreed: Agreed) -> Conversation[Sample]:
    """All rows. What was counted tells enough, but for losses that have no least value of 0."""
    overview, classes = agreed.overview, len(agreed.schema.classes)
    if recipe.model != "huber" and not recipe.loss(classes).nonnegative:
        (sample,) = yield from measuring(silos, [ALL], recipe.loss(classes), classes, "the fit")
        return sample
    rows = overview.rows
    total = rows * overview.target_mean if not classes else float(overview.classes @ np.arange(classes))
    return Sample(ALL, float(rows), rows, total, 0.0, overview.classes)


def with_delta(silos: Silos, recipe: Recipe, sample: Sample) -> Conversation[Recipe]:
    """Huber's threshold in the unit of the target: 1.35 times the spread around a linear fit, from sums."""
    if recipe.model != "huber" or recipe.delta is not None:
        return recipe
    linear = Recipe("linear", "l2", recipe.ridge or SMALL_RIDGE, tol=recipe.tol).estimator()
    ((result,),) = yield from linear._solving(silos, [Task(linear, sample)], "huber's delta")
    cost = replace(linear._costs(sample)[0], ridge=0.0, shift=0.0)
    query = Query("losses", {"costs": [cost.as_json()], "thetas": [result.theta]})
    (answer,) = yield Exchange("huber's delta", (query,))
    spread = np.sqrt(2 * float(np.asarray(answer["losses"])[0]) / sample.mass)
    return replace(recipe, delta=float(TUNING * spread) or 1.0)


# -- the penalty ------------------------------------------------------------------------------------------


def choosing(silos: Silos, recipe: Recipe, wishes: Wishes, classes: int, sample: Sample) -> Conversation[PenaltyPath]:
    """Cross-validation inside the silos, or over them."""
    if recipe.penalty == "none":
        raise InputError("--alpha cv chooses a penalty, and --penalty is none; take --penalty l2, l1 or elastic-net.")
    if wishes.cv == "silo" and len(silos.withheld) == 1:
        raise InputError(
            "--cv silo shows how well the others' model does at each silo, and one silo withholds its numbers, which "
            "those of the others would give away; take --cv 5."
        )

    def model(alpha: float) -> Any:
        return replace(recipe, alpha=alpha).estimator(classes)

    def values(dealt: Dealt) -> Conversation[Array]:
        return penalties(silos, recipe, model(1.0), dealt)

    folds = make_folds(silos.names, wishes.cv)
    path, _ = yield from following(silos, model, values, folds, "alpha", wishes.rule)
    return path


def penalties(silos: Silos, recipe: Recipe, model: Fitted, dealt: Dealt) -> Conversation[Array]:
    """From the strongest to the weakest: with an l1 part, from where nothing is left."""
    count = PENALTIES[recipe.share > 0]
    if recipe.share == 0:
        return np.geomspace(LARGEST_RIDGE, SMALLEST_RIDGE, count)
    strongest = yield from dealt.strongest(silos, model)
    path: Array = np.geomspace(1.0, WEAKEST, count) * (strongest or 1.0) / recipe.share
    return path


# -- the model --------------------------------------------------------------------------------------------


def solved(
    silos: Silos, recipe: Recipe, wishes: Wishes, agreed: Agreed, sample: Sample, progress: bool
) -> Conversation[tuple[Fitted, list[Without], list[str]]]:
    """The model and, side by side with it, the models without each silo."""
    classes = len(agreed.schema.classes)
    estimator = recipe.estimator(classes, progress)
    tasks, samples = [Task(estimator, sample)], []
    if wishes.influence and len(silos.names) > 1 and not silos.withheld:
        samples = yield from left_out(silos, estimator, sample, agreed)
        tasks += [Task(recipe.estimator(classes), one) for one in samples if not isinstance(one, str)]
    found = yield from solving(silos, tasks)
    results = found[0]
    if isinstance(results, NoMinimiser) and recipe.penalty == "none":
        raise InputError((yield from separating_columns(silos, recipe, agreed, sample))) from results
    if isinstance(results, DualflError):
        raise results
    yield from estimator._inspecting(silos, tasks[0], results)
    others = iter(zip(tasks[1:], found[1:]))
    without = [
        Without(name, reason=one) if isinstance(one, str) else refitted(name, *next(others))
        for name, one in zip(silos.names, samples)
    ]
    return estimator, without, kept(estimator, results, sample, recipe)


def refitted(name: str, task: Task, found: list[Result] | DualflError) -> Without:
    if isinstance(found, DualflError):
        return Without(name, reason=str(found))
    model: Any = task.model
    model._read(found)
    return Without(name, stacked(model))


def kept(estimator: Fitted, results: list[Result], sample: Sample, recipe: Recipe) -> list[str]:
    """Keep the results in the estimator; what it warns of."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", ConvergenceWarning)
        limits = estimator._limits(sample)
        warn_unless_certified(results, limits)
        estimator._read(results, limits.offset)
    notes = [str(one.message) for one in heard if issubclass(one.category, ConvergenceWarning)]
    return [note for note in notes if estimator.certificate_ is not None or recipe.penalty != "none"]


def separating_columns(silos: Silos, recipe: Recipe, agreed: Agreed, sample: Sample) -> Conversation[str]:
    """Which columns have no finite coefficients: a faint ridge keeps them finite, and the likelihood is flat there."""
    faint = replace(recipe, penalty="l2", alpha=FAINT, tol=1e-4).estimator(len(agreed.schema.classes))
    (results,) = yield from faint._solving(silos, [Task(faint, sample)])
    cost = replace(faint._costs(sample)[0], ridge=0.0, shift=0.0).as_json()
    information, products = yield Exchange(
        "the fit", (Query("information", {"cost": cost, "theta": results[0].theta}), Query("products", {"rows": {}}))
    )
    H, G = whole(np.asarray(information["hessian"])), whole(np.asarray(products["products"]))
    involved = inference.flattest(H, G, faint.loss, agreed.schema.names)[1]
    return separation_sentence(involved, silos, agreed.schema)


def separation_sentence(involved: str, silos: Silos, schema: Schema) -> str:
    what = "class" if schema.classes else "value"
    return (
        f"Some values of the columns {involved} in {', '.join(silos.names[:4])} occur with one {what} "
        f"of {schema.target!r} only, so without a penalty the coefficients would grow for ever; take --penalty l2, "
        "or leave the columns out with --drop."
    )


# -- what is said of it -----------------------------------------------------------------------------------


def described(
    silos: Silos,
    recipe: Recipe,
    wishes: Wishes,
    agreed: Agreed,
    estimator: Fitted,
    without: tuple[Without, ...],
    path: PenaltyPath | None,
    notes: Sequence[str],
    coding: str,
    products: Array,
) -> Conversation[Fit]:
    """Errors, losses and scores, of all rows and of each silo that shows its own: one exchange."""
    classes = len(agreed.schema.classes)
    theta, loss = stacked(estimator), estimator.loss
    reason = inference.obstacle(loss, recipe.l1, theta.size, agreed.overview.rows)
    costs = [Cost(loss, positive=positive) for positive in estimator._positives()]
    thetas = [np.ascontiguousarray(column) for column in (theta.T if len(costs) > 1 else [theta.ravel()])]
    given = {
        "model": predictor(estimator, classes).as_json(),
        "rows": {},
        "bins": BINS,
        "quantile": recipe.quantile,
        "centre": agreed.overview.target_mean,
    }
    losses = {"costs": [one.as_json() for one in costs], "thetas": thetas}
    about = [Query("evaluate", given), Query("losses", losses)]
    further = [] if reason else [Query("information", {"cost": costs[0].as_json(), "theta": thetas[0]})]
    own, (scores, lost), rest = yield from of_each_and_all(silos, about, further)
    errors = None if reason else make_errors(silos, recipe, wishes, agreed, loss, rest[0], products)
    how = classes > 0, recipe.quantile, agreed.overview.target_mean
    evaluation = Evaluation(
        {name: from_wire(one, *how) for name, one in zip(silos.names, own[0]) if one is not None},
        from_wire(scores, *how),
    )
    counts = [None if one is None else one.rows for one in agreed.own]
    return Fit(
        recipe,
        wishes,
        silos.names,
        agreed.schema,
        agreed.overview,
        agreed.own,
        agreed.scaling,
        estimator,
        agreed.scaling.back @ theta,
        errors,
        reason,
        tuple(None if one is None or not n else float(np.sum(one["losses"])) / n for one, n in zip(own[1], counts)),
        float(np.sum(lost["losses"])) / agreed.overview.rows,
        evaluation,
        without,
        path,
        tuple(notes),
        coding,
    )


def of_each_and_all(
    silos: Silos, queries: Sequence[Query], further: Sequence[Query]
) -> Conversation[tuple[list[Sequence[Any]], list[Any], list[Any]]]:
    """The answers of each silo that shows its own, and of all together; and those to what is asked of all only.

    If one silo alone withholds its numbers, those of the others would give them away, so nobody is asked.
    """
    each = [replace(one, reduce="each") for one in queries] if len(silos.withheld) != 1 else []
    total = list(queries) if silos.withheld else []
    answers = list((yield Exchange("errors and the table of silos", (*each, *total, *further))))
    own = answers[: len(each)] or [[None] * len(silos.names)] * len(queries)
    whole = answers[len(each) : len(each) + len(total)] or [added(one) for one in own]
    return own, whole, answers[len(answers) - len(further) :]


def predictor(estimator: Fitted, classes: int) -> Predictor:
    """The model as silos get it."""
    W, b = np.atleast_2d(estimator.coef_), np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64))
    return Predictor.from_json({"kind": estimator.kind, "W": W, "b": b, "classes": classes})


def make_errors(
    silos: Silos,
    recipe: Recipe,
    wishes: Wishes,
    agreed: Agreed,
    loss: Any,
    information: Any,
    products: Array,
) -> inference.Errors:
    """Standard errors for the columns as they are."""
    H = whole(np.asarray(information["hessian"]))
    if recipe.penalty == "none" and isinstance(loss, Logistic | Softmax | Poisson):
        curvature, involved = inference.flattest(H, products, loss, agreed.schema.names)
        if curvature < inference.ENDLESS:
            raise InputError(separation_sentence(involved, silos, agreed.schema))
    residuals = float(information["residuals"]) if isinstance(loss, Squared) else 0.0
    errors = inference.standard_errors(H, loss, recipe.ridge, agreed.overview.rows, residuals, wishes.level)
    back = np.kron(agreed.scaling.back, np.eye(loss.outputs))
    return replace(errors, covariance=back @ errors.covariance @ back.T)
