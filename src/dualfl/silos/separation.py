"""Whether a direction separates: a model may go along it for ever, and no row's loss ever rises.

With q_i the change of the predictor of row i along the direction, no loss rises, and there is no best model, if

    two classes        y_i q_i >= 0 for all rows                            y_i = 1 or -1
    several classes    q_i of the row's own class is the largest
    counts             q_i = 0 where the count is positive, and q_i <= 0 where it is 0
    ordered levels     q_i lies between the thresholds' changes above and below the row's level
    survival           q_i of every event is the largest of those who are at risk then

and some loss falls. With an intercept of its own, a silo may add any number to its q_i. A silo tells two bits of a
direction: whether some row is on the wrong side, and whether some row is on the right one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dualfl.objectives import CLogLog, Cox, Logistic, NegativeBinomial, Ordered, Poisson, Softmax, Tweedie
from dualfl.silos.chamber import Chamber, SiloRows
from dualfl.silos.costs import Cost
from dualfl.silos.verbs import Wire, verb
from dualfl.typing import Array

CLOSE = 1e-9  # of what a predictor is added up from: so much is rounding
TWO = (Logistic, CLogLog)
COUNTS = (Poisson, NegativeBinomial, Tweedie)
SEPARABLE = (*TWO, *COUNTS, Softmax, Ordered, Cox)

Sides = tuple[bool, bool]  # whether some row is on the wrong side, and some on the right one


@verb
def separation(chamber: Chamber, cost: Mapping[str, Any], directions: Sequence[Array]) -> Wire:
    """For each direction, whether it is wrong for some row here, and right for some."""
    wanted = Cost.from_json(cost)
    rows = chamber.chosen(wanted.rows)
    found = np.zeros((len(directions), 2))
    if rows is not None:
        if rows.weights is not None:
            rows = rows.rows(np.flatnonzero(rows.weights > 0))
        found[:] = [sides(rows, wanted, np.asarray(direction)) for direction in directions]
    return {"wrong": found[:, 0].copy(), "right": found[:, 1].copy()}


def sides(rows: SiloRows, cost: Cost, direction: Array) -> Sides:
    """Of one direction, a flat model."""
    loss, D = cost.loss, rows.X.shape[1]
    matrix = direction.reshape(-1, loss.outputs)
    W, beside = matrix[:D], matrix[D:]
    Q = np.asarray(rows.X @ W)
    tol = CLOSE * (np.asarray(abs(rows.X) @ np.abs(W)).max(axis=1) + np.abs(beside).max(initial=0.0))
    if isinstance(loss, Cox):
        return of_hazards(rows, Q[:, 0], tol)
    if isinstance(loss, Ordered):
        return of_levels(np.asarray(rows.y), Q[:, 0], tol, beside[:, 0])
    if isinstance(loss, Softmax):
        return of_classes(np.asarray(rows.y, dtype=np.intp), Q + (beside if len(beside) else 0.0), tol)
    q = Q[:, 0] + (beside[0, 0] if len(beside) else 0.0)
    above = rows.y == cost.positive if cost.positive is not None else rows.y > 0
    if cost.intercept == "own":
        return within(above, q, tol, isinstance(loss, COUNTS))
    if isinstance(loss, COUNTS):
        return of_counts(above, q, tol)
    m = np.where(above, q, -q)
    return bool((m < -tol).any()), bool((m > tol).any())


def of_counts(above: Any, q: Array, tol: Array) -> Sides:
    wrong = (above & (np.abs(q) > tol)) | (~above & (q > tol))
    return bool(wrong.any()), bool((~above & (q < -tol)).any())


def within(above: Any, q: Array, tol: Array, counts: bool) -> Sides:
    """With an intercept of the silo's own; where it explains all targets by itself, nothing is wrong or right."""
    if above.all() or not above.any():
        return False, False
    near = float(tol.max())
    if counts:
        return of_counts(above, q - np.median(q[above]), np.full(len(q), 2 * near))
    return bool(q[above].min() < q[~above].max() - 2 * near), bool(np.ptp(q) > 2 * near)


def of_classes(y: Any, Q: Array, tol: Array) -> Sides:
    apart = Q[np.arange(len(y)), y][:, None] - Q  # 0 for the own class
    return bool((apart < -2 * tol[:, None]).any()), bool((apart > 2 * tol[:, None]).any())


def of_levels(y: Any, q: Array, tol: Array, t: Array) -> Sides:
    ends = np.concatenate([[-np.inf], t, [np.inf]])
    above, below = ends[y + 1] - q, q - ends[y]
    room = np.concatenate([above, below])
    near = np.concatenate([2 * tol, 2 * tol])
    finite = np.isfinite(room)
    return bool((room < -near).any()), bool((room > near)[finite].any())


def of_hazards(rows: SiloRows, q: Array, tol: Array) -> Sides:
    """Events against those at risk, stratum by stratum."""
    labels, time, entry = rows.more.get("strata", np.zeros(rows.n)), rows.more["time"], rows.more.get("entry")
    wrong = right = False
    for label in np.unique(labels):
        some = np.flatnonzero(labels == label)
        some = some[np.argsort(-time[some], kind="stable")]
        t, z, dead = time[some], q[some], rows.y[some] > 0
        near = 2 * float(tol[some].max(initial=0.0))
        if entry is None:
            last = np.searchsorted(-t, -t[dead], side="right") - 1
            top, least = np.maximum.accumulate(z)[last], np.minimum.accumulate(z)[last]
        else:
            at_risk = [(t >= when) & (entry[some] < when) for when in t[dead]]
            top, least = (np.array([pick(z[who]) for who in at_risk]) for pick in (np.max, np.min))
        wrong |= bool((z[dead] < top - near).any())
        right |= bool((z[dead] > least + near).any())
    return wrong, right
