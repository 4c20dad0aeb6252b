"""Estimators that are fitted to a study by the whole analysis: Cox and ordered levels, with their errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dualfl.analysis.descriptions import WholeFit
from dualfl.analysis.fit_result import Fit, Wishes
from dualfl.analysis.models import Recipe
from dualfl.errors import InputError
from dualfl.estimators.base import check_number
from dualfl.estimators.classifiers import check_ratio
from dualfl.estimators.cross_validated import CrossValidated
from dualfl.estimators.inference import Inference
from dualfl.estimators.ordinal import OrdinalRegression
from dualfl.estimators.survival import CoxPH
from dualfl.silos.survival_sums import StepFunction
from dualfl.tables.roles import ROLES
from dualfl.tables.schema import Request


def as_whole_fit(estimator: Any, roles: Mapping[str, str]) -> WholeFit | None:
    """The fit of the same model; None for estimators that are fitted otherwise."""
    if not isinstance(estimator, CoxPH | OrdinalRegression):
        if roles:
            raise InputError(
                f"{type(estimator).__name__} takes no columns by role on a study; take `dualfl fit --study`."
            )
        return None
    strange = [role for role in roles if role not in ROLES]
    if strange:
        raise InputError(f"fit_silos takes columns as {', '.join(ROLES)}, and not as {strange[0]!r}.")
    if estimator.algorithm != "auto":
        raise InputError(
            f"{type(estimator).__name__} on a study is fitted by the algorithm auto, and algorithm is "
            f"{estimator.algorithm!r:.60}; leave it out."
        )
    chosen = isinstance(estimator, CrossValidated)
    if chosen and np.ndim(estimator.alphas):
        raise InputError(
            "alphas are relative to the number of rows, which nobody knows before they are asked; give how many of "
            "them are to be tried."
        )
    if isinstance(estimator, CoxPH):
        if "time" not in roles:
            raise InputError('fit_silos of CoxPH on a study needs the column of times, as time="days".')
        request = Request("", False, roles=dict(roles))
        recipe = Recipe("cox", "none", ties=estimator.ties, tol=float(estimator.tol))
    else:
        levels = () if estimator.levels is None else tuple(map(str, estimator.levels))
        request = Request("", False, roles=dict(roles), levels=levels)
        recipe = Recipe("ordinal", "none", tol=float(estimator.tol))
    if not chosen and check_number("alpha", estimator.alpha, least=0) == 0:
        return WholeFit(recipe, Wishes(request))
    ratio = check_ratio(estimator.l1_ratio)
    penalty = {0.0: "l2", 1.0: "l1"}.get(ratio, "elastic-net")
    recipe = replace(recipe, penalty=penalty, l1_ratio=ratio if penalty == "elastic-net" else 0.5)
    wishes = Wishes(request, coding="reference", standardise=False, influence=False)
    if not chosen:
        return WholeFit(replace(recipe, alpha=float(estimator.alpha)), replace(wishes, alpha_of_sum=True))
    return WholeFit(recipe, replace(wishes, cross_validate=True, cv=estimator.cv, rule=estimator.rule))


def take(estimator: Any, fit: Fit) -> None:
    """Make the estimator what it would be after a fit here, as far as a coordinator knows it."""
    d, theta = len(fit.schema.names), fit.theta.ravel()
    result = fit.estimator
    estimator.schema_ = fit.schema
    estimator.coef_ = theta[:d].copy()
    estimator.n_features_in_, estimator.feature_names_in_ = d, np.array(fit.schema.names, dtype=object)
    estimator.n_iter_, estimator.n_exchanges_ = result.n_iter_, sum(one.exchanges for one in fit.spent)
    estimator.history_, estimator.algorithm_ = result.history_, result.algorithm_
    estimator.certificate_, estimator.certificate_reason_ = result.certificate_, result.certificate_reason_
    estimator.objective_ = result.objective_
    estimator.log_likelihood_ = np.nan if fit.statistics is None else fit.statistics.log_likelihood
    estimator._rows = None
    estimator._told = f"This fit has no standard errors: {fit.no_errors}."
    if fit.errors is not None:
        more = {"statistics": fit.statistics, "beside": len(theta) - d, "penalised": fit.recipe.penalty != "none"}
        estimator._told = Inference.of(fit.names, theta, fit.errors, fit.ratio_name, **more)
    if fit.path is not None:  # there alpha is for each row
        estimator.path_ = replace(fit.path, values=fit.path.values * fit.evaluation.overall.mass)
        estimator.alpha_ = estimator.path_.value
    if isinstance(estimator, OrdinalRegression):
        estimator.classes_, estimator.thresholds_ = np.array(fit.schema.classes), theta[d:].copy()
    else:
        labelled = "strata" in fit.schema.roles
        share = float(np.exp(-fit.scaling.mean @ estimator.coef_))  # silos tell the hazard of a row of means
        estimator.baselines_ = {
            silo: {(name if labelled else 0): StepFunction(one.x, one.y * share, 0.0) for name, one in strata.items()}
            for silo, strata in fit.more.get("baselines", {}).items()
        }
        estimator.checks_ = fit.checks
