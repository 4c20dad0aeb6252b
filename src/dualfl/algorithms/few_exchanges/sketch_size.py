"""What sketched-newton asks of the clients beside gradients: how large a metric, and how many columns of a sketch.

A metric of rank r weighs about r^2 m^2 / 4 numbers (see `metric`), and how fast steps are depends on it:

    small Hessians    all of it, every time
    far away          `far` numbers: the next point needs another one. The longer the way, the more
    near              all directions whose curvature is felt beside mu, within `near` numbers
    settled           as much as was sent before, as one who rents skis buys them at last

Apart from the method, whose steps go down with any metric: here is only what it costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl.algorithms.few_exchanges.sketched_metric import EXACT, Basis

FELT = 0.5  # of mu: directions with more curvature belong into a metric
SKETCH_FELT = 0.7  # of k mu: a sketch grows while its last eigenvalue is larger
HEAVIEST, TOGETHER = 2**24, 2**27  # numbers in a metric, 128 MB, and in those of all clients, 1 GB
MOST = 0.8  # of the directions: whoever can have so many takes all
WORTH = 1.4  # times the rank in use: less is not worth buying


@dataclass(frozen=True)
class Budget:
    """What metrics in this basis may weigh."""

    basis: Basis
    far: int  # numbers in a metric far away, and near; 0 for the default
    near: int
    grow: float  # times what was sent before
    heaviest: int  # numbers in a metric that may be bought

    @property
    def d(self) -> int:
        return self.basis.D * len(self.basis.S)

    @property
    def small(self) -> bool:
        """Whether all of the Hessian is sent every time."""
        return self.basis.floats(self.basis.q) <= EXACT

    @property
    def modest(self) -> int:
        """Numbers in a metric far away."""
        return self.far or max(4 * self.d, 2**15)

    @property
    def far_rank(self) -> int:
        """How many directions a metric should hold far away."""
        return self.basis.q if self.small else self.basis.largest_rank(self.modest)

    @property
    def near_rank(self) -> int:
        """How many near the minimiser."""
        basis = self.basis
        if self.small:
            return basis.q
        felt = int((basis.variances * np.abs(basis.S).max() >= FELT * self.basis.ridge).sum())
        return min(max(felt, self.far_rank), basis.largest_rank(self.near or max(16 * self.d, 2**20)))

    def far_away(self, metrics: int) -> int:
        """The rank to ask for after so many metrics far away: the longer the way, the more one may cost."""
        patient = self.basis.largest_rank(self.modest * 2.0 ** min(max(0, metrics - 2), 40))
        return min(self.near_rank, max(self.far_rank, patient))

    def close_by(self, rank: int, settled: bool, spent: int) -> tuple[int, ...]:
        """The rank to ask for, if any, where a metric of this rank is in use; a dear one only once all has settled."""
        near, q = self.near_rank, self.basis.q
        if rank < near or near == q:
            return (near,)
        if not settled:
            return ()
        largest = self.affordable(spent)
        return (largest,) if largest >= WORTH * rank or largest == q else ()

    def affordable(self, spent: int) -> int:
        """The rank that costs about as much as all that was sent before; the whole Hessian where that is most of it."""
        basis = self.basis
        rank = basis.largest_rank(min(self.grow * spent, self.heaviest))
        whole = rank >= MOST * basis.q and basis.floats(basis.q) <= self.heaviest
        return basis.q if whole else rank


def heaviest(N: int) -> int:
    """Numbers in a metric that each of N clients may send, and the server hold."""
    return min(HEAVIEST, TOGETHER // N)


def more_columns(basis: Basis, Omega: int, first: int) -> int:
    """How many more columns a sketch of Omega columns needs: as many as it has, while its last eigenvalue is felt."""
    if not Omega or Omega >= min(8 * first, basis.D // 2):
        return 0
    last = float(basis.variances[basis.q - 1])
    return Omega if last * np.abs(basis.S).max() * len(basis.S) > SKETCH_FELT * basis.ridge else 0
