"""An algorithm that chooses: ask the clients what they have, and let it say what to run and why."""

from __future__ import annotations

from collections.abc import Sequence

from dualfl.algorithms.contract import Algorithm, Constants, Place
from dualfl.algorithms.messages import largest, mean
from dualfl.engines.client import ClientMemory, Envelope, LocalCost, answer
from dualfl.engines.driver import Driver
from dualfl.engines.survey import Inquiry
from dualfl.objectives.base import Objective
from dualfl.problem import Problem


def decide(problem: Problem, algorithm: Algorithm) -> tuple[Algorithm, str]:
    """What runs, and why; an algorithm that is itself is returned as it is.

    An engine whose clients are elsewhere carries the exchanges of an `inquiry` itself and calls `specialise`.
    """
    if not algorithm.undecided:
        return algorithm, ""
    return algorithm.specialise(inquire(problem.clients, problem.sizes, inquiry(algorithm)), problem.penalty)


def inquiry(algorithm: Algorithm) -> Inquiry:
    """What an algorithm that chooses wants to know."""
    return Inquiry(alike=getattr(algorithm, "cost", "") == "floats")


def inquire(clients: Sequence[Objective], sizes: Sequence[float], inquiry: Inquiry) -> Constants:
    """The clients' answers to it."""
    place = Place(0, len(clients), clients[0].d)
    driver = Driver(inquiry, place)
    costs, silos, mass = [LocalCost(f.fresh()) for f in clients], [ClientMemory() for _ in clients], sum(sizes)
    while (asked := driver.ask()) is not None:
        request = Envelope(driver.round, driver.exchange, asked.step, asked.message)
        answers = [
            answer(inquiry, f, silo, request, place, j, sizes[j] / mass, silo.answered)
            for j, (f, silo) in enumerate(zip(costs, silos))
        ]
        wires, silos = [reply.wire for reply, _ in answers], [silo for _, silo in answers]
        driver.tell(largest(wires) if asked.reduce == "max" else mean(wires, range(len(clients)), sizes, mass))
        if driver.started:
            break
    return Inquiry.told(driver.state, place, clients[0].shape[0])
