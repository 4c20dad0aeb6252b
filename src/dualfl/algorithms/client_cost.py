"""What a client step may ask of its cost f.

The engine hands a step an object of these types, and counts what is asked. Every cost has what `ClientCost` lists. An
algorithm whose `needs` name "samples" or "moments" may take the larger types in its steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dualfl.objectives.base import Objective
from dualfl.objectives.rounding import Rounding
from dualfl.solvers.stopping import StopRule
from dualfl.typing import Array


class Solved(NamedTuple):
    """The answer of LOCAL(a, tilt): argmin f(x) + (a/2)|x|^2 - <tilt, x>, up to the residual r.

    subgradient : tilt - a x + r, a subgradient of f at x up to `slack`, without asking f for one.
    value : f(x), not the value of the local problem.
    """

    x: Array
    residual: Array
    subgradient: Array
    value: float
    slack: float
    iterations: int
    capped: bool
    warm: Array


class ClientCost(Protocol):
    """f of one client: evaluations, and LOCAL(a, tilt) by the client's own solver.

    `objective` is what lies behind f. It knows nothing of the point where a run starts, so evaluate f, or evaluate
    `objective` at `place(x)`.
    """

    @property
    def objective(self) -> Objective: ...

    @property
    def d(self) -> int: ...

    @property
    def n(self) -> int: ...

    @property
    def mu(self) -> float: ...

    @property
    def origin(self) -> Array | None:
        """Where the algorithm's 0 lies, if that is not 0."""
        ...

    @property
    def L(self) -> float: ...

    def place(self, x: Array) -> Array:
        """The argument of `objective` that belongs to x."""
        ...

    def value(self, x: Array) -> float: ...

    def gradient(self, x: Array) -> Array: ...

    def subgradient(self, x: Array) -> Array:
        """The gradient where there is one, and some subgradient where there is none."""
        ...

    def value_gradient(self, x: Array) -> tuple[float, Array]: ...

    def rounding(self, x: Array, solved: bool = False) -> Rounding:
        """How far off value and gradient at x may be; `solved`: as `local` found them."""
        ...

    def hessian_times(self, x: Array, v: Array) -> Array: ...

    def hessian(self, x: Array) -> Array: ...

    def along(self, x: Array, p: Array, steps: Sequence[float]) -> Array:
        """f(x + t p) for several t; no pass over the data beyond the first."""
        ...

    def warm_at(self, x: Array) -> Array | None:
        """What to hand to `local` as `warm` to begin at x; None for solvers that go on from dual variables."""
        ...

    def local(self, a: float, tilt: Array, warm: Array | None = None, stop: StopRule | None = None) -> Solved:
        """argmin f(x) + (a/2)|x|^2 - <tilt, x>. `warm` is the `warm` of an earlier answer, or None."""
        ...


class SampledCost(ClientCost, Protocol):
    """A cost that is a mean over rows, and gives gradients of a few of them: it offers "samples"."""

    def sample_gradient(self, rows: npt.NDArray[np.intp], x: Array) -> Array: ...


class MomentCost(ClientCost, Protocol):
    """A cost that gives second-order sums over its rows: it offers "moments"."""

    def moment(self, x: Array) -> tuple[Array, Array]:
        """C and S with C (x) S about the data part of the Hessian at x."""
        ...

    def sketched_moment(self, x: Array, Omega: Array) -> tuple[Array, float, Array]:
        """C Omega, the trace of C, and S."""
        ...

    def column_moments(self, x: Array) -> tuple[Array, Array]:
        """The diagonal of C, and its last column."""
        ...

    def feature_moment(self, x: Array) -> Array:
        """C alone, which takes no k x k block a row."""
        ...

    def metric(self, x: Array, U: Array, B: Array, rank: int, straight: float = 0.0) -> tuple[Array, Array, Array]:
        """The sums that a sketch of the Hessian at x needs."""
        ...
