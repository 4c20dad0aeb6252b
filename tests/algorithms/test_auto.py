"""`auto` picks what its table says, tells it in one sentence, and never runs itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dualfl.algorithms.few_exchanges import Auto
from dualfl.engines import Problem, run
from dualfl.engines.decision import ClientsHere, decide
from dualfl.engines.survey import Inquiry
from dualfl.errors import InputError
from dualfl.objectives import L1, Hinge, LinearModel, Logistic, Loss, Objective, Quantile, Softmax, Squared
from dualfl.objectives.function import Function


def problem(loss: Loss, mu: float = 0.1, rows: int = 40, penalty: Any = None, sort: bool = False) -> Problem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4 * rows, 4)) + 1.0
    z = X @ np.array([1.0, -2.0, 0.5, 0.0]) - 0.5
    y = np.digitize(z, [-1, 1]) if isinstance(loss, Softmax) else z
    if isinstance(loss, Logistic | Hinge):
        y = np.where(z > 0, 1.0, -1.0)
    order = np.argsort(y, kind="stable") if sort else np.arange(4 * rows)
    parts = np.array_split(order, 4)
    return Problem([LinearModel(X[p], y[p], loss, mu, intercept=True) for p in parts], penalty=penalty)


CHOICES = [
    (problem(Softmax(3)), {}, "sketched-newton"),
    (problem(Squared()), {}, "one-shot"),
    (problem(Squared(), penalty=L1(0.01)), {}, "one-shot"),
    (problem(Logistic(), penalty=L1(0.01)), {}, "prox-newton"),
    (problem(Hinge()), {}, "fedipm"),
    (problem(Quantile(0.9), penalty=L1(0.01)), {}, "fedipm"),
    (problem(Logistic(), rows=3), {}, "lbfgs"),
    (problem(Logistic(), rows=3), {"least_rows": 1}, "sketched-newton"),
    (problem(Logistic(), rows=3).regularised(0.1), {}, "lbfgs"),  # few rows are few, whatever is added to their cost
    (problem(Hinge(), rows=3), {}, "bundle"),
    (problem(Logistic()), {"cost": "floats"}, "disco"),
    (problem(Logistic(), sort=True), {"cost": "floats"}, "lbfgs"),
]


@pytest.mark.parametrize(("here", "options", "name"), CHOICES, ids=[f"{i}-{c[2]}" for i, c in enumerate(CHOICES)])
def test_the_choice_is_made_said_and_run(here: Problem, options: dict[str, Any], name: str) -> None:
    heard: list[str] = []
    result = run(here, Auto(**options), rounds=3, threads=1, say=heard.append)
    assert result.algorithm.name == name
    assert heard == [result.choice]
    assert result.choice.startswith(f"auto runs {name}: ") and result.choice.endswith(".")


def test_rows_dealt_at_random_are_alike_and_sorted_ones_are_not() -> None:
    def ratio(here: Problem) -> float:
        facts = ClientsHere(here).inquire(Inquiry(alike=True)).facts
        assert facts is not None and facts.alike is not None
        return facts.alike

    assert 0.2 < ratio(problem(Logistic())) < 2 < 5 < ratio(problem(Logistic(), sort=True))


def test_a_function_of_ones_own_gets_a_first_order_method() -> None:
    own: list[Objective] = [
        Function(3, value=lambda x: x @ x, gradient=lambda x: 2 * x, mu=2.0, L=2.0) for _ in range(3)
    ]
    chosen, why = decide(Auto(), ClientsHere(Problem(own)))
    assert chosen.name == "lbfgs" and "no second-order method" in why


def test_a_cost_that_is_no_cost_is_named() -> None:
    with pytest.raises(InputError, match="cost = 'rounds' is not allowed"):
        run(problem(Logistic()), Auto(cost="rounds"))  # type: ignore[arg-type]
