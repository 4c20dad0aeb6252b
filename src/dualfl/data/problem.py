"""From a data set to a federated problem: who holds which rows, and what each minimises."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dualfl.data.catalogue import load
from dualfl.data.dataset import Dataset
from dualfl.data.partition import partition as split
from dualfl.data.partition import take
from dualfl.engines.problem import Problem
from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.objectives import (
    Absolute,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    Loss,
    Softmax,
    Squared,
    SquaredHinge,
)
from dualfl.solvers.base import Solver
from dualfl.typing import AnyArray

TWO_CLASSES: dict[str, Callable[[], Loss]] = {"logistic": Logistic, "hinge": Hinge, "squared-hinge": SquaredHinge}
REGRESSION: dict[str, Callable[[], Loss]] = {"squared": Squared, "huber": Huber, "absolute": Absolute}
LOSSES = ("auto", "softmax", *TWO_CLASSES, *REGRESSION)


def make_problem(
    dataset: Dataset | str,
    clients: int = 8,
    partition: str = "even",
    ridge: float = 1e-2,
    loss: str | Loss = "auto",
    seed: int = 0,
    solver: Solver | None = None,
) -> Problem:
    """A linear model with an intercept on every client's rows; the ridge acts on the intercept too, as in the paper.

    Parameters
    ----------
    dataset : a data set, or the name of one.
    partition : "even" (file order) or "shuffled" (by the seed).
    loss : "auto" is softmax, for two classes logistic, for real targets squared; or a loss, or the name of one.

    >>> problem = make_problem("digits", clients=4)
    >>> problem.N, problem.shape, [f.n for f in problem.clients]
    (4, (65, 10), [450, 449, 449, 449])
    """
    data = load(dataset) if isinstance(dataset, str) else dataset
    chosen = choose_loss(loss, data)
    y = targets(data, chosen)
    return Problem(
        [
            LinearModel(take(data.X, rows), take(y, rows), chosen, ridge, intercept=True, scale=data.scale)
            for rows in split(partition, data.n, clients, seed)
        ],
        solvers=solver,
    )


def choose_loss(loss: str | Loss, data: Dataset) -> Loss:
    """The loss of that name, if it suits the targets."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise InputError(nearest("loss", loss, LOSSES))
    k = len(data.classes)
    if loss == "auto":
        loss = "squared" if k == 0 else "logistic" if k == 2 else "softmax"
    if loss == "softmax" and k >= 2:
        return Softmax(k)
    if loss in TWO_CLASSES and k == 2:
        return TWO_CLASSES[loss]()
    if loss in REGRESSION and k == 0:
        return REGRESSION[loss]()
    kind = f"{k} classes" if k else "real targets"
    suits = ["softmax", *(TWO_CLASSES if k == 2 else ())] if k else list(REGRESSION)
    raise InputError(f"The loss {loss!r} does not suit {data.name}, which has {kind}; take {' or '.join(suits)}.")


def targets(data: Dataset, loss: Loss) -> AnyArray:
    """y as the loss takes it: -1 and +1 for losses with one output on two classes."""
    if len(data.classes) == 2 and loss.outputs == 1:
        return np.where(data.y == 1, 1.0, -1.0)
    return data.y
