"""What a silo minimises, from its encoded rows and the words of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dualfl.data.dataset import Dataset
from dualfl.data.problem import choose_loss, targets
from dualfl.objectives import LinearModel
from dualfl.objectives.base import Objective
from dualfl.objectives.linear import Intercept
from dualfl.objectives.penalties import L1, Penalty
from dualfl.solvers.base import Solver
from dualfl.solvers.naming import choose_solver
from dualfl.tables.schema import Schema
from dualfl.typing import AnyArray


def build(
    X: Any, y: AnyArray, schema: Schema, problem: Mapping[str, Any]
) -> tuple[Objective, Solver | None, Penalty | None]:
    """(f_j, its solver or None for the default, the penalty)."""
    task: Any = "classification" if schema.classes else "regression"
    data = Dataset(X, y, schema.classes, "this silo's data", 1.0, "", task)
    loss = choose_loss(problem["loss"], data)
    intercept: Intercept = "free" if problem["intercept"] == "free" else True
    objective = LinearModel(X, targets(data, loss), loss, problem["ridge"], intercept=intercept)
    return objective, choose_solver(problem["solver"]), L1(problem["l1"]) if problem["l1"] else None


def template(schema: Schema, problem: Mapping[str, Any]) -> tuple[Objective, Penalty | None]:
    """An objective of the right shape without any data, for the server."""
    X = np.zeros((1, len(schema.names)))
    y = np.zeros(1, dtype=np.intp if schema.classes else np.float64)
    objective, _, penalty = build(X, y, schema, problem)
    return objective, penalty
