"""What is said of a model that has been fitted: errors, tests, likelihoods and scores, from sums of one exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualfl.analysis.agreeing import Agreed
from dualfl.analysis.fit_result import Fit, Wishes
from dualfl.analysis.fitted import Fitted
from dualfl.analysis.influence import Without
from dualfl.analysis.models import Recipe
from dualfl.analysis.separated import separation_sentence
from dualfl.errors import InputError
from dualfl.estimators import standard_errors
from dualfl.estimators.metrics import Evaluation
from dualfl.estimators.penalty_path import PenaltyPath
from dualfl.estimators.solving import FitLimits
from dualfl.estimators.statistics import FEW_SILOS, FitStatistics, fit_statistics, null_predictor
from dualfl.objectives import (
    CLogLog,
    Cox,
    Gamma,
    Logistic,
    NegativeBinomial,
    Ordered,
    Poisson,
    Softmax,
    Tweedie,
)
from dualfl.silos.classification_scores import BINS
from dualfl.silos.costs import Cost, Sample
from dualfl.silos.here import added
from dualfl.silos.likelihoods import EXPECTED, information_kind
from dualfl.silos.predictor import Predictor
from dualfl.silos.questions import Conversation, Exchange, Query, Silos
from dualfl.silos.random_effect import RandomIntercept
from dualfl.silos.scores import from_wire
from dualfl.silos.survival_sums import ProportionalitySums, StepFunction
from dualfl.silos.survival_tests import proportionality
from dualfl.silos.verbs import whole
from dualfl.tables.schema import Schema
from dualfl.typing import Array

FEW_ROWS = 20  # of a silo, below which intercepts of its own bias the other coefficients
NONLINEAR = (Logistic, Poisson, CLogLog, NegativeBinomial, Gamma, Tweedie)
ENDLESS_LOSSES = (Logistic, Softmax, Poisson, NegativeBinomial, CLogLog, Cox, Ordered)


@dataclass(frozen=True, eq=False)
class Described:
    """The model, and what it was made by."""

    recipe: Recipe
    wishes: Wishes
    agreed: Agreed
    sample: Sample
    estimator: Fitted
    without: tuple[Without, ...]
    path: PenaltyPath | None
    notes: tuple[str, ...]
    coding: str
    products: Array  # of the columns, for a fit without a penalty

    @property
    def plain(self) -> bool:
        """Whether it is one of a predictor with a common intercept."""
        return not (self.estimator.own_intercept or isinstance(self.estimator.loss, Cox | Ordered))

    @property
    def costs(self) -> list[Cost]:
        """Without a penalty."""
        if not self.plain:
            return [replace(cost, ridge=0.0, l1=0.0) for cost in self.estimator._costs(self.sample)]
        return [Cost(self.estimator.loss, positive=positive) for positive in self.estimator._positives()]

    @property
    def thetas(self) -> list[Array]:
        """What the costs are minimised by."""
        if not self.plain:
            return [np.array(self.estimator.results_[0].theta)]
        theta = self.estimator.stacked
        return [np.ascontiguousarray(column) for column in (theta.T if len(self.costs) > 1 else [theta.ravel()])]

    @property
    def obstacle(self) -> str:
        """Why there are no standard errors."""
        return standard_errors.obstacle(
            self.estimator.loss, self.recipe.l1, self.estimator.stacked.size, self.agreed.overview.rows
        )

    @property
    def by(self) -> str:
        """What robust errors add scores up by; "" for those of the model."""
        return {"model": "", "robust": "row", "silo": "silo"}.get(self.recipe.errors, "cluster")


def describing(
    silos: Silos, about: Described, searched: bool, null: Array | None, random: RandomIntercept | None
) -> Conversation[Fit]:
    """Errors, losses and scores, of all rows and of each silo that shows its own."""
    agreed, estimator, recipe = about.agreed, about.estimator, about.recipe
    costs, thetas, overview = about.costs, about.thetas, agreed.overview
    at = {"cost": costs[0].as_json(), "theta": thetas[0]}
    given: dict[str, Any] = {
        "model": predictor(estimator, len(agreed.schema.classes)).as_json(),
        "rows": {},
        "bins": BINS,
        "quantile": recipe.quantile,
        "centre": overview.target_mean,
    }
    if estimator.own_intercept:
        given["own"] = at
    losses = {"costs": [one.as_json() for one in costs], "thetas": thetas}
    shared = [Query("evaluate", given), Query("losses", losses)]
    shared += [Query("likelihood", at)] if estimator.own_intercept else []
    further = questions(about, at, null)
    own, totals, rest = yield from of_each_and_all(silos, shared, list(further.values()))
    told = dict(zip(further, rest))
    how = bool(agreed.schema.classes), recipe.quantile, overview.target_mean
    shown = {name: from_wire(one, *how) for name, one in zip(silos.names, own[0]) if one is not None}
    evaluation = Evaluation(shown, from_wire(totals[0], *how))
    silent = round(float(totals[2]["silent"])) if estimator.own_intercept else 0
    extra = len(silos.names) - silent if estimator.own_intercept else 0
    if estimator.own_intercept and not extra:
        raise InputError(
            f"Column {agreed.schema.target!r} is of one kind in every silo, so their own intercepts explain all of it "
            "and nothing can be said of other columns; leave out --site-effect."
        )
    if not about.obstacle:
        yield from refuse_endless(silos, about, information_of(told))
    errors = None if about.obstacle else make_errors(about, told, extra)
    statistics = None if about.obstacle else make_statistics(about, told, searched, extra)
    if random is not None:
        errors, statistics = random_errors(about, random) if errors else None, None
    return Fit(
        recipe,
        about.wishes,
        silos.names,
        agreed.schema,
        overview,
        agreed.own,
        agreed.scaling,
        estimator,
        estimator.back(agreed.scaling) @ estimator.stacked,
        errors,
        about.obstacle,
        tuple(loss_of(shown.get(name), one) for name, one in zip(silos.names, own[1])),
        float(np.sum(totals[1]["losses"])) / evaluation.overall.mass,
        evaluation,
        about.without,
        about.path,
        (*about.notes, *remarks(silos, about, silent, own)),
        about.coding,
        statistics,
        extras(silos, about, told, random),
    )


def loss_of(sums: Any, lost: Any) -> float | None:
    return None if sums is None or not sums.mass else float(np.sum(lost["losses"])) / sums.mass


def questions(about: Described, at: Mapping[str, Any], null: Array | None) -> dict[str, Query]:
    """What is asked of all silos together."""
    loss, asked = about.estimator.loss, {}
    if not about.obstacle:
        verb = "expected_information" if isinstance(loss, EXPECTED) else "information"
        asked = {"information": Query(verb, at), "likelihood": Query("likelihood", at)}
        if null is not None:
            null = null if about.plain else np.zeros(len(at["theta"]))
            asked["null"] = Query("likelihood", {"cost": null_cost(about).as_json(), "theta": null})
        if about.by:
            asked["scores"] = Query("scores", {**at, "by": about.by})
        if isinstance(loss, Cox):
            asked["proportionality"] = Query("proportionality", {**at, "transform": "identity"})
    if isinstance(loss, Cox):
        asked["baseline"] = Query("baseline", at, "each")
    return asked


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
    sums = answers[len(each) : len(each) + len(total)] or [added(one) for one in own]
    return own, sums, answers[len(answers) - len(further) :]


def predictor(estimator: Fitted, classes: int) -> Predictor:
    """The model as silos get it."""
    W, b = np.atleast_2d(estimator.coef_), np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64))
    return Predictor.from_json({"kind": estimator.kind, "W": W, "b": b, "classes": classes})


# -- the model without columns ----------------------------------------------------------------------------


class NullModel:
    """The fit of an intercept alone, where an offset leaves no formula for it."""

    def __init__(self, estimator: Fitted) -> None:
        self.estimator, self.algorithm = estimator, "auto"

    def _costs(self, sample: Sample) -> list[Cost]:
        (positive,) = self.estimator._positives()
        return [Cost(self.estimator.loss, intercept=False, positive=positive, features=False)]

    def _limits(self, sample: Sample) -> FitLimits:
        return replace(self.estimator._limits(sample), proof_follows=False)


def null_model(estimator: Fitted, sample: Sample, roles: Mapping[str, str]) -> NullModel | Array | None:
    """Its coefficients, or what has to be fitted to know them; None where there is no such model."""
    loss, offset = estimator.loss, bool({"offset", "exposure"} & set(roles))
    if not isinstance(loss, standard_errors.LIKELIHOODS) or estimator.l1:
        return None
    if estimator.own_intercept or isinstance(loss, Cox):
        return np.zeros(0)
    if isinstance(loss, Ordered):
        return None if offset else np.zeros(0)
    if offset:
        return NullModel(estimator)
    return null_predictor(loss, sample)


def null_cost(about: Described) -> Cost:
    """That of an intercept alone; or, where there is none, of no coefficients."""
    if not about.plain:
        return about.costs[0]
    return replace(about.costs[0], intercept=False, features=False)


# -- errors and likelihoods -------------------------------------------------------------------------------


def refuse_endless(silos: Silos, about: Described, H: Array) -> Conversation[None]:
    """A likelihood that is flat in some direction rises there for ever."""
    loss, names = about.estimator.loss, about.agreed.schema.names
    if about.recipe.penalty != "none" or not isinstance(loss, ENDLESS_LOSSES):
        return
    curvature, involved = standard_errors.flattest(H, about.products, loss, names)
    if curvature < standard_errors.ENDLESS:
        raise InputError((yield from separation_sentence(silos, about.estimator, about.agreed, about.sample, involved)))


def information_of(told: Mapping[str, Any]) -> Array:
    sums = told["information"]
    return whole(np.asarray(sums["information" if "information" in sums else "hessian"]))


def make_errors(about: Described, told: Mapping[str, Any], extra: int) -> standard_errors.Errors:
    """Standard errors for the columns as they are."""
    recipe, agreed, estimator = about.recipe, about.agreed, about.estimator
    loss, level = estimator.loss, about.wishes.level
    H = information_of(told)
    residuals = float(told["information"].get("residuals", 0.0)) or float(told["likelihood"]["pearson"])
    free = estimator.stacked.shape[0] - len(agreed.schema.names)
    if about.by:
        scores, n = told["scores"], about.sample.mass
        found = standard_errors.robust_errors(
            H, whole(np.asarray(scores["products"])), float(scores["clusters"]), about.by, recipe.ridge, n, free, level
        )
    else:
        found = standard_errors.standard_errors(H, loss, recipe.ridge, about.sample.mass, residuals, level, free, extra)
    back = np.kron(estimator.back(agreed.scaling), np.eye(loss.outputs))
    kind = information_kind(loss)
    return replace(found, covariance=back @ found.covariance @ back.T, kind=kind)


def random_errors(about: Described, random: RandomIntercept) -> standard_errors.Errors:
    """Those of a random site effect, for the columns as they are."""
    back = about.agreed.scaling.back
    width = standard_errors.half_width(about.wishes.level)
    return standard_errors.Errors(back @ random.covariance @ back.T, width, "restricted likelihood")


def make_statistics(about: Described, told: Mapping[str, Any], searched: bool, extra: int) -> FitStatistics:
    """Likelihood, deviance and their kin."""
    loss, sums, null = about.estimator.loss, told["likelihood"], told.get("null")
    count = about.estimator.stacked.size - (loss.outputs > 1) * about.estimator.stacked.shape[0] + extra
    events = float(about.agreed.overview.classes[1]) if isinstance(loss, Cox) else None
    found = fit_statistics(loss, sums, null, count, searched, events)
    thresholds = loss.levels - 1 if isinstance(loss, Ordered) else max(loss.outputs - 1, 1)
    return replace(found, intercepts=extra or thresholds)


# -- what else there is to say ----------------------------------------------------------------------------


def remarks(silos: Silos, about: Described, silent: int, own: Sequence[Sequence[Any]]) -> list[str]:
    """Of site effects, and of errors by silo."""
    said, J = [], len(silos.names)
    if silent:
        known = [name for name, one in zip(silos.names, own[2]) if one is not None and one["silent"] > 0]
        who = ", ".join(known) if known else f"{silent} of the silos"
        said.append(f"the targets of {who} are all of one kind, so the site effect explains them, and they say nothing")
    rows = about.agreed.overview.rows
    if about.estimator.own_intercept and isinstance(about.estimator.loss, NONLINEAR) and rows < FEW_ROWS * J:
        said.append(
            f"with {rows / J:.0f} rows a silo on average, an intercept of its own for each biases other coefficients"
        )
    if about.by == "silo" and J < FEW_SILOS:
        said.append(f"errors that take each silo as one observation are rough with fewer than {FEW_SILOS} silos")
    return said


def extras(silos: Silos, about: Described, told: Mapping[str, Any], random: RandomIntercept | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if random is not None:
        found["site effect"] = random
    if "proportionality" in told:
        sums = told["proportionality"]
        I = whole(np.asarray(sums["information"]))
        parts = ProportionalitySums(np.asarray(sums["score"]), I, float(sums["events"]))
        found["checks"] = tuple(proportionality(parts, about.agreed.schema.names, terms_of(about.agreed.schema)))
    if "baseline" in told:
        shown = zip(silos.names, told["baseline"])
        found["baselines"] = {name: curves(one["curves"]) for name, one in shown if one is not None}
    return found


def terms_of(schema: Schema) -> dict[str, list[int]]:
    """The coefficients of each column, or of each term of a formula: levels are tested together, as R does."""
    places = {name: i for i, name in enumerate(schema.names)}
    return {term: [places[name] for name in names] for term, names in schema.blocks.items()}


def curves(wire: Mapping[str, Any]) -> dict[str, StepFunction]:
    return {name: StepFunction(np.asarray(one["times"]), np.asarray(one["hazard"]), 0.0) for name, one in wire.items()}
