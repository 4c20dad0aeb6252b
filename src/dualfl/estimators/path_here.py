"""A path of penalties in one process, for a softmax: fold after fold, each fit begins where the one before it ended.

A softmax has too many coefficients for Newton's method side by side (`newton_path`). Where all rows are here, its fits
are those of `all_rows`, by passes over the rows. What silos would have sent is counted as if folds went side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dualfl.engines.result import Result
from dualfl.estimators import all_rows
from dualfl.estimators.solving import Task
from dualfl.kernels.blas_threads import one_blas_thread
from dualfl.objectives.losses import Softmax
from dualfl.silos.costs import Sample
from dualfl.silos.here import SilosHere
from dualfl.silos.questions import Silos
from dualfl.typing import Array


def suits(silos: Silos, model: Any) -> bool:
    """Whether this is such a softmax, and nobody wants another algorithm."""
    cost = model._cost(1.0)
    here = isinstance(silos, SilosHere) and silos.joined and model.algorithm == "auto"
    return here and isinstance(cost.loss, Softmax) and cost.l1 == 0 and cost.ridge > 0


def followed(silos: Silos, models: Sequence[Any], train: Sequence[Sample], purpose: str) -> list[list[Array]] | None:
    """The model of every fold for every penalty, fold after fold; None if this is not the way to them."""
    thetas, spent = [], []
    for sample in train:
        results: list[Result] = []
        for model in models:
            found = solved(silos, Task(model, sample, [results[-1].theta] if results else None, of_path=True))
            if found is None:
                return None
            results.append(found)
        thetas += [[result.theta] for result in results]
        spent.append([result.history[-1] for result in results])
    exchanges = max(sum(row.exchanges for row in rows) for rows in spent)
    up, down = (sum(getattr(row, name) for rows in spent for row in rows) for name in ("floats_up", "floats_down"))
    silos.ledger.note(purpose, up, down, exchanges)
    return thetas


def fitted(silos: Silos, task: Task, purpose: str = "the fit") -> Result | None:
    """One fit, which is counted."""
    found = solved(silos, task) if suits(silos, task.model) else None
    if found is not None:
        row = found.history[-1]
        silos.ledger.note(purpose, row.floats_up, row.floats_down, row.exchanges)
    return found


def solved(silos: Silos, task: Task) -> Result | None:
    """One fit, counted by whoever asked for it."""
    assert isinstance(silos, SilosHere)
    (cost,), limits = task.model._costs(task.sample), task.model._limits(task.sample)
    f = silos.whole(cost)
    if f is None or not all_rows.suits(f, cost.l1):
        return None
    begin = None if task.start is None else task.start[0]
    with one_blas_thread():
        return all_rows.minimised(f, cost.l1, replace(limits, of_start=task.of_path), len(silos.chambers), begin)
