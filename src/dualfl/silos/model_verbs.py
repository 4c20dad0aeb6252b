"""More questions that a silo answers, about a model that has been fitted; see `likelihoods` for what is summed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.objectives.site_effect import OwnIntercept
from dualfl.silos import likelihoods, survival_sums
from dualfl.silos.chamber import Chamber
from dualfl.silos.costs import ALL, Cost
from dualfl.silos.curvature import DISTANCE, FARTHEST, NEAREST, POWER, known_sums
from dualfl.silos.random_effect import SiteMoments
from dualfl.silos.row_scores import row_scores, summed_products
from dualfl.silos.verbs import FAR, Wire, half, products_around, verb, with_model
from dualfl.typing import Array


@verb
def likelihood(chamber: Chamber, cost: Mapping[str, Any], theta: Array) -> Wire:
    """The sums of the loss, of its least value, of Pearson's statistic and of what the log-likelihood has beside."""
    f, mass = with_model(chamber, cost)
    sums = likelihoods.likelihood_sums(f, theta)
    return sums if mass else dict.fromkeys(sums, 0.0)


@verb
def expected_information(chamber: Chamber, cost: Mapping[str, Any], theta: Array) -> Wire:
    """The information that standard errors are taken from."""
    f, mass = with_model(chamber, cost)
    found = likelihoods.information(f, theta)
    return {"information": half(found if mass else 0.0 * found)}


@verb
def scores(chamber: Chamber, cost: Mapping[str, Any], theta: Array, by: str = "row") -> Wire:
    """Products of scores, for robust errors: by row, by cluster, or of the whole silo. A cluster lies within a silo."""
    f, mass = with_model(chamber, cost)
    if not mass:
        return {"products": half(np.zeros((f.d, f.d))), "clusters": 0.0}
    U = row_scores(f, theta)
    rows = chamber.chosen(Cost.from_json(cost).rows)
    assert rows is not None
    labels: Any = {"row": np.arange(rows.n), "cluster": rows.more.get("cluster"), "silo": np.zeros(rows.n)}[by]
    number = np.unique(labels[: len(U)], return_inverse=True)[1]
    return {"products": half(summed_products(U, number)), "clusters": float(number.max(initial=-1) + 1)}


@verb
def slopes(chamber: Chamber, cost: Mapping[str, Any], theta: Array) -> Wire:
    """Value, gradient and Hessian of the summed cost, how far off they may be, and what is left to minimise here."""
    f, mass = with_model(chamber, cost)
    told, off = known_sums(f), f.rounding(theta)
    return {
        "value": mass * f.value(theta),
        "value_off": mass * off.value,
        "gradient": mass * f.gradient(theta),
        "gradient_off": mass * off.gradient,
        "hessian": half(mass * f.hessian(theta)),
        "diagonal": mass * told.diagonal(theta),
        "left": mass * told.left(theta),
        "rows": float(f.n) if mass else 0.0,
    }


@verb
def reach(chamber: Chamber, cost: Mapping[str, Any], theta: Array, L: Array, mass: float) -> Wire:
    """How far rows are out, in the norm of the inverse Hessian of all silos: a power, of which the sum tells most."""
    f, own = with_model(chamber, cost)
    farthest = known_sums(f).reach(theta, np.asarray(L), own / mass) if own else 0.0
    told = max(farthest, NEAREST) if farthest < FARTHEST else FARTHEST
    return {"power": (told / DISTANCE) ** POWER}


@verb
def dispersion(chamber: Chamber, cost: Mapping[str, Any], theta: Array, size: float) -> Wire:
    """How a negative binomial likelihood changes with its size, the inverse of the dispersion."""
    f, mass = with_model(chamber, cost)
    if isinstance(f, OwnIntercept):
        theta = np.append(theta, -FAR) if f.silent else f.site_point(theta).whole
        f = f.base
    return likelihoods.dispersion_sums(f, theta, size) if mass else {"slope": 0.0, "bend": 0.0}


@verb
def site_terms(chamber: Chamber, gammas: Array, centre: float) -> Wire:
    """The terms of a random site effect for several ratios of variances (`random_effect`)."""
    rows = chamber.chosen(ALL)
    if rows is None or rows.weights is not None:
        raise InputError("a random site effect is for silos that have rows, each of which counts once")
    center = np.append(np.zeros(rows.X.shape[1]), centre)
    return SiteMoments.from_products(products_around(rows, center)).terms(np.asarray(gammas))


@verb
def proportionality(chamber: Chamber, cost: Mapping[str, Any], theta: Array, transform: str) -> Wire:
    """Whether coefficients of a Cox model change with time: the score of that, and its information."""
    f, mass = with_model(chamber, cost)
    found = survival_sums.proportionality_sums(f, theta, transform, 0.0)
    size = 1.0 if mass else 0.0
    return {"score": size * found.score, "information": half(size * found.information), "events": size * found.events}


@verb
def baseline(chamber: Chamber, cost: Mapping[str, Any], theta: Array) -> Wire:
    """The cumulative hazard of a row of zeros, by stratum. It tells times of events, so only some silos show it."""
    f, mass = with_model(chamber, cost)
    curves = survival_sums.baseline(f, theta) if mass else {}
    return {"curves": {str(name): {"times": one.x, "hazard": one.y} for name, one in curves.items()}}
