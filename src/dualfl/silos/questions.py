"""What may be asked of silos, and what comes back.

A `Query` is a question that is asked once: a verb that every silo knows (`verbs`), with what it needs. A `Request` is
one exchange of a run of an algorithm (`dualfl.engines`). An `Exchange` holds any number of both; they travel in one
message. Sums are over all silos and in their order, so that no bit depends on who answers first.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from dualfl.algorithms.contract import Algorithm
from dualfl.engines.engine import Engine
from dualfl.silos.costs import Cost, Sample
from dualfl.typing import Array

Reduction = Literal["sum", "each", "none"]
T = TypeVar("T")


@dataclass(frozen=True)
class Query:
    """A question that is asked once. `sum`: the answer is a sum over silos; `each`: every silo's own, or None where it
    is withheld; `none`: silos take note of something, and say nothing."""

    verb: str
    given: Mapping[str, Any] = field(default_factory=dict)
    reduce: Reduction = "sum"


@dataclass(frozen=True)
class Exchange:
    """Questions that travel together, and what they are for."""

    purpose: str
    asks: tuple[Any, ...]  # of Query and of Request


Conversation = Generator[Exchange, Sequence[Any], T]


class Silos(Protocol):
    """Those who are asked. What is not a property here has to be asked for."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def withheld(self) -> frozenset[str]:
        """The silos whose own numbers nobody sees; none if their own numbers can be seen."""
        ...

    def engine(self, cost: Cost, sample: Sample, algorithm: Algorithm, start: Array | None, seed: int) -> Engine:
        """Somebody who keeps the books of one run on this cost; who carries its requests is decided elsewhere."""
        ...

    def carry(self, exchange: Exchange) -> list[Any]:
        """The answers to all questions of an exchange, in their order."""
        ...


def drive(conversation: Conversation[T], silos: Silos) -> T:
    """Carry every exchange of a conversation to the silos, until it has come to its end."""
    try:
        exchange = next(conversation)
        while True:
            try:
                answers = silos.carry(exchange)
            except Exception as error:
                exchange = conversation.throw(error)
            else:
                exchange = conversation.send(answers)
    except StopIteration as done:
        result: T = done.value
        return result


def ask(purpose: str, *queries: Query) -> Conversation[list[Any]]:
    """One exchange of these questions."""
    answers = yield Exchange(purpose, queries)
    return list(answers)
