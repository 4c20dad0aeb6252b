"""Any gradient method of `scipy.optimize.minimize` as a local solver.

SciPy's own tolerances are switched off, so that the stop rule decides and not they: it is asked after every iteration,
through the callback. What SciPy evaluates is counted like everything else. If SciPy gives up before the rule is met (a
line search that fails, as SLSQP's does far from the end when its matrix has gone bad) it starts afresh from there, as
long as that helps and nobody gave options of his own; if it gets nowhere, the solution is reported as capped.

Only the rule can say that a problem is solved; SciPy's own word for it is not asked. Two things keep the rule from
being misled. An iteration that leaves the point where it was (a trust region rejects steps, and Newton-CG makes none
where the curvature seems to be zero) is not shown to it: a rule on the change of F would take it for the end. And SciPy
sees the objective in units in which the first gradient has a length near one, because its methods hold constants, such
as a first step or a least curvature, that suit no other.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dualfl.arguments import checked
from dualfl.errors import InputError, NotSupported
from dualfl.objectives.base import Objective
from dualfl.objectives.points import Point
from dualfl.solvers.base import SmoothSolver, Solution, Watch
from dualfl.solvers.line_search import Plateau
from dualfl.solvers.stopping import StopRule
from dualfl.typing import Array, frozen

AGAIN = 0.5  # a start that brings the gradient below this part of what it was is followed by another

# what switches off the tolerances of each method
UNLIMITED = 1_000_000_000
LEAST = float(np.finfo(float).tiny)  # with xtol = 0, Newton-CG of SciPy 1.11 returns its start as the minimiser
GRADIENT: dict[str, dict[str, Any]] = {
    "L-BFGS-B": {"ftol": 0.0, "gtol": 0.0, "maxiter": UNLIMITED, "maxfun": UNLIMITED},
    "BFGS": {"gtol": 0.0, "maxiter": UNLIMITED},
    "CG": {"gtol": 0.0, "maxiter": UNLIMITED},
    "TNC": {"ftol": 0.0, "xtol": 0.0, "gtol": 0.0, "maxfun": UNLIMITED},
    "SLSQP": {"ftol": 0.0, "maxiter": UNLIMITED},
}
HESSIAN: dict[str, dict[str, Any]] = {
    "Newton-CG": {"xtol": LEAST, "maxiter": UNLIMITED},
    "trust-ncg": {"gtol": 0.0, "maxiter": UNLIMITED},
    "trust-krylov": {"gtol": 0.0, "maxiter": UNLIMITED},
}


def minimize(*arguments: Any, **settings: Any) -> Any:
    """SciPy's; a package that takes half a second to import, and that few runs use."""
    from scipy.optimize import minimize

    return minimize(*arguments, **settings)


class _Stop(Exception):
    """Leaves SciPy's loop: the rule is met."""


class _Stuck(Exception):
    """Leaves SciPy's loop: it gets nowhere."""


@checked
@dataclass(frozen=True)
class ScipySolver(SmoothSolver):
    """A bridge to SciPy; `options` go to SciPy as they are, on top of tolerances that are switched off.

    With options SciPy sees the objective as it is, so that a tolerance among them means what it says.

    Parameters
    ----------
    method : str, default 'L-BFGS-B'
        A method of `scipy.optimize.minimize`.
    options : mapping, optional
        Options of that method.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.solvers import ScipySolver
    >>> f = dualfl.Quadratic(np.diag([1.0, 4.0]), np.ones(2))
    >>> dualfl.minimise(f, solver=ScipySolver("BFGS")).x.round(3)
    array([1.  , 0.25])
    """

    method: str = "L-BFGS-B"
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.method not in GRADIENT | HESSIAN:
            raise InputError(f"method must be one of {', '.join(GRADIENT | HESSIAN)}, but it is {self.method!r}.")

    @property
    def name(self) -> str:
        return f"SciPy {self.method}"

    def check(self, f: Objective) -> None:
        super().check(f)
        if self.method in HESSIAN and "hessian" not in f.offers:
            raise NotSupported(f"{self.name} needs Hessian products, and {f.name} has none; use LBFGS.")

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        watch, plateau = Watch(f, stop), Plateau()
        point = self.start(f, warm)
        if self.arrived(watch, point):
            return watch.at(point)
        seen: deque[Point] = deque([point], maxlen=8)  # what a callback asks for was evaluated shortly before

        def at(x: Array) -> Point:
            for known in reversed(seen):
                if np.array_equal(known.x, x):
                    return known
            seen.append(f.at(frozen(x)))
            return seen[-1]

        unit = 1.0  # a power of two: dividing by it costs no digit

        def both(x: Array) -> tuple[float, Array]:
            gradient = at(x).gradient
            return at(x).value / unit, gradient / unit

        def after_iteration(x: Array) -> None:
            nonlocal point
            moved = not np.array_equal(x, point.x)
            point = at(x)
            if moved and self.arrived(watch, point):
                raise _Stop
            if plateau.reached(point, float(np.linalg.norm(point.gradient))):
                raise _Stuck  # some methods would go on for ever

        settings: dict[str, Any] = {"method": self.method, "callback": after_iteration}
        if self.method in HESSIAN:
            settings |= {"options": {**HESSIAN[self.method], **self.options}}
            settings |= {"hessp": lambda x, v: at(x).hessian_times(frozen(v)) / unit}
        else:
            settings |= {"options": {**GRADIENT[self.method], **self.options}}
        try:
            while True:
                before = float(np.linalg.norm(point.gradient))
                unit = 1.0 if self.options else math.ldexp(1.0, math.frexp(before)[1] - 1)
                with np.errstate(all="ignore"), contextlib.suppress(_Stuck):
                    point = at(minimize(both, np.array(point.x), jac=True, **settings).x)
                plateau = Plateau()
                if self.options or not float(np.linalg.norm(point.gradient)) < AGAIN * before:
                    break  # who gave options, such as maxiter, knows when to end
            watch.capped = True  # SciPy gave up, and would again
        except _Stop:
            pass
        return watch.at(point)
