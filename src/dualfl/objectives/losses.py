"""Losses l(y, z) of a linear predictor z = x'theta, one small frozen class each.

A loss says what the kernels need to know (`code`, `parameter`), whether it is smooth, how curved it can be
(`curvature`, a bound of its second derivative, which gives L), which targets it takes, and its conjugate

    l*(u) = sup_z  u z - l(y, z),

which is where duality gaps come from. The nonsmooth ones are all of one form,

    l(z) = max over a in [lo, hi] of  a (b - q z) - eps |a|,

and `box` returns that form; the dual solvers need nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import xlog1py, xlogy

from dualfl.arguments import checked
from dualfl.errors import InputError, NotSupported
from dualfl.typing import AnyArray, Array, sealed


class Box(NamedTuple):
    """A piecewise linear loss as max over a in [lo, hi] of a (b - q z) - eps |a|, per row."""

    q: Array
    b: Array
    lo: float
    hi: float
    eps: float


class Loss(ABC):
    """A convex loss of a target y and a linear predictor z.

    Examples
    --------
    >>> from dualfl.objectives import Hinge, Logistic
    >>> Logistic().smooth, Hinge().smooth
    (True, False)
    """

    code: ClassVar[int]
    smooth: ClassVar[bool] = True
    nonnegative: ClassVar[bool] = True
    curvature: ClassVar[float]  # sup of l''; inf if there is no bound
    self_concordance: ClassVar[float | None] = None  # c with |l'''| <= c l'' between kinks; None if there is none
    location: ClassVar[bool] = False  # whether it depends on z - y only

    @property
    def parameter(self) -> float:
        return 0.0

    @property
    def outputs(self) -> int:
        """How many numbers the predictor has per row."""
        return 1

    def working(self, y: Array) -> Array | None:
        """Predictors that the targets suggest, to begin with; None where 0 is as good."""
        return None

    def to_kink(self, z: Array, y: Array) -> Array | None:
        """How far predictors are from where l'' jumps, row by row; None where it never does."""
        return None

    def targets(self, y: AnyArray) -> Array:
        """`y` as the float64 vector the kernels take, or a sentence about what is wrong with it."""
        y = np.asarray(y)
        if y.ndim != 1:
            raise InputError(f"y must be one target per row, a vector, but it has shape {y.shape}.")
        if y.dtype.kind not in "buif":
            raise InputError(f"{self} takes real numbers as targets, and y has dtype {y.dtype}; encode it first.")
        y = y.astype(np.float64)
        if not np.isfinite(y).all():
            raise InputError(f"y[{int(np.argmin(np.isfinite(y)))}] is {y[~np.isfinite(y)][0]}; targets must be finite.")
        self._check(y)
        return sealed(y)

    def _check(self, y: Array) -> None:  # noqa: B027 - finite numbers are enough for most
        """Raise InputError where finite numbers are not enough."""

    @abstractmethod
    def conjugate(self, u: Array, y: Array) -> Array:
        """l*(u) per row; inf outside its domain."""

    def bound(self, y: Array) -> float | Array:
        """The largest l'' over all z: one number, or one for each target."""
        return self.curvature

    def rounding_sizes(self, z: Array, y: Array) -> tuple[Array, Array, float] | None:
        """By rows, the parts of which l is the difference, beyond its value, and the size of those of l'; and how
        curved it is near z. None where `rounding` knows."""
        return None

    def box(self, y: Array) -> Box:
        raise NotSupported(
            f"{self} is not piecewise linear, so dual coordinate ascent does not apply; use a smooth solver."
        )

    def __str__(self) -> str:
        return type(self).__name__


def _signs(loss: Loss, y: Array) -> None:
    if not np.isin(y, (-1.0, 1.0)).all():
        wrong = y[~np.isin(y, (-1.0, 1.0))][0]
        raise InputError(f"{loss} takes labels -1 and +1, and y contains {wrong:g}; map your two classes to -1 and +1.")


def _inside(ok: AnyArray, value: AnyArray) -> Array:
    return np.where(ok, value, np.inf)


# Points a hair outside the domain are rounding, not infeasible.
_SLACK = 1e-12


@dataclass(frozen=True)
class Softmax(Loss):
    """log sum_l exp(z_l - z_y), classes 0 to k - 1. The Hessian diag(p) - pp' is at most I/2.

    Parameters
    ----------
    classes : int
        How many classes there are.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, Softmax
    >>> f = LinearModel(np.eye(2), [0, 1], Softmax(2), ridge=0.1)
    >>> round(f.value(np.zeros(f.d)), 4)
    0.6931
    """

    classes: int
    code: ClassVar[int] = 0
    curvature: ClassVar[float] = 0.5
    self_concordance: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.classes, (int, np.integer)) or self.classes < 2:
            raise InputError(f"Softmax needs a whole number of classes >= 2, and classes = {self.classes!r}.")

    @property
    def outputs(self) -> int:
        return int(self.classes)

    def _check(self, y: Array) -> None:
        wrong = (y != np.floor(y)) | (y < 0) | (y >= self.classes)
        if wrong.any():
            raise InputError(
                f"{self} takes labels 0 to {self.classes - 1}, and y contains {y[wrong][0]:g}; "
                "encode the classes as 0, 1, 2, ..."
            )

    def conjugate(self, u: Array, y: Array) -> Array:
        p = u.copy()
        p[np.arange(len(y)), y.astype(int)] += 1.0
        ok = (p >= -_SLACK).all(axis=1) & (np.abs(p.sum(axis=1) - 1) <= _SLACK * self.classes)
        p = np.maximum(p, 0)
        return _inside(ok, xlogy(p, p).sum(axis=1))


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + exp(-y z)), y = -1 or +1.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, Logistic
    >>> f = LinearModel(np.eye(2), [1, -1], Logistic(), ridge=0.1)
    >>> round(f.value(np.zeros(f.d)), 4)
    0.6931
    """

    code: ClassVar[int] = 1
    self_concordance: ClassVar[float | None] = 1.0
    curvature: ClassVar[float] = 0.25

    def _check(self, y: Array) -> None:
        _signs(self, y)

    def conjugate(self, u: Array, y: Array) -> Array:
        t = -u * y
        ok = (t >= -_SLACK) & (t <= 1 + _SLACK)
        t = np.clip(t, 0.0, 1.0)
        return _inside(ok, xlogy(t, t) + xlog1py(1 - t, -t))  # log(1 - t) would lose a t of 1e-13 in the 1


@dataclass(frozen=True)
class Squared(Loss):
    """(z - y)^2 / 2.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, Squared
    >>> f = LinearModel(np.eye(2), [1.0, 2.0], Squared(), ridge=0.1)
    >>> round(f.value(np.zeros(f.d)), 4)
    1.25
    """

    code: ClassVar[int] = 2
    self_concordance: ClassVar[float | None] = 0.0
    location: ClassVar[bool] = True
    curvature: ClassVar[float] = 1.0

    def conjugate(self, u: Array, y: Array) -> Array:
        return u * u / 2 + u * y


@checked
@dataclass(frozen=True)
class Huber(Loss):
    """r^2/2 for |r| <= delta and delta |r| - delta^2/2 beyond, r = z - y.

    Parameters
    ----------
    delta : float, default 1.0
        From which residual on the loss is linear.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, Huber
    >>> f = LinearModel(np.eye(2), [0.5, 3.0], Huber(1.0), ridge=0.1)
    >>> round(f.value(np.zeros(f.d)), 4)
    1.3125
    """

    delta: float = 1.0
    code: ClassVar[int] = 3
    location: ClassVar[bool] = True
    curvature: ClassVar[float] = 1.0
    self_concordance: ClassVar[float | None] = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.delta < np.inf:
            raise InputError(f"Huber needs a finite delta > 0, and delta = {self.delta}.")

    @property
    def parameter(self) -> float:
        return self.delta

    def to_kink(self, z: Array, y: Array) -> Array | None:
        return np.abs(np.abs(z - y) - self.delta)

    def conjugate(self, u: Array, y: Array) -> Array:
        return _inside(np.abs(u) <= self.delta * (1 + _SLACK), u * u / 2 + u * y)


@dataclass(frozen=True)
class Poisson(Loss):
    """exp(z) - y z, the log-link Poisson likelihood. Its gradient is not Lipschitz: L is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, Poisson
    >>> f = LinearModel(np.eye(2), [1, 2], Poisson(), ridge=0.1)
    >>> round(f.value(np.zeros(f.d)), 4)
    1.0
    """

    code: ClassVar[int] = 4
    self_concordance: ClassVar[float | None] = 1.0
    nonnegative: ClassVar[bool] = False
    curvature: ClassVar[float] = np.inf

    def _check(self, y: Array) -> None:
        if (y < 0).any():
            raise InputError(f"Poisson takes counts >= 0, and y contains {y[y < 0][0]:g}.")

    def working(self, y: Array) -> Array | None:
        return np.asarray(np.log(y + 0.5))

    def conjugate(self, u: Array, y: Array) -> Array:
        rate = u + y
        ok = rate >= -_SLACK * (1 + y)
        rate = np.maximum(rate, 0)
        return _inside(ok, xlogy(rate, rate) - rate)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 - y z)^2, y = -1 or +1.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, SquaredHinge
    >>> f = LinearModel(np.eye(2), [1, -1], SquaredHinge(), ridge=0.1)
    >>> round(f.value(np.zeros(f.d)), 4)
    1.0
    """

    code: ClassVar[int] = 5
    curvature: ClassVar[float] = 2.0
    self_concordance: ClassVar[float | None] = 0.0

    def to_kink(self, z: Array, y: Array) -> Array | None:
        return np.abs(1.0 - y * z)

    def _check(self, y: Array) -> None:
        _signs(self, y)

    def conjugate(self, u: Array, y: Array) -> Array:
        a = -u * y
        return _inside(a >= -_SLACK, a * a / 4 - a)


class PiecewiseLinear(Loss):
    """A loss without gradient, in the form `box`."""

    smooth: ClassVar[bool] = False
    curvature: ClassVar[float] = np.inf

    def conjugate(self, u: Array, y: Array) -> Array:
        q, b, lo, hi, eps = self.box(y)
        a = -u / q
        slack = _SLACK * (hi - lo)
        return _inside((a >= lo - slack) & (a <= hi + slack), eps * np.abs(a) - a * b)


@dataclass(frozen=True)
class Hinge(PiecewiseLinear):
    """max(0, 1 - y z), y = -1 or +1.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, Hinge
    >>> f = LinearModel(np.eye(2), [1, -1], Hinge(), ridge=0.1)
    >>> round(f.value(np.zeros(f.d)), 4)
    1.0
    """

    code: ClassVar[int] = 6

    def _check(self, y: Array) -> None:
        _signs(self, y)

    def box(self, y: Array) -> Box:
        return Box(q=y, b=np.ones_like(y), lo=0.0, hi=1.0, eps=0.0)


@dataclass(frozen=True)
class Absolute(PiecewiseLinear):
    """|z - y|.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, Absolute
    >>> f = LinearModel(np.eye(2), [1.0, 2.0], Absolute(), ridge=0.1)
    >>> round(f.value(np.zeros(f.d)), 4)
    1.5
    """

    code: ClassVar[int] = 7
    location: ClassVar[bool] = True

    def box(self, y: Array) -> Box:
        return Box(q=np.ones_like(y), b=y, lo=-1.0, hi=1.0, eps=0.0)


@checked
@dataclass(frozen=True)
class Quantile(PiecewiseLinear):
    """tau max(y - z, 0) + (1 - tau) max(z - y, 0); its minimiser is the tau-quantile.

    Parameters
    ----------
    tau : float, default 0.5
        Which quantile, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, Quantile
    >>> f = LinearModel(np.eye(2), [1.0, 2.0], Quantile(0.9), ridge=0.1)
    >>> round(f.value(np.zeros(f.d)), 4)
    1.35
    """

    tau: float = 0.5
    code: ClassVar[int] = 8
    location: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.tau < 1:
            raise InputError(f"Quantile needs 0 < tau < 1, and tau = {self.tau}.")

    @property
    def parameter(self) -> float:
        return self.tau

    def box(self, y: Array) -> Box:
        return Box(q=np.ones_like(y), b=y, lo=self.tau - 1.0, hi=self.tau, eps=0.0)


@checked
@dataclass(frozen=True)
class EpsilonInsensitive(PiecewiseLinear):
    """max(0, |z - y| - eps), the loss of support vector regression.

    Parameters
    ----------
    eps : float, default 0.1
        Up to which residual the loss is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, EpsilonInsensitive
    >>> f = LinearModel(np.eye(2), [1.0, 2.0], EpsilonInsensitive(0.5), ridge=0.1)
    >>> round(f.value(np.zeros(f.d)), 4)
    1.0
    """

    eps: float = 0.1
    code: ClassVar[int] = 9
    location: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.eps < np.inf:
            raise InputError(f"EpsilonInsensitive needs a finite eps >= 0, and eps = {self.eps}.")

    @property
    def parameter(self) -> float:
        return self.eps

    def box(self, y: Array) -> Box:
        return Box(q=np.ones_like(y), b=y, lo=-1.0, hi=1.0, eps=self.eps)
