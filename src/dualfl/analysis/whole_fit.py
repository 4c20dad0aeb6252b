"""The whole fit: silos in, a model with its proof, its errors and the part that each silo had in it out.

It is one conversation (`dualfl.silos`): from its description to questions, in an order that depends on the answers
alone. So it runs the same on files of this machine and on silos far away, and whoever knows the description and the
answers can tell what must be asked next.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dualfl.analysis.agreeing import Agreed, ColumnWishes, agreeing
from dualfl.analysis.describing import Described, NullModel, describing, null_model
from dualfl.analysis.fit_result import Fit, Wishes
from dualfl.analysis.fitted import Fitted
from dualfl.analysis.influence import Without, left_out
from dualfl.analysis.model_kinds import SMALL_RIDGE
from dualfl.analysis.models import Recipe
from dualfl.analysis.separated import proven_separation, separation_sentence
from dualfl.analysis.site_effects import check_random, random_intercepts
from dualfl.engines.result import Result
from dualfl.errors import DualflError, InputError, NoMinimiser
from dualfl.estimators import standard_errors
from dualfl.estimators.dispersion import NoDispersion, searching_dispersion
from dualfl.estimators.folds import make_folds
from dualfl.estimators.path import Dealt, following
from dualfl.estimators.penalty_path import PenaltyPath
from dualfl.estimators.proving import certified
from dualfl.estimators.solving import Task, solving, warn_unless_certified
from dualfl.names import nearest
from dualfl.objectives import CLogLog
from dualfl.silos.chamber import Chamber, Dealing
from dualfl.silos.costs import ALL, Rows, Sample
from dualfl.silos.here import SilosHere
from dualfl.silos.questions import Conversation, Exchange, Query, Silos, drive, measuring
from dualfl.silos.verbs import LEAST, whole
from dualfl.tables.reading import Table
from dualfl.tables.schema import Schema, listed_briefly
from dualfl.typing import Array

__all__ = ["Fit", "Wishes", "fit_tables", "fitting"]

WEAKEST, LARGEST_RIDGE, SMALLEST_RIDGE = 1e-3, 10.0, 1e-4  # of the paths of penalties
PENALTIES = {True: 20, False: 11}  # so many on a path with an l1 part, and without
FAINT = 1e-6  # a ridge that only keeps coefficients finite
FINE = 1e-10  # tolerance of the fits of which a dispersion is searched
TUNING = 1.35  # Huber's: 95 % as good as least squares where there are no outliers


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
    coding = wishes.coding or ("full" if recipe.share > 0 and not wishes.terms else "reference")
    if coding == "full" and recipe.penalty == "none":
        raise InputError(
            "--coding full needs a penalty, because levels add up to 1; take --coding reference or a penalty."
        )
    if recipe.site_effect == "random":
        check_random(silos, wishes)
    agreed = yield from agreeing(silos, column_wishes(recipe, wishes, coding))
    check_classes(agreed.schema, recipe)
    yield Exchange("the fit", (agreed.note,))
    classes = len(agreed.schema.classes)
    sample = yield from whole_sample(recipe, wishes, agreed)
    if wishes.alpha_of_sum:
        recipe = replace(recipe, alpha=recipe.alpha / sample.mass)

    recipe = with_base(recipe, sample, agreed.schema)
    recipe = yield from with_delta(silos, recipe, sample)
    searched = recipe.model == "negative-binomial" and recipe.dispersion is None
    recipe, sample = yield from with_dispersion(silos, recipe, agreed, sample)
    path = None
    if wishes.cross_validate:
        if say is not None:
            say("choosing alpha by cross-validation")
        path = yield from choosing(silos, recipe, wishes, classes)
        recipe = replace(recipe, alpha=path.value)
    products = np.zeros((0, 0))
    if recipe.penalty == "none":
        (answer,) = yield Exchange("products of columns", (products_query(recipe),))
        products = whole(np.asarray(answer["products"]))
        strata = wishes.request.roles.get("strata", "")
        standard_errors.check_determined(products, agreed.schema.names, recipe.within_silos, strata)
    estimator, without, notes, null = yield from solved(silos, recipe, wishes, agreed, sample, progress)
    random = None
    if recipe.site_effect == "random":
        random = yield from random_intercepts(silos, estimator, agreed.overview.target_mean)
    about = Described(recipe, wishes, agreed, sample, estimator, tuple(without), path, tuple(notes), coding, products)
    return (yield from describing(silos, about, searched, null, random))


def column_wishes(recipe: Recipe, wishes: Wishes, coding: str) -> ColumnWishes:
    return ColumnWishes(
        wishes.request,
        coding,
        wishes.positive,
        wishes.allow_empty,
        wishes.standardise,
        least=least_target(recipe),
        first=wishes.first,
        terms=wishes.terms,
    )


def least_target(recipe: Recipe) -> float | None:
    """What no target may be below, for models of counts and amounts."""
    if recipe.model == "gamma":
        return LEAST[1]
    return 0.0 if recipe.model in ("poisson", "negative-binomial", "tweedie") else None


def products_query(recipe: Recipe, rows: Rows = ALL) -> Query:
    """Whether columns determine each other; within silos, where each has an intercept or a baseline of its own."""
    given: dict[str, Any] = {"rows": {} if rows == ALL else asdict(rows)}
    return Query("products", given | ({"within": True} if recipe.within_silos else {}))


def check_classes(schema: Schema, recipe: Recipe) -> None:
    """Targets that this model can be fitted to."""
    if recipe.model in ("logistic", "cloglog") and len(schema.classes) > 2:
        raise InputError(
            f"Column {schema.target!r} has {len(schema.classes)} classes ({listed_briefly(schema.classes)}), and "
            f"{recipe.model} is for two; take --model multinomial, or svm."
        )


def whole_sample(recipe: Recipe, wishes: Wishes, agreed: Agreed) -> Conversation[Sample]:
    """All rows. What was counted tells enough, but for rows with weights and losses that have no least value of 0."""
    overview, classes = agreed.overview, len(agreed.schema.classes)
    weighted = "weights" in wishes.request.roles
    if recipe.class_weight is not None:
        totals = overview.classes
        if weighted:
            (sample,) = yield from measuring([ALL], recipe.loss(classes), classes, "the fit")
            totals = sample.classes
        factors = class_factors(recipe.class_weight, totals, agreed.schema)
        yield Exchange("the fit", (Query("reweigh", {"factors": factors}, "none"),))
        weighted = True
    if recipe.model != "huber" and (weighted or not recipe.loss(classes).nonnegative):
        (sample,) = yield from measuring([ALL], recipe.loss(classes), classes, "the fit")
        if not sample.mass > 0:
            raise InputError("All weights are 0, so no row counts; give some rows a positive weight.")
        return sample
    rows = overview.rows
    total = rows * overview.target_mean if not classes else float(overview.classes @ np.arange(classes))
    return Sample(ALL, float(rows), rows, total, 0.0, overview.classes)


def class_factors(given: Any, totals: Array, schema: Schema) -> Array:
    """How much a row of each class counts: as was said, or so that all classes weigh the same."""
    if given == "balanced":
        return np.asarray(totals.sum() / (len(totals) * np.maximum(totals, 1e-300)))
    said = dict(given)
    unknown = [name for name in said if name not in schema.classes]
    if unknown:
        raise InputError(f"--class-weight: {nearest('class', unknown[0], schema.classes)}")
    return np.array([said.get(name, 1.0) for name in schema.classes])


def with_base(recipe: Recipe, sample: Sample, schema: Schema) -> Recipe:
    """The thresholds of an ordinal model without columns, from which it starts."""
    if recipe.model != "ordinal":
        return recipe
    empty = np.flatnonzero(~(sample.classes > 0))
    if len(empty):
        raise InputError(
            f"No row that counts has the level {schema.classes[empty[0]]!r} of column {schema.target!r}, so its "
            "thresholds are not determined; leave it out."
        )
    below = np.cumsum(sample.classes)[:-1] / sample.classes.sum()
    return replace(recipe, base=tuple(np.log(below) - np.log1p(-below)))


def with_dispersion(
    silos: Silos, recipe: Recipe, agreed: Agreed, sample: Sample
) -> Conversation[tuple[Recipe, Sample]]:
    """The most likely dispersion of counts, where none was given."""
    if recipe.model != "negative-binomial" or recipe.dispersion is not None:
        return recipe, sample

    def model(dispersion: float) -> Fitted:
        return replace(recipe, dispersion=dispersion, tol=min(recipe.tol, FINE)).estimator()

    try:
        found, _, sample = yield from searching_dispersion(silos, model)
    except NoDispersion as error:
        raise InputError(
            "The dispersion has no estimate: the counts spread no more than Poisson's around this model; take --model "
            "poisson, or give --dispersion."
        ) from error
    except NoMinimiser as error:
        if recipe.penalty != "none":
            raise
        raise InputError((yield from separated(silos, model(1.0), recipe, agreed, sample))) from error
    return replace(recipe, dispersion=found), sample


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


def choosing(silos: Silos, recipe: Recipe, wishes: Wishes, classes: int) -> Conversation[PenaltyPath]:
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
) -> Conversation[tuple[Fitted, list[Without], list[str], Array | None]]:
    """The model and, side by side with it, the models without each silo, and that without any column."""
    classes = len(agreed.schema.classes)
    estimator = recipe.estimator(classes, progress)
    estimator.level_names = agreed.schema.classes
    tasks, samples = [Task(estimator, sample)], []
    if wishes.influence and len(silos.names) > 1 and not silos.withheld and recipe.site_effect != "random":
        samples = yield from left_out(silos, estimator, sample, agreed, products_query, recipe)
        tasks += [Task(recipe.estimator(classes), one) for one in samples if not isinstance(one, str)]
    null = null_model(estimator, sample, agreed.schema.roles)
    null_task = [Task(null, sample)] if isinstance(null, NullModel) else []
    found = yield from solving(silos, [*tasks, *null_task])
    results = found[0]
    if isinstance(results, NoMinimiser) and recipe.penalty == "none":
        raise InputError((yield from separated(silos, estimator, recipe, agreed, sample))) from results
    if isinstance(results, DualflError):
        raise results
    if estimator.proof_follows:
        results = [(yield from certified(silos, estimator, sample, results[0]))]
    try:
        yield from estimator._inspecting(silos, tasks[0], results)
    except NoMinimiser as error:
        raise InputError((yield from separated(silos, estimator, recipe, agreed, sample))) from error
    if isinstance(estimator.loss, CLogLog) and recipe.penalty == "none" and results[0].certificate is None:
        # Its curvature vanishes so late along a direction that separates that the fit has ended before.
        sentence = yield from proven_separation(silos, estimator, agreed, sample)
        if sentence:
            raise InputError(sentence)
    others = iter(zip(tasks[1:], found[1:]))
    without = [
        Without(name, reason=one) if isinstance(one, str) else refitted(name, *next(others))
        for name, one in zip(silos.names, samples)
    ]
    notes = kept(estimator, results, sample, recipe)
    if null_task and not isinstance(found[-1], DualflError):
        null = found[-1][0].theta
    return estimator, without, notes, null if isinstance(null, np.ndarray) else None


def refitted(name: str, task: Task, found: list[Result] | DualflError) -> Without:
    if isinstance(found, DualflError):
        return Without(name, reason=str(found))
    model: Any = task.model
    model.level_names = ()
    model._read(found)
    return Without(name, model.stacked)


def kept(estimator: Fitted, results: list[Result], sample: Sample, recipe: Recipe) -> list[str]:
    """Keep the results in the estimator; what it warns of."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", ConvergenceWarning)
        limits = estimator._limits(sample)
        warn_unless_certified(results, limits)
        estimator._read(results, limits.offset)
    notes = [str(one.message) for one in heard if issubclass(one.category, ConvergenceWarning)]
    return [note for note in notes if estimator.certificate_ is not None or recipe.penalty != "none"]


def separated(silos: Silos, estimator: Fitted, recipe: Recipe, agreed: Agreed, sample: Sample) -> Conversation[str]:
    """Why coefficients grow for ever. A faint ridge keeps them finite, and the likelihood is flat where they grow."""
    faint = replace(recipe, penalty="l2", alpha=FAINT, tol=1e-4).estimator(len(agreed.schema.classes))
    (results,) = yield from faint._solving(silos, [Task(faint, sample)])
    cost = replace(faint._costs(sample)[0], ridge=0.0, shift=0.0).as_json()
    information, products = yield Exchange(
        "the fit", (Query("information", {"cost": cost, "theta": results[0].theta}), products_query(recipe))
    )
    H, G = whole(np.asarray(information["hessian"])), whole(np.asarray(products["products"]))
    involved = standard_errors.flattest(H, G, faint.loss, agreed.schema.names)[1]
    return (yield from separation_sentence(silos, estimator, agreed, sample, involved))
