"""Points at which a model is so steep that its sums tell of a few rows.

Far out, at 1e9 times any direction, a logistic loss is one with kinks: its gradient is a sum over the rows on one side
of a plane, and two such sums differ by the rows between two planes, often by one. A loss of counts is about its largest
row alone there. No plan chooses points, but a plan may have a step size of 1e9, and then its run goes there by itself.

How fast a sum changes with the model is the Hessian, X'WX, so rows with small W are out of it. What is left must be
about as many rows as the policy wants of every cell, by the same count as for weights (`few_rows.effective`).

Of a model of amounts, W is proportional to the targets (of negative binomial counts it grows with them), and a few
bills may be larger than all others together. Then sums are about these rows at any point, as those of least squares
are. So few rows are no fault of the point if it weighs many rows alike: if W is about the same multiple of W at zero
for as many rows as a quarter of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from dualfl.algorithms.client_cost import Solved
from dualfl.engines.client import LocalCost
from dualfl.errors import InputError
from dualfl.federation.few_rows import effective
from dualfl.objectives.base import Objective
from dualfl.objectives.cox import CoxPartialLikelihood, CoxPoint
from dualfl.objectives.curvature import traces
from dualfl.objectives.families import Gamma, NegativeBinomial, Tweedie
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.linear_point import LinearPoint
from dualfl.objectives.losses import Huber, Squared, SquaredHinge
from dualfl.objectives.ordinal import OrdinalPoint, ProportionalOdds
from dualfl.objectives.penalties import Penalised
from dualfl.objectives.points import Point
from dualfl.objectives.site_effect import OwnIntercept, SitePoint
from dualfl.objectives.tilted import Tilted
from dualfl.silos.chamber import Chamber
from dualfl.silos.costs import Cost
from dualfl.solvers.base import Solver
from dualfl.solvers.stopping import StopRule
from dualfl.typing import Array

STEEP = (
    "the model is so steep at a point of this analysis that sums would tell of fewer than {least} rows of this silo "
    "('least_per_cell'); take a smaller step or a stronger penalty, or look for rows that lie far out"
)
ALIKE = 0.25  # of the rows, which a point weighs alike though few of them count
UNBENT = (Squared, Huber, SquaredHinge)  # as steep everywhere, or with kinks, which have a rule of their own

# Questions about slopes and curvatures of models. A loss alone, of a fold say, is one number about all of its rows.
SLOPES = ("gradient", "curvatures", "information", "expected_information", "scores", "slopes", "proportionality")


def check_question(chamber: Chamber, verb: str, given: Mapping[str, Any], least: int) -> None:
    """Refuse the answer to a question about models that are too steep for it; `given` is what the question holds."""
    if least <= 1 or verb not in SLOPES or given.get("second") is False:
        return
    models = [(given["cost"], given["theta"])] if "cost" in given else zip(given["costs"], given["thetas"])
    for cost, points in models:
        f = chamber.objective(Cost.from_json(cost))
        for x in () if f is None else np.asarray(points, dtype=np.float64).reshape(-1, f.d):
            check_point(f, x, least)


def check_point(f: Objective, x: Array, least: int) -> None:
    """Refuse sums of this cost at x if they are about fewer rows than `least`."""
    f = of_rows(f)
    if least > 1:
        check_at(f, apart(f, x), least)


def check_at(f: Objective, point: Point, least: int) -> None:
    bend = bends(f, point)
    if bend is None or least <= 1:
        return
    if counted(bend) < least - 1e-9 and not few_by_targets(f, bend):
        raise InputError(STEEP.format(least=least))


def counted(bend: Array) -> float:
    """How many rows a sum with these W is about; 0 where they are none or no numbers."""
    largest = float(np.max(bend, initial=0.0))
    return effective(bend / largest) if 0 < largest < np.inf else 0.0


def few_by_targets(f: Objective, bend: Array) -> bool:
    """Whether rows are few because amounts or counts are so unequal, and not because of the point."""
    f = f.base if isinstance(f, OwnIntercept) else f
    if not isinstance(f, LinearModel) or not isinstance(f.loss, Gamma | Tweedie | NegativeBinomial):
        return False
    zero = bends(f, f.fresh().at(np.zeros(f.d)))
    assert zero is not None
    some = zero > 0
    return counted(bend[some] / zero[some]) >= ALIKE * len(bend)


def bends(f: Objective, point: Point) -> Array | None:
    """W of every row, or None where it is the same everywhere."""
    if isinstance(f, CoxPartialLikelihood):
        assert isinstance(point, CoxPoint)
        return point.expected if f.events else None
    if isinstance(f, ProportionalOdds):
        assert isinstance(point, OrdinalPoint)
        return np.asarray(f.s * (point.parts.curved_above + point.parts.curved_below))
    if isinstance(f, OwnIntercept):
        assert isinstance(point, SitePoint)
        return None if f.silent else bends(f.base, point.inner)
    if not isinstance(f, LinearModel) or not f.loss.smooth or isinstance(f.loss, UNBENT):
        return None
    assert isinstance(point, LinearPoint)
    with np.errstate(all="ignore"):
        return traces(f.loss, point.predictors, f.y, f.s, 1.0)


def of_rows(f: Objective) -> Objective:
    """The cost of the rows themselves, without penalties and tilts."""
    while isinstance(f, Tilted | Penalised):
        f = f.base if isinstance(f, Tilted) else f.smooth_part
    return f


def apart(f: Objective, x: Array) -> Point:
    """f at x, as if nobody had asked: what is remembered there changes the last bits of what is computed next."""
    known = next((point for point in f._recent if np.array_equal(point.x, x)), None)
    return f.fresh().at(x) if known is None or unseen(known) else known


def unseen(point: Point) -> bool:
    """Whether its predictors are not known yet."""
    return point._Z is None if isinstance(point, LinearPoint) else getattr(point, "_z", None) is None


class Visited(list[Point]):
    """What a cost remembers of its last points; every other one is handed to `look`, unless this is closed."""

    def __init__(self, look: Callable[[Point], None]) -> None:
        super().__init__()
        self.look, self.open = look, True
        self.waiting: list[Point] = []

    def append(self, point: Point) -> None:
        super().append(point)
        if self.open:
            self.waiting.append(point)
            self.look_at(2)

    def look_at(self, but: int = 0) -> None:
        """All but so many: the last ones may not be evaluated yet."""
        while len(self.waiting) > but:
            self.look(self.waiting.pop(0))


class GuardedCost(LocalCost):
    """The cost of a client step; all points at which the step evaluates it or ends a local solve are looked at.

    That is afterwards, when predictors are known: whoever computes them first changes the last bits of a run. `check`
    looks at what is left at the end. Of gradients of single rows the first and the last point count: a look at each
    would take longer than the method.
    """

    def __init__(self, objective: Objective, solver: Solver | None, origin: Array | None, least: int) -> None:
        super().__init__(objective, solver, origin)
        self.least, self._rows = least, of_rows(objective)
        self._visited = self._rows._recent = Visited(self._look)
        self._sampled: list[Array] = []

    def _look(self, point: Point) -> None:
        if self.least > 1:
            seen = apart(self._rows, point.x) if unseen(point) else point
            check_at(self._rows, seen, self.least)

    def check(self) -> None:
        sampled, self._sampled = self._sampled, []
        self._visited.look_at()
        for x in sampled:
            check_point(self._rows, x, self.least)

    def local(self, a: float, tilt: Array, warm: Array | None = None, stop: StopRule | None = None) -> Solved:
        with self._inside():
            found = super().local(a, tilt, warm, stop)
        check_point(self._rows, self.place(found.x), self.least)
        return found

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """What a solver tries on its way stays here."""
        self._visited.open = False
        try:
            yield
        finally:
            self._visited.open = True

    def along(self, x: Array, p: Array, steps: Sequence[float]) -> Array:
        check_point(self._rows, self.place(x + max(steps, key=abs, default=0.0) * p), self.least)
        return super().along(x, p, steps)

    def sample_gradient(self, rows: npt.NDArray[np.intp], x: Array) -> Array:
        self._sampled[1:] = [self.place(x)]
        return super().sample_gradient(rows, x)
