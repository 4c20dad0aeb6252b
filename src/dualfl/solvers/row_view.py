"""What solvers that walk over rows see of LOCAL(a, c): the linear model, its ridge per coordinate, and c.

    min_theta  sum_i s_i l_i(x_i' theta) + (1/2) <ridge theta, theta> - <c, theta>

Randomness is a counter-based generator from a seed, so every run visits the same rows in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl.errors import InputError, NotSupported
from dualfl.objectives.base import Objective
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.penalties import Penalised
from dualfl.objectives.tilted import Tilted
from dualfl.solvers.base import Solver
from dualfl.typing import Array


@dataclass(frozen=True)
class RowView:
    """LOCAL(a, c) of a linear model; ridge and c have the shape of the flat model."""

    model: LinearModel
    ridge: Array
    c: Array


def rows_of(f: Objective) -> RowView | None:
    """The rows behind f, or None if f is not a linear model or a tilted one."""
    base, a, c = (f.base, f.a, f.c) if isinstance(f, Tilted) else (f, 0.0, np.zeros(f.d))
    if not isinstance(base, LinearModel):
        return None
    return RowView(base, base.ridge_part(np.full(f.d, base.ridge)) + a, np.asarray(c))


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def check_seed(who: str, seed: int) -> None:
    if seed < 0:
        raise InputError(f"{who}'s seed must be an integer >= 0, and it is {seed}.")


def check_step(who: str, step: float | None) -> None:
    if step is not None and not 0 < step < np.inf:
        raise InputError(f"{who}'s step must be a positive number, or None for the one of theory, and it is {step}.")


def check_samples(solver: Solver, f: Objective, step: float | None) -> None:
    """That f is a smooth linear model with a known curvature, or a sentence."""
    if isinstance(f, Penalised):
        raise NotSupported(
            f"{solver.name} takes no penalty besides the ridge, and it was given {f.name}; {f._instead()}."
        )
    f.require_gradient(solver.name)
    rows = rows_of(f)
    if rows is None or "samples" not in f.offers:
        raise NotSupported(f"{solver.name} draws rows of data, and {f.name} has none to draw from; use LBFGS.")
    if rows.model.k > 1 and np.ptp(rows.model.matrix(rows.ridge), axis=1).any():
        raise NotSupported(
            f"{solver.name} takes one ridge a feature, and the tilt of {f.name} differs between classes; "
            "give `a` as one number."
        )
    if step is None and not np.isfinite(rows.model.L_row):
        raise NotSupported(
            f"{solver.name} takes its step from the curvature of the loss, and that of {f.name} is unbounded; "
            "give `step`, or use LBFGS."
        )


def row_step(rows: RowView, fraction: float) -> float:
    """`fraction` / L_row, L_row with the ridge of the tilted problem; 1 if everything is flat."""
    L = rows.model.L_row + float(rows.ridge.max()) - rows.model.ridge
    return fraction / L if L > 0 else 1.0
