"""Times and entries that would single out a few rows: who is compared with whom in a model of survival.

An event says something only about those who are at risk with it. One that is alone says nothing, so an analysis in
which all but a few are alone is about these few. And an entry that takes a few rows out of the risk sets of others
makes an analysis without them: the same plan without the entry differs from it by these rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dualfl.federation.few_rows import ALONE, apart
from dualfl.federation.policy import Policy
from dualfl.tables.refusals import Unfit
from dualfl.typing import AnyArray, Array


def check_risk_sets(time: Array, event: AnyArray, more: Any, policy: Policy) -> None:
    """Refuse what would be about a few rows. `more` may have `entry` and `strata`, a number and a label a row."""
    least, entry = policy.least_per_level, more.get("entry")
    strata = more.get("strata", np.zeros(len(time)))
    compared = late = 0
    for stratum in np.unique(strata):
        mine = strata == stratum
        entered = np.full(np.count_nonzero(mine), -np.inf) if entry is None else entry[mine]
        compared += compared_events(time[mine], event[mine], entered)
        late += late_rows(time[mine], event[mine], entered)
    if 0 < compared < least:
        raise Unfit(
            f"{compared} events are compared with somebody else: at the others nobody else is at risk, by their time "
            "and entry; such a model is about these few.",
            "few events of this silo have somebody else at risk with them ('least_per_level'), and sums would tell of "
            "these few",
        )
    if 0 < late < least:
        raise Unfit(
            f"The entry keeps {late} rows out of risk sets that they would be in without it.",
            "the entry sets few rows of this silo apart from the others ('least_per_level'), and sums with and without "
            "it would tell of them",
        )
    if far_later(time[event], policy.least_per_cell):
        raise Unfit(
            "A few events come so much later than the others that whatever grows with time is about them alone; "
            "correct their times, or leave these rows out.",
            "few events of this silo come far later than all others ('least_per_cell'), and what grows with time would "
            "tell of them",
        )


def compared_events(time: Array, event: AnyArray, entry: Array) -> int:
    """How many events have somebody else at risk with them."""
    at = time[event]
    gone = np.searchsorted(np.sort(time), at, "left")
    not_yet = len(entry) - np.searchsorted(np.sort(entry), at, "left")  # who enters at a time is at risk after it
    return int(np.count_nonzero(len(time) - gone - not_yet > 1))


def far_later(times: Array, least: int) -> bool:
    """Whether fewer than `least` of these times hide all others in a sum that grows with time."""
    squares = np.sort(apart(times) ** 2)[::-1]
    return least > 1 and bool(squares[: least - 1].sum() > ALONE * squares.sum() > 0)


def late_rows(time: Array, event: AnyArray, entry: Array) -> int:
    """How many rows enter when somebody had an event already, and so miss it."""
    return int(np.count_nonzero(entry >= time[event].min(initial=np.inf)))
