"""A subgradient at a kink, chosen in the same way whatever rounding did to the predictors.

Minimisers of a model of cuts are where pieces of the loss meet: some rows are at their kinks, but for rounding, which
would choose a side for each of them by chance. Here rows that are nearer to a kink than `NEAR` take its upper slope. A
row at the distance r that takes the slope of the other side makes the cut too high by at most r times the difference of
the slopes, which counts as an error of the cut.
"""

from __future__ import annotations

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.solvers.row_view import rows_of
from dualfl.typing import Array

NEAR = 1e-10  # of the sizes of target and predictor; what rounding does to a path of a hundred steps is far below
TERMS = 2.0**-42  # of the terms that a predictor is added up from: columns with far means have large ones


def steady_subgradient(f: ClientCost, x: Array) -> tuple[Array, float]:
    """A subgradient of f at x, and by how much the cut that it makes may be too high."""
    rows = rows_of(f.objective)
    if rows is None or "dual" not in f.objective.offers:
        return f.subgradient(x), 0.0
    model, place = rows.model, f.place(x)
    q, b, lo, hi, eps = model.loss.box(model.y)
    z = q * model.predictors_at(place)[:, 0]
    terms = float(model.column_sizes @ np.abs(place))
    u, near = b - z, NEAR * (np.abs(b) + np.abs(z).max(initial=0.0)) + TERMS * terms
    slopes = np.where(u >= eps - near, hi, np.where(u < -eps + near, lo, 0.0))
    loss = np.maximum(hi * (u - eps), lo * (u + eps))
    loss = np.maximum(loss, 0.0) if eps > 0 else loss
    told = slopes * (u - eps * np.sign(slopes)) if eps > 0 else slopes * u
    model.cost.gradients += 1
    model.cost.passes += 0.5
    pull = model.design.backward(np.ascontiguousarray(-(model.s * q * slopes)[:, None])).ravel()
    return pull + rows.ridge * place - rows.c, float(model.s @ np.maximum(loss - told, 0.0))
