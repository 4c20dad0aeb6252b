"""A random effect of the site for the linear model: its variance by restricted likelihood, over summed terms."""

from __future__ import annotations

import numpy as np

from dualfl.analysis.fitted import Fitted
from dualfl.silos.questions import Conversation, Exchange, Query, Silos
from dualfl.silos.random_effect import RandomIntercept, searching
from dualfl.typing import Array


def random_intercepts(silos: Silos, estimator: Fitted, centre: float) -> Conversation[RandomIntercept]:
    """The model with the effect; the estimator gets its coefficients."""
    search = searching(len(silos.names))
    gammas: Array = next(search)
    while True:
        (terms,) = yield Exchange("the site effect", (Query("site_terms", {"gammas": gammas, "centre": centre}),))
        try:
            gammas = search.send({name: np.asarray(value) for name, value in terms.items()})
        except StopIteration as end:
            found: RandomIntercept = end.value
            break
    estimator.coef_, estimator.intercept_ = found.coefficients[:-1], centre + float(found.coefficients[-1])
    estimator.objective_, estimator.certificate_ = -found.log_likelihood, None
    estimator.certificate_reason_ = "a restricted likelihood is not convex; its one ratio was searched on a whole line"
    return found
