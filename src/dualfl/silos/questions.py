"""What may be asked of silos, and what comes back.

A `Query` is a question that is asked once: a verb that every silo knows (`verbs`), with what it needs. A `Request` is
one exchange of a run of an algorithm (`dualfl.engines`). An `Exchange` holds any number of both; they travel in one
message. Sums are over all silos and in their order, so that no bit depends on who answers first.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, TypeVar, cast

import numpy as np

from dualfl.algorithms.contract import Algorithm, Constants
from dualfl.engines import exchanges
from dualfl.engines.engine import Engine
from dualfl.engines.exchanges import Exchanges
from dualfl.engines.result import Result
from dualfl.engines.survey import Inquiry
from dualfl.objectives.base import Objective
from dualfl.objectives.losses import Loss
from dualfl.objectives.penalties import Penalty
from dualfl.silos.costs import Cost, Rows, Sample, loss_to_json
from dualfl.silos.ledger import Ledger
from dualfl.typing import Array

Reduction = Literal["sum", "each", "none"]
T = TypeVar("T")


@dataclass(frozen=True)
class Query:
    """A question that is asked once. `sum`: the answer is a sum over silos; `each`: every silo's own, or None where it
    is withheld; `none`: silos take note of something and say nothing, so it travels with what is asked next."""

    verb: str
    given: Mapping[str, Any] = field(default_factory=dict)
    reduce: Reduction = "sum"


@dataclass(frozen=True)
class Exchange:
    """Questions that travel together, and what they are for."""

    purpose: str
    asks: tuple[Any, ...]  # of Query and of Request


Conversation = Generator[Exchange, Sequence[Any], T]


class Side(Protocol):
    """The clients of one fit: what is known of them without asking, and who keeps the books of a run on them."""

    @property
    def template(self) -> Objective:
        """A cost of the right kind and shape; its rows say nothing."""
        ...

    @property
    def penalty(self) -> Penalty | None:
        """The common one."""
        ...

    @property
    def auto(self) -> Algorithm:
        """What chooses the algorithm where nobody names one."""
        ...

    def inquiring(self, inquiry: Inquiry) -> Exchanges[Constants]:
        """What an algorithm that chooses wants to know."""
        ...

    def engine(self, algorithm: Algorithm, start: Array | None, seed: int) -> Engine:
        """Not yet settled. Who carries its requests is decided elsewhere."""
        ...

    def counted(self, result: Result) -> Result:
        """The result with what all silos sent."""
        ...


class Silos(Protocol):
    """Those who are asked. What is not a property here has to be asked for."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def withheld(self) -> frozenset[str]:
        """The silos that do not show their own numbers."""
        ...

    @property
    def shows_moments(self) -> bool:
        """Whether every silo lets its products of columns be seen, and not only in sums over all silos."""
        ...

    @property
    def features(self) -> int:
        """How many columns the rows have, the intercept not counted."""
        ...

    @property
    def ledger(self) -> Ledger: ...

    def side(self, cost: Cost, sample: Sample) -> Side:
        """The clients of a fit on this cost."""
        ...

    def carry(self, exchange: Exchange) -> list[Any]:
        """The answers to all questions of an exchange, in their order."""
        ...


def drive(conversation: Conversation[T], silos: Silos) -> T:
    """Carry every exchange of a conversation to the silos, until it has come to its end."""
    carry: Any = silos.carry
    result: T = exchanges.drive(cast(Any, conversation), carry)
    return result


def measuring(
    rows: Sequence[Rows], loss: Loss, classes: int, purpose: str, centre: float = 0.0
) -> Conversation[list[Sample]]:
    """What all silos together have in each of these choices of rows."""
    (answer,) = yield Exchange(purpose, (measurement(rows, loss, classes, centre),))
    return measured_samples(rows, answer)


def measurement(rows: Sequence[Rows], loss: Loss, classes: int, centre: float = 0.0) -> Query:
    """The question about these choices of rows."""
    chosen = [asdict(one) for one in rows]
    return Query("measure", {"rows": chosen, "classes": classes, "loss": loss_to_json(loss), "centre": centre})


def measured_samples(rows: Sequence[Rows], answer: Mapping[str, Any]) -> list[Sample]:
    """What the answer to it says."""
    return [
        Sample(one, float(w), round(float(n)), float(total), float(least), np.array(classes), float(squares))
        for one, (w, n, total, least, squares, *classes) in zip(rows, np.asarray(answer["lines"]))
    ]
