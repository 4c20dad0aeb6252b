"""More questions that a silo answers, about a model that has been fitted; see `likelihoods` for what is summed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dualfl.silos import likelihoods
from dualfl.silos.chamber import Chamber
from dualfl.silos.verbs import Wire, half, verb, with_model
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
def scores(chamber: Chamber, cost: Mapping[str, Any], theta: Array) -> Wire:
    """Products of the rows' scores, for robust errors."""
    f, mass = with_model(chamber, cost)
    found = likelihoods.score_products(f, theta)
    return {"products": half(found if mass else 0.0 * found)}


@verb
def dispersion(chamber: Chamber, cost: Mapping[str, Any], theta: Array, size: float) -> Wire:
    """How a negative binomial likelihood changes with its size, the inverse of the dispersion."""
    f, mass = with_model(chamber, cost)
    return likelihoods.dispersion_sums(f, theta, size) if mass else {"slope": 0.0, "bend": 0.0}
