"""When a local solver may stop. Rules are small frozen objects; every one has a cap, and hitting it is reported.

A solver holds a point x with a residual r, a subgradient of the local objective F at x up to `slack` (zero for
smooth objectives, the duality gap for dual solvers). If F is m-strongly convex,

    F(x) - min F  <=  gap := slack + |r|^2 / (2 m),

which is the primal-dual gap with the dual point g'(x): always finite, and known without a conjugate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dualfl.arguments import check
from dualfl.errors import InputError
from dualfl.typing import Array


class Progress(NamedTuple):
    """What a solver knows after an iteration."""

    iteration: int
    x: Array
    residual: float  # |r|
    gap: float  # inf where there is no strong convexity
    value: float  # of the local objective; nan unless the rule asks for it
    previous: float  # the value one iteration ago
    slack: float  # the part of the gap that is not |r|^2/(2m)
    m: float = 0.0  # strong convexity of the local objective

    @property
    def error(self) -> float:
        """|r| with the slack counted in: the |r| of a primal solver with the same gap."""
        return self.residual if self.slack == 0 else float(np.sqrt(self.residual**2 + 2 * self.m * self.slack))


@dataclass(frozen=True)
class StopRule(ABC):
    """Base of all rules; `cap` ends a solve that the rule does not.

    Examples
    --------
    >>> from dualfl.solvers import GradientNorm, StopRule
    >>> isinstance(GradientNorm(1e-6), StopRule)
    True
    """

    cap: int = field(default=10_000, kw_only=True)
    needs_value = False

    def __post_init__(self) -> None:
        check("cap", self.cap, int)
        if self.cap < 0:
            raise InputError(f"cap must be >= 0 iterations, but it is {self.cap}.")

    @abstractmethod
    def met(self, now: Progress) -> bool: ...


def _tolerance(name: str, value: float) -> None:
    check(name, value, float)
    if not value >= 0:
        raise InputError(f"{name} must be a number >= 0, but it is {value}.")


@dataclass(frozen=True)
class FixedIterations(StopRule):
    """Exactly m iterations.

    Parameters
    ----------
    m : int
        How many iterations.
    cap : int, default 10000
        Most iterations; they end a solve that the rule does not.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.solvers import FixedIterations
    >>> f = dualfl.Quadratic(np.diag([1.0, 4.0]), np.ones(2))
    >>> dualfl.minimise(f, stop=FixedIterations(300)).x.round(3)
    array([1.  , 0.25])
    """

    m: int

    def __post_init__(self) -> None:
        check("m", self.m, int)
        if self.m < 0:
            raise InputError(f"m must be >= 0 iterations, but it is {self.m}.")
        # The cap never interferes: m iterations are what was asked for.
        object.__setattr__(self, "cap", self.m + 1)

    def met(self, now: Progress) -> bool:
        return now.iteration >= self.m


@dataclass(frozen=True)
class GradientNorm(StopRule):
    """|r| <= eps; a dual solver's slack counts as the |r| of the same gap.

    Parameters
    ----------
    eps : float, default 1e-08
        The threshold.
    cap : int, default 10000
        Most iterations; they end a solve that the rule does not.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.solvers import GradientNorm
    >>> f = dualfl.Quadratic(np.diag([1.0, 4.0]), np.ones(2))
    >>> dualfl.minimise(f, stop=GradientNorm(1e-6)).x.round(3)
    array([1.  , 0.25])
    """

    eps: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        _tolerance("eps", self.eps)

    def met(self, now: Progress) -> bool:
        return now.error <= self.eps


@dataclass(frozen=True)
class PrimalDualGap(StopRule):
    """F(x) - min F <= eps, proven. Needs strong convexity, or a dual solver.

    With `modulus` the gap is slack + |r|^2/(2 modulus): DualFL's gap is stated for its own nu <= mu.

    Parameters
    ----------
    eps : float, default 1e-10
        The threshold.
    modulus : float, optional
        The strong convexity that turns gradients into gaps; None: the objective's own.
    cap : int, default 10000
        Most iterations; they end a solve that the rule does not.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.solvers import PrimalDualGap
    >>> f = dualfl.Quadratic(np.diag([1.0, 4.0]), np.ones(2))
    >>> dualfl.minimise(f, stop=PrimalDualGap(1e-12)).x.round(3)
    array([1.  , 0.25])
    """

    eps: float = 1e-10
    modulus: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _tolerance("eps", self.eps)

    def met(self, now: Progress) -> bool:
        if self.modulus is None:
            return now.gap <= self.eps
        return now.slack + now.residual**2 / (2 * self.modulus) <= self.eps


@dataclass(frozen=True)
class RelativeEnergy(StopRule):
    """|F(x_k) - F(x_{k-1})| <= eps |F(x_k)|: the rule of the paper's experiments.

    It stops on small progress, not on small error, and so leaves a floor of about eps in the outer iteration.

    Parameters
    ----------
    eps : float, default 1e-12
        The threshold.
    cap : int, default 10000
        Most iterations; they end a solve that the rule does not.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.solvers import RelativeEnergy
    >>> f = dualfl.Quadratic(np.diag([1.0, 4.0]), np.ones(2))
    >>> dualfl.minimise(f, stop=RelativeEnergy(1e-14)).x.round(3)
    array([1.  , 0.25])
    """

    eps: float = 1e-12
    needs_value = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _tolerance("eps", self.eps)

    def met(self, now: Progress) -> bool:
        return abs(now.value - now.previous) <= self.eps * max(abs(now.value), np.finfo(float).tiny)


@dataclass(frozen=True)
class RelativeStep(StopRule):
    """|r| <= s |x - centre|: the residual is small against the step that was made.

    Parameters
    ----------
    s : float
        The factor.
    centre : ndarray
        Where the step began.
    cap : int, default 10000
        Most iterations; they end a solve that the rule does not.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.solvers import RelativeStep
    >>> f = dualfl.Quadratic(np.diag([1.0, 4.0]), np.ones(2))
    >>> dualfl.minimise(f, stop=RelativeStep(1e-8, np.zeros(2))).x.round(3)
    array([1.  , 0.25])
    """

    s: float
    centre: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        _tolerance("s", self.s)

    def met(self, now: Progress) -> bool:
        return now.error <= self.s * float(np.linalg.norm(now.x - self.centre))


@dataclass(frozen=True)
class PolynomialSchedule:
    """The threshold of the theorem for nonsmooth costs, G0 / (N nu (n+1)^(4 + gamma)), at round n = 0, 1, ...

    Parameters
    ----------
    gamma : float, default 0.1
        How fast thresholds fall.
    G0 : float, default 1.0
        The unit of the thresholds.

    Examples
    --------
    >>> import dualfl
    >>> schedule = dualfl.solvers.PolynomialSchedule(gamma=0.1)
    >>> schedule.G0
    1.0
    """

    gamma: float = 0.1
    G0: float = 1.0

    def __post_init__(self) -> None:
        if not self.gamma > 0 or not self.G0 > 0:
            raise InputError(f"gamma and G0 must be positive, but they are {self.gamma} and {self.G0}.")

    def threshold(self, n: int, N: int, nu: float) -> float:
        return float(self.G0 / (N * nu * (n + 1.0) ** (4 + self.gamma)))

    def rule(self, n: int, N: int, nu: float, cap: int = 10_000) -> PrimalDualGap:
        return PrimalDualGap(self.threshold(n, N, nu), nu, cap=cap)


@dataclass(frozen=True)
class GeometricSchedule:
    """The threshold of the theorem for smooth costs, (G0/N) ((1 - sqrt(rho)) / (1 + gamma))^n.

    Without gamma, 1 + gamma = 1/(1 - sqrt(rho)): the errors then fall as fast as the iterates do on quadratics.

    Parameters
    ----------
    rho : float
        The momentum parameter of DualFL.
    gamma : float, optional
        How fast thresholds fall.
    G0 : float, default 1.0
        The unit of the thresholds.

    Examples
    --------
    >>> import dualfl
    >>> schedule = dualfl.solvers.GeometricSchedule(rho=0.01, gamma=0.1)
    >>> schedule.G0
    1.0
    """

    rho: float
    gamma: float | None = None
    G0: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.rho < 1:
            raise InputError(f"rho must lie in [0, 1), but it is {self.rho}.")
        if (self.gamma is not None and not self.gamma > 0) or not self.G0 > 0:
            raise InputError(f"gamma and G0 must be positive, but they are {self.gamma} and {self.G0}.")

    @property
    def ratio(self) -> float:
        shrink = 1 - np.sqrt(self.rho)
        return float(shrink * shrink if self.gamma is None else shrink / (1 + self.gamma))

    def threshold(self, n: int, N: int, nu: float) -> float:
        return self.G0 / N * self.ratio**n

    def rule(self, n: int, N: int, nu: float, cap: int = 10_000) -> PrimalDualGap:
        return PrimalDualGap(self.threshold(n, N, nu), nu, cap=cap)
