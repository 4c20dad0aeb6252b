"""Questions of an analysis as they travel: what a silo needs to answer them, and nothing else.

A `Query` travels as it is. A request of a run travels with the fit that it belongs to: a number, the cost, the
algorithm, and how much all rows of the fit weigh together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dualfl.algorithms.contract import Algorithm
from dualfl.engines.exchanges import Measurement, Step
from dualfl.silos.costs import Cost
from dualfl.silos.questions import Query
from dualfl.typing import Array

Content = dict[str, Any]


@dataclass(frozen=True, eq=False)
class FitTerms:
    """One fit among many, as coordinator and silos know it."""

    number: int
    cost: Cost
    algorithm: Algorithm  # that costs are bound to; surveys before the first round are others
    seed: int
    start: Array | None
    mass: float
    equal: bool  # whether every silo counts 1
    among: tuple[str, ...]  # the silos that have rows in it, as far as that is known

    def as_content(self) -> Content:
        return {
            "number": self.number,
            "cost": self.cost.as_json(),
            "under": self.algorithm.to_json(),
            "seed": self.seed,
            "start": self.start,
            "mass": self.mass,
            "equal": self.equal,
            "among": self.among,
        }


def query_content(query: Query) -> Content:
    return {"verb": query.verb, "given": dict(query.given), "reduce": query.reduce}


def step_content(fit: FitTerms, step: Step, after: Any, probe: Array | None = None) -> Content:
    """A step, and the point at which the cost is to be measured along with it."""
    envelope = step.envelope
    return {
        "fit": fit.as_content(),
        "algorithm": step.algorithm.to_json(),
        "round": envelope.round,
        "exchange": envelope.exchange,
        "step": envelope.step,
        "message": envelope.message,
        "reduce": step.asked.reduce,
        "after": after,
        "probe": probe,
    }


def value_content(fit: FitTerms, request: Measurement) -> Content:
    """The value alone."""
    return {"fit": fit.as_content(), "probe": request.theta, "reduce": "sum", "step": None}
