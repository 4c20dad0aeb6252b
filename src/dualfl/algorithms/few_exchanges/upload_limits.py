"""When second-order sums are too large, or too telling, to be sent."""

from __future__ import annotations

from dualfl.errors import InputError
from dualfl.objectives.base import Objective
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.tilted import Tilted


def check_size(name: str, d: int, largest: int, instead: str) -> None:
    """Refuse models whose d x d sums would be too large."""
    if d > largest:
        numbers = d * (d + 1) // 2
        raise InputError(
            f"{name} sends d (d + 1)/2 numbers an exchange, and d = {d:,} makes {numbers:,} of them "
            f"({8 * numbers / 1e6:,.0f} MB); it takes d up to {largest:,}, so use {instead} instead."
        )


def rows_in(f: Objective) -> int | None:
    """How many there are, whatever ridge or tilt is around them; None for a cost without rows."""
    while isinstance(f, Tilted):
        f = f.base
    return f.n if isinstance(f, LinearModel) else None


def has_few_rows(f: Objective, least: int) -> bool:
    """Whether a d x d sum would give rows away."""
    n = rows_in(f)
    return n is not None and n < least


def check_rows(name: str, j: int, f: Objective, least: int) -> None:
    """Refuse a client whose few rows a d x d sum would give away."""
    if has_few_rows(f, least):
        raise InputError(
            f"Client {j} has {rows_in(f)} rows, and {name} sends d x d sums that could reveal so few (least_rows = "
            f"{least}); "
            "join it with another client, leave it out, or set least_rows lower if sums are aggregated securely."
        )
