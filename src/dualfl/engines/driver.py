"""The server's side of a run: opens rounds, hands out asks, takes in means.

A generator cannot be saved; the open round can be replayed. So what is saved is (round, the state at its start, the
means received since), and a driver built from these asks again exactly what was asked before, because `round` is a
pure function and all randomness is keyed. A digest of the ask in flight is saved too, so that an algorithm that breaks
this rule is found out.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np

from dualfl.algorithms.contract import Algorithm, Ask, Place
from dualfl.algorithms.messages import as_remembered
from dualfl.errors import InputError


@dataclass(frozen=True)
class Saved:
    """Where a run stands."""

    round: int = -1  # -1: the algorithm is starting
    state: Any = None
    means: tuple[SimpleNamespace, ...] = field(default=())
    asked: int | None = None  # digest of the ask in flight


class Driver:
    def __init__(self, algorithm: Algorithm, place: Place, saved: Saved | None = None) -> None:
        self.algorithm, self.place = algorithm, place
        saved = Saved() if saved is None else saved
        self.round, self.state = saved.round, saved.state
        self._means: list[SimpleNamespace] = []
        self._open: Generator[Ask, SimpleNamespace, Any] | None = None
        self._ask: Ask | None = None
        for means in saved.means:
            self.ask()
            self.tell(means)
        if saved.asked is not None and saved.asked != digest(self.in_flight):
            raise InputError(
                f"{algorithm.name} asks for something else when round {saved.round} is replayed, so it cannot be "
                "resumed; `round` must depend on its state, the means and at.rng or at.common alone."
            )

    @property
    def saved(self) -> Saved:
        return Saved(self.round, self.state, tuple(self._means))

    @property
    def in_flight(self) -> Ask | None:
        return self._ask

    @property
    def exchange(self) -> int:
        """The number of the exchange in flight, within its round."""
        return len(self._means)

    @property
    def started(self) -> bool:
        return self.round >= 0

    @property
    def between_rounds(self) -> bool:
        return self._open is None

    def ask(self) -> Ask | None:
        """What to ask the clients now; None if that ended the round (or the start) without asking."""
        if self._ask is not None:
            return self._ask
        at = replace(self.place, round=self.round)
        opened = self.algorithm.round(self.state, at) if self.started else self.algorithm.start(at)
        if not isinstance(opened, Generator):
            self._finish(opened)
            return None
        self._open = opened
        return self._advance(None)

    def tell(self, means: SimpleNamespace) -> None:
        """Hand in the answer to the ask in flight."""
        self._ask = None
        self._means.append(means)
        self._advance(means)

    def _advance(self, means: SimpleNamespace | None) -> Ask | None:
        assert self._open is not None
        try:
            self._ask = next(self._open) if means is None else self._open.send(means)
        except StopIteration as finished:
            self._finish(finished.value)
        return self._ask

    def _finish(self, state: Any) -> None:
        self.state = as_remembered(state)
        self.round += 1
        self._open, self._ask, self._means = None, None, []


def digest(asked: Ask | None) -> int | None:
    """A number that stands for an ask."""
    if asked is None:
        return None
    number = crc32(repr((asked.step, asked.to, asked.reduce)).encode())
    for name, value in sorted(asked.message.items()):
        data = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
        number = crc32(data, crc32(name.encode(), number))
    return number
