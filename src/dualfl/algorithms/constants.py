"""What theory is stated in: the constants of a problem, and hyperparameters whose defaults are formulas of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Facts:
    """What kind of problem the clients have, for an algorithm that chooses another one."""

    loss: str  # that all linear models share, in words; "" if they differ or are no linear models
    smooth: bool
    piecewise: bool  # piecewise linear, with a dual
    moments: bool  # whether second-order sums can be asked for
    D: int  # features of a model
    k: int  # outputs
    free: bool  # an intercept without ridge
    least: int  # rows of the smallest client; 0 where costs have no rows
    alike: float | None = None  # how much more the clients differ than chance would have it


@dataclass(frozen=True)
class Constants:
    """Constants of the clients' costs, measured before the first round.

    Parameters
    ----------
    mu : float
        The smallest strong convexity.
    L : float
        The largest smoothness; infinite if somebody has no gradient.
    N : int
        How many clients there are.
    d : int
        How many coefficients a model has.
    L_row : float, default inf
        The smoothness of the worst single row, for methods that draw rows.
    n : int, default 1
        Rows of the largest client.
    similarity : float, optional
        A bound of |f_j'' - E''|, if somebody measured it: the papers' delta.
    facts : Facts, optional
        What kind of problem it is, if somebody asked.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> constants = dualfl.run(problem, dualfl.DualFL(), rounds=1).constants
    >>> constants.N, constants.mu
    (3, 0.1)
    """

    mu: float
    L: float
    N: int
    d: int
    L_row: float = np.inf
    n: int = 1
    similarity: float | None = None
    facts: Facts | None = None

    @property
    def delta(self) -> float:
        """How unlike the clients' Hessians are; L - mu always bounds it."""
        return self.L - self.mu if self.similarity is None else self.similarity

    @property
    def kappa(self) -> float:
        return self.L / self.mu if self.mu > 0 else np.inf


def theory(formula: str, compute: Callable[[Constants, Any], float], *, zero: bool = False) -> Any:
    """A hyperparameter whose default is a formula of the constants and of the fields before it.

    Parameters
    ----------
    formula : str
        The formula in words, for people.
    compute : callable
        A function of the constants k and the algorithm a.
    zero : bool, default False
        Whether the value may be 0.

    Returns
    -------
    dataclasses.Field
        The default of a hyperparameter.

    Examples
    --------
    >>> from dualfl.algorithms import theory
    >>> theory("1 / L", lambda k, a: 1 / k.L).metadata["formula"]
    '1 / L'
    """
    return dataclasses.field(default=None, metadata={"formula": formula, "compute": compute, "zero": zero})
