"""Ways to single out a few rows by what a plan says of all: weights, offsets, strata, clusters, and terms.

Columns in such roles are named by the operator, and the plan says which of them it takes. Two plans, with one of them
and without, differ by the rows that it treats otherwise. So these rows must be none, or enough of them.

A combination of columns that is 0 but in one row makes of every product of columns that row. There is one exactly if
the row's leverage, x_i'(X'X)^-1 x_i, is 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from dualfl.errors import InputError
from dualfl.federation.guarded import rarest_cell, rarest_gaps, rarest_level, rarest_number, with_indicator
from dualfl.federation.policy import Policy
from dualfl.silos.chamber import SiloRows
from dualfl.tables.delimited import is_class_target
from dualfl.tables.reading import Table
from dualfl.tables.refusals import Unfit
from dualfl.typing import AnyArray, Array

ALONE = 0.999  # of the squares of a combination of columns: what is left does not hide the rows that have it
MOST_WORK = 2e10  # rows times squared columns; beyond, the n/3 rule stands alone
MOST_NUMBERS = 2e8  # of a sparse table that is written out for it


def check_counted(
    counted: Table, target: str, policy: Policy, untold: Sequence[str], analysis: Mapping[str, Any]
) -> None:
    """Of the rows that count in this plan, none may be told apart by what few of them have."""
    policy.check_size(counted.rows, 0)
    classes = is_class_target(counted.columns[target]) if policy.task is None else policy.task == "classification"
    policy.check_numbers(*rarest_number(counted, (target, *untold)))
    # A description has sums over the rows of a class only where it groups by it, and then looks at each group itself.
    but = (target, *untold) if analysis.get("analysis") == "describe" else untold
    policy.check_levels(*rarest_level(counted, target, classes, but))
    policy.check_gaps(*rarest_gaps(counted, with_indicator(analysis, counted)))
    if policy.least_per_cell:
        policy.check_cells(rarest_cell(counted, untold))


def check_rows(rows: SiloRows, policy: Policy, may_drop: bool) -> None:
    """Refuse what would tell of a few rows. `may_drop`: whether rows may count nothing."""
    if rows.weights is not None:
        check_weights(rows.weights, policy, may_drop)
    if rows.offset is not None:
        check_offset(rows.offset, policy.least_per_cell)
    if "strata" in rows.more:
        check_strata(rows.more["strata"], policy.least_per_level)
    if "cluster" in rows.more:
        check_clusters(rows.more["cluster"], policy.least_per_level)
    if policy.least_per_cell > 1 and policy.rows_per_coefficient > 0:
        check_leverage(rows.X, policy.least_per_cell)


def effective(weights: Array) -> float:
    """How many rows a sum with these weights is about (Kish); 0 if none has any."""
    total = float(np.abs(weights).sum())
    return total**2 / float(weights @ weights) if total > 0 else 0.0


def apart(values: Array) -> Array:
    """How far every row is from most of them."""
    found: Array = np.abs(values - np.median(values))
    return np.where(found > 1e-12 * np.abs(values).max(initial=0.0), found, 0.0)


def check_weights(weights: Array, policy: Policy, may_drop: bool) -> None:
    if not weights.all() and policy.least_rows and not may_drop:
        raise InputError(
            "some rows have the weight 0, and which rows count is the operator's to say; allow it by "
            '"allow_drop_rows": true in silo.json'
        )
    if effective(weights) < policy.least_rows:
        raise InputError(
            "the weights let fewer rows of this silo count than its policy wants for any plan ('least_rows')"
        )
    if 0 < effective(apart(weights)) < policy.least_per_cell:
        raise InputError(
            "few rows of this silo have another weight than the others ('least_per_cell'), and sums with and without "
            "weights would tell of them"
        )


def check_offset(offset: Array, least: int) -> None:
    """As it is, as a probability, and as an exposure: none may be about a few rows."""
    exposure = np.exp(offset - offset.max(initial=-np.inf))
    shapes = (offset, expit(offset), exposure)
    if any(0 < effective(apart(one)) < least for one in shapes) or 0 < effective(exposure) < least:
        raise InputError(
            "the offset, or the exposure, sets few rows of this silo apart from the others ('least_per_cell'), and "
            "sums with and without it would tell of them"
        )


def check_strata(labels: AnyArray, least: int) -> None:
    """A row alone in its stratum is compared with nobody: the analysis is one without it."""
    few = int(np.unique(labels, return_counts=True)[1].min(initial=len(labels)))
    if 0 < few < least:
        raise Unfit(
            f"A stratum has {few} rows; join strata in the data file, or leave the column out.",
            "a stratum has few rows of this silo ('least_per_level'), and sums with and without strata would tell of "
            "them",
        )


def check_clusters(labels: AnyArray, least: int) -> None:
    """All but a few in one cluster: products of their sums with and without these few tell of them."""
    outside = len(labels) - int(np.unique(labels, return_counts=True)[1].max(initial=0))
    if 0 < outside < least:
        raise Unfit(
            f"All rows but {outside} are in one cluster; leave the column out.",
            "all rows of this silo but a few are in one cluster ('least_per_level'), and products of scores would tell "
            "of them",
        )


def check_leverage(X: Any, least: int) -> None:
    """Of tables up to `MOST_WORK`; of larger sparse ones single columns that are 0 but in a few rows."""
    rows, columns = X.shape
    sparse = not isinstance(X, np.ndarray)
    if rows * columns**2 <= MOST_WORK and not (sparse and rows * columns > MOST_NUMBERS):
        lonely = alone(np.column_stack([np.ones(rows), X.toarray() if sparse else X]), least)
    elif sparse:
        filled = np.bincount(X.indices[X.data != 0], minlength=columns)
        lonely = int(filled[(filled > 0) & (filled < least)].min(initial=least)) % least
    else:
        return
    if lonely:
        raise Unfit(
            f"Some combination of columns is nearly 0 in all rows but {lonely}; leave out a column, or a term.",
            "some combination of columns is about too few rows of this silo ('least_per_cell'), and products of "
            "columns would tell of them; leave out a term or a column",
        )


def alone(X: Array, least: int) -> int:
    """Of rows that some combination of columns is about, fewer than `least` of them: how many; else 0.

    With H = X (X'X)^-1 X' there is one that is about the rows S alone exactly if H_SS has the eigenvalue 1. One of its
    rows has a leverage of 1/|S| at least. From there the row is added that makes the eigenvalue largest: exact for two
    rows, and a good guess for more.
    """
    scale = np.abs(X).max(axis=0, initial=0.0)
    U, s, _ = np.linalg.svd(X / np.where(scale > 0, scale, 1.0), full_matrices=False)
    U = U[:, s > 1e-10 * s.max(initial=0.0)]
    h = (U**2).sum(axis=1)
    if (h > ALONE).any():
        return 1
    suspects = np.flatnonzero(h * (least - 1) > ALONE)
    return min((size for i in suspects.tolist() if (size := _joined(U, h, i, least))), default=0)


def _joined(U: Array, h: Array, first: int, least: int) -> int:
    """How many rows, with this one among them, some combination is about; 0 if `least` or more."""
    rows, top, vector = [first], float(h[first]), U[first]
    while len(rows) < least - 1:
        gains = (top + h) / 2 + np.hypot((top - h) / 2, U @ vector)
        gains[rows] = -np.inf
        rows.append(int(np.argmax(gains)))
        values, vectors = np.linalg.eigh(U[rows] @ U[rows].T)
        top, vector = float(values[-1]), vectors[:, -1] @ U[rows]
        if top > ALONE:
            return len(rows)
    return 0
