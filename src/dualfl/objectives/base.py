"""What a client minimises: a convex function f on R^d, evaluated at points and along rays.

An objective answers `f.at(x)` with a `Point`, which computes its value, gradient and curvature when they
are asked for and never twice. `point.ray(p)` restricts f to the line x + t p. For a linear model both
keep the linear predictors, so a line search costs no pass over the data; solvers need not know.

`f.tilted(a, c)` is the one local problem of all federated methods,

    LOCAL(a, c):   f(x) + (a/2) |x|^2 - <c, x>,

as a view on f (`tilted`): no data are copied, and the work is counted in the same `cost`.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from dualfl.errors import InputError, NotSupported
from dualfl.objectives import rounding
from dualfl.objectives.points import Point, Ray
from dualfl.objectives.rounding import Rounding
from dualfl.objectives.work import Cost
from dualfl.typing import Array, frozen, sealed

if TYPE_CHECKING:
    from dualfl.objectives.penalties import Penalised, Penalty


class Objective(ABC):
    """A convex function on R^d.

    Attributes
    ----------
    shape : tuple of int
        The shape of the model. Everywhere else the model is one flat vector of `d` numbers.
    n : int
        The number of rows.
    mu, L : float
        The constants of strong convexity and of smoothness. `L` is inf for an objective that is not smooth.
    free : ndarray of bool or None
        Which coordinates have no regularisation, such as a free intercept.
    offers : frozenset of str
        What can be asked of it: "gradient", "hessian", "projected", "moments", "samples", "dual" or "prox".
    cost : Cost
        The work done so far. Finding L is preparation and is not counted.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> f = dualfl.Quadratic(np.eye(2), np.ones(2))
    >>> f.value(np.ones(2)), f.d
    (-1.0, 2)
    """

    shape: tuple[int, ...]
    n: int = 1
    mu: float = 0.0
    free: npt.NDArray[np.bool_] | None = None
    offers: frozenset[str] = frozenset({"gradient"})
    convex: bool = True  # False: somebody said that it is not

    def __init__(self) -> None:
        self._cost = Cost()
        self._recent = _memory()

    @property
    def cost(self) -> Cost:
        return self._cost

    @property
    def d(self) -> int:
        return math.prod(self.shape)

    @property
    def L(self) -> float:
        return np.inf

    @property
    def L_row(self) -> float:
        """The smoothness of the worst single row, for stochastic methods; L where there are no rows."""
        return self.L

    @property
    def convexity(self) -> float | Array:
        """m with f - (1/2) <m x, x> convex: one number, or one for each coordinate; mu is the smallest."""
        return self.mu

    @property
    def smooth(self) -> bool:
        return "gradient" in self.offers

    @property
    def name(self) -> str:
        return type(self).__name__

    # -- evaluation -------------------------------------------------------------------------------

    def at(self, x: Array) -> Point:
        """This objective at `x`; two recent points are remembered."""
        if np.shape(x) != (self.d,):
            raise InputError(
                f"{self.name} is a function of {self.d} numbers, and x has shape {np.shape(x)}; "
                f"give a flat vector of length {self.d}."
            )
        for point in self._recent:
            if point.x[:1] == x[:1] and np.array_equal(point.x, x):  # most points differ in their first number
                return point
        point = self._point(frozen(x))
        del self._recent[:-1]  # two are kept: the one that was broadcast and the one a solver starts from
        self._recent.append(point)
        return point

    @abstractmethod
    def _point(self, x: Array) -> Point: ...

    def value(self, x: Array) -> float:
        return self.at(x).value

    def gradient(self, x: Array) -> Array:
        return self.at(x).gradient

    def value_gradient(self, x: Array) -> tuple[float, Array]:
        point = self.at(x)
        gradient = point.gradient  # first: it brings the value along in the same pass
        return point.value, gradient

    def hessian_times(self, x: Array, v: Array) -> Array:
        return self.at(x).hessian_times(v)

    def hessian(self, x: Array) -> Array:
        """The dense Hessian, column by column unless a subclass knows better."""
        point = self.at(x)
        H = np.stack([point.hessian_times(e) for e in np.eye(self.d)])
        return (H + H.T) / 2

    def newton_hessian(self, x: Array, straight: float) -> Array:
        """The Hessian, with this share of the parabola above a loss where it is straight: steps of Newton stay sane."""
        return self.hessian(x)

    def projected_hessian(self, x: Array, U: Array) -> Array:
        """U' H(x) U for a thin matrix U with d rows."""
        if U.ndim != 2 or U.shape[0] != self.d:
            raise InputError(f"U must be a matrix with {self.d} rows, but its shape is {U.shape}.")
        point = self.at(x)
        HU = np.stack([point.hessian_times(frozen(u)) for u in U.T], axis=1)
        M = U.T @ HU
        return (M + M.T) / 2

    def rounding(self, x: Array, drift: float = 0.0) -> Rounding:
        """How far off `value` and `gradient` at x may be; see `rounding`. `drift`: of predictors updated along rays."""
        return rounding.plain(self, x)

    # -- what only some offer ---------------------------------------------------------------------

    def sample_gradient(self, rows: npt.NDArray[np.intp], x: Array) -> Array:
        """An unbiased gradient from these rows; for costs that offer "samples"."""
        raise NotSupported(f"{self.name} has no rows to take a gradient of; use a method with full gradients.")

    def moment(self, x: Array) -> tuple[Array, Array]:
        """C and S with C (x) S about the data part of the Hessian at x; for costs that offer "moments"."""
        raise self._no_moments()

    def sketched_moment(self, x: Array, Omega: Array) -> tuple[Array, float, Array]:
        """C Omega, the trace of C, and S."""
        raise self._no_moments()

    def column_moments(self, x: Array) -> tuple[Array, Array]:
        """The diagonal of C, and its last column."""
        raise self._no_moments()

    def feature_moment(self, x: Array) -> Array:
        """C alone, its trace that of the Hessian's data part over that of the features."""
        return self.moment(x)[0]

    def metric(self, x: Array, U: Array, B: Array, rank: int, straight: float = 0.0) -> tuple[Array, Array, Array]:
        """The sums that a sketch of the Hessian at x needs."""
        raise self._no_moments()

    def _no_moments(self) -> NotSupported:
        return NotSupported(f"{self.name} gives no second-order sums; use a first-order method such as lbfgs.")

    # -- views ------------------------------------------------------------------------------------

    @property
    def mass(self) -> float:
        """How much this client counts in a weighted mean: the total weight of its rows."""
        return float(self.n)

    def tilted(self, a: float | Array = 0.0, c: Array | None = None) -> Objective:
        """The view f + (a/2)|x|^2 - <c, x>."""
        from dualfl.objectives.tilted import Tilted

        return Tilted(self, a, c)

    def scaled(self, factor: float) -> Objective:
        """`factor` times the data part; a ridge stays, so that mu stays and only L grows (see `common_ridge`)."""
        raise NotSupported(
            f"{self.name} cannot be scaled, which methods for equal clients need when clients are not; "
            "use a linear model, a quadratic, or a method that takes weights."
        )

    def fresh(self) -> Self:
        """The same function with a counter and a memory of its own; data are shared."""
        view = copy.copy(self)
        view._cost = Cost()
        view._recent = _memory()
        return view

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_recent": _memory()}  # a copy in another process need not remember

    def forget(self) -> None:
        """Drop the remembered points, so that what comes next does not depend on what came before."""
        self._recent.clear()

    def __add__(self, penalty: Penalty) -> Penalised:
        from dualfl.objectives.penalties import Penalised, Penalty

        return Penalised(self, penalty) if isinstance(penalty, Penalty) else NotImplemented

    # -- reasons ----------------------------------------------------------------------------------

    def require_strong_convexity(self, who: str) -> float:
        """mu, or a sentence that says why `who` cannot work with this objective; who runs on costs that are not convex
        asks for none."""
        if self.mu > 0 or not self.convex:
            return self.mu
        if self.free is not None:
            raise NotSupported(
                f"{who} needs a strongly convex objective, and {self.name} has a free intercept, "
                "which no ridge penalises; penalise it with intercept=True, or take a method that does not ask for it."
            )
        raise NotSupported(
            f"{who} needs a strongly convex objective, and {self.name} has mu = {self.mu}; "
            "give it a ridge > 0, or take a method that does not ask for it."
        )

    def require_gradient(self, who: str) -> None:
        if not self.smooth:
            raise NotSupported(f"{who} needs a gradient, and {self.name} has none; {self._instead()}.")

    def _instead(self) -> str:
        return "use a solver or a method for nonsmooth costs"


def _memory() -> list[Point]:
    """The points that are remembered; a deque has 0.8 kB where it is empty, which counts with 100,000 clients."""
    return []


def check_factor(factor: float) -> float:
    if not 0 <= factor < np.inf:
        raise InputError(f"factor must be a finite number >= 0, but it is {factor}.")
    return float(factor)


class PlainPoint(Point):
    """A point of an objective that knows only how to compute value and gradient together."""

    def __init__(self, f: PlainObjective, x: Array) -> None:
        super().__init__(x)
        self.f = f

    @cached_property
    def _both(self) -> tuple[float, Array]:
        self.f.cost.gradients += 1
        self.f.cost.passes += 1
        value, gradient = self.f._value_gradient(self.x)
        return value, frozen(gradient)

    @cached_property
    def value(self) -> float:
        if "_both" in self.__dict__:
            return self._both[0]
        self.f.cost.passes += 0.5
        return self.f._value(self.x)

    @cached_property
    def gradient(self) -> Array:
        return self._both[1]

    def hessian_times(self, v: Array) -> Array:
        self.f.cost.hessian_products += 1
        self.f.cost.passes += 1
        return self.f._hessian_times(self.x, v)

    def ray(self, p: Array) -> Ray:
        return PlainRay(self.f, self.x, frozen(p))


class PlainRay(Ray):
    def __init__(self, f: Objective, x: Array, p: Array) -> None:
        self.f, self.x, self.p = f, x, p

    def value(self, t: float) -> float:
        return self.point(t).value

    def slope(self, t: float) -> float:
        return float(self.point(t).gradient @ self.p)

    def point(self, t: float) -> Point:
        return self.f.at(sealed(self.x + t * self.p))


class PlainObjective(Objective):
    """The base for objectives without linear predictors: write `_value_gradient`, and more if there is."""

    @abstractmethod
    def _value_gradient(self, x: Array) -> tuple[float, Array]: ...

    def _value(self, x: Array) -> float:
        return self._value_gradient(x)[0]

    def _hessian_times(self, x: Array, v: Array) -> Array:
        raise NotSupported(f"{self.name} has no Hessian products; use a first-order solver such as LBFGS.")

    def _point(self, x: Array) -> Point:
        return PlainPoint(self, x)
