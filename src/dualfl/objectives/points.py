"""What an objective is at a point, and along a ray."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from dualfl.typing import Array


class Point(ABC):
    """An objective at one place. Value and gradient are computed on demand, and once.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> dualfl.Quadratic(np.eye(2), np.ones(2)).at(np.zeros(2)).gradient
    array([-1., -1.])
    """

    def __init__(self, x: Array) -> None:
        self.x = x

    @property
    @abstractmethod
    def value(self) -> float: ...

    @property
    @abstractmethod
    def gradient(self) -> Array: ...

    @abstractmethod
    def hessian_times(self, v: Array) -> Array: ...

    @abstractmethod
    def ray(self, p: Array) -> Ray: ...


class Ray(ABC):
    """t -> f(x + t p).

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> dualfl.Quadratic(np.eye(2), np.ones(2)).at(np.zeros(2)).ray(np.ones(2)).value(1.0)
    -1.0
    """

    @abstractmethod
    def value(self, t: float) -> float: ...

    @abstractmethod
    def slope(self, t: float) -> float: ...

    @abstractmethod
    def point(self, t: float) -> Point: ...

    def values(self, steps: Sequence[float]) -> Array:
        """The values at several steps."""
        return np.array([self.value(t) for t in steps])
