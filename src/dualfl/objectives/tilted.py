"""The one local problem of all federated methods, as a view on f,

LOCAL(a, c):   f(x) + (1/2) <a x, x> - <c, x>.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from dualfl.arguments import checked
from dualfl.errors import InputError
from dualfl.objectives.base import Objective
from dualfl.objectives.points import Point, Ray
from dualfl.objectives.rounding import Rounding, roundings
from dualfl.objectives.work import Cost
from dualfl.typing import Array, frozen, sealed


class Tilted(Objective):
    """f + (1/2) <a x, x> - <c, x>; `base` is f. The data and the counter are those of f.

    `a` is a number, or one number for each coordinate.

    Parameters
    ----------
    base : Objective
        The function f.
    a : float or ndarray, default 0.0
        The quadratic term: a number, or one a coordinate.
    c : ndarray, optional
        The linear term.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.objectives import Tilted
    >>> Tilted(dualfl.Quadratic(np.eye(2), np.zeros(2)), 1.0, np.ones(2)).value(np.ones(2))
    0.0
    """

    def __init__(self, base: Objective, a: float | Array = 0.0, c: Array | None = None) -> None:
        super().__init__()
        self.base = base
        self.a: float | Array = float(a) if np.ndim(a) == 0 else self._vector("a", a)
        self.c = self._vector("c", np.zeros(base.d) if c is None else c)
        # a tilt gives curvature to every coordinate, also to those that are free in f
        lowest = float(np.min(self.convexity))
        if not lowest >= -1e-12 * float(np.max(np.abs(self.a))):  # less is rounding
            raise InputError(
                f"a = {np.min(a)} would take away more curvature than the mu = {base.mu} of {base.name}; "
                "a >= -mu is right."
            )
        self.mu = max(lowest, 0.0)
        self.shape, self.n = base.shape, base.n
        self.free, self.offers, self.convex = base.free, base.offers, base.convex

    def _vector(self, name: str, vector: float | Array) -> Array:
        if np.shape(vector) != (self.base.d,):
            raise InputError(
                f"{name} must be a flat vector of length {self.base.d}, but it has shape {np.shape(vector)}."
            )
        return frozen(vector)

    @property
    def cost(self) -> Cost:
        return self.base.cost

    @property
    def convexity(self) -> float | Array:
        return self.base.convexity + self.a

    @property
    def L(self) -> float:
        return self.base.L + float(np.max(self.a))

    @property
    def L_row(self) -> float:
        return self.base.L_row + float(np.max(self.a))

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def mass(self) -> float:
        return self.base.mass

    def _point(self, x: Array) -> Point:
        return TiltedPoint(self.base.at(x), self.a, self.c)

    def hessian(self, x: Array) -> Array:
        return self._raised(self.base.hessian(x))

    def newton_hessian(self, x: Array, straight: float) -> Array:
        return self._raised(self.base.newton_hessian(x, straight))

    def rounding(self, x: Array, drift: float = 0.0) -> Rounding:
        K, tilt = roundings(self.d), np.abs(self.a * x)
        own = Rounding(K * float(tilt @ np.abs(x) / 2 + np.abs(self.c) @ np.abs(x)), K * (tilt + np.abs(self.c)))
        return self.base.rounding(x, drift) + own

    def _raised(self, H: Array) -> Array:
        H[np.diag_indices(self.d)] += self.a
        return H

    def projected_hessian(self, x: Array, U: Array) -> Array:
        M = self.base.projected_hessian(x, U)
        rows, q = U.shape
        a = np.broadcast_to(self.a, self.d).reshape(rows, -1)  # k columns, when U acts on features alone
        blocks = M.reshape(q, a.shape[1], q, a.shape[1])
        for b in range(a.shape[1]):
            blocks[:, b, :, b] += (U.T * a[:, b]) @ U
        return M

    def sample_gradient(self, rows: npt.NDArray[np.intp], x: Array) -> Array:
        return self.base.sample_gradient(rows, x) + self.a * x - self.c

    def moment(self, x: Array) -> tuple[Array, Array]:
        """Of the data part, which a tilt leaves alone; so are the next three."""
        return self.base.moment(x)

    def sketched_moment(self, x: Array, Omega: Array) -> tuple[Array, float, Array]:
        return self.base.sketched_moment(x, Omega)

    def column_moments(self, x: Array) -> tuple[Array, Array]:
        return self.base.column_moments(x)

    def feature_moment(self, x: Array) -> Array:
        return self.base.feature_moment(x)

    def metric(self, x: Array, U: Array, B: Array, rank: int, straight: float = 0.0) -> tuple[Array, Array, Array]:
        return self.base.metric(x, U, B, rank, straight)

    def tilted(self, a: float | Array = 0.0, c: Array | None = None) -> Objective:
        return Tilted(self.base, self.a + a, self.c if c is None else self.c + c)

    def scaled(self, factor: float) -> Objective:
        if self.c.any():
            return super().scaled(factor)
        return Tilted(self.base.scaled(factor), self.a)

    def fresh(self) -> Tilted:
        return Tilted(self.base.fresh(), self.a, self.c)  # the counter is that of f, so f is fresh too

    def _instead(self) -> str:
        return self.base._instead()


class TiltedPoint(Point):
    def __init__(self, inner: Point, a: float | Array, c: Array) -> None:
        super().__init__(inner.x)
        self.inner, self.a, self.c = inner, a, c

    @cached_property
    def value(self) -> float:
        x = self.x
        return float(self.inner.value + (self.a * x) @ x / 2 - self.c @ x)

    @cached_property
    def gradient(self) -> Array:
        return sealed(self.inner.gradient - self.c + self.a * self.x)

    def hessian_times(self, v: Array) -> Array:
        return self.inner.hessian_times(v) + self.a * v

    def ray(self, p: Array) -> Ray:
        return TiltedRay(self, p)


class TiltedRay(Ray):
    def __init__(self, start: TiltedPoint, p: Array) -> None:
        self.inner = start.inner.ray(p)
        self.a, self.c = start.a, start.c
        x = start.x
        # (1/2) <a (x + t p), x + t p> - <c, x + t p> = constant + linear t + quadratic t^2 / 2
        self.constant = float((self.a * x) @ x / 2 - self.c @ x)
        self.linear = float((self.a * x) @ p - self.c @ p)
        self.quadratic = float((self.a * p) @ p)

    def value(self, t: float) -> float:
        return self.inner.value(t) + self.constant + t * (self.linear + t / 2 * self.quadratic)

    def slope(self, t: float) -> float:
        return self.inner.slope(t) + self.linear + t * self.quadratic

    def point(self, t: float) -> Point:
        return TiltedPoint(self.inner.point(t), self.a, self.c)


@checked
def regularised(f: Objective, alpha: float) -> Objective:
    """f^alpha, for a strongly convex method on an f that is not strongly convex.

    Without a free intercept that is f + (alpha/2)|x|^2; with one, alpha acts only where f has no curvature.

    Parameters
    ----------
    f : Objective
        The function.
    alpha : float
        The strength.

    Returns
    -------
    Objective
        f + (alpha/2)|x|^2.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> dualfl.objectives.regularised(dualfl.Quadratic(np.eye(2), np.zeros(2)), 1.0).value(np.ones(2))
    2.0
    """
    if not 0 < alpha < np.inf:
        raise InputError(f"alpha must be a finite number > 0, but it is {alpha}.")
    if f.free is None:
        return f.tilted(alpha)
    return f.tilted(np.where(f.free | (np.asarray(f.convexity) == 0), alpha, 0.0))
