"""Who holds which rows: each partition is a list of index arrays, one a client, that together hold every row once.

    even              consecutive rows in file order
    shuffled          rows in random order
    label             rows sorted by label, or by a real target: the clients' labels hardly overlap
    dirichlet:A       each label is dealt out in proportions from Dirichlet(A, ..., A); the smaller A, the less even
    labels:S          every client has S labels, and every label about as many clients as the others
    quantity:R        sizes fall geometrically, the largest client has R times the rows of the smallest
    column:NAME       rows with equal values in that column stay together, such as the patients of one hospital

Whatever is drawn comes from the raw words of a keyed stream, so that a seed means the same rows with any NumPy. Every
client has at least one row; where that cannot be, a partition says what it lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincinv

from dualfl.arguments import checked, shown
from dualfl.errors import InputError
from dualfl.kernels import is_sparse
from dualfl.names import nearest
from dualfl.streams import Stream
from dualfl.typing import AnyArray, Array

Rows = npt.NDArray[np.intp]
MOST = 10**8  # rows or clients: their numbers must fit into memory


def _stream(seed: int, client: int = -1, exchange: int = 0) -> Stream:
    return Stream(seed, "partition", client, -1, exchange)


def _check_counts(n: int, clients: int) -> None:
    for what, count in (("n", n), ("clients", clients)):
        if not 1 <= count <= MOST:
            raise InputError(f"{what} must be from 1 to {MOST:,}, but it is {count}.")
    if clients > n:
        raise InputError(f"There are {n:,} rows for {clients:,} clients; every client needs a row at least.")


@checked
def even(n: int, clients: int, seed: int = 0) -> list[Rows]:
    """Consecutive rows in file order, in parts whose sizes differ by one at most.

    Parameters
    ----------
    n : int
        How many rows there are.
    clients : int
        How many clients.
    seed : int, default 0
        The seed of random partitions.

    Returns
    -------
    list of ndarray
        For each client its rows.

    Examples
    --------
    >>> even(5, 2)
    [array([0, 1, 2]), array([3, 4])]
    """
    _check_counts(n, clients)
    return np.array_split(np.arange(n), clients)


@checked
def shuffled(n: int, clients: int, seed: int = 0) -> list[Rows]:
    """As `even`, after a permutation that depends on the seed only, not on the version of NumPy.

    Parameters
    ----------
    n : int
        How many rows there are.
    clients : int
        How many clients.
    seed : int, default 0
        The seed of random partitions.

    Returns
    -------
    list of ndarray
        For each client its rows.

    Examples
    --------
    >>> from dualfl.data import shuffled
    >>> sorted(len(rows) for rows in shuffled(10, 3, seed=0))
    [3, 3, 4]
    """
    _check_counts(n, clients)
    return [np.sort(part) for part in np.array_split(_stream(seed).permutation(n), clients)]


def label(y: AnyArray, clients: int, seed: int = 0) -> list[Rows]:
    """As `even`, after sorting by label; rows of one label keep their order.

    >>> label(np.array([1, 0, 1, 0]), 2)
    [array([1, 3]), array([0, 2])]
    """
    return [np.sort(part) for part in np.array_split(np.argsort(y, kind="stable"), clients)]


def dirichlet(y: AnyArray, clients: int, seed: int, concentration: float) -> list[Rows]:
    """For each label, proportions of the clients from Dirichlet(A, ..., A). Who would have nothing gets one row of
    the client that has most."""
    if not 0 < concentration < np.inf:
        raise InputError(f"dirichlet:A needs a finite A > 0, and A = {concentration:g}.")
    parts: list[list[Rows]] = [[] for _ in range(clients)]
    for k in np.unique(y):
        mine = np.flatnonzero(y == k)
        order = mine[_stream(seed, int(k)).permutation(len(mine))]
        shares = _dirichlet(_stream(seed, int(k), exchange=1), clients, concentration)
        cuts = np.rint(np.cumsum(shares)[:-1] * len(mine)).astype(int)
        for part, rows in zip(parts, np.split(order, cuts)):
            part.append(rows)
    return _without_empty([np.sort(np.concatenate(part)) for part in parts])


def _dirichlet(stream: Stream, count: int, concentration: float) -> Array:
    """Proportions from Dirichlet(A, ..., A), by inverting the distribution of Gamma(A + 1). In logarithms, because
    Gamma(A) = Gamma(A + 1) U^(1/A) underflows for small A."""
    u, v = 1 - stream.uniforms(count), 1 - stream.uniforms(count)
    log_gamma = np.log(gammaincinv(concentration + 1, u * (1 - 2**-53))) + np.log(v) / concentration
    gamma = np.exp(log_gamma - log_gamma.max())
    shares: Array = gamma / gamma.sum()
    return shares


def _without_empty(parts: list[Rows]) -> list[Rows]:
    for j, part in enumerate(parts):
        if len(part) == 0:
            most = int(np.argmax([len(p) for p in parts]))
            parts[most], parts[j] = parts[most][:-1], parts[most][-1:]
    return parts


def labels(y: AnyArray, clients: int, seed: int, count: int) -> list[Rows]:
    """One client after the other takes the `count` labels that fewest clients have, ties by lot; the rows of a label
    are then shuffled and split evenly among the clients that have it."""
    known, sizes = np.unique(y, return_counts=True)
    K = len(known)
    if not 1 <= count <= K:
        raise InputError(f"labels:S needs 1 <= S <= {K}, the number of labels, and S = {count}.")
    if clients * count < K:
        raise InputError(
            f"{clients} clients with {count} label(s) each cannot hold all {K} labels; take at least "
            f"{-(-K // count)} clients, or labels:{-(-K // clients)}."
        )
    holders: list[list[int]] = [[] for _ in range(K)]
    for j in range(clients):
        lots = _stream(seed, j, exchange=2).words(K)
        for k in np.lexsort((lots, np.array([len(h) for h in holders])))[:count]:
            holders[k].append(j)
    parts: list[list[Rows]] = [[] for _ in range(clients)]
    for k, having, size in zip(known, holders, sizes):
        if size < len(having):
            raise InputError(
                f"Label {k} has {size} row(s), and {len(having)} clients are to have it, so that it would be missing "
                "on a client; take fewer clients or fewer labels each."
            )
        mine = np.flatnonzero(y == k)
        order = mine[_stream(seed, int(k)).permutation(len(mine))]
        for j, rows in zip(having, np.array_split(order, len(having))):
            parts[j].append(rows)
    return [np.sort(np.concatenate(part)) for part in parts]


def quantity(n: int, clients: int, seed: int, ratio: float) -> list[Rows]:
    """Shuffled rows in parts whose sizes fall geometrically, the first `ratio` times the last.

    >>> [len(part) for part in quantity(700, 3, 0, 100)]
    [631, 63, 6]
    """
    if not 1 <= ratio < np.inf:
        raise InputError(f"quantity:R needs a finite R >= 1, and R = {ratio:g}.")
    sizes = ratio ** -np.linspace(0, 1, clients) if clients > 1 else np.ones(1)
    exact = sizes * (n / sizes.sum())
    if exact.min() < 1:
        raise InputError(
            f"quantity:{ratio:g} with {clients} clients needs {int(np.ceil(n / exact.min())):,} rows, so that the "
            f"smallest client has one, and there are {n:,}; take fewer clients or a smaller ratio."
        )
    whole = np.floor(exact).astype(int)
    whole[np.argsort(whole - exact, kind="stable")[: n - whole.sum()]] += 1  # largest remainders first
    return [np.sort(part) for part in np.split(_stream(seed).permutation(n), np.cumsum(whole)[:-1])]


def column(values: AnyArray, name: str, clients: int) -> list[Rows]:
    """Rows with equal values stay together, and neighbouring values share a client where there are more values than
    clients; sizes are as even as that allows.

    >>> column(np.array(["b", "a", "c", "a"]), "ward", 2)
    [array([1, 3]), array([0, 2])]
    """
    known, which, sizes = np.unique(values, return_inverse=True, return_counts=True)
    if len(known) < clients:
        raise InputError(
            f"The column {name!r} has {len(known)} different values, too few for {clients} clients, who need one "
            f"each; take at most {len(known)} clients."
        )
    # Client j begins at the value whose first row is nearest to an even share, leaving a value for everybody else.
    before = np.concatenate([[0], np.cumsum(sizes)])
    begins = [0]
    for j in range(1, clients):
        nearest_cut = int(np.argmin(np.abs(before - j * len(values) / clients)))
        begins.append(min(max(nearest_cut, begins[-1] + 1), len(known) - (clients - j)))
    owner = np.searchsorted(begins, which.ravel(), side="right") - 1
    return [np.flatnonzero(owner == j) for j in range(clients)]


# -- by name ----------------------------------------------------------------------------------------------


class PartitionKind(NamedTuple):
    """A partition: how it is written, and what it needs to know."""

    written: str
    about: str
    takes: type | None = None  # what follows the colon
    labelled: bool = False  # needs class labels


PARTITIONS: dict[str, PartitionKind] = {
    "even": PartitionKind("even", "file order"),
    "shuffled": PartitionKind("shuffled", "random order"),
    "label": PartitionKind("label", "sorted by label"),
    "dirichlet": PartitionKind("dirichlet:0.5", "Dirichlet proportions of each label", float, labelled=True),
    "labels": PartitionKind("labels:2", "so many labels a client", int, labelled=True),
    "quantity": PartitionKind("quantity:1000", "rows of the largest : smallest client", float),
    "column": PartitionKind("column:NAME", "equal values of a column stay together", str),
}


@checked
def partition(
    name: str,
    y: AnyArray | int,
    clients: int,
    seed: int = 0,
    columns: Callable[[str], AnyArray] | None = None,
) -> list[Rows]:
    """The partition of that name: for each client its rows.

    Parameters
    ----------
    name : str
        Such as "shuffled" or "dirichlet:0.5"; see `PARTITIONS`.
    y : ndarray or int
        The targets, whole numbers for classes; or just the number of rows, where targets do not matter.
    clients : int
        How many clients.
    seed : int, default 0
        The seed of random partitions.
    columns : callable, optional
        Gives the column of a name, for column:NAME.

    Returns
    -------
    list of ndarray
        For each client its rows.

    Examples
    --------
    >>> partition("quantity:2", 6, 2)
    [array([1, 2, 4, 5]), array([0, 3])]
    """
    kind, parameter = parse(name)
    targets = None if isinstance(y, int) else np.asarray(y)
    if targets is not None and targets.ndim != 1:
        raise InputError(f"y must be one target a row, or the number of rows, but it is {shown(y)}.")
    n = y if isinstance(y, int) else len(y)
    if clients < 1:
        raise InputError(f"There must be at least one client, and clients = {clients}.")
    if clients > n:
        raise InputError(f"{n:,} rows cannot be split among {clients:,} clients; every client needs a row.")
    if kind in ("even", "shuffled"):
        return {"even": even, "shuffled": shuffled}[kind](n, clients, seed)
    if kind == "quantity":
        return quantity(n, clients, seed, parameter)
    if kind == "column":
        if columns is None:
            raise InputError(f"{name} needs the columns of the data by name, and there are none.")
        return column(columns(parameter), parameter, clients)
    if targets is None:
        raise InputError(f"{name} needs the targets, and only the number of rows was given.")
    if kind == "label":
        return label(targets, clients)
    if targets.dtype.kind not in "biu":
        raise InputError(
            f"{name} needs class labels, and the targets are real numbers; take label, which sorts by the target."
        )
    return (dirichlet if kind == "dirichlet" else labels)(targets, clients, seed, parameter)


def parse(name: str) -> tuple[str, Any]:
    """The kind of partition that a name means, and what follows the colon."""
    kind, colon, text = name.partition(":")
    if kind not in PARTITIONS:
        raise InputError(nearest("partition", kind, PARTITIONS))
    takes, written = PARTITIONS[kind].takes, PARTITIONS[kind].written
    if takes is None:
        if colon:
            raise InputError(f"The partition {kind} takes nothing after a colon, but it is {name!r}.")
        return kind, None
    try:
        if not text:
            raise ValueError
        return kind, takes(text)
    except ValueError:
        what = {int: "a whole number", float: "a number", str: "a name"}[takes]
        raise InputError(f"{kind} needs {what} after a colon, such as {written}, but it is {name!r}.") from None


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
