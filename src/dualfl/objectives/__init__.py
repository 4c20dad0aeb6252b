"""Objectives, the functions that clients minimise: linear models with losses and penalties, quadratics, your own."""

from dualfl.objectives.base import Objective
from dualfl.objectives.cox import CoxPartialLikelihood
from dualfl.objectives.families import CLogLog, Gamma, NegativeBinomial, Tweedie
from dualfl.objectives.function import Function, JaxFunction, TorchFunction
from dualfl.objectives.joint_losses import Cox, Ordered
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Poisson,
    Quantile,
    Softmax,
    Squared,
    SquaredHinge,
)
from dualfl.objectives.ordinal import ProportionalOdds
from dualfl.objectives.penalties import (
    L1,
    BoxConstraint,
    ElasticNetPenalty,
    GroupL2,
    NonNegative,
    Penalised,
    Penalty,
)
from dualfl.objectives.points import Point, Ray
from dualfl.objectives.quadratic import Quadratic
from dualfl.objectives.site_effect import OwnIntercept
from dualfl.objectives.tilted import Tilted, regularised
from dualfl.objectives.work import Cost

__all__ = [
    "L1",
    "Absolute",
    "BoxConstraint",
    "CLogLog",
    "Cost",
    "Cox",
    "CoxPartialLikelihood",
    "ElasticNetPenalty",
    "EpsilonInsensitive",
    "Function",
    "Gamma",
    "GroupL2",
    "Hinge",
    "Huber",
    "JaxFunction",
    "LinearModel",
    "Logistic",
    "Loss",
    "NegativeBinomial",
    "NonNegative",
    "Objective",
    "Ordered",
    "OwnIntercept",
    "Penalised",
    "Penalty",
    "Point",
    "Poisson",
    "ProportionalOdds",
    "Quadratic",
    "Quantile",
    "Ray",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "Tilted",
    "TorchFunction",
    "Tweedie",
    "regularised",
]
