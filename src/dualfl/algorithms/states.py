"""States of servers and clients are frozen dataclasses; the next one differs in a few fields."""

from __future__ import annotations

from typing import Any, TypeVar

State = TypeVar("State")


def replace(state: State, **fields: Any) -> State:
    """As `dataclasses.replace` of a frozen dataclass without slots, at a fifth of its price: no field is looked at.

    Small fits change a state a hundred times.
    """
    after = object.__new__(type(state))
    after.__dict__.update(state.__dict__)
    after.__dict__.update(fields)
    return after
