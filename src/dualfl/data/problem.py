"""From a data set to a federated problem: who holds which rows, and what each minimises."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dualfl.arguments import checked
from dualfl.data.catalogue import load
from dualfl.data.dataset import Dataset
from dualfl.data.partitions import Rows, parse, take
from dualfl.data.partitions import partition as split
from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.objectives import (
    L1,
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    Loss,
    Poisson,
    Quantile,
    Softmax,
    Squared,
    SquaredHinge,
)
from dualfl.problem import Problem
from dualfl.solvers.base import Solver
from dualfl.typing import AnyArray

TWO_CLASSES: dict[str, Callable[[], Loss]] = {"logistic": Logistic, "hinge": Hinge, "squared-hinge": SquaredHinge}
REGRESSION: dict[str, Callable[..., Loss]] = {
    "squared": Squared,
    "huber": Huber,
    "absolute": Absolute,
    "quantile": Quantile,
    "epsilon-insensitive": EpsilonInsensitive,
    "poisson": Poisson,
}
WITH_NUMBER = {"huber": "huber:1", "quantile": "quantile:0.9", "epsilon-insensitive": "epsilon-insensitive:0.1"}
LOSSES = ("auto", "softmax", *TWO_CLASSES, *REGRESSION)
CLIENTS = 8  # where neither a number nor a column says how many


@checked
def make_problem(
    dataset: Dataset | str,
    clients: int | None = None,
    partition: str = "even",
    ridge: float = 1e-2,
    loss: str | Loss = "auto",
    seed: int = 0,
    solver: Solver | None = None,
    l1: float = 0.0,
) -> Problem:
    """Divide a data set among clients, each with a linear model on its rows.

    The result is what `dualfl.run` takes. The model has an intercept; penalties act on it too, as in the paper.

    Parameters
    ----------
    dataset : Dataset or str
        A data set, or the name of one; `dualfl.data.DATASETS` has the names.
    clients : int, optional
        How many clients; by default 8, or one for each value of column:NAME.
    partition : str, default 'even'
        How rows are split: even, shuffled, label, dirichlet:0.5, labels:2, quantity:1000, column:NAME.
    ridge : float, default 0.01
        mu, the strength of the penalty (mu/2) |theta|^2.
    loss : str or Loss, default 'auto'
        "auto" is softmax for classes, logistic for two classes, squared for real targets. Or a loss, or the name of
        one, some with a number: huber:1, quantile:0.9, epsilon-insensitive:0.1.
    seed : int, default 0
        The seed of random partitions.
    solver : Solver, optional
        What clients solve their local problems with; by default what suits the loss.
    l1 : float, default 0.0
        alpha, the strength of the penalty alpha |theta|_1; 0 for none.

    Returns
    -------
    Problem
        One client for each part of the rows.

    Examples
    --------
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
            for rows in rows_of_clients(data, clients, partition, seed)
        ],
        penalty=L1(l1) if l1 else None,
        solvers=solver,
    )


@checked
def rows_of_clients(data: Dataset, clients: int | None, partition: str, seed: int = 0) -> list[Rows]:
    """For each client, the numbers of its rows.

    Parameters
    ----------
    data : Dataset
        The data set.
    clients : int or None
        How many clients; None is 8, or one for each value of column:NAME.
    partition : str
        The name of a partition.
    seed : int, default 0
        The seed of random partitions.

    Returns
    -------
    list of ndarray
        For each client its rows.

    Examples
    --------
    >>> import dualfl
    >>> [len(rows) for rows in dualfl.data.rows_of_clients(dualfl.load("iris"), 3, "shuffled", 0)]
    [50, 50, 50]
    """
    return split(partition, data.y, how_many(data, clients, partition), seed, data.column)


def how_many(data: Dataset, clients: int | None, partition: str) -> int:
    """The number of clients, also where nobody gave one.

    >>> iris = load("iris")
    >>> how_many(iris, None, "even"), how_many(iris, None, "column:petal width (cm)"), how_many(iris, 3, "even")
    (8, 22, 3)
    """
    if clients is not None:
        return clients
    kind, name = parse(partition)
    return len(np.unique(data.column(name))) if kind == "column" else CLIENTS


def choose_loss(loss: str | Loss, data: Dataset) -> Loss:
    """The loss of that name, if it suits the targets."""
    if isinstance(loss, Loss):
        return loss
    loss, number = parse_loss(loss)
    k = len(data.classes)
    if loss == "auto":
        loss = "squared" if k == 0 else "logistic" if k == 2 else "softmax"
    if loss == "softmax" and k >= 2:
        return Softmax(k)
    if loss in TWO_CLASSES and k == 2:
        return TWO_CLASSES[loss]()
    if loss in REGRESSION and k == 0:
        return REGRESSION[loss](*number)
    kind = f"{k} classes" if k else "real targets"
    suits = ["softmax", *(TWO_CLASSES if k == 2 else ())] if k else list(REGRESSION)
    raise InputError(f"The loss {loss!r} does not suit {data.name}, which has {kind}; take {' or '.join(suits)}.")


def parse_loss(text: str) -> tuple[str, tuple[float, ...]]:
    """The name of a loss, and its number where one is given."""
    name, colon, number = text.partition(":")
    if name not in LOSSES:
        raise InputError(nearest("loss", name, LOSSES))
    if not colon:
        return name, ()
    if name not in WITH_NUMBER:
        raise InputError(f"The loss {name} takes no number, but it is {text!r}.")
    try:
        return name, (float(number),)
    except ValueError:
        raise InputError(
            f"{name} takes a number after its colon, such as {WITH_NUMBER[name]}, but it is {text!r}."
        ) from None


def targets(data: Dataset, loss: Loss) -> AnyArray:
    """y as the loss takes it: -1 and +1 for losses with one output on two classes."""
    if len(data.classes) == 2 and loss.outputs == 1:
        return np.where(data.y == 1, 1.0, -1.0)
    return data.y
