"""Silos far away, asked by one message an exchange: what `SilosHere` is for files, over any transport.

The first message opens the experiment and asks for names; the second has the plan, and with it begin sums. Whatever an
exchange holds travels together: questions, steps of many fits, and for each fit the value of its last model with the
step after it. All answers are written down before they are used (`journal`), so an analysis that was interrupted is
driven again from its beginning, and silos are asked only for what they have not been asked before.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from dualfl.algorithms.contract import Algorithm, Ask, Constants
from dualfl.algorithms.messages import floats, mean
from dualfl.engines.client import ClientMemory, Envelope, Reply, Work
from dualfl.engines.decision import conversing
from dualfl.engines.driver import Driver
from dualfl.engines.engine import Ahead, Energy, Engine, Result, check_fit
from dualfl.engines.exchanges import Exchanges, Gathered, Measured, Measurement, Request, Step
from dualfl.engines.inprocess import digest
from dualfl.engines.survey import Inquiry, Survey
from dualfl.errors import InputError, NotSupported
from dualfl.federation import commitments, fixed_point
from dualfl.federation.analysis_journal import AnalysisJournal
from dualfl.federation.answers import NAMES
from dualfl.federation.asks import FitTerms, query_content, step_content, value_content
from dualfl.federation.courier import Courier
from dualfl.federation.handing_on import HELLO, NOTHING, Totals, check_hellos
from dualfl.federation.remote import Federation, Terms
from dualfl.objectives import L1
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalty
from dualfl.problem import equalised
from dualfl.silos.chamber import blank
from dualfl.silos.costs import ALL, Cost, Rows, Sample
from dualfl.silos.here import added, numbers_in
from dualfl.silos.ledger import Ledger
from dualfl.silos.questions import Exchange, Query
from dualfl.typing import Array

Content = dict[str, Any]
Answers = Mapping[str, Content]
AGAIN = "a vector again, in two words"


@dataclass(frozen=True)
class AnalysisTerms:
    """What is to be analysed, as all silos hear it before they send a sum."""

    experiment: str
    names: tuple[str, ...]  # sorted
    description: Mapping[str, Any] = field(default_factory=dict)  # in words that travel
    secure: int | None = None  # bits after the point, or None
    roster: Mapping[str, str] | None = None


class FarSilos:
    """The members of a federation."""

    def __init__(self, post: Courier, terms: AnalysisTerms, journal: AnalysisJournal | None = None) -> None:
        from dualfl.algorithms.few_exchanges.auto import Auto

        self.terms, self.journal = terms, journal or AnalysisJournal(None)
        self.federation = Federation(post, Terms(terms.experiment, terms.names, Auto(), roster=terms.roster))
        self.ledger = Ledger()
        self.masses: dict[Rows, list[float]] = {}  # of every silo, where nothing is masked
        self._notes: list[Query] = []  # that travel with what is asked next
        self._ended: list[int] = []
        self._offers: Any = None
        self._withheld: frozenset[str] = frozenset()
        self._reserved = False  # whether some silo says that its own numbers are nobody's business
        self._features = 0
        self._fits = 0
        self._sent = 0
        self._met: dict[str, Content] = {}
        self.rows: int | None = None  # that all silos together have committed themselves to
        self._opened = NOTHING  # of the last exchange

    # -- what an analysis may know without asking -----------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        return self.terms.names

    @property
    def secure(self) -> bool:
        return self.terms.secure is not None

    @property
    def shows_moments(self) -> bool:
        return not self.secure and not self._reserved

    @property
    def withheld(self) -> frozenset[str]:
        return self._withheld

    @property
    def features(self) -> int:
        return self._features

    def side(self, cost: Cost, sample: Sample) -> FarSide:
        self._fits += 1
        return FarSide(self, self._fits, cost, sample)

    def ended(self, number: int) -> None:
        """Silos may forget this fit."""
        self._ended.append(number)

    # -- carrying -------------------------------------------------------------------------------------

    def carry(self, exchange: Exchange) -> list[Any]:
        """One message, unless silos are only to take note of something."""
        for ask in exchange.asks:
            if isinstance(ask, Query) and ask.verb == "encode":
                self._features = len(ask.given["mean"])
        if all(isinstance(ask, Query) and ask.reduce == "none" for ask in exchange.asks):
            self._notes += exchange.asks
            return [{}] * len(exchange.asks)
        asks = self.asks_of(exchange)
        return self.read(exchange, asks, self._answers(asks))

    def asks_of(self, exchange: Exchange) -> list[Content]:
        """What travels for this exchange: first what silos are to take note of, then its questions."""
        notes, self._notes = self._notes, []
        return [query_content(note) for note in notes] + [pack(ask) for ask in exchange.asks]

    def read(self, exchange: Exchange, asks: Sequence[Content], answers: Answers) -> list[Any]:
        """What the answers to its questions come to."""
        opened, notes = Opened(self, answers, self._opened), len(asks) - len(exchange.asks)
        found = [opened.of(notes + i, ask) for i, ask in enumerate(exchange.asks)]
        down = len(self.names) * sum(map(numbers_in, asks[notes:]))
        self.ledger.note(exchange.purpose, opened.numbers, down)
        return found

    def _answers(self, asks: Sequence[Content]) -> Answers:
        """From the journal, or else from the silos; asked again, in two words a number, where one did not do."""
        content: Content = {"asks": list(asks)}
        known = self._exchanged(content)
        if self._opened.too_large(len(self.names)):  # numbers that one word did not carry
            self.ledger.note(AGAIN, self._opened.numbers * len(self.names), len(self.names) * numbers_in(content))
            known = self._exchanged(content | {"wide": True})
        return known

    def _exchanged(self, content: Content) -> Answers:
        known = self.journal.answers(self._sent, content)
        self._sent += 1
        if known is None:
            known = self._ask(content)
            self.journal.append(content, known)
        if self._sent == 1:
            self._meet(known)
        self._opened = Totals.of(known) if self.secure and self._sent > 1 else NOTHING
        if self._sent == 2:
            self.note_sizes(self._opened)
        return known

    def note_sizes(self, totals: Totals) -> None:
        """With the first sums silos open, together, what each has committed its number of rows with."""
        committed = [met["size"] for met in self._met.values() if met["size"] is not None]
        if not committed:
            return
        found = {} if totals.sums is None else totals.sums.sums()
        if len(committed) < len(self.names) or commitments.OPENING not in found:
            raise InputError(commitments.OTHER)
        self.rows = commitments.opened(found[commitments.OPENING], committed)

    def _ask(self, content: Content) -> Answers:
        ended, self._ended = self._ended, []
        if self._sent == 1:
            return self.federation.ask("open", analysis=dict(self.terms.description), **content)
        if self.secure:
            content = {"opened": self._opened.handed_on(), **content}
        if self._sent == 2:
            content |= {"met": self._met} if self.secure else {}
            return self.federation.ask("join", plan=self.plan(), ended=ended, **content)
        return self.federation.ask("ask", ended=ended, **content)

    def _meet(self, met: Answers) -> None:
        """Who is there, and who shows his own numbers."""
        self._reserved = any(met[name]["withholds"] for name in self.names)
        if self.secure:
            keyless = [name for name in self.names if "offer" not in met[name]]
            if keyless:
                raise InputError(f"Silo {keyless[0]!r} has no key; make one with `dualfl deploy join`.")
            for name in self.names:
                strange = [other for other in self.names if other not in (name, *met[name]["boxes"])]
                if strange:
                    raise InputError(
                        f"Silo {name!r} does not know the key of {strange[0]!r}: its operator gets the roster from the "
                        "coordinator, compares fingerprints, and runs `dualfl deploy trust`."
                    )
            self._met = {name: {one: met[name][one] for one in HELLO} for name in self.names}
            if self.terms.roster is not None:
                check_hellos(self._met, self.terms.experiment, self.terms.roster)
            self._offers = {name: met[name]["offer"] for name in self.names}
            self._withheld = frozenset(name for name in self.names if met[name]["withholds"])

    def finish(self) -> None:
        """Silos may delete all that they keep of this experiment; who does not hear it deletes it later."""
        with contextlib.suppress(InputError):
            self.federation.ask("end")

    def plan(self) -> Content:
        return {
            "names": self.names,
            "offers": self._offers,
            "secure": self.terms.secure,
            "algorithm": self.federation.terms.algorithm.to_json(),
            "analysis": dict(self.terms.description),
            "withheld": tuple(sorted(self._withheld)),
        }

    # -- how much silos count -------------------------------------------------------------------------

    def note_masses(self, query: Query, wires: Sequence[Content]) -> None:
        """Where nothing is masked, the sizes of silos are seen, and sums are weighted as in one process."""
        if query.verb == "count":
            self.masses[ALL] = [float(wire["size"]) for wire in wires]
        if query.verb == "measure":
            for i, rows in enumerate(query.given["rows"]):
                self.masses[Rows(**rows)] = [float(wire["lines"][i][0]) for wire in wires]

    def sizes(self, rows: Rows, sample: Sample) -> list[float]:
        """Of every silo; all the same where nobody knows them."""
        if self.secure:
            return [sample.mass / len(self.names)] * len(self.names)
        if rows not in self.masses and rows.which in ("without", "only"):
            return [mass * rows.of(name) for name, mass in zip(self.names, self.masses[ALL])]
        return self.masses[rows]


def pack(ask: Query | Request) -> Content:
    """A question as it travels."""
    if isinstance(ask, Query):
        return query_content(ask)
    engine: Any = ask.engine
    if isinstance(ask, Step):
        return step_content(engine.fit, ask, engine.after)
    following = ask.following
    if following is None:
        return value_content(engine.fit, ask)
    return step_content(engine.fit, following, engine.after, ask.theta)


class Opened:
    """The answers of all silos to one message, put together."""

    def __init__(self, silos: FarSilos, answers: Answers, totals: Totals) -> None:
        self.silos, self.answers = silos, answers
        self.numbers = totals.numbers * len(silos.names)
        self.secure = "own" in next(iter(answers.values()))
        self.sums: dict[int, Content] = {}
        self.largest: dict[int, Content] = {}
        if totals.sums is not None:
            self._sort(totals.sums.sums(), self.sums)
        if totals.largest is not None:
            self._sort(totals.largest.maxima, self.largest)

    @staticmethod
    def _sort(found: Mapping[str, Any], by_place: dict[int, Content]) -> None:
        for name, value in found.items():
            if name == commitments.OPENING:
                continue
            place, _, field_name = name.partition("/")
            by_place.setdefault(int(place), {})[field_name] = value

    def of(self, place: int, ask: Query | Request) -> Any:
        if isinstance(ask, Query):
            return self._query(place, ask)
        engine: Any = ask.engine
        if isinstance(ask, Step):
            return self._gathered(place, engine, ask)
        return self._measured(place, engine, ask)

    def _each(self, place: int, what: str) -> list[Any]:
        return [answer["answers"][place][what] for answer in self.answers.values()]

    def _query(self, place: int, query: Query) -> Any:
        if query.reduce == "none":
            return {}
        if query.reduce == "each":
            own = (
                [answer["own"][place] for answer in self.answers.values()] if self.secure else self._each(place, "own")
            )
            self.numbers += sum(numbers_in(one) for one in own if query.verb not in NAMES)
            return own
        if self.secure:
            found = self.sums[place]
            if query.verb == "count" and self.silos.rows not in (None, round(float(found["size"]))):
                raise InputError(commitments.OTHER)
            return found
        wires = self._each(place, "wire")
        self.silos.federation.check_shapes(wires, list(self.answers))
        self.silos.note_masses(query, wires)
        self.numbers += sum(map(numbers_in, wires))
        return added(wires)

    def _gathered(self, place: int, engine: FarEngine, step: Step) -> Gathered:
        moved = [ClientMemory(answered=step.envelope.id)] * engine.place.N
        if self.secure:
            if step.asked.reduce == "max":
                return Gathered(SimpleNamespace(**self.largest[place], mass=1.0), {}, [], 0, moved)
            sums = dict(self.sums[place])
            work = Work(**{name: sums.pop(f"work:{name}") for name in Work._fields})
            sums = {name: value for name, value in sums.items() if not name.startswith("probe:")}
            means = SimpleNamespace(**nested(sums), mass=1.0)
            works = [work._replace(iterations=round(work.iterations), capped=round(work.capped))]
            return Gathered(means, {}, works, sum(np.size(x) for x in sums.values()) * engine.place.N, moved)
        replies = [
            Reply(wire, Work(*(work or ())))
            for wire, work in zip(engine.chosen(self._each(place, "wire")), engine.chosen(self._each(place, "work")))
        ]
        wires = [reply.wire for reply in replies]
        self.silos.federation.check_shapes(wires, engine.names)
        means = engine.reduce(step.asked, step.envelope, range(engine.place.N), replies)
        uploaded = sum(floats(wire) for wire in wires)
        self.numbers += uploaded
        return Gathered(means, wires[0], [reply.work for reply in replies], uploaded, moved)

    def _measured(self, place: int, engine: FarEngine, request: Measurement) -> Measured:
        following = request.following
        early = None if following is None else self._gathered(place, engine, following)
        if self.secure:
            sums = self.sums[place]
            off = float(sums["probe:off"]) + engine.place.N * fixed_point.FINEST
            return Measured(float(sums["probe:E"]), off, early)
        values = engine.chosen(self._each(place, "value"))
        m = mean(values, range(engine.place.N), engine.sizes, engine.mass)
        self.numbers += 2 * engine.place.N
        return Measured(float(m.E), float(m.off), early)


def nested(sums: Mapping[str, Any]) -> Content:
    """Fields called x.0, x.1, ... as the tuple x again; arrays as they are sent."""
    found: Content = {}
    for name, value in sums.items():
        head, dot, _ = name.partition(".")
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        found[head] = (*found.get(head, ()), value) if dot else value
    return found


# -- one fit ------------------------------------------------------------------------------------------------


class FarSide:
    """The clients of one fit among silos far away."""

    def __init__(self, silos: FarSilos, number: int, cost: Cost, sample: Sample) -> None:
        self.silos, self.number, self.cost, self.sample = silos, number, cost, sample
        kind = np.intp if cost.positive is None and len(sample.classes) else np.float64
        self._template: Objective = blank(cost, silos.features, kind)
        self._penalty = L1(cost.l1) if cost.l1 else None

    @property
    def auto(self) -> Algorithm:
        """Silos with few rows send no second-order sums."""
        from dualfl.algorithms.few_exchanges.auto import Auto

        return Auto()

    @property
    def template(self) -> Objective:
        return self._template

    @property
    def penalty(self) -> Penalty | None:
        return self._penalty

    def inquiring(self, inquiry: Inquiry) -> Exchanges[Constants]:
        from dualfl.algorithms.few_exchanges.auto import Auto

        if self.silos.secure:  # what is best for alike silos asks one of them alone, and masks need all
            inquiry = replace(inquiry, alike=False)
        engine = self.engine(Auto(), None, 0)
        found = yield from conversing(
            inquiry,
            engine.place,
            self.template.shape[0],
            lambda driver, asked: engine.exchanging(inquiry, driver, asked),
        )
        return self.surveyed(found)

    def surveyed(self, found: Constants) -> Constants:
        """Secret maxima are rounded up, so mu is a little low; the ridge, which everybody has, is known exactly."""
        return replace(found, mu=max(found.mu, self.template.mu)) if self.silos.secure else found

    def engine(self, algorithm: Algorithm, start: Array | None, seed: int) -> FarEngine:
        return FarEngine(self, algorithm, start, seed)

    def counted(self, result: Result) -> Result:
        self.silos.ended(self.number)
        return result


class FarEngine(Engine):
    """Keeps the books of one fit; its requests are carried together with those of others."""

    silos_remember = True
    _rode = 0.0  # seconds of the measurement with which the next step travelled

    def __init__(self, side: FarSide, algorithm: Algorithm, start: Array | None, seed: int) -> None:
        self.side = side
        sizes = side.silos.sizes(side.cost.rows, side.sample)
        self.counts = [size > 0 for size in sizes]
        self.names = [name for name, counts in zip(side.silos.names, self.counts) if counts]
        sizes = [size for size in sizes if size > 0]
        if not side.silos.secure:
            sizes = equalised(sizes)
        check_fit([side.template], side.penalty, algorithm, None)
        super().__init__(algorithm, side.template, side.penalty, sizes, seed=seed, codec=None, start=start)
        equal = not side.silos.secure and set(sizes) == {1.0}
        self.fit = FitTerms(side.number, side.cost, algorithm, seed, start, sum(sizes), equal, tuple(self.names))

    def chosen(self, answers: Sequence[Any]) -> list[Any]:
        """Those of the silos that have rows in this fit."""
        return [answer for answer, counts in zip(answers, self.counts) if counts]

    @property
    def after(self) -> Any:
        """What all silos have answered last."""
        return self.silos[0].answered

    def _survey(self, algorithm: Algorithm) -> Survey:
        """Silos tell of their farthest row only where single rows are drawn."""
        draws = "samples" in algorithm.needs or getattr(algorithm, "batch", None) is not None
        return replace(super()._survey(algorithm), single_rows=draws or not self.side.silos.secure)

    def _surveyed(self, found: Constants) -> Constants:
        return self.side.surveyed(found)

    def measuring(self, theta: Array, ahead: Ahead | None = None) -> Exchanges[Energy]:
        began = time.perf_counter()
        found = yield from super().measuring(theta, ahead)
        self._rode = 0.0 if self.early is None else time.perf_counter() - began
        return found

    def exchanging(self, algorithm: Algorithm, driver: Driver, asked: Ask) -> Exchanges[SimpleNamespace]:
        rode, self._rode = self._rode, 0.0
        means = yield from super().exchanging(algorithm, driver, asked)
        self.account = self.account._replace(seconds=self.account.seconds + rode)
        return means

    def _addressed(self, algorithm: Algorithm, asked: Ask) -> Sequence[int]:
        clients = super()._addressed(algorithm, asked)
        if len(clients) < self.place.N:
            raise NotSupported(
                f"{algorithm.name} asks {len(clients)} of {self.place.N} silos at a time, and two sums that differ by "
                "one silo are no secret; take an algorithm that asks all, such as auto, dualfl or lbfgs. Without masks "
                "(--no-secure), which every operator must allow, `dualfl deploy run` takes this one too."
            )
        return clients

    def gather(self, algorithm: Algorithm, asked: Ask, request: Envelope, clients: Sequence[int]) -> Gathered:
        raise InputError("The requests of a fit among many travel with those of the others; drive them together.")

    def mean_value(self, theta: Array, ahead: Ahead | None) -> tuple[float, float]:
        raise InputError("The requests of a fit among many travel with those of the others; drive them together.")

    @property
    def solvers(self) -> list[str]:
        return ["default"]

    def fingerprint(self) -> str:
        return digest([item.encode() for item in (*self.names, self.side.silos.terms.experiment)])
