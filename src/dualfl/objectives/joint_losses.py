"""Likelihoods that are no loss of a row and one predictor, under a name that travels as losses do.

Whoever has rows makes an objective of them: of `Cox` a partial likelihood, which compares rows, and of `Ordered` one
with thresholds beside its coefficients. What kernels know of a loss does not apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.errors import InputError, NotSupported
from dualfl.objectives.cox import CoxPartialLikelihood, Ties
from dualfl.objectives.losses import Loss
from dualfl.objectives.ordinal import ProportionalOdds
from dualfl.typing import Array


class JointLoss(Loss):
    """No loss of a row."""

    curvature: ClassVar[float] = np.inf

    def conjugate(self, u: Array, y: Array) -> Array:
        raise NotSupported(f"{self} is no loss of a row, so it has no conjugate.")


@dataclass(frozen=True)
class Cox(JointLoss):
    """Cox's partial likelihood; see `CoxPartialLikelihood`.

    Parameters
    ----------
    ties : {"efron", "breslow"}, default "efron"
        What is done with events at the same time.

    Examples
    --------
    >>> from dualfl.objectives import Cox
    >>> Cox("breslow").ties
    'breslow'
    """

    ties: Ties = "efron"
    code: ClassVar[int] = CoxPartialLikelihood.code

    def __post_init__(self) -> None:
        if self.ties not in ("efron", "breslow"):
            raise InputError(f'ties must be "efron" or "breslow", but it is {self.ties!r}.')


@dataclass(frozen=True)
class Ordered(JointLoss):
    """Proportional odds; see `ProportionalOdds`. `base` are the thresholds of the model zero.

    Parameters
    ----------
    levels : int
        How many levels there are.
    base : tuple of float
        The thresholds of the model zero, one less than levels.

    Examples
    --------
    >>> from dualfl.objectives import Ordered
    >>> Ordered(3, (-1.0, 1.0)).levels
    3
    """

    levels: int
    base: tuple[float, ...]
    code: ClassVar[int] = ProportionalOdds.code

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", tuple(float(t) for t in self.base))
