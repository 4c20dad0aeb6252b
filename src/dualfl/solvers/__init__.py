"""Local solvers: how a client minimises f(x) + (a/2)|x|^2 - <c, x>. One file per solver, and the rules when to stop."""

from dualfl.solvers.aogm import AOGM
from dualfl.solvers.base import Solution, Solver, Watch, default_solver, minimise
from dualfl.solvers.coordinate_descent import CoordinateDescent
from dualfl.solvers.damped_newton import DampedNewton
from dualfl.solvers.fista import FISTA
from dualfl.solvers.gradient_descent import GradientDescent
from dualfl.solvers.lbfgs import LBFGS
from dualfl.solvers.nesterov import Nesterov
from dualfl.solvers.newton_cg import NewtonCG
from dualfl.solvers.pogm import POGM
from dualfl.solvers.saga import SAGA
from dualfl.solvers.scipy_bridge import ScipySolver
from dualfl.solvers.sdca import SDCA
from dualfl.solvers.sgd import SGD
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
from dualfl.solvers.svrg import SVRG

__all__ = [
    "AOGM",
    "FISTA",
    "LBFGS",
    "POGM",
    "SAGA",
    "SDCA",
    "SGD",
    "SVRG",
    "CoordinateDescent",
    "DampedNewton",
    "FixedIterations",
    "GeometricSchedule",
    "GradientDescent",
    "GradientNorm",
    "Nesterov",
    "NewtonCG",
    "PolynomialSchedule",
    "PrimalDualGap",
    "RelativeEnergy",
    "RelativeStep",
    "ScipySolver",
    "Solution",
    "Solver",
    "StopRule",
    "Watch",
    "default_solver",
    "minimise",
]
