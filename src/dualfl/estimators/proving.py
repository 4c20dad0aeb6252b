"""How near a model is to the best, asked of silos after the run: for costs whose algorithm proves nothing itself.

The theory is that of `estimators.curvature_proof`. Here silos are asked twice: for sums of value, gradient and Hessian,
and then for how far their rows reach in the norm of the inverse Hessian, as a power of which the sum bounds the
largest. A Newton step with these sums costs nothing more, and squares what is left of the distance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dualfl.engines.result import Result
from dualfl.errors import DualflError
from dualfl.estimators.curvature_proof import INSIDE, LARGEST, MOST, SURE, psi
from dualfl.estimators.solving import FitDescription, Task, solving
from dualfl.objectives.penalties import L1
from dualfl.objectives.rounding import UNIT, roundings
from dualfl.silos.costs import Cost, Sample
from dualfl.silos.curvature import DISTANCE, FARTHEST, POWER
from dualfl.silos.questions import Conversation, Exchange, Query, Silos
from dualfl.silos.verbs import whole
from dualfl.typing import Array

TOO_FAR = "the fit is not yet near enough to its minimiser for a proof"
SINGULAR = "columns determine each other, so that their Hessian proves nothing; a ridge, or --coding reference, helps"
WIDE = f"there are more than {LARGEST:,} coefficients, and Hessians are summed up to that"
ATTEMPTS = 4  # at a proof


def certified(silos: Silos, model: FitDescription, sample: Sample, result: Result) -> Conversation[Result]:
    """The result with its proof; a run that has ended too early goes on from there."""
    limits, (cost,) = model._limits(sample), model._costs(sample)
    for _ in range(ATTEMPTS):
        result = yield from proving(silos, cost, sample.mass, result)
        if limits.met(result.certificate, result.energy, result.rounding) or result.certificate_reason == SINGULAR:
            break
        (found,) = yield from solving(silos, [Task(model, sample, [result.theta])])
        if isinstance(found, DualflError):
            break
        result = found[0]
    return result


@np.errstate(over="ignore", invalid="ignore")
def proving(silos: Silos, cost: Cost, mass: float, result: Result, purpose: str = "the fit") -> Conversation[Result]:
    """The result with its certificate, and its model a Newton step farther, where the sums tell that it leads down."""
    theta = np.array(result.theta)
    if len(theta) > LARGEST:
        return replace(result, certificate=None, certificate_reason=WIDE)
    given = {"cost": cost.as_json(), "theta": theta}
    (sums,) = yield Exchange(purpose, (Query("slopes", given),))
    at = Sums(sums, mass)
    if cost.l1:
        d, penalty = silos.features, L1(cost.l1)  # thresholds are free
        at.value += penalty.value(theta[:d])
        at.g = np.append(penalty.steepest(theta[:d], at.g[:d]), at.g[d:])
    factor = at.factor
    if factor is None:
        return replace(result, certificate=None, certificate_reason=SINGULAR if cost.l1 else TOO_FAR)
    (reach,) = yield Exchange(purpose, (Query("reach", {**given, "L": np.tril(factor[0]), "mass": mass}),))
    longest = DISTANCE * max(float(reach["power"]), 0.0) ** (1 / POWER) * (1 + 1e-12)
    lam = at.decrement(factor)
    u = lam * longest * (1 + 2 * at.doubt)
    if not (u < INSIDE and longest < FARTHEST):
        return replace(result, certificate=None, certificate_reason=TOO_FAR)
    gap = float(lam**2 * psi(u) * (1 + 1e-9) + 2 * at.off)
    rows = result.history.rows
    rows[-1] = rows[-1]._replace(certificate=gap)
    better = theta - cho_solve(factor, at.g) if u < SURE and not cost.l1 else theta
    return replace(result, theta=better, certificate=gap, certificate_reason="", energy=at.value, rounding=at.off)


class Sums:
    """Value, gradient and Hessian of the mean cost, and how far off they may be."""

    def __init__(self, sums: Any, mass: float) -> None:
        self.g, self.off_g = np.asarray(sums["gradient"]) / mass, np.asarray(sums["gradient_off"]) / mass
        self.H, self.d = whole(np.asarray(sums["hessian"])) / mass, len(self.g)
        self.value, self.left = float(sums["value"]) / mass, max(float(sums["left"]), 0.0) / mass
        self.off = float(sums["value_off"]) / mass + 64 * UNIT * abs(self.value)
        self.n, self.diagonal = float(sums["rows"]), np.asarray(sums["diagonal"]) / mass
        self.doubt = np.inf  # of H, relatively

    @property
    def factor(self) -> Any:
        """Of H, if what is computed for it is nearly it."""
        H, scale = self.H, np.sqrt(np.maximum(np.diag(self.H), self.diagonal))
        if not (np.isfinite(H).all() and np.isfinite(self.off_g).all() and (scale > 0).all()):
            return None
        least = float(np.linalg.eigvalsh(H / np.outer(scale, scale))[0])
        self.doubt = 8 * roundings(int(3 * self.n) + self.d) * self.d / least if least > 0 else np.inf
        if not self.doubt < MOST:
            return None
        try:
            return cho_factor(H, lower=True)
        except LinAlgError:
            return None

    def decrement(self, factor: Any) -> float:
        """lam, from above."""
        lam = float(np.sqrt(max(float(self.g @ cho_solve(factor, self.g)), 0.0) + self.left))
        inverse: Array = np.abs(cho_solve(factor, np.eye(self.d)))
        return (lam + float(np.sqrt(self.off_g @ inverse @ self.off_g))) * (1 + 2 * self.doubt)
