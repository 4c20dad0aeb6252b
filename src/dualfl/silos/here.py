"""Silos on this machine, asked one after the other; nobody has secrets from the person who has all the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dualfl.algorithms.contract import Algorithm
from dualfl.algorithms.messages import floats
from dualfl.engines.inprocess import InProcess
from dualfl.objectives import L1
from dualfl.problem import Problem
from dualfl.silos.chamber import Chamber
from dualfl.silos.costs import Cost, Sample
from dualfl.silos.ledger import Ledger
from dualfl.silos.questions import Exchange, Query
from dualfl.silos.verbs import Wire, answered
from dualfl.typing import Array


class SilosHere:
    """Chambers in this process."""

    withheld: frozenset[str] = frozenset()

    def __init__(self, chambers: Sequence[Chamber]) -> None:
        self.chambers = list(chambers)
        self.ledger = Ledger()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(chamber.name for chamber in self.chambers)

    def engine(self, cost: Cost, sample: Sample, algorithm: Algorithm, start: Array | None, seed: int) -> InProcess:
        return InProcess(self.problem(cost), algorithm, start=start, seed=seed)

    def problem(self, cost: Cost) -> Problem:
        """The clients of one fit: the silos that have rows in it."""
        clients = [f for chamber in self.chambers if (f := chamber.objective(cost)) is not None]
        return Problem(clients, penalty=L1(cost.l1) if cost.l1 else None)

    def carry(self, exchange: Exchange) -> list[Any]:
        answers: list[Any] = []
        up = down = 0
        for ask in exchange.asks:
            if not isinstance(ask, Query):
                answers.append(ask.carried_out())
                continue
            wires = [answered(chamber, ask.verb, ask.given) for chamber in self.chambers]
            up += sum(floats(wire) for wire in wires if ask.reduce != "none")
            down += len(wires) * numbers_in(ask.given)
            answers.append(wires if ask.reduce == "each" else added(wires))
        self.ledger.note(exchange.purpose, up, down)
        return answers


def added(wires: Sequence[Wire]) -> Wire:
    """The sums of what silos said, in the order of the silos."""
    total = dict(wires[0])
    for wire in wires[1:]:
        total = {name: total[name] + wire[name] for name in total}
    return total


def numbers_in(given: Any) -> int:
    """How many numbers a question holds; texts and names are none."""
    if isinstance(given, dict):
        return sum(numbers_in(value) for value in given.values())
    if isinstance(given, list | tuple):
        return sum(numbers_in(value) for value in given)
    return int(np.size(given)) if isinstance(given, np.ndarray | float) else 0
