"""Runs an algorithm on silos in other places: the server's side, over any transport.

Before the first round: hello (who is there, and with which columns), agree (the plan, and the sums that columns and
levels need), one more sum for the spread, and the survey of constants. Then one message a silo and exchange. The value
of the last model rides on the first exchange of the next round, where both go to all, so measuring costs no exchange of
its own but the last.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.contract import Algorithm, Ask, Constants
from dualfl.algorithms.messages import floats, mean
from dualfl.engines.client import ClientMemory, Envelope, Reply, Work
from dualfl.engines.engine import Engine
from dualfl.engines.exchanges import Ahead, Gathered
from dualfl.engines.inprocess import digest
from dualfl.engines.suiting import check_fit
from dualfl.errors import InputError
from dualfl.federation.courier import Courier
from dualfl.federation.protocol import PROTOCOL
from dualfl.federation.rows import agree
from dualfl.federation.wire import encode
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalty
from dualfl.problem import equalised
from dualfl.tables.refusals import IN_SILOS
from dualfl.tables.schema import Draft, Request, Schema, settled
from dualfl.tables.sums import Totals, centre
from dualfl.typing import Array
from dualfl.version import __version__

Content = dict[str, Any]


@dataclass(frozen=True)
class Terms:
    """What is to be run, as the coordinator has it. `roster`: the registered public keys, if silos must sign."""

    experiment: str
    names: tuple[str, ...]
    algorithm: Algorithm
    problem: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    start: Array | None = None
    codec: Codec | None = None
    standardise: bool = True
    task: str | None = None
    tables: bool = True  # False: silos hold objectives, not files
    roster: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Setup:
    """What was found out before the first round; kept, so that a resumed run need not ask again."""

    schema: Schema | None
    center: Array | None
    spread: Array | None
    mass: float
    sizes: tuple[float, ...]  # equal ones under masks, where nobody knows them
    equal: bool  # whether every silo counts 1
    data: tuple[str, ...]

    @property
    def scaling(self) -> Content:
        schema = None if self.schema is None else self.schema.as_json()
        known = {"schema": schema, "center": self.center, "spread": self.spread}
        return known | {"mass": self.mass, "equal": self.equal}


class Federation:
    """The exchanges before the first round, and the words that every message begins with."""

    def __init__(self, post: Courier, terms: Terms) -> None:
        self.post, self.terms = post, terms
        self.everybody = list(terms.names)
        self.scaled: set[str] = set()  # the silos that know the scaling

    def ask(
        self, kind: str, to: Sequence[str] | None = None, seconds: float = math.inf, **content: Any
    ) -> dict[str, Content]:
        """The answers of these silos, or of all, if they come in time."""
        head = {
            "kind": kind,
            "protocol": PROTOCOL,
            "experiment": self.terms.experiment,
            "to": None if to is None else tuple(to),
        }
        return self.post.ask(encode(head | content), self.everybody if to is None else to, seconds)

    def meet(self, known: Setup | None = None) -> Setup:
        """Hello, agreement, standardisation."""
        terms = self.terms
        # Only here: silos keep the plan as it came, and a coordinator may go on with it in a later version.
        met = self.ask("hello", task=terms.task, version=__version__)
        self._check_signatures(met)
        draft = agree(met) if terms.tables else None
        codec = None if terms.codec is None else (type(terms.codec).__name__, dataclasses.asdict(terms.codec))
        answers = self.ask(
            "agree",
            names=terms.names,
            offers=None,
            secure=None,  # what is masked is an analysis: see `far_silos`
            problem=dict(terms.problem),
            draft=None if draft is None else draft.as_json(),
            algorithm=terms.algorithm.to_json(),
            seed=terms.seed,
            start=terms.start,
            codec=codec,
        )
        data = tuple(str(answers[name]["data"]) for name in terms.names)
        if known is not None:
            if known.data != data:
                odd = next(name for name, a, b in zip(terms.names, known.data, data) if a != b)
                raise InputError(f"The data of silo {odd!r} have changed since the run began; start a new experiment.")
            return known
        return self._settled(draft, answers, data)

    def _check_signatures(self, met: Mapping[str, Content]) -> None:
        from dualfl.federation.masks import Offer, check

        if self.terms.roster is None:
            return
        for name, answer in met.items():
            if "offer" not in answer:
                raise InputError(f"Silo {name!r} has no key; make one with `dualfl deploy join`.")
            check(self.terms.roster[name], self.terms.experiment, name, Offer(*answer["offer"]))

    def _settled(self, draft: Draft | None, answers: Mapping[str, Content], data: tuple[str, ...]) -> Setup:
        schema, center, spread = self._schema(draft, self.added(answers))
        sizes = equalised([float(answers[name]["wire"]["size"]) for name in self.terms.names])
        return Setup(schema, center, spread, sum(sizes), tuple(sizes), set(sizes) == {1.0}, data)

    def _schema(self, draft: Draft | None, summed: Content) -> tuple[Schema | None, Array | None, Array | None]:
        """What becomes of the columns, and the mean and spread of what they become."""
        if draft is None:
            return None, None, None
        request = Request("", remedies=IN_SILOS)
        coding = "full" if self.terms.problem["l1"] else "reference"  # as `dualfl fit` does
        if draft.sparse or (draft.width and not self.terms.standardise):  # columns are taken as they are
            return settled(draft, {}, request, coding), None, None
        center = centre(summed)
        totals = Totals(draft, summed, center, self.added(self.ask("moments", center=center)))
        schema = settled(draft, totals.columns(), request, coding)
        if not self.terms.standardise:
            return schema, None, None
        scaling = totals.scaling(schema)
        return schema, scaling.mean, scaling.spread

    def added(self, answers: Mapping[str, Content]) -> Content:
        """The sums of what silos uploaded outside a step."""
        wires = [answers[name]["wire"] for name in self.terms.names]
        self.check_shapes(wires, self.terms.names)
        return {name: sum((wire[name] for wire in wires[1:]), wires[0][name]) for name in wires[0]}

    def check_shapes(self, wires: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
        """All silos send the same fields of the same shape; the one that does not is named."""
        told = [tuple((field, kind(value)) for field, value in wire.items()) for wire in wires]
        most = Counter(told).most_common(1)[0][0]
        for name, mine in zip(names, told):
            if mine != most:
                raise InputError(
                    f"Silo {name!r} answered with {words(mine)}, and the rest with {words(most)}; it runs another "
                    "model or another version, so look at that silo."
                )


def kind(value: Any) -> Any:
    """What must be the same for all."""
    if isinstance(value, np.ndarray):
        return value.shape
    if isinstance(value, tuple):
        return tuple(kind(v) for v in value)
    return type(value).__name__ if hasattr(value, "add_to") else ()


def words(fields: Sequence[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} of shape {shape}" for name, shape in fields) or "nothing"


class Remote(Engine):
    """One run on silos that a post reaches."""

    silos_remember = True

    def __init__(
        self,
        federation: Federation,
        setup: Setup,
        template: Objective,
        penalty: Penalty | None,
        algorithm: Algorithm,
        constants: Constants | None = None,
        solvers: Sequence[str] = ("default",),
    ) -> None:
        self._bind(federation, setup, template, penalty, algorithm)
        self._solvers = list(solvers)
        self.settle(algorithm, constants)

    def _bind(
        self,
        federation: Federation,
        setup: Setup,
        template: Objective,
        penalty: Penalty | None,
        algorithm: Algorithm,
    ) -> None:
        """Get ready for an algorithm: silos bind their costs to the same."""
        terms = federation.terms
        self.federation, self.setup, self.names = federation, setup, list(terms.names)
        self._early: tuple[tuple[int, int], dict[str, Content], float] | None = None
        check_fit([template], penalty, algorithm, terms.codec)
        super().__init__(
            algorithm, template, penalty, setup.sizes, seed=terms.seed, codec=terms.codec, start=terms.start
        )
        self.bound = algorithm

    @property
    def solvers(self) -> list[str]:
        return self._solvers

    def fingerprint(self) -> str:
        return digest([item.encode() for item in (*self.setup.data, *self.names, self.federation.terms.experiment)])

    # -- one exchange -----------------------------------------------------------------------------

    def _step(
        self, algorithm: Algorithm, asked: Ask, request: Envelope, clients: Sequence[int], probe: Array | None
    ) -> dict[str, Content]:
        to = [self.names[j] for j in clients]
        answers = self.federation.ask(
            "step",
            to,
            self.deadline - time.perf_counter(),
            algorithm=algorithm.to_json(),
            under=self.bound.to_json(),
            round=request.round,
            exchange=request.exchange,
            step=request.step,
            message=request.message,
            reduce=asked.reduce,
            after=tuple(self.silos[j].answered for j in clients),
            probe=probe,
            scaling=self._scaling_if_new(to),
        )
        self.federation.scaled |= set(to)
        return answers

    def _scaling_if_new(self, to: Sequence[str]) -> Content | None:
        """The scaling, if one of these silos has not heard it: without it a silo has no cost to answer about."""
        return None if self.federation.scaled.issuperset(to) else self.setup.scaling

    def gather(self, algorithm: Algorithm, asked: Ask, request: Envelope, clients: Sequence[int]) -> Gathered:
        early, self._early = self._early, None
        if early is not None and early[0] == request.id:
            answers = early[1]
            self.account = self.account._replace(seconds=self.account.seconds + early[2])
        else:
            answers = self._step(algorithm, asked, request, clients, None)
        silos = self.moved(clients, [ClientMemory(answered=request.id)] * len(clients))
        replies = [Reply(answer["wire"], Work(*answer["work"])) for answer in answers.values()]
        wires = [reply.wire for reply in replies]
        self.federation.check_shapes(wires, list(answers))
        means = self.reduce(asked, request, clients, replies)
        works = [reply.work for reply in replies]
        return Gathered(means, wires[0], works, sum(floats(wire) for wire in wires), silos)

    # -- measuring --------------------------------------------------------------------------------

    def mean_value(self, theta: Array, ahead: Ahead | None) -> tuple[float, float]:
        following = None if ahead is None else ahead()
        if following is not None and following[1].to is None:
            answers = self._together(theta, *following)
        else:
            answers = self._ask_value(theta)
        values = [answer["value"] for answer in answers.values()]
        m = mean(values, range(self.place.N), self.sizes, self.mass)
        return float(m.E), float(m.off)

    def _ask_value(self, theta: Array) -> dict[str, Content]:
        """The value alone; if no survey was made and a cohort is asked first, this is the first that silos hear."""
        scaling = self._scaling_if_new(self.names)
        answers = self.federation.ask("value", probe=theta, under=self.bound.to_json(), scaling=scaling)
        self.federation.scaled |= set(self.names)
        return answers

    def _together(self, theta: Array, round: int, asked: Ask) -> dict[str, Content]:
        """The value, and the answers to what is asked next, which are kept until they are asked for."""
        began = time.perf_counter()
        request = Envelope(round, 0, asked.step, asked.message)
        answers = self._step(self.algorithm, asked, request, range(self.place.N), theta)
        self._early = request.id, answers, time.perf_counter() - began
        return answers
