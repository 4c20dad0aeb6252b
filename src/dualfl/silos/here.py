"""Silos on this machine, asked one after the other; nobody has secrets from the person who has all the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dualfl.algorithms.contract import Algorithm, Constants
from dualfl.algorithms.few_exchanges.auto import Auto
from dualfl.algorithms.messages import floats
from dualfl.engines.decision import ClientsHere
from dualfl.engines.exchanges import Answer, Exchanges, Gathered, Measurement, Request
from dualfl.engines.history import History
from dualfl.engines.inprocess import InProcess
from dualfl.engines.result import Result
from dualfl.engines.survey import Inquiry
from dualfl.objectives import L1
from dualfl.objectives.base import Objective
from dualfl.objectives.joined import joined
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.penalties import Penalty
from dualfl.problem import Problem
from dualfl.silos.chamber import Chamber
from dualfl.silos.costs import Cost, Sample
from dualfl.silos.ledger import Ledger
from dualfl.silos.questions import Exchange, Query
from dualfl.silos.verbs import Wire, answered, looks
from dualfl.solvers.naming import choose_solver
from dualfl.typing import Array

AsOne = Callable[[Sequence[Objective]], LinearModel | None]


class SilosHere:
    """Chambers in this process.

    joined : compute silos as one where only sums over rows travel. It is faster, and changes last bits.
    """

    withheld: frozenset[str] = frozenset()
    shows_moments = True

    def __init__(self, chambers: Sequence[Chamber], joined: bool = False) -> None:
        self.chambers, self.joined = list(chambers), joined
        self.ledger = Ledger()
        self._rides = False  # whether the next steps travel with measurements that have just been made
        self._joined: dict[Cost, LinearModel | None] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(chamber.name for chamber in self.chambers)

    @property
    def features(self) -> int:
        return int(self.chambers[0].rows.X.shape[1])

    def side(self, cost: Cost, sample: Sample) -> SideHere:
        """Silos that have no rows in it are not asked."""
        penalty = L1(cost.l1) if cost.l1 else None
        problem = Problem(self._clients(cost), penalty=penalty, solvers=choose_solver(cost.solver))
        return SideHere(problem, partial(self._as_one, cost) if self.joined else None)

    def whole(self, cost: Cost) -> LinearModel | None:
        """The rows of all silos in one model; None where silos are not computed as one."""
        return self._as_one(cost, self._clients(cost)) if self.joined else None

    def _as_one(self, cost: Cost, clients: Sequence[Objective]) -> LinearModel | None:
        """The rows of all silos in one model, which fits share that differ in their penalty."""
        bare = cost.without_penalty
        if bare not in self._joined:
            self._joined[bare] = joined(clients)
        found = self._joined[bare]
        return None if found is None else found.with_ridge(cost.ridge)

    def carry(self, exchange: Exchange) -> list[Any]:
        """Measurements before steps: what a run asks next rides on its measurement, so both are one message."""
        answers: list[Any] = []
        up = down = messages = 0
        measuring = any(isinstance(ask, Measurement) for ask in exchange.asks)
        for ask in exchange.asks:
            if isinstance(ask, Query):
                wires = self._wires(ask)
                answers.append(wires if ask.reduce == "each" else added(wires))
                up += sum(map(numbers_in, wires)) * len(self.chambers) // len(wires)
                down += len(self.chambers) * numbers_in(ask.given)
                messages |= ask.reduce != "none"
            elif measuring and not isinstance(ask, Measurement):
                answers.append(None)  # asked again, with what follows the measurements
            else:  # of a run, which keeps its own books
                answers.append(carried(ask))
                if isinstance(answers[-1], Gathered):
                    up += answers[-1].floats
                    down += len(ask.clients) * floats(ask.asked.message)
                messages |= not self._rides
        self._rides = measuring
        self.ledger.note(exchange.purpose, up, down, messages)
        return answers

    def _wires(self, ask: Query) -> list[Wire]:
        """What every silo says; one answer for all, where silos are computed as one and only their sum counts."""
        if self.joined and ask.verb == "curvatures":
            costs = [Cost.from_json(cost) for cost in ask.given["costs"]]
            wholes = [self.whole(cost) for cost in costs]
            if all(whole is not None for whole in wholes):
                models = [(whole, whole.mass) for whole in wholes if whole is not None]
                return [looks(models, ask.given["thetas"], ask.given.get("second", True))]
        return [answered(chamber, ask.verb, ask.given) for chamber in self.chambers]

    def _clients(self, cost: Cost) -> list[LinearModel]:
        return [f for chamber in self.chambers if (f := chamber.objective(cost)) is not None]


def carried(request: Request) -> Answer | Exception:
    """What came back, or the error, which is that of one run and not of all."""
    try:
        return request.carried_out()
    except Exception as error:
        return error


class SideHere:
    """The clients of one fit in this process; `as_one` makes one of them where only sums over rows travel."""

    def __init__(self, problem: Problem, as_one: AsOne | None = None) -> None:
        self.problem, self.as_one, self.silos = problem, as_one, problem.N

    @property
    def auto(self) -> Algorithm:
        """In one process no sum of few rows leaves anybody's hands. Silos that are computed as one are to be fast."""
        return Auto(cost="exchanges" if self.as_one is None else "time", least_rows=1)

    @property
    def template(self) -> Objective:
        return self.problem.clients[0]

    @property
    def penalty(self) -> Penalty | None:
        return self.problem.penalty

    def inquiring(self, inquiry: Inquiry) -> Exchanges[Constants]:
        return ClientsHere(self.problem).inquiring(inquiry)

    def engine(self, algorithm: Algorithm, start: Array | None, seed: int) -> InProcess:
        whole = self.as_one(self.problem.clients) if self.as_one is not None and algorithm.additive else None
        if whole is not None:
            self.problem = Problem([whole], penalty=self.penalty)
        engine = InProcess(self.problem, algorithm, start=start, seed=seed, settle=False)
        for cost in engine.costs:
            cost.remembers = whole is not None
        return engine

    def counted(self, result: Result) -> Result:
        """If silos were computed as one, each of them would have sent what the one sent."""
        if self.problem.N == self.silos:
            return result
        N = self.silos
        rows = [
            row._replace(
                floats_up=N * row.floats_up, floats_down=N * row.floats_down, local_gradients=N * row.local_gradients
            )
            for row in result.history
        ]
        return replace(result, history=History(rows, [N * each for each in result.history.iterations]))


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
