"""Penalties that have a prox: l1, elastic net, group l2,1, box and non-negativity.

    prox_{s P}(v) = argmin_x  P(x) + |x - v|^2 / (2 s).

`f + L1(0.1)` is the objective f with that penalty. Coordinates that are free in f (an intercept) stay free.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dualfl.arguments import check, checked
from dualfl.errors import InputError, NotSupported
from dualfl.objectives.base import Objective
from dualfl.objectives.points import Point, Ray
from dualfl.objectives.rounding import Rounding, roundings
from dualfl.objectives.work import Cost
from dualfl.typing import Array

ROUNDING = 16 * float(np.finfo(np.float64).eps)  # of a sum over clients, relative


class Penalty(ABC):
    """A convex function with an easy prox. `x` comes in the shape of the model.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> dualfl.L1(1.0).prox(0.5, np.array([2.0, 0.25]))
    array([1.5, 0. ])
    """

    mu: float = 0.0  # strong convexity that it adds

    @abstractmethod
    def value(self, x: Array) -> float: ...

    @abstractmethod
    def prox(self, step: float, v: Array) -> Array: ...

    @abstractmethod
    def steepest(self, x: Array, g: Array) -> Array:
        """The smallest element of g + dP(x): zero exactly where x is optimal."""

    def rounding(self, x: Array) -> Rounding:
        """How far off its value and a subgradient may be; no slope of a penalty is above alpha + beta |x|."""
        K, value = roundings(x.size), self.value(x)
        slope = getattr(self, "alpha", 0.0) + self.mu * np.abs(x).ravel()
        return Rounding(K * abs(value) if np.isfinite(value) else 0.0, K * slope)

    def __str__(self) -> str:
        """For people, so with six digits; repr has all of them."""
        parts = {name: part for name, part in vars(self).items() if not name.startswith("_")}
        shown = {name: f"{part:.6g}" if isinstance(part, float) else f"{part!r:.60}" for name, part in parts.items()}
        told = (f"{name}={part}" for name, part in shown.items())
        return f"{type(self).__name__}({', '.join(told)})"


def _strength(name: str, value: float) -> None:
    check(name, value, float)
    if not 0 <= value < np.inf:
        raise InputError(f"{name} must be a finite number >= 0, but it is {value}.")


def _shrink(v: Array, t: float) -> Array:
    return np.sign(v) * np.maximum(np.abs(v) - t, 0.0)


@checked
@dataclass(frozen=True)
class L1(Penalty):
    """alpha |x|_1.

    Parameters
    ----------
    alpha : float
        The strength.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import L1
    >>> L1(0.5).value(np.array([3.0, -4.0]))
    3.5
    """

    alpha: float

    def __post_init__(self) -> None:
        _strength("L1's alpha", self.alpha)

    def value(self, x: Array) -> float:
        return float(self.alpha * np.abs(x).sum())

    def prox(self, step: float, v: Array) -> Array:
        return _shrink(v, step * self.alpha)

    def steepest(self, x: Array, g: Array) -> Array:
        return np.where(x != 0, g + self.alpha * np.sign(x), _shrink(g, self.alpha))


@checked
@dataclass(frozen=True)
class ElasticNetPenalty(Penalty):
    """alpha |x|_1 + (beta/2) |x|^2.

    Parameters
    ----------
    alpha : float
        The strength of l1.
    beta : float
        The strength of the squared part.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import ElasticNetPenalty
    >>> ElasticNetPenalty(0.5, 0.1).value(np.array([3.0, -4.0]))
    4.75
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        _strength("ElasticNetPenalty's alpha", self.alpha)
        _strength("ElasticNetPenalty's beta", self.beta)

    @property
    def mu(self) -> float:  # type: ignore[override]  # elsewhere it is a plain number
        return self.beta

    def value(self, x: Array) -> float:
        return float(self.alpha * np.abs(x).sum() + self.beta / 2 * np.vdot(x, x))

    def prox(self, step: float, v: Array) -> Array:
        return _shrink(v, step * self.alpha) / (1 + step * self.beta)

    def steepest(self, x: Array, g: Array) -> Array:
        return L1(self.alpha).steepest(x, g + self.beta * x)


@dataclass(frozen=True)
class GroupL2(Penalty):
    """alpha sum over groups |x_G|_2: whole groups become zero.

    Without `groups` a group is one row of the model: all the coefficients of one feature.
    `groups` gives a label per row otherwise; an intercept is the last row.

    Parameters
    ----------
    alpha : float
        The strength.
    groups : tuple[int, ...], optional
        A label for each row of the model; None: every row is a group.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import GroupL2
    >>> GroupL2(0.5, (0, 0)).value(np.array([3.0, -4.0]))
    2.5
    """

    alpha: float
    groups: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _strength("GroupL2's alpha", self.alpha)
        check("GroupL2's groups", self.groups, Sequence[Any] | None)
        if self.groups is not None:
            object.__setattr__(self, "groups", tuple(self.groups))  # a list would not hash

    @cached_property
    def _labels(self) -> npt.NDArray[np.intp]:
        """The groups, numbered from 0."""
        return np.unique(np.array(self.groups), return_inverse=True)[1]

    def _norms(self, x: Array) -> tuple[Array, Array]:
        """The norm of every group, and of the group that each row belongs to."""
        rows = x.reshape(len(x), -1)
        squares = np.einsum("ij,ij->i", rows, rows)
        if self.groups is None:
            norms = np.sqrt(squares)
            return norms, norms
        if len(self.groups) != len(x):
            raise InputError(
                f"GroupL2 has {len(self.groups)} labels, and the model has {len(x)} rows; give one a row, "
                "also for an intercept, which is the last."
            )
        norms = np.sqrt(np.bincount(self._labels, squares))
        return norms, norms[self._labels]

    def value(self, x: Array) -> float:
        return float(self.alpha * self._norms(x)[0].sum())

    def prox(self, step: float, v: Array) -> Array:
        norms = self._norms(v)[1]
        keep = 1 - step * self.alpha / np.maximum(norms, step * self.alpha + 1e-300)
        return v * keep.reshape(-1, *(1,) * (v.ndim - 1))

    def steepest(self, x: Array, g: Array) -> Array:
        wide = (-1, *(1,) * (x.ndim - 1))
        nx, ng = self._norms(x)[1].reshape(wide), self._norms(g)[1].reshape(wide)
        active = g + self.alpha * x / np.where(nx > 0, nx, 1.0)
        asleep = g * np.maximum(1 - self.alpha / np.where(ng > 0, ng, np.inf), 0.0)
        return np.where(nx > 0, active, asleep)


@checked
@dataclass(frozen=True)
class BoxConstraint(Penalty):
    """Zero for lower <= x <= upper, infinite elsewhere.

    Parameters
    ----------
    lower : float, default -inf
        The smallest value of each coefficient.
    upper : float, default inf
        The largest value of each coefficient.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import BoxConstraint
    >>> BoxConstraint(-5.0, 5.0).value(np.array([3.0, -4.0]))
    0.0
    """

    lower: float = -np.inf
    upper: float = np.inf

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise InputError(f"BoxConstraint needs lower <= upper, and lower = {self.lower}, upper = {self.upper}.")
        if self.lower == np.inf or self.upper == -np.inf:
            raise InputError(
                f"BoxConstraint needs a box with finite points in it, and lower = {self.lower}, upper = {self.upper}."
            )

    def value(self, x: Array) -> float:
        return 0.0 if ((x >= self.lower) & (x <= self.upper)).all() else np.inf

    def prox(self, step: float, v: Array) -> Array:
        return np.clip(v, self.lower, self.upper)

    def steepest(self, x: Array, g: Array) -> Array:
        # At a bound, a gradient that points out of the box is balanced by the constraint.
        blocked = ((x <= self.lower) & (g > 0)) | ((x >= self.upper) & (g < 0))
        return np.where(blocked, 0.0, g)


def NonNegative() -> BoxConstraint:
    """x >= 0.

    Returns
    -------
    BoxConstraint
        The penalty.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import NonNegative
    >>> NonNegative().value(np.array([3.0, -4.0]))
    inf
    """
    return BoxConstraint(lower=0.0)


class Penalised(Objective):
    """f + penalty: `smooth_part` is f, and there is no gradient of the whole.

    Parameters
    ----------
    smooth_part : Objective
        The smooth function.
    penalty : Penalty
        The penalty.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> f = dualfl.LinearModel(np.eye(2), [1.0, 2.0], dualfl.Squared()) + dualfl.L1(0.5)
    >>> f.value(np.zeros(2))
    1.25
    """

    offers = frozenset({"prox"})

    def __init__(self, smooth_part: Objective, penalty: Penalty) -> None:
        if isinstance(smooth_part, Penalised):
            raise NotSupported(
                f"{smooth_part.name} carries a penalty already; "
                "combine l1 and l2 with ElasticNetPenalty instead of adding twice."
            )
        super().__init__()
        self.smooth_part, self.penalty = smooth_part, penalty
        self.shape, self.n, self.free = smooth_part.shape, smooth_part.n, smooth_part.free
        self.mu = float(np.min(self.convexity))
        if not smooth_part.smooth:
            self.offers = frozenset()

    @property
    def name(self) -> str:
        return f"{self.smooth_part.name} + {type(self.penalty).__name__}"

    @property
    def cost(self) -> Cost:
        return self.smooth_part.cost

    @property
    def mass(self) -> float:
        return self.smooth_part.mass

    @property
    def convexity(self) -> float | Array:
        own = self.penalty.mu if self.free is None else np.where(self.free, 0.0, self.penalty.mu)
        return self.smooth_part.convexity + own

    # A free coordinate may share a group with others, so the penalty sees it at rest, whatever its value.

    def penalty_value(self, x: Array) -> float:
        if self.free is None:
            return self.penalty.value(x.reshape(self.shape))
        rest = self.penalty.prox(1.0, np.zeros(self.shape)).ravel()  # costs nothing, also in a box without 0
        return self.penalty.value(np.where(self.free, rest, x).reshape(self.shape))

    def nearest(self, x: Array) -> Array:
        """x where the penalty is finite, and the nearest such point elsewhere."""
        return x if self.penalty_value(x) < np.inf else self.prox(0.0, x)

    def rounded(self, x: Array) -> Array:
        """x, or the nearest point where the penalty is finite if only rounding keeps x from it.

        Means of points in a box are in the box, but for that: three times 0.2 has a mean above 0.2 by 3e-17.
        """
        y = self.nearest(x)
        return y if (np.abs(y - x) <= ROUNDING * np.abs(y)).all() else x

    def prox(self, step: float, v: Array) -> Array:
        """The prox of the penalty; free coordinates stay what they are."""
        x = self.penalty.prox(step, self._resting(v)).ravel()
        return x if self.free is None else np.where(self.free, v, x)

    def steepest(self, x: Array, gradient: Array) -> Array:
        """The smallest subgradient at x, given the gradient of the smooth part there."""
        g = self.penalty.steepest(self._resting(x), self._resting(gradient)).ravel()
        return g if self.free is None else np.where(self.free, gradient, g)

    def rounding(self, x: Array, drift: float = 0.0) -> Rounding:
        own = self.penalty.rounding(self._resting(x))
        if self.free is not None:
            own = own._replace(gradient=np.where(self.free, 0.0, own.gradient))
        return self.smooth_part.rounding(x, drift) + own

    def _resting(self, x: Array) -> Array:
        return (x if self.free is None else np.where(self.free, 0.0, x)).reshape(self.shape)

    def _point(self, x: Array) -> Point:
        return PenalisedPoint(self, self.smooth_part.at(x))

    def tilted(self, a: float | Array = 0.0, c: Array | None = None) -> Objective:
        return Penalised(self.smooth_part.tilted(a, c), self.penalty)

    def scaled(self, factor: float) -> Objective:
        return Penalised(self.smooth_part.scaled(factor), self.penalty)

    def fresh(self) -> Penalised:
        return Penalised(self.smooth_part.fresh(), self.penalty)

    def forget(self) -> None:
        super().forget()
        self.smooth_part.forget()

    def _instead(self) -> str:
        return "use FISTA, POGM or CoordinateDescent"


class PenalisedPoint(Point):
    def __init__(self, f: Penalised, smooth: Point) -> None:
        super().__init__(smooth.x)
        self.f, self.smooth = f, smooth

    @cached_property
    def value(self) -> float:
        return self.smooth.value + self.f.penalty_value(self.x)

    @property
    def gradient(self) -> Array:
        self.f.require_gradient("This step")
        raise AssertionError("unreachable")

    def hessian_times(self, v: Array) -> Array:
        raise NotSupported(f"{self.f.name} has no Hessian; ask its smooth_part.")

    def ray(self, p: Array) -> Ray:
        raise NotSupported(f"{self.f.name} is not smooth along a line; {self.f._instead()}.")
