"""How a client minimises: the interface of all local solvers.

A solver is a frozen dataclass of settings with one method, `solve(f, warm, stop)`. The objective `f` is usually a
tilted view f_j + (a/2)|x|^2 - <c, x>. The loop of every solver reads

    watch = Watch(f, stop)
    while not watch.done(x, residual):
        ...
    return watch.solution(...)

so that stopping, caps and the account of the work are the same everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dualfl.arguments import checked
from dualfl.errors import Diverged, NotSupported
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalised
from dualfl.objectives.points import Point
from dualfl.objectives.quadratic import Quadratic
from dualfl.objectives.work import Cost
from dualfl.solvers.stopping import GradientNorm, PrimalDualGap, Progress, StopRule
from dualfl.typing import Array, frozen


@dataclass(frozen=True)
class Solution:
    """The solution that a solver found, a bound of its error, and its cost.

    Parameters
    ----------
    x : ndarray
        The solution.
    residual : ndarray
        A vector r with F(y) >= F(x) + <r, y - x> - slack for all y: the gradient, or the smallest subgradient. At the
        minimiser r and the slack are 0.
    value : float
        F(x).
    slack : float
        Zero for primal solvers, the duality gap for dual ones.
    gap : float
        slack + |r|^2/(2m), a proven bound on F(x) - min F; inf without strong convexity.
    iterations : int
        How many iterations it took.
    capped : bool
        Whether the limit of iterations ended it, and not the stopping rule.
    cost : Cost
        The work that was done.
    warm : ndarray
        What to hand to the same solver next time: x itself, or the dual variables of a dual solver.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> solution = dualfl.minimise(dualfl.Quadratic(np.eye(2), np.ones(2)))
    >>> solution.x.round(6), solution.capped
    (array([1., 1.]), False)
    """

    x: Array
    residual: Array
    value: float
    slack: float
    gap: float
    iterations: int
    capped: bool
    cost: Cost
    warm: Array


class Watch:
    """Asks the stop rule, counts iterations, and writes the account.

    Parameters
    ----------
    f : Objective
        The objective.
    stop : StopRule
        The stop rule.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> f = dualfl.Quadratic(np.eye(2), np.ones(2))
    >>> watch = dualfl.solvers.Watch(f, dualfl.solvers.GradientNorm(1e-6))
    """

    def __init__(self, f: Objective, stop: StopRule) -> None:
        self.f, self.stop = f, stop
        self.iterations = 0
        self.capped = False
        self._before = f.cost.copy()
        self._value = np.inf
        self._started = False

    def done(self, x: Array, residual: float, value: Callable[[], float] | float, slack: float = 0.0) -> bool:
        """To be asked before the first iteration and after each one; `residual` is |r|."""
        if self._started:
            self.iterations += 1
        self._started = True
        self.f.cost.look_at_time()  # a solver that stands still evaluates nothing
        if not np.isfinite(residual + slack):
            raise Diverged(
                f"The local solver met NaN or infinity at iteration {self.iterations} on {self.f.name}; "
                "its step is too long for this objective, or the data are badly scaled."
            )
        previous, now = self._value, np.nan
        if self.stop.needs_value:
            now = self._value = value() if callable(value) else value
        if self.stop.met(
            Progress(self.iterations, x, residual, self.gap(residual, slack), now, previous, slack, self.f.mu)
        ):
            return True
        self.capped = self.iterations >= self.stop.cap
        return self.capped

    def done_about(self, x: Array, estimate: float, exact: Callable[[], float], value: Callable[[], float]) -> bool:
        """`done` with an estimate of |r|: what is exact is asked for only when the answer may be yes."""
        k = self.iterations + self._started
        now = value() if self.stop.needs_value else np.nan
        about = Progress(k, x, estimate, self.gap(estimate), now, self._value, 0.0, self.f.mu)
        near = np.isfinite(estimate) and (k >= self.stop.cap or self.stop.met(about))
        return self.done(x, exact() if near else estimate, value)

    def gap(self, residual: float, slack: float = 0.0) -> float:
        if residual == 0.0:
            return slack
        return slack + residual**2 / (2 * self.f.mu) if self.f.mu > 0 else np.inf

    def solution(
        self, x: Array, residual: Array, value: float, slack: float = 0.0, warm: Array | None = None
    ) -> Solution:
        return Solution(
            x=frozen(x),
            residual=frozen(residual),
            value=float(value),
            slack=slack,
            gap=self.gap(float(np.linalg.norm(residual)), slack),
            iterations=self.iterations,
            capped=self.capped,
            cost=self.f.cost - self._before,
            warm=frozen(x if warm is None else warm),
        )

    def at(self, point: Point) -> Solution:
        """The solution of a smooth problem that ended at `point`."""
        return self.solution(point.x, point.gradient, point.value)


class Solver(ABC):
    """A way to minimise an objective. Subclasses are frozen dataclasses.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> f = dualfl.Quadratic(np.eye(2), np.ones(2))
    >>> isinstance(dualfl.solvers.default_solver(f), dualfl.solvers.Solver)
    True
    """

    @property
    def name(self) -> str:
        return type(self).__name__

    @abstractmethod
    def check(self, f: Objective) -> None:
        """Raise NotSupported, in one sentence, if this solver cannot minimise f."""

    @abstractmethod
    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution: ...


class SmoothSolver(Solver):
    """A solver that works with gradients."""

    def check(self, f: Objective) -> None:
        f.require_gradient(self.name)

    @staticmethod
    def start(f: Objective, warm: Array | None) -> Point:
        return f.at(np.zeros(f.d) if warm is None else warm)

    @staticmethod
    def arrived(watch: Watch, point: Point) -> bool:
        """The rule or the cap is met, or the gradient is zero: then no rule can ask for more."""
        norm = float(np.linalg.norm(point.gradient))
        return watch.done(point.x, norm, lambda: point.value) or norm == 0.0


class HessianSolver(SmoothSolver):
    def check(self, f: Objective) -> None:
        super().check(f)
        if "hessian" not in f.offers:
            raise NotSupported(f"{self.name} needs Hessian products, and {f.name} has none; use LBFGS.")


FACTORED = 1500  # coefficients of a quadratic whose matrix is factored without a thought


def default_solver(f: Objective) -> Solver:
    """The solver that a client uses by default; `benchmarks.solvers` compares it with others.

    Parameters
    ----------
    f : Objective
        The objective.

    Returns
    -------
    Solver
        What suits f.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> f = dualfl.Quadratic(np.eye(2), np.ones(2))
    >>> dualfl.minimise(f, solver=dualfl.solvers.default_solver(f)).x.round(6)
    array([1., 1.])
    """
    from dualfl.solvers import FISTA, LBFGS, SDCA, DampedNewton

    if isinstance(f, Penalised):
        return FISTA()
    if "dual" in f.offers:
        return SDCA()
    if isinstance(f, Quadratic) and isinstance(f.A, np.ndarray) and f.d <= FACTORED:
        return DampedNewton(dense=FACTORED)  # its Hessian is there; one factorisation, whatever the conditioning
    return LBFGS()


@checked
def minimise(
    f: Objective,
    *,
    a: float = 0.0,
    c: Array | None = None,
    warm: Array | None = None,
    solver: Solver | None = None,
    stop: StopRule | None = None,
) -> Solution:
    """Minimise f(x) + (a/2)|x|^2 - <c, x>.

    Parameters
    ----------
    f : Objective
        The function.
    a : float, default 0.0
        The strength of the added square, a number or one a coordinate.
    c : ndarray, optional
        The linear term; None: none.
    warm : ndarray, optional
        Where to start.
    solver : Solver, optional
        The solver; None: the default for f.
    stop : StopRule, optional
        The stop rule; None: gradients at rounding level.

    Returns
    -------
    Solution
        The minimiser, a bound of its error, and what it cost.

    Examples
    --------
    >>> from dualfl.objectives import Quadratic
    >>> minimise(Quadratic(np.diag([1.0, 4.0]), np.ones(2))).x.round(6)
    array([1.  , 0.25])
    """
    problem = f.tilted(a, c) if a or c is not None else f
    solver = default_solver(f) if solver is None else solver
    solver.check(problem)
    if stop is None:  # a dual solver's certificate is its gap
        stop = PrimalDualGap() if "dual" in f.offers else GradientNorm()
    return solver.solve(problem, warm, stop)
