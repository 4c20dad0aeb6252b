"""SVRG: stochastic gradients, corrected by a full gradient at a snapshot.

Johnson & Zhang, Accelerating stochastic gradient descent using predictive variance reduction, NIPS 2013. With
F = (1/n) sum_i f_i, an epoch takes a snapshot w~ with grad F(w~), and then n steps with rows i drawn at random,

    w <- w - eta (grad f_i(w) - grad f_i(w~) + grad F(w~)).

The last w is the next snapshot. Its full gradient is needed anyway, so the stopping test is exact and free.

Default. eta = 1/(6 L_row), L_row the largest smoothness of a single f_i: the step for which Kovalev, Horvath &
Richtarik (Don't jump through hoops and remove those loops, ALT 2020) prove the linear rate of the loopless version
whatever the condition number; the theorem of Johnson and Zhang asks for eta < 1/(4 L_row) and longer epochs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl import kernels
from dualfl.arguments import checked
from dualfl.objectives.base import Objective
from dualfl.objectives.linear_point import LinearPoint
from dualfl.solvers.base import SmoothSolver, Solution, Watch
from dualfl.solvers.row_view import check_samples, check_seed, check_step, generator, row_step, rows_of
from dualfl.solvers.stopping import StopRule
from dualfl.typing import Array


@checked
@dataclass(frozen=True)
class SVRG(SmoothSolver):
    """Variance reduced stochastic gradients; one iteration is a snapshot and n steps.

    Parameters
    ----------
    step : float, optional
        The step eta; None is 1/(6 L_row), from theory.
    seed : int, default 0
        The seed of the rows that are drawn.

    Examples
    --------
    >>> from dualfl.objectives import LinearModel, Squared
    >>> from dualfl.solvers import GradientNorm
    >>> f = LinearModel(np.eye(2), np.array([1.0, 2.0]), Squared(), ridge=0.5)
    >>> SVRG().solve(f, None, GradientNorm(1e-9)).x.round(8)
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
        eta = row_step(rows, 1 / 6) if self.step is None else self.step

        watch, point = Watch(f, stop), self.start(f, warm)
        while not self.arrived(watch, point):
            snapshot = model.at(point.x)  # remembered: no pass
            assert isinstance(snapshot, LinearPoint)
            G = model.matrix(snapshot.gradient - model.ridge * model.ridge_part(point.x))
            W = model.matrix(point.x).copy()
            kernels.svrg_epoch(
                model.design, model.loss, model.y, model.s, snapshot.predictors, G, W,
                eta, ridge, c, rng.integers(model.n, size=model.n),
            )  # fmt: skip
            model.cost.gradients += 1
            model.cost.passes += 1
            point = f.at(W.ravel())
        return watch.at(point)
