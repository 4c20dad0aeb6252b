"""What an analysis cost: every exchange by its purpose, and the numbers that silos and server sent in it."""

from __future__ import annotations

from dataclasses import dataclass, replace


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
