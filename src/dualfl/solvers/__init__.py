"""How a client minimises f(x) + (a/2)|x|^2 - <c, x>: one file a solver, and the rules when to stop."""

from dualfl.solvers.base import Solution, Solver, Watch, default_solver, minimise
from dualfl.solvers.stopping import (
    FixedIterations,
    GeometricSchedule,
    GradientNorm,
    PolynomialSchedule,
    PrimalDualGap,
    RelativeEnergy,
    RelativeStep,
    StopRule,
)

__all__ = [
    "FixedIterations",
    "GeometricSchedule",
    "GradientNorm",
    "PolynomialSchedule",
    "PrimalDualGap",
    "RelativeEnergy",
    "RelativeStep",
    "Solution",
    "Solver",
    "StopRule",
    "Watch",
    "default_solver",
    "minimise",
]
