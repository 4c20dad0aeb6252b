"""What a run asks of its clients, as data.

A run is a generator: it yields requests, is sent what came back, and returns its result. It never calls a client
itself, so whoever drives it decides how requests travel: one at a time to clients in this process (`drive`), or those
of many runs in one message (`lockstep`). Answers are plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from inspect import GEN_CLOSED, getgeneratorstate
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, TypeVar, overload

from dualfl.algorithms.contract import Algorithm, Ask, Place
from dualfl.engines.client import ClientMemory, Envelope, Work
from dualfl.typing import Array

Ahead = Callable[[], tuple[int, Ask] | None]  # (round, what it will ask first)
Outcome = TypeVar("Outcome")


class Gathered(NamedTuple):
    """The answers to one ask."""

    means: SimpleNamespace  # weighted by all clients, in THE order of the sum; or the maxima
    wire: Mapping[str, Any]  # somebody's upload: it tells what was compressed
    works: Sequence[Work]  # of each client that was asked
    floats: int  # in all uploads together
    silos: list[ClientMemory]  # where every client stands after it


class Measured(NamedTuple):
    """The mean of the clients' costs at a point, and of the bounds of their rounding errors.

    `early` answers what would be asked next, if that travelled in the same message.
    """

    value: float
    rounding: float
    early: Gathered | None = None


class Carrier(Protocol):
    """Who can carry a step to clients and their answers back."""

    place: Place

    def gather(self, algorithm: Algorithm, asked: Ask, request: Envelope, clients: Sequence[int]) -> Gathered: ...


class Scale(Carrier, Protocol):
    """Who can measure as well."""

    def mean_value(self, theta: Array, ahead: Ahead | None) -> tuple[float, float]: ...

    def step_of(self, algorithm: Algorithm, round: int, exchange: int, asked: Ask) -> Step: ...


@dataclass(frozen=True, eq=False)
class Step:
    """Carry one ask to these clients; the answer is a `Gathered`."""

    engine: Carrier
    algorithm: Algorithm
    asked: Ask
    envelope: Envelope
    clients: Sequence[int]

    @property
    def size(self) -> int:
        """How many numbers a model has."""
        return self.engine.place.d

    def carried_out(self) -> Gathered:
        return self.engine.gather(self.algorithm, self.asked, self.envelope, self.clients)


@dataclass(frozen=True, eq=False)
class Measurement:
    """The mean of all clients' costs at theta; the answer is a `Measured`.

    `ahead` tells what will be asked next, for whoever sends both in one message; None if nothing will be.
    """

    engine: Scale
    algorithm: Algorithm
    theta: Array
    ahead: Ahead | None

    @property
    def following(self) -> Step | None:
        """What will be asked next, if all clients will be asked."""
        found = None if self.ahead is None else self.ahead()
        if found is None or found[1].to is not None:
            return None
        round, asked = found
        return self.engine.step_of(self.algorithm, round, 0, asked)

    def carried_out(self) -> Measured:
        return Measured(*self.engine.mean_value(self.theta, self.ahead))


Request = Step | Measurement
Answer = Gathered | Measured
Exchanges = Generator[Request, Any, Outcome]  # is sent a `Gathered` for a `Step`, a `Measured` for a `Measurement`


Asked = TypeVar("Asked")
Told = TypeVar("Told")


def carry(request: Request) -> Answer:
    """The answer of the clients that the request's own engine reaches."""
    return request.carried_out()


@overload
def drive(exchanges: Exchanges[Outcome]) -> Outcome: ...
@overload
def drive(exchanges: Generator[Asked, Told, Outcome], carry: Callable[[Asked], Told]) -> Outcome: ...
def drive(exchanges: Generator[Any, Any, Outcome], carry: Callable[[Any], Any] = carry) -> Outcome:
    """Answer request after request, until the generator ends.

    What is raised on the way, an interruption among it, is raised inside the generator, which knows what to save.
    """
    answer = None
    error: BaseException | None = None
    while True:
        try:
            request = exchanges.send(answer) if error is None else exchanges.throw(error)
            error = None
            answer = carry(request)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        except BaseException as raised:
            if getgeneratorstate(exchanges) == GEN_CLOSED:  # it has ended by this
                raise
            error = raised
