"""What the server and the clients of sketched-newton remember from round to round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl.algorithms.few_exchanges.bundle_bound import Parabolas
from dualfl.algorithms.few_exchanges.sketch_size import HEAVIEST
from dualfl.algorithms.few_exchanges.sketched_metric import Basis, SketchedMetric
from dualfl.algorithms.few_exchanges.straight_pieces import STRAIGHT, SURE
from dualfl.typing import Array

NOTHING_YET = Parabolas()


@dataclass(frozen=True)
class Local:
    """The basis a client works with, as the server sent it."""

    U: Array
    B: Array


@dataclass(frozen=True)
class Server:
    x: Array  # the best point whose energy is known
    E: float
    g: Array
    trial: Array  # the next one
    rivals: Array  # of the race in the second exchange; none later
    p: Array  # x - trial, while losses along the ray are wanted
    basis: Basis
    metric: SketchedMetric
    E0: float
    mu: float  # strong convexity, for the bound
    sizes2: Array  # of the columns, and the grid of what travels: how far off gradients may be, see `Doubt`
    grid: float
    part: bool = False  # some clients send no second-order sums, so the metric lacks what they have
    prove: bool = False  # whether Hessians come with what makes a bound of them
    guesses: Array | None = None  # of columns that are others
    inner: Array | None = None  # the norm in which it is, for several outputs
    reach: float = np.inf  # of the rows in the present basis
    proven: float = -np.inf  # by Hessians
    S: tuple[Array, ...] = ()
    Y: tuple[Array, ...] = ()
    Omega: int = 0  # columns of the sketch so far; 0: C is known as a whole
    CO: Array | None = None  # C Omega, and the diagonal of C, in the coordinates of the basis
    own: Array | None = None
    more: int = 0  # columns to ask for
    sent: bool = False  # whether the clients have the basis
    request: tuple[int, ...] = ()  # ranks of the metrics that come with the trials
    near: bool = False
    close: bool = False  # near enough for the next Hessian to prove something
    metrics: int = 1  # asked for while far away
    spent: int = 0  # numbers that a client has sent so far
    heaviest: int = HEAVIEST  # a metric that may be bought
    since: int = 0  # exchanges since the metric was renewed
    rejected: int = 0  # in a row
    slow: bool = False  # a trial was rejected: two an exchange from then on
    t: float = 1.0
    trusted: bool = False  # the last step gained what its metric had promised
    bounds: Parabolas = NOTHING_YET
    decrement: float = np.inf

    @property
    def exact(self) -> bool:
        """Whether the metric is the Hessian."""
        return self.metric.exact and not self.part


def share(s: Server) -> float:
    """How much of the parabola above it a straight piece of a loss counts for; see `straight`."""
    return 1.0 if not s.near else 0.0 if s.trusted and s.decrement <= SURE * scale(s) else STRAIGHT


def radius(s: Server) -> float:
    """Within which a Hessian should not change: a fraction of the last step, in directions in which it is 1."""
    last = s.decrement if np.isfinite(s.decrement) else 0.0
    return float(np.sqrt(max(0.01 * last, 1e-9 * abs(s.E))))


def scale(s: Server) -> float:
    """What a decrement is measured by; an energy may be zero, or negative."""
    return max(abs(s.E), 0.01 * abs(s.E0))
