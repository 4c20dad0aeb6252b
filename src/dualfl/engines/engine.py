"""What every engine does on the server's side, whoever carries the messages.

An engine binds an algorithm to clients. It carries an ask to them and a mean back, keeps the account, and measures.
Where the clients are (threads, actors of a cluster, silos of other organisations) is the business of `gather`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.contract import Algorithm, Ask, Constants, Place, bad_answer
from dualfl.algorithms.messages import RunningTotal, averaged, floats, largest, mean, not_finite
from dualfl.engines.client import ClientMemory, Envelope, Reply
from dualfl.engines.driver import Driver
from dualfl.engines.exchanges import Ahead, Exchanges, Gathered, Measured, Measurement, Step, drive
from dualfl.engines.result import Account, Energy
from dualfl.engines.survey import Survey
from dualfl.errors import Diverged, InputError, NotSupported
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalised, Penalty
from dualfl.objectives.rounding import of_mean, roundings
from dualfl.typing import Array, frozen

SMALL = 4096  # numbers: uploads of so many are kept until their block is added up


class RunningReduction:
    """The mean (or the maxima) of answers as they come, one client after the other, with the bits of `mean`."""

    def __init__(self, engine: Engine, asked: Ask, request: Envelope, clients: Sequence[int]) -> None:
        self.engine, self.asked, self.request, self.clients = engine, asked, request, clients
        self._maxima: dict[str, float] = {}
        self._total = RunningTotal(len(clients) == 1)
        self._unseen: list[tuple[int, Mapping[str, Any]]] = []  # small ones of this block

    def add(self, client: int, wire: Mapping[str, Any]) -> None:
        """The upload of one client; they come in ascending order."""
        if self.asked.reduce == "max":
            self._look([(client, wire)])
            self._maxima = {name: max(float(wire[name]), self._maxima.get(name, -np.inf)) for name in wire}
            return
        # Infinity and NaN survive any sum, so one look at the sum of a block will do, while its uploads are still here.
        if self._total.begins(client):
            self._check_block()
        if floats(wire) <= SMALL:
            self._unseen.append((client, wire))
        else:
            self._look([(client, wire)])
        with np.errstate(over="ignore", invalid="ignore"):
            self._total.add(client, wire, self.engine.sizes[client])

    def _check_block(self) -> None:
        if any(not_finite(value) for value in self._total.block.values()):
            self._look(self._unseen)
        self._unseen = []

    def _look(self, uploads: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        if any(not_finite(value) for _, wire in uploads for value in wire.values()):
            self.engine._blame(self.request, [j for j, _ in uploads], [wire for _, wire in uploads])

    def result(self) -> SimpleNamespace:
        if self.asked.reduce == "max":
            return SimpleNamespace(**self._maxima, mass=1.0)
        self._check_block()
        with np.errstate(over="ignore", invalid="ignore"):
            means = averaged(self._total.result(), self.clients, self.engine.sizes, self.engine.mass)
        if any(not_finite(value) for value in vars(means).values()):
            self.engine._blame(self.request, (), ())
        return means


class Engine(ABC):
    """One run: an algorithm bound to clients.

    template : an objective of the right shape; `penalty` the problem's; `sizes` how much each client counts.
    """

    constants: Constants
    algorithm: Algorithm
    deadline = np.inf  # of the exchange under way, by time.perf_counter(); who carries it out looks at it where he can
    silos_remember = False  # whether silos keep their state themselves, whatever becomes of the server

    def __init__(
        self,
        algorithm: Algorithm,
        template: Objective,
        penalty: Penalty | None,
        sizes: Sequence[float],
        *,
        seed: int,
        codec: Codec | None,
        start: Array | None,
    ) -> None:
        self.template, self.penalty, self.shape = template, penalty, template.shape
        start = None if start is None else check_start(start, template.d)
        self.origin = None if algorithm.warm else start
        N = len(sizes)
        self.sizes = [1.0] * N if algorithm.uniform else list(sizes)
        self.mass = sum(self.sizes)
        self.weights = [size / self.mass for size in self.sizes]
        self.place = Place(
            int(seed),
            N,
            template.d,
            start=start if algorithm.warm else None,
            penalty=server_penalty(template, penalty, self.origin) if algorithm.penalty == "server" else None,
            codec=codec,
        )
        # What an exchange changes is replaced, never changed in place, so that a run can fall back to what it was.
        self.silos = [ClientMemory() for _ in range(N)]
        self.account = Account(iterations=(0,) * N)
        self.server_memory: dict[str, Array] = {}
        self.early: tuple[tuple[int, int], Gathered] | None = None  # the answer to what has not been asked yet

    def settle(self, algorithm: Algorithm, constants: Constants | None) -> None:
        """Find out the constants, if nobody knows them, and fill in the algorithm's defaults."""
        drive(self.settling(algorithm, constants))

    def settling(self, algorithm: Algorithm, constants: Constants | None) -> Exchanges[None]:
        """The exchanges of `settle`."""
        if algorithm.undecided:
            raise InputError(
                f"{algorithm.name} chooses another algorithm and runs nothing itself; give it to `run`, which decides, "
                "or give the engine what `dualfl.engines.decision.decide` returns."
            )
        found = (yield from self._surveying(self._survey(algorithm))) if constants is None else constants
        self.constants, self.algorithm = found, algorithm.resolve(found)

    def _survey(self, algorithm: Algorithm) -> Survey:
        """What must be known before the first round."""
        return Survey(not algorithm.resolved)

    def _surveying(self, survey: Survey) -> Exchanges[Constants]:
        before = self.silos, self.account
        driver = Driver(survey, self.place)
        asked = driver.ask()
        assert asked is not None
        driver.tell((yield from self.exchanging(survey, driver, asked)))
        self.silos, self.account = before  # set-up is not a part of any round
        return self._surveyed(survey.to_constants(driver.state, self.place))

    def _surveyed(self, found: Constants) -> Constants:
        """What to make of constants that were asked for."""
        return found

    # -- what differs between engines --------------------------------------------------------------

    @abstractmethod
    def gather(self, algorithm: Algorithm, asked: Ask, request: Envelope, clients: Sequence[int]) -> Gathered:
        """Carry one request to the clients and their answers back."""

    @abstractmethod
    def mean_value(self, theta: Array, ahead: Ahead | None) -> tuple[float, float]:
        """sum_j w_j f_j(theta), added up as an upload would be, and the same mean of the bounds of its rounding errors.

        `ahead` tells what will be asked next, for an engine that sends both in one message; None if nothing will be.
        """

    @property
    @abstractmethod
    def solvers(self) -> list[str]:
        """The local solvers in words, each once, sorted."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A digest of the clients' costs, so that nobody resumes a run on other data."""

    def stored(self, silos: list[ClientMemory]) -> list[ClientMemory]:
        """What a checkpoint must hold of these silos."""
        return silos

    def restored(self, silos: list[ClientMemory]) -> list[ClientMemory]:
        """The way back: the clients remember what a checkpoint holds."""
        return silos

    def close(self) -> None:  # noqa: B027 (not every engine holds something)
        """Let go of everything that outlives a call."""

    # -- one exchange -----------------------------------------------------------------------------

    def exchange(self, algorithm: Algorithm, driver: Driver, asked: Ask) -> SimpleNamespace:
        """Carry one ask to the clients and their answers back. All clients move on, or none does."""
        return drive(self.exchanging(algorithm, driver, asked))

    def exchanging(self, algorithm: Algorithm, driver: Driver, asked: Ask) -> Exchanges[SimpleNamespace]:
        """One ask as a request, and what its answer means; nothing is carried here."""
        step = self.step_of(algorithm, driver.round, driver.exchange, asked)
        early, self.early = self.early, None
        if early is not None and early[0] == step.envelope.id:
            return self._received(step, early[1])
        gathered: Gathered = yield step
        return self._received(step, gathered)

    def step_of(self, algorithm: Algorithm, round: int, exchange: int, asked: Ask) -> Step:
        """An ask, addressed to its clients."""
        envelope = Envelope(round, exchange, asked.step, asked.message)
        return Step(self, algorithm, asked, envelope, self._addressed(algorithm, asked))

    def _received(self, step: Step, gathered: Gathered) -> SimpleNamespace:
        """Decode and book what came back."""
        means, memory = gathered.means, self.server_memory
        if self.place.codec is not None and step.asked.reduce == "sum":
            full, memory = self.place.codec.decode(vars(means), gathered.wire, memory)
            means = SimpleNamespace(**full)
        self.account = self._booked(step.asked, step.clients, gathered)
        self.server_memory, self.silos = memory, gathered.silos
        return means

    def _addressed(self, algorithm: Algorithm, asked: Ask) -> Sequence[int]:
        """The numbers of the clients that are asked, ascending."""
        if asked.to is None:
            return range(self.place.N)
        clients = sorted({int(j) for j in asked.to})
        if not clients or clients[0] < 0 or clients[-1] >= self.place.N:
            raise InputError(
                f"{algorithm.name} asks the clients {clients}; there are {self.place.N}, numbered from 0, "
                "and at least one must be asked."
            )
        if self.place.codec is not None and len(clients) < self.place.N:
            raise NotSupported(
                f"{algorithm.name} asks {len(clients)} of {self.place.N} clients, and compressed uploads are "
                "differences that everybody must send; run it without a codec."
            )
        return clients

    def moved(self, clients: Sequence[int], silos: Sequence[ClientMemory]) -> list[ClientMemory]:
        """All silos, those of `clients` replaced."""
        moved = list(self.silos)
        for j, silo in zip(clients, silos):
            moved[j] = silo
        return moved

    def reduce(
        self, asked: Ask, request: Envelope, clients: Sequence[int], replies: Sequence[Reply]
    ) -> SimpleNamespace:
        """The mean (or the maxima) of answers that are all here."""
        wires = [reply.wire for reply in replies]
        if asked.reduce == "max":
            if any(not_finite(value) for wire in wires for value in wire.values()):
                self._blame(request, clients, wires)
            return largest(wires)
        with np.errstate(over="ignore", invalid="ignore"):
            means = mean(wires, clients, self.sizes, self.mass)
        # Infinity and NaN survive any sum, so one look at the sum will do.
        if any(not_finite(value) for value in vars(means).values()):
            self._blame(request, clients, wires)
        return means

    def running(self, asked: Ask, request: Envelope, clients: Sequence[int]) -> RunningReduction:
        """The mean (or the maxima) of answers that come one by one."""
        return RunningReduction(self, asked, request, clients)

    def _blame(self, request: Envelope, clients: Sequence[int], wires: Sequence[Mapping[str, Any]]) -> None:
        """One bad client must not poison the mean, and must be named."""
        for j, wire in zip(clients, wires):
            for name, value in wire.items():
                if not_finite(value):
                    at = self.place.of_client(request.round, request.exchange, j, self.weights[j], {})
                    raise InputError(bad_answer(at, name))
        raise Diverged(f"The sum of all answers overflows in round {request.round}; the iterates grow without bound.")

    def _booked(self, asked: Ask, clients: Sequence[int], gathered: Gathered) -> Account:
        """The account after this exchange."""
        before = self.account
        iterations = list(before.iterations)
        for j, work in zip(clients, gathered.works):
            iterations[j] += work.iterations
        return before._replace(
            exchanges=before.exchanges + asked.answered,
            floats_up=before.floats_up + gathered.floats,
            floats_down=before.floats_down + len(clients) * floats(asked.message),
            local_gradients=before.local_gradients + sum(work.gradients for work in gathered.works),
            iterations=tuple(iterations),
            capped=before.capped + sum(work.capped for work in gathered.works),
            contacts=before.contacts + len(clients) * asked.answered,
            payload=before.payload + floats(asked.message) + gathered.floats / len(clients),
        )

    # -- measuring --------------------------------------------------------------------------------

    def feasible(self, theta: Array) -> Array:
        """theta, where the penalty is finite if only rounding keeps it from being so."""
        return theta if self.penalty is None else Penalised(self.template, self.penalty).rounded(theta)

    def energy(self, theta: Array, ahead: Ahead | None = None) -> Energy:
        """E(theta)."""
        return drive(self.measuring(theta, ahead))

    def measuring(self, theta: Array, ahead: Ahead | None = None) -> Exchanges[Energy]:
        """The exchange of `energy`; what was answered early is kept until it is asked for."""
        request = Measurement(self, self.algorithm, theta, ahead)
        measured: Measured = yield request
        value, rounding, early = measured
        if early is not None and (step := request.following) is not None:
            self.early = step.envelope.id, early
        rounding *= of_mean(self.place.N)
        if self.penalty is None or self.algorithm.penalty == "client":
            return Energy(value, rounding)
        penalty = Penalised(self.template, self.penalty).penalty_value(theta)
        return Energy(value + penalty, rounding + roundings(len(theta)) * (abs(penalty) + abs(value)))


class ServerPenalty:
    """The common penalty as the server applies it, in coordinates around the origin."""

    def __init__(self, penalised: Penalised, origin: Array | None) -> None:
        self.penalised, self.origin = penalised, np.zeros(penalised.d) if origin is None else origin

    def prox(self, step: float, v: Array) -> Array:
        return self.penalised.prox(step, v + self.origin) - self.origin

    def value(self, x: Array) -> float:
        return self.penalised.penalty_value(x + self.origin)


def server_penalty(template: Objective, penalty: Penalty | None, origin: Array | None) -> ServerPenalty | None:
    return None if penalty is None else ServerPenalty(Penalised(template, penalty), origin)


def check_start(start: Array, d: int) -> Array:
    if np.shape(start) != (d,):
        raise InputError(f"start must be a flat vector of {d} numbers, but its shape is {np.shape(start)}.")
    start = frozen(start)
    if not np.isfinite(start).all():
        raise InputError("start must be finite, but it contains NaN or infinity.")
    return start
