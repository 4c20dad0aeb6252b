"""SGD: minibatches and a decreasing step; the local training of FedAvg.

Robbins & Monro, A stochastic approximation method, Ann. Math. Stat. 22 (1951); steps of Gower, Loizou, Qian,
Sailanbayev, Shulgin & Richtarik, SGD: general analysis and improved rates, ICML 2019. With batches B of b rows,

    x_{k+1} = x_k - gamma_k g_k,      g_k = (1/b) sum over B of grad f_i(x_k),
    LL      = n(b-1)/(b(n-1)) L + (n-b)/(b(n-1)) L_row                       (expected smoothness)
    gamma_k = 1/(2 LL)                    while k <= 4 LL/mu,
              (2k+1)/((k+1)^2 mu)         afterwards;        1/(2 LL sqrt(1 + k/K)), K steps an epoch, if mu = 0.

The constant phase ends in a ball whose size is the noise of the gradients at the minimiser; then E|x_k - x*|^2 falls
like 1/k. For more digits take SVRG or SAGA. An epoch is a random permutation of the rows, cut into batches.

Stopping. The mean of an epoch's gradients, (x_start - x_end)/sum gamma_k, is free; when it is small, the exact one
decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl.arguments import checked
from dualfl.errors import InputError
from dualfl.objectives.base import Objective
from dualfl.solvers.base import SmoothSolver, Solution, Watch
from dualfl.solvers.row_view import RowView, check_samples, check_seed, check_step, generator, rows_of
from dualfl.solvers.stopping import StopRule
from dualfl.typing import Array


@checked
@dataclass(frozen=True)
class SGD(SmoothSolver):
    """Minibatch stochastic gradients with a decreasing step; one iteration is one epoch.

    Parameters
    ----------
    batch : int, default 32
        The number of rows in a step. An epoch costs the same with any batch, but larger ones call Python less often.
    step : float, optional
        The first step gamma_0; None is 1/(2 LL), from theory.
    seed : int, default 0
        The seed of the order of the rows.

    Examples
    --------
    >>> from dualfl.objectives import LinearModel, Squared
    >>> from dualfl.solvers import FixedIterations
    >>> f = LinearModel(np.eye(2), np.array([1.0, 2.0]), Squared(), ridge=0.5)
    >>> SGD(batch=1).solve(f, None, FixedIterations(2000)).x.round(2)
    array([0.5, 1. ])
    """

    batch: int = 32
    step: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.name, self.seed)
        check_step(self.name, self.step)
        if self.batch < 1:
            raise InputError(f"SGD's batch must be a number of rows >= 1, but it is {self.batch}.")

    def check(self, f: Objective) -> None:
        check_samples(self, f, self.step)

    @np.errstate(over="ignore", invalid="ignore")  # too long a step ends as Diverged, not in warnings
    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        rows = rows_of(f)
        assert rows is not None, "check() comes first"
        model, rng = rows.model, generator(self.seed)
        b = min(self.batch, model.n)
        most = 1 / (2 * (expected_smoothness(rows, b) or 1.0)) if self.step is None else self.step
        tilt = rows.ridge - model.ridge * model.ridge_part(np.ones(f.d))

        watch, point = Watch(f, stop), self.start(f, warm)
        done = self.arrived(watch, point)

        def exact() -> float:
            return float(np.linalg.norm(point.gradient))

        def value() -> float:
            return point.value

        k = 0
        while not done:
            x, walked = point.x, 0.0
            for batch in np.array_split(rng.permutation(model.n), -(-model.n // b)):
                gamma = self._step(k, most, f.mu, model.n // b)
                x = x - gamma * (model.sample_gradient(batch, x) + tilt * x - rows.c)
                k, walked = k + 1, walked + gamma
            about = float(np.linalg.norm(point.x - x)) / walked
            point = f.at(x)
            done = watch.done_about(x, about, exact, value)
        return watch.at(point)

    @staticmethod
    def _step(k: int, most: float, mu: float, epoch: int) -> float:
        if mu > 0:
            return min(most, (2 * k + 1) / ((k + 1) ** 2 * mu))
        return most / float(np.sqrt(1 + k / epoch))


def expected_smoothness(rows: RowView, b: int) -> float:
    """LL for batches of b out of n rows."""
    model, n = rows.model, rows.model.n
    a = float(rows.ridge.max()) - model.ridge
    if n == 1:
        return model.L_row + a
    return (n * (b - 1) * model.L + (n - b) * model.L_row) / (b * (n - 1)) + a
