"""An algorithm that chooses: ask the clients what they have, and let it say what to run and why.

Whoever starts a run decides once, before there is an engine; engines take algorithms that are decided.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Protocol

from dualfl.algorithms.contract import Algorithm, Ask, Constants, Place
from dualfl.algorithms.messages import largest, mean
from dualfl.engines.client import ClientMemory, Envelope, LocalCost, answer
from dualfl.engines.driver import Driver
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


def decide(algorithm: Algorithm, who: Informant) -> tuple[Algorithm, str]:
    """What runs, and why; an algorithm that is itself is returned as it is, and nobody is asked."""
    if not algorithm.undecided:
        return algorithm, ""
    inquiry = Inquiry(alike=getattr(algorithm, "cost", "") == "floats")
    return algorithm.specialise(who.inquire(inquiry), who.penalty)


def converse(
    inquiry: Inquiry, place: Place, features: int, exchange: Callable[[Driver, Ask], SimpleNamespace]
) -> Constants:
    """The exchanges of an inquiry, carried by `exchange`, and what they tell."""
    driver = Driver(inquiry, place)
    while not driver.started and (asked := driver.ask()) is not None:
        driver.tell(exchange(driver, asked))
    return Inquiry.to_facts(driver.state, place, features)


class ClientsHere:
    """The clients of a problem in this process."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @property
    def penalty(self) -> Penalty | None:
        return self.problem.penalty

    def inquire(self, inquiry: Inquiry) -> Constants:
        clients, sizes, mass = self.problem.clients, self.problem.sizes, self.problem.mass
        place = Place(0, len(clients), clients[0].d)
        costs, silos = [LocalCost(f.fresh()) for f in clients], [ClientMemory() for _ in clients]

        def exchange(driver: Driver, asked: Ask) -> SimpleNamespace:
            request = Envelope(driver.round, driver.exchange, asked.step, asked.message)
            wires = []
            for j, f in enumerate(costs):
                reply, silos[j] = answer(inquiry, f, silos[j], request, place, j, sizes[j] / mass, silos[j].answered)
                wires.append(reply.wire)
            return largest(wires) if asked.reduce == "max" else mean(wires, range(len(clients)), sizes, mass)

        return converse(inquiry, place, clients[0].shape[0], exchange)
