"""An algorithm that chooses: ask the clients what they have, and let it say what to run and why.

Whoever starts a run decides once, before there is an engine; engines take algorithms that are decided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Protocol

from dualfl.algorithms.contract import Algorithm, Ask, Constants, Place
from dualfl.algorithms.few_exchanges.auto import Auto
from dualfl.algorithms.messages import RunningTotal, averaged, floats, largest
from dualfl.engines.client import ClientMemory, Envelope, LocalCost, answer
from dualfl.engines.driver import Driver
from dualfl.engines.exchanges import Exchanges, Gathered, Step, drive
from dualfl.engines.history import History
from dualfl.engines.survey import Inquiry
from dualfl.objectives.penalties import Penalty
from dualfl.problem import Problem


class Informant(Protocol):
    """Somebody who can answer an inquiry: clients in this process, or silos far away."""

    @property
    def penalty(self) -> Penalty | None:
        """The problem's."""
        ...

    def inquire(self, inquiry: Inquiry) -> Constants: ...


class Inquirer(Protocol):
    """Somebody who can say which exchanges an inquiry takes."""

    @property
    def penalty(self) -> Penalty | None:
        """The problem's."""
        ...

    def inquiring(self, inquiry: Inquiry) -> Exchanges[Constants]: ...


def decide(algorithm: Algorithm, who: Informant) -> tuple[Algorithm, str]:
    """What runs, and why; an algorithm that is itself is returned as it is, and nobody is asked."""
    if not algorithm.undecided:
        return algorithm, ""
    return algorithm.specialise(who.inquire(inquiry_of(algorithm)), who.penalty)


def deciding(algorithm: Algorithm, who: Inquirer) -> Exchanges[tuple[Algorithm, str]]:
    """The exchanges of `decide`."""
    if not algorithm.undecided:
        return algorithm, ""
    return algorithm.specialise((yield from who.inquiring(inquiry_of(algorithm))), who.penalty)


def with_what_it_took(choice: str, chooser: Algorithm, history: History, N: int) -> str:
    """What was said of a choice, and what became of what was expected."""
    if not isinstance(chooser, Auto) or not len(history):
        return choice
    last = history[-1]
    took = chooser.afterwards(last.exchanges, (last.floats_up + last.floats_down) / N, last.seconds)
    return f"{choice} {took}" if took else choice


def inquiry_of(algorithm: Algorithm) -> Inquiry:
    """What an algorithm that chooses wants to know."""
    if not isinstance(algorithm, Auto):
        return Inquiry()
    return Inquiry(alike=algorithm.cost == "floats" or (algorithm.cost == "time" and not algorithm.network.free))


def conversing(
    inquiry: Inquiry, place: Place, features: int, exchanging: Callable[[Driver, Ask], Exchanges[SimpleNamespace]]
) -> Exchanges[Constants]:
    """The exchanges of an inquiry, each made by `exchanging`, and what they tell."""
    driver = Driver(inquiry, place)
    while not driver.started and (asked := driver.ask()) is not None:
        driver.tell((yield from exchanging(driver, asked)))
    return Inquiry.to_facts(driver.state, place, features)


class ClientsHere:
    """The clients of a problem in this process."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        clients = problem.clients
        self.place = Place(0, len(clients), clients[0].d)
        self.costs, self.silos = [LocalCost(f.fresh()) for f in clients], [ClientMemory() for _ in clients]

    @property
    def penalty(self) -> Penalty | None:
        return self.problem.penalty

    def inquire(self, inquiry: Inquiry) -> Constants:
        return drive(self.inquiring(inquiry))

    def inquiring(self, inquiry: Inquiry) -> Exchanges[Constants]:
        self.silos = [ClientMemory() for _ in self.costs]
        everybody = range(self.place.N)

        def exchanging(driver: Driver, asked: Ask) -> Exchanges[SimpleNamespace]:
            envelope = Envelope(driver.round, driver.exchange, asked.step, asked.message)
            gathered: Gathered = yield Step(self, inquiry, asked, envelope, everybody)
            self.silos = gathered.silos
            return gathered.means

        return (yield from conversing(inquiry, self.place, self.problem.clients[0].shape[0], exchanging))

    def gather(self, algorithm: Algorithm, asked: Ask, request: Envelope, clients: Sequence[int]) -> Gathered:
        sizes, mass, silos = self.problem.sizes, self.problem.mass, self.silos
        total, works, moved, weight = RunningTotal(len(clients) == 1), [], [], 0
        maxima: dict[str, float] = {}
        for j, f in enumerate(self.costs):  # added as they come: gradients of many clients are not held together
            reply, silo = answer(algorithm, f, silos[j], request, self.place, j, sizes[j] / mass, silos[j].answered)
            if asked.reduce == "max":
                maxima = vars(largest([reply.wire, maxima or reply.wire]))
            else:
                total.add(j, reply.wire, sizes[j])
            works.append(reply.work)
            moved.append(replace(silo, reply=None))
            weight += floats(reply.wire)
        means = averaged(total.result(), clients, sizes, mass) if not maxima else SimpleNamespace(**maxima)
        return Gathered(means, reply.wire, works, weight, moved)
