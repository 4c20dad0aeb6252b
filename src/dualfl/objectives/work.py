"""How much work an objective has done, and when a run that is out of time stops it."""

from __future__ import annotations

import copy
import math
import time

from dualfl.errors import OutOfTime


class Cost:
    """Work done so far. A stochastic gradient of one row counts 1/n.

    All work is booked as passes, and each booking looks at the clock: `until` is when the time is up, by
    time.perf_counter().

    Parameters
    ----------
    gradients : float, default 0.0
        Gradients of all rows.
    hessian_products : float, default 0.0
        Hessian products.
    passes : float, default 0.0
        Passes over the rows. A product with X or with X' alone is half a pass.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> f = dualfl.LinearModel(np.eye(2), [1.0, 2.0], dualfl.Squared())
    >>> _ = f.gradient(np.zeros(2))
    >>> f.cost.passes
    1.0
    """

    def __init__(self, gradients: float = 0.0, hessian_products: float = 0.0, passes: float = 0.0) -> None:
        self.gradients, self.hessian_products, self._passes = gradients, hessian_products, passes
        self.until = math.inf

    @property
    def passes(self) -> float:
        return self._passes

    @passes.setter
    def passes(self, passes: float) -> None:
        self._passes = passes
        self.look_at_time()

    def look_at_time(self) -> None:
        if self.until < math.inf and time.perf_counter() > self.until:
            raise OutOfTime

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cost) and self.totals == other.totals

    def __repr__(self) -> str:
        return "Cost(gradients={:g}, hessian_products={:g}, passes={:g})".format(*self.totals)

    @property
    def totals(self) -> tuple[float, float, float]:
        return self.gradients, self.hessian_products, self.passes

    def copy(self) -> Cost:
        return copy.copy(self)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            self.gradients - other.gradients,
            self.hessian_products - other.hessian_products,
            self.passes - other.passes,
        )

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.gradients + other.gradients,
            self.hessian_products + other.hessian_products,
            self.passes + other.passes,
        )
