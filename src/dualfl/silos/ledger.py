"""What an analysis cost: every exchange by its purpose, and the numbers that silos and server sent in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Spent:
    """For one purpose; numbers are those of all silos together."""

    what: str
    exchanges: int = 0
    up: int = 0
    down: int = 0

    @property
    def numbers(self) -> int:
        return self.up + self.down


class Ledger:
    """The purposes in the order in which they came up."""

    def __init__(self) -> None:
        self._spent: dict[str, Spent] = {}

    def note(self, what: str, up: int, down: int, exchanges: int = 1) -> None:
        before = self._spent.get(what, Spent(what))
        self._spent[what] = replace(
            before, exchanges=before.exchanges + exchanges, up=before.up + up, down=before.down + down
        )

    @property
    def entries(self) -> tuple[Spent, ...]:
        return tuple(self._spent.values())

    @property
    def exchanges(self) -> int:
        return sum(one.exchanges for one in self._spent.values())

    @property
    def numbers(self) -> int:
        return sum(one.numbers for one in self._spent.values())


def in_words(spent: Sequence[Spent]) -> str:
    """The account in one line."""
    some = [one for one in spent if one.exchanges]
    parts = ", ".join(f"{one.exchanges:,} for {one.what}" for one in some)
    numbers = sum(one.numbers for one in some)
    return f"{sum(one.exchanges for one in some):,}: {parts}; {numbers:,} numbers up and down in all, no row"


def as_rows(spent: Sequence[Spent]) -> list[dict[str, Any]]:
    """The account as the page shows it."""
    return [{"for": one.what, "exchanges": one.exchanges, "numbers": one.numbers} for one in spent]


def with_all(last: Mapping[str, Any], spent: Sequence[Spent]) -> dict[str, Any]:
    """The last row of a history with all that travelled; its own, without what travelled besides, apart."""
    own = {"exchanges": last["exchanges"], "numbers": last["floats_up"] + last["floats_down"]}
    ways = {"floats_up": sum(one.up for one in spent), "floats_down": sum(one.down for one in spent)}
    return {**last, **ways, "of the algorithm alone": own} | totals(spent)


def totals(spent: Sequence[Spent]) -> dict[str, int]:
    return {
        "exchanges": sum(one.exchanges for one in spent),
        "numbers up and down": sum(one.numbers for one in spent),
    }
