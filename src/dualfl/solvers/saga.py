"""SAGA: stochastic gradients, corrected by a table of the gradients last seen.

Defazio, Bach & Lacoste-Julien, SAGA: a fast incremental gradient method with support for non-strongly convex
composite objectives, NIPS 2014. With F = (1/n) sum_i f_i and a table of gradients g_i, a step draws a row i,

    w <- w - gamma (grad f_i(w) - g_i + (1/n) sum_j g_j),      then g_i <- the gradient just seen.

For a linear model a gradient is a number (softmax: k numbers) times the row, so the table is small; the ridge and the
tilt are the same for all rows, are taken exactly, and are not in it.

Default. gamma = 1/(3 L_row), the paper's step that needs no knowledge of mu.

Stopping. The mean of the table estimates the gradient for free; when it is small, the exact gradient decides, and
becomes the new table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl import kernels
from dualfl.arguments import checked
from dualfl.objectives.base import Objective
from dualfl.objectives.linear_point import LinearPoint
from dualfl.solvers.base import SmoothSolver, Solution, Watch
from dualfl.solvers.row_view import RowView, check_samples, check_seed, check_step, generator, row_step, rows_of
from dualfl.solvers.stopping import StopRule
from dualfl.typing import Array


@checked
@dataclass(frozen=True)
class SAGA(SmoothSolver):
    """Variance reduced stochastic gradients with a table; one iteration is n steps.

    Parameters
    ----------
    step : float, optional
        The step gamma; None is 1/(3 L_row), from theory.
    seed : int, default 0
        The seed of the rows that are drawn.

    Examples
    --------
    >>> from dualfl.objectives import LinearModel, Squared
    >>> from dualfl.solvers import GradientNorm
    >>> f = LinearModel(np.eye(2), np.array([1.0, 2.0]), Squared(), ridge=0.5)
    >>> SAGA().solve(f, None, GradientNorm(1e-9)).x.round(8)
    array([0.5, 1. ])
    """

    step: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.name, self.seed)
        check_step(self.name, self.step)

    def check(self, f: Objective) -> None:
        check_samples(self, f, self.step)

    @np.errstate(over="ignore", invalid="ignore")  # too long a step ends as Diverged, not in warnings
    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        rows = rows_of(f)
        assert rows is not None, "check() comes first"
        model, rng = rows.model, generator(self.seed)
        ridge, c = model.matrix(rows.ridge)[:, 0], model.matrix(rows.c)
        gamma = row_step(rows, 1 / 3) if self.step is None else self.step

        watch, point = Watch(f, stop), self.start(f, warm)
        done = self.arrived(watch, point)
        R, G = _table(rows, point.x)

        def exact() -> float:
            nonlocal R, G
            R, G = _table(rows, point.x)
            return float(np.linalg.norm(point.gradient))

        def value() -> float:
            return point.value

        while not done:
            W = model.matrix(point.x).copy()
            kernels.saga_epoch(
                model.design, model.loss, model.y, model.s, R, G, W,
                gamma, ridge, c, rng.integers(model.n, size=model.n),
            )  # fmt: skip
            model.cost.gradients += 1
            model.cost.passes += 1
            point = f.at(W.ravel())
            about = float(np.linalg.norm(G + ridge[:, None] * W - c))
            done = watch.done_about(point.x, about, exact, value)
        return watch.at(point)


def _table(rows: RowView, x: Array) -> tuple[Array, Array]:
    """The slopes s_i l'(z_i) at x and their sum over the rows. The gradient at x is known, so this is no pass."""
    model = rows.model
    here = model.at(x)
    assert isinstance(here, LinearPoint)
    G = model.matrix(here.gradient - model.ridge * model.ridge_part(x)).copy()
    return kernels.residual(model.loss, here.predictors, model.y, model.s)[1], G
