"""L-BFGS (Nocedal 1980; Liu & Nocedal 1989), the default for smooth objectives.

    p_k     = -H_k grad f(x_k),        H_k from the last m pairs and H_0 (see `pairs`),
    x_{k+1} = x_k + t_k p_k,           t_k nearly the minimiser of f along p_k.

Defaults, by measurement (`python -m benchmarks.solvers`): one iteration costs one pass whatever the line search
asks, so an almost exact search and a long memory pay. H_0 of a linear model is the Gram metric (see `metric`),
refreshed at iterations 0, 1, 2, 4, 8, ...; elsewhere it is <s, y>/<y, y> of the newest pair. A linear model with far
fewer rows than features is first solved in the span of its rows (see `row_span`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl.arguments import checked
from dualfl.errors import InputError
from dualfl.objectives.base import Objective
from dualfl.solvers import row_span
from dualfl.solvers.base import SmoothSolver, Solution, Watch
from dualfl.solvers.line_search import Plateau, search
from dualfl.solvers.moment_metric import MetricName, check_metric, choose_metric
from dualfl.solvers.pairs import Pairs
from dualfl.solvers.stopping import StopRule
from dualfl.typing import Array


@checked
@dataclass(frozen=True)
class LBFGS(SmoothSolver):
    """L-BFGS with `memory` pairs.

    Parameters
    ----------
    memory : int, default 50
        m, the number of pairs that are kept.
    metric : MetricName, default 'auto'
        The H_0; "gram", "full", "none", or "auto", which takes "gram" for linear models.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.solvers import LBFGS
    >>> f = dualfl.Quadratic(np.diag([1.0, 4.0]), np.ones(2))
    >>> dualfl.minimise(f, solver=LBFGS()).x.round(3)
    array([1.  , 0.25])
    """

    memory: int = 50
    metric: MetricName = "auto"

    def __post_init__(self) -> None:
        if self.memory < 1:
            raise InputError(f"memory must be >= 1 pairs, but it is {self.memory}.")
        check_metric(self.metric)

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        watch, plateau = Watch(f, stop), Plateau()
        if self.metric in ("auto", "full") and row_span.applies(f, stop):
            # What follows then only confirms it, with f's own gradient.
            warm, watch.iterations = row_span.inside(f, warm, stop, self)
        before = watch.iterations
        point = self.start(f, warm)
        pairs = Pairs(self.memory, f.d)
        metric, H0 = None, None
        while not self.arrived(watch, point):
            norm = float(np.linalg.norm(point.gradient))
            if plateau.reached(point, norm):
                break
            k = watch.iterations - before
            if k == 0:
                metric = choose_metric(self.metric, f, self.name)
            if metric is not None and k & (k - 1) == 0:  # 0 and the powers of two
                H0 = metric.at(point)
            step = None
            while step is None:
                p = -pairs.inverse_hessian(point.gradient, H0)
                slope = float(point.gradient @ p)
                if slope < 0:
                    ray = point.ray(p)
                    scaled = bool(pairs) or H0 is not None
                    first = 1.0 if scaled else min(1.0, 1.0 / norm)
                    step = search(f.cost, ray, point.value, slope, first, rough=0.9 if scaled else 0.5)
                if step is None:
                    if not pairs:
                        break
                    pairs.clear()  # rounding has spoilt them: once more, from the metric alone
            if step is None:
                break
            after = ray.point(step)
            pairs.add(after.x - point.x, after.gradient - point.gradient)
            point = after
        else:
            return watch.at(point)
        watch.capped = True  # rounding leaves nothing to gain
        return watch.at(plateau.best or point)
