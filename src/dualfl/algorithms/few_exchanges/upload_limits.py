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


def check_rows(name: str, j: int, f: Objective, least: int) -> None:
    """Refuse a client whose few rows a d x d sum would give away, whatever ridge or tilt is around them."""
    while isinstance(f, Tilted):
        f = f.base
    if isinstance(f, LinearModel) and f.n < least:
        raise InputError(
            f"Client {j} has {f.n} rows, and {name} sends d x d sums that could reveal so few (least_rows = {least}); "
            "join it with another client, leave it out, or set least_rows lower if sums are aggregated securely."
        )
