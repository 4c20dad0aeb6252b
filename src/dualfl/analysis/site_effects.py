"""A random effect of the site for the linear model: its variance by restricted likelihood.

Where silos show their moments, one exchange has all that the search needs. Where only sums are opened, the search goes
over summed terms, a few values of the one ratio of variances an exchange.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from dualfl.analysis.fit_result import Wishes
from dualfl.analysis.fitted import Fitted
from dualfl.errors import InputError
from dualfl.silos.costs import ALL
from dualfl.silos.questions import Conversation, Exchange, Query, Silos
from dualfl.silos.random_effect import RandomIntercept, SiteMoments, from_moments, searching
from dualfl.silos.verbs import whole
from dualfl.typing import Array

PURPOSE = "the site effect"


def check_random(silos: Silos, wishes: Wishes) -> None:
    """Refuse what such a likelihood has no place for, before anything is computed."""
    weights = wishes.request.roles.get("weights")
    if weights is not None:
        raise InputError(
            f"--site-effect random is for rows that count once each, and --weights is {weights}; leave it out, or take "
            "--site-effect fixed."
        )
    if len(silos.names) < 2:
        raise InputError(f"A random site effect needs at least 2 silos, and there is {len(silos.names)}.")


def random_intercepts(silos: Silos, estimator: Fitted, centre: float) -> Conversation[RandomIntercept]:
    """The model with the effect; the estimator gets its coefficients."""
    found = yield from (from_shown if silos.shows_moments else searched)(silos, centre)
    estimator.coef_, estimator.intercept_ = found.coefficients[:-1], centre + float(found.coefficients[-1])
    estimator.objective_, estimator.certificate_ = -found.log_likelihood, None
    estimator.certificate_reason_ = "a restricted likelihood is not convex; its one ratio was searched on a whole line"
    return found


def from_shown(silos: Silos, centre: float) -> Conversation[RandomIntercept]:
    """By the moments of every silo, with targets around the centre."""
    given = {"rows": [asdict(ALL)], "center": np.zeros(silos.features), "target": centre}
    (answers,) = yield Exchange(PURPOSE, (Query("moments", given, "each"),))
    return from_moments([SiteMoments.from_products(whole(np.asarray(one["moments"])[0])) for one in answers])


def searched(silos: Silos, centre: float) -> Conversation[RandomIntercept]:
    """By summed terms for several ratios of variances at a time."""
    search = searching(len(silos.names))
    gammas: Array = next(search)
    while True:
        (terms,) = yield Exchange(PURPOSE, (Query("site_terms", {"gammas": gammas, "centre": centre}),))
        try:
            gammas = search.send({name: np.asarray(value) for name, value in terms.items()})
        except StopIteration as end:
            found: RandomIntercept = end.value
            return found
