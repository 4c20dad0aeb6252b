"""The clients of one fit among silos far away, and the engine that keeps its books."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from dualfl.algorithms.contract import Algorithm, Ask, Constants
from dualfl.engines.client import Envelope
from dualfl.engines.decision import conversing
from dualfl.engines.driver import Driver
from dualfl.engines.engine import Engine
from dualfl.engines.exchanges import Ahead, Exchanges, Gathered
from dualfl.engines.inprocess import digest
from dualfl.engines.result import Energy, Result
from dualfl.engines.suiting import check_fit
from dualfl.engines.survey import Inquiry, Survey
from dualfl.errors import InputError, NotSupported
from dualfl.federation.asks import FitTerms
from dualfl.objectives import L1
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalty
from dualfl.problem import equalised
from dualfl.silos.chamber import blank
from dualfl.silos.costs import Cost, Sample
from dualfl.typing import Array

if TYPE_CHECKING:
    from dualfl.federation.far_silos import FarSilos


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
