"""A federated problem: clients with their costs, how much each counts, and a penalty that all share.

    min over theta of  E(theta) = sum_j w_j f_j(theta) + penalty(theta),      w_j = m_j / sum_i m_i.

A client's f_j is its own mean loss plus the ridge. With the default sizes m_j, the total weight of its rows, E is
exactly the cost of the pooled rows, however unequal the clients are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dualfl.arguments import checked
from dualfl.errors import InputError
from dualfl.lines import span, titled
from dualfl.objectives.average import Average
from dualfl.objectives.base import Objective
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.penalties import Penalised, Penalty
from dualfl.objectives.tilted import regularised
from dualfl.solvers.base import Solver
from dualfl.typing import Array


@checked
class Problem:
    """A federated problem: one objective for each client, how much each counts, and an optional common penalty.

    Parameters
    ----------
    clients : sequence of Objective
        One objective for each client, all of the same dimension.
    sizes : sequence of float, optional
        How much each counts; the default is the total weight of its rows.
    penalty : Penalty, optional
        A nonsmooth penalty on the common model, such as L1(0.01).
    solvers : Solver or Sequence[Solver], optional
        The local solver, one for all clients or one for each; the default suits the objective.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> rng = np.random.default_rng(0)
    >>> clients = [dualfl.LinearModel(rng.normal(size=(n, 3)), rng.normal(size=n), dualfl.Squared()) for n in (20, 30)]
    >>> dualfl.Problem(clients, penalty=dualfl.L1(0.1)).N
    2
    """

    def __init__(
        self,
        clients: Sequence[Objective],
        *,
        sizes: Sequence[float] | None = None,
        penalty: Penalty | None = None,
        solvers: Solver | Sequence[Solver | None] | None = None,
    ) -> None:
        if len(clients) == 0:
            raise InputError("A problem needs at least one client, and the list is empty.")
        shapes = {f.shape for f in clients}
        if len(shapes) > 1:
            odd = next(j for j, f in enumerate(clients) if f.shape != clients[0].shape)
            raise InputError(
                f"All clients must have models of one shape; client 0 has {clients[0].shape} and client {odd} has "
                f"{clients[odd].shape}."
            )
        self.clients = list(clients)
        self.penalty = penalty
        self.sizes = _sizes(clients, sizes)
        self.mass = sum(self.sizes)
        self.solvers = _solvers(solvers, len(clients))

    def __repr__(self) -> str:
        """What `print` shows, a few lines."""
        rows = [f.n for f in self.clients]
        ridges = [f.ridge for f in self.clients if isinstance(f, LinearModel)]
        shape = f" ({' x '.join(f'{n:,}' for n in self.shape)})" if len(self.shape) > 1 else ""
        return titled(
            f"Problem of {self.N:,} client{'s' if self.N > 1 else ''}",
            [
                ("rows", f"{sum(rows):,} in all, {span(rows)} a client" if ridges else ""),
                ("loss" if ridges else "cost", ", ".join(sorted({f.name for f in self.clients}))),
                ("ridge", span(ridges, "g") if ridges else ""),
                ("penalty", "none" if self.penalty is None else str(self.penalty)),
                ("model", f"{self.d:,} coefficients{shape}"),
            ],
        )

    @property
    def N(self) -> int:
        return len(self.clients)

    @property
    def d(self) -> int:
        return self.clients[0].d

    @property
    def shape(self) -> tuple[int, ...]:
        return self.clients[0].shape

    @property
    def weights(self) -> list[float]:
        return [m / self.mass for m in self.sizes]

    @property
    def pooled(self) -> Objective:
        """E itself, as somebody who had all the data would see it."""
        smooth = Average([f.fresh() for f in self.clients], self.weights)
        return smooth if self.penalty is None else Penalised(smooth, self.penalty)

    def value(self, theta: Array) -> float:
        return self.pooled.value(theta)

    def regularised(self, alpha: float) -> Problem:
        """E^alpha: every f_j with curvature alpha where it has none of its own."""
        clients = [regularised(f, alpha) for f in self.clients]
        return Problem(clients, sizes=self.sizes, penalty=self.penalty, solvers=self.solvers)


def _sizes(clients: Sequence[Objective], sizes: Sequence[float] | None) -> list[float]:
    given = [f.mass for f in clients] if sizes is None else [float(m) for m in sizes]
    if len(given) != len(clients):
        raise InputError(f"There are {len(clients)} clients and {len(given)} sizes; give one each.")
    if not all(0 < m < np.inf for m in given):
        raise InputError(
            f"Sizes must be finite and positive, but they are {given}; leave out clients that do not count."
        )
    return equalised(given)


def equalised(sizes: list[float]) -> list[float]:
    """Equal clients count 1 each, so that no upload needs to be multiplied."""
    return [1.0] * len(sizes) if len(set(sizes)) == 1 else sizes


def _solvers(solvers: Solver | Sequence[Solver | None] | None, N: int) -> list[Solver | None]:
    if solvers is None or isinstance(solvers, Solver):
        return [solvers] * N
    if len(solvers) != N:
        raise InputError(f"There are {N} clients and {len(solvers)} solvers; give one for all or one each.")
    return list(solvers)
