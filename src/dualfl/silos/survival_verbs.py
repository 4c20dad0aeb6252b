"""Questions about survival without a model: numbers at risk and events on a grid of times, and log-rank sums.

A silo tells of events and of rows that leave only in portions of as many as its rule for levels says (`delayed`), so a
grid that is refined around somebody shows no one alone; it spreads a portion evenly over the time since the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.silos import survival_sums
from dualfl.silos.chamber import Chamber
from dualfl.silos.table_verbs import check_small
from dualfl.silos.verbs import Wire, half, verb
from dualfl.tables.roles import parts
from dualfl.typing import Array

MOST_TIMES = 1000  # of a grid


def of_rows(chamber: Chamber, by: str | None, arms: Sequence[str]) -> tuple[Any, ...]:
    """Times, events, arms and entries of the rows that have an arm, and their strata."""
    table, request = chamber.used[0], chamber.request
    assert request is not None
    more = parts(table, request.roles)["more"]
    event = table.levels(request.target) == "1"
    labels = np.zeros(table.rows, dtype=np.str_) if by is None else table.levels(by)
    known = np.isin(labels, list(arms)) if by is not None else np.ones(table.rows, dtype=bool)
    place = {name: k for k, name in enumerate(arms)}
    arm = np.array([place.get(str(label), 0) for label in labels[known]], dtype=np.intp)
    entry, strata = (None if name not in more else more[name][known] for name in ("entry", "strata"))
    without = int((~known).sum())
    sizes = np.append(np.bincount(arm), without).astype(np.float64) if by is not None else np.zeros(1)
    check_small(chamber, sizes, chamber.least.level, "levels of what curves are drawn by, or gaps in it,")
    if strata is not None:
        own = np.unique(strata, return_counts=True)[1].astype(np.float64)
        check_small(chamber, own, chamber.least.level, "strata")
    return more["time"][known], event[known], arm, entry, strata, without


@verb
def survival_counts(chamber: Chamber, by: str | None, arms: Sequence[str], grid: Array) -> Wire:
    """By interval and arm: rows at risk at its start, events, and rows that leave; and how many rows there are,
    how many have no arm, and how many lack a time, an event or an entry."""
    times = np.asarray(grid, dtype=np.float64)
    if not 0 < len(times) <= MOST_TIMES:
        raise InputError(f"a grid has from 1 to {MOST_TIMES:,} times, and this one has {len(times):,}")
    time, event, arm, entry, _, without = of_rows(chamber, by, arms)
    found = survival_sums.told_counts(time, event, times, arm, max(len(arms), 1), entry, chamber.least.level)
    return {
        "at_risk": found.at_risk,
        "events": found.events,
        "left": found.left,
        "rows": float(len(time)),
        "without_arm": float(without),
        "with_gaps": float(sum(chamber.used[1:])),
    }


@verb
def log_rank(chamber: Chamber, by: str, arms: Sequence[str]) -> Wire:
    """Observed and expected events of each arm, compared within the silo, and the covariance of their difference."""
    time, event, arm, entry, strata, _ = of_rows(chamber, by, arms)
    if not event.any():
        k = len(arms)
        return {"observed": np.zeros(k), "expected": np.zeros(k), "V": half(np.zeros((k, k))), "rows": np.zeros(k)}
    found = survival_sums.log_rank_sums(time, event, arm, len(arms), entry=entry, strata=strata)
    return {"observed": found.observed, "expected": found.expected, "V": half(found.V), "rows": found.rows}
