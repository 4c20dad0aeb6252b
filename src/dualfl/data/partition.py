"""Who holds which rows: each partition is a list of index arrays, one a client, that together hold every row once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dualfl.algorithms.streams import Stream
from dualfl.data.dataset import is_sparse
from dualfl.errors import InputError
from dualfl.names import nearest

Rows = npt.NDArray[np.intp]


def even(n: int, clients: int, seed: int = 0) -> list[Rows]:
    """Consecutive rows in file order, in parts whose sizes differ by one at most.

    >>> even(5, 2)
    [array([0, 1, 2]), array([3, 4])]
    """
    return np.array_split(np.arange(n), clients)


def shuffled(n: int, clients: int, seed: int = 0) -> list[Rows]:
    """As `even`, after a permutation that depends on the seed only, not on the version of NumPy."""
    order = Stream(seed, "partition", -1, -1, 0).permutation(n)
    return [np.sort(part) for part in np.array_split(order, clients)]


PARTITIONS: dict[str, Callable[[int, int, int], list[Rows]]] = {"even": even, "shuffled": shuffled}


def partition(name: str, n: int, clients: int, seed: int = 0) -> list[Rows]:
    """The partition of that name of n rows."""
    if name not in PARTITIONS:
        raise InputError(nearest("partition", name, PARTITIONS))
    if clients < 1:
        raise InputError(f"There must be at least one client, and clients = {clients}.")
    if clients > n:
        raise InputError(f"{n} rows cannot be split among {clients} clients; every client needs a row.")
    return PARTITIONS[name](n, clients, seed)


def take(X: Any, rows: Rows) -> Any:
    """These rows of X: a view where they are consecutive, a copy otherwise."""
    first, last = int(rows[0]), int(rows[-1]) + 1
    if last - first != len(rows) or not (np.diff(rows) == 1).all():
        return X[rows]
    if not is_sparse(X):
        return X[first:last]
    begin, end = X.indptr[first], X.indptr[last]
    view = type(X)((len(rows), X.shape[1]), dtype=X.dtype)
    # set one by one, because SciPy's constructor copies small views of large arrays
    view.data, view.indices = X.data[begin:end], X.indices[begin:end]
    view.indptr = X.indptr[first : last + 1] - begin
    return view
