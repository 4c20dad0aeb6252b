"""One algorithm of the library on the columns of silos, all of them: `dualfl deploy run`.

It is one conversation, as a whole fit is: what is asked depends on the description and on the answers alone, so a silo
can follow it. Clocks are not in the description. Whoever asks may stop early, and that is all that a clock can do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from dualfl.algorithms.contract import Algorithm
from dualfl.algorithms.registry import from_json as algorithm_from_json
from dualfl.analysis.agreeing import ColumnWishes, agreeing, check_counts
from dualfl.data.dataset import Dataset
from dualfl.data.problem import REGRESSION, choose_loss, parse_loss
from dualfl.engines.exchanges import Exchanges
from dualfl.engines.progress import Bar
from dualfl.engines.request import Limits, Recording
from dualfl.engines.result import Result
from dualfl.engines.session import Session
from dualfl.estimators.solving import side_by_side, starting
from dualfl.silos.costs import ALL, Cost
from dualfl.silos.questions import Conversation, Exchange, Side, Silos, measuring
from dualfl.tables.encoding import Scaling
from dualfl.tables.refusals import IN_SILOS
from dualfl.tables.schema import Request, Schema


@dataclass(frozen=True)
class LinearProblem:
    """What is minimised, in the words of project.json."""

    loss: str = "auto"
    ridge: float = 0.0
    l1: float = 0.0
    intercept: str = "free"  # from ridge and l1; or "penalised"
    solver: str | None = None

    def cost(self, schema: Schema) -> Cost:
        """Of every silo, once classes are known; one output on two classes takes -1 and +1."""
        task: Any = "classification" if schema.classes else "regression"
        nobody = Dataset(np.zeros((1, 1)), np.zeros(1), schema.classes, "the data of these silos", 1.0, "", task)
        loss = choose_loss(self.loss, nobody)
        positive = 1 if len(schema.classes) == 2 and loss.outputs == 1 else None
        intercept: Any = "free" if self.intercept == "free" else True
        return Cost(loss, self.ridge, self.l1, intercept, positive=positive, solver=self.solver)


@dataclass(frozen=True, eq=False)
class AlgorithmOutcome:
    """A run with what it was made of."""

    result: Result
    asked: Algorithm  # before theory filled in what nobody gave
    schema: Schema
    scaling: Scaling | None
    rows: int


@dataclass(frozen=True, eq=False)
class OneAlgorithm:
    """A run of one algorithm. `seconds` and `bar` are for whoever asks; silos hear nothing of them."""

    algorithm: Algorithm
    problem: LinearProblem
    task: str | None = None  # None: every silo says what its target is
    standardise: bool = True
    seed: int = 0
    rounds: int = 100
    tol: float | None = None
    seconds: float | None = None
    bar: Bar | None = field(default=None, repr=False)

    @property
    def numeric_target(self) -> bool | None:
        name, _ = parse_loss(self.problem.loss)
        if self.task is None and name == "auto":
            return None
        return name in REGRESSION if self.task is None else self.task == "regression"

    def conversation(self, silos: Silos) -> Conversation[AlgorithmOutcome]:
        request = Request("", self.numeric_target, remedies=IN_SILOS)
        coding = "full" if self.problem.l1 else "reference"  # as `dualfl fit` does
        wishes = ColumnWishes(request, coding, allow_empty=True, standardise=self.standardise, centre=False)
        agreed = yield from agreeing(silos, wishes)
        yield Exchange("the rows", (agreed.note,))
        cost = self.problem.cost(agreed.schema)
        (sample,) = yield from measuring([ALL], cost.loss, len(agreed.schema.classes), "the rows")
        check_counts(agreed.overview, sample.n)
        ran: Any = self.running(silos.side(cost, sample))
        (found,) = yield from side_by_side([ran], "the run")
        if isinstance(found, Exception):
            raise found
        result, asked = found
        scaling = agreed.scaling if self.standardise and not agreed.schema.sparse else None
        return AlgorithmOutcome(result, asked, agreed.schema, scaling, round(sample.mass))

    def running(self, side: Side) -> Exchanges[tuple[Result, Algorithm]]:
        """The run, once all else is agreed."""
        engine, asked, why = yield from starting(side, self.algorithm, None, self.seed)
        limits = Limits(self.rounds, self.tol, self.seconds)
        result = yield from Session(engine, Recording()).exchanges(limits, bar=self.bar)
        return side.counted(replace(result, choice=why)), asked

    def as_json(self) -> dict[str, Any]:
        return {
            "analysis": "run",
            "algorithm": json.loads(self.algorithm.to_json()),
            "problem": asdict(self.problem),
            "task": self.task,
            "standardise": self.standardise,
            "seed": self.seed,
            "rounds": self.rounds,
            "tol": self.tol,
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> OneAlgorithm:
        given = {name: value for name, value in content.items() if name not in ("analysis", "algorithm", "problem")}
        algorithm = algorithm_from_json(json.dumps(dict(content["algorithm"])))
        return OneAlgorithm(algorithm, LinearProblem(**content["problem"]), **given)
