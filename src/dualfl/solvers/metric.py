"""The second moments of a client's features as a metric: what makes an ill-conditioned local problem easy.

The Hessian of a linear model with k outputs is  sum_i s_i (x_i x_i') (x) l''(z_i) + m I.  Replacing the mean of the
products by the product of the means, as in Kronecker-factored curvature (Martens & Grosse, 2015),

    H(x)  ~  M (x) C(x) + m I,     M = sum_i s_i x_i x_i'  (D x D),     C(x) = sum_i s_i l''(z_i)  (k x k),

whose inverse is cheap in the eigenvectors of M and of C: two products with a D x D matrix. M is decomposed once for
each data set, however many local problems follow, whatever their tilt; C is found from the predictors, without a
pass. It is good because bad conditioning of linear models is mostly that of M, which no diagonal would see.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import numpy as np

from dualfl import kernels
from dualfl.errors import InputError, NotSupported
from dualfl.kernels import Design
from dualfl.objectives.base import Objective, Point, Tilted, TiltedPoint
from dualfl.objectives.linear import LinearModel, LinearPoint
from dualfl.typing import AnyArray, Array

MetricName = Literal["auto", "gram", "none"]
Solve = Callable[[Array], Array]

SMALL, LARGE = 256, 4096  # features: below, always worth it; above, D x D numbers are too many
WORTH = 200.0  # passes that the decomposition may cost
ROWS = 1024  # of which C is the mean; more would not make it better
FLOOR = 1e-8  # of the largest eigenvalue, where nothing is regularised


class Axes(NamedTuple):
    """M = V diag(w) V'."""

    w: Array
    V: Array


# By the identity of the row weights, which all views of a data set share; entries die with them.
_known: dict[int, tuple[weakref.ref[AnyArray], Design, Axes]] = {}


def axes(f: LinearModel) -> Axes:
    """The eigen-decomposition of M; one pass over the data and about 10 D^3 operations, the first time."""
    key = id(f.s)
    found = _known.get(key)
    if found is not None and found[1] is f.design:
        return found[2]
    f.cost.passes += 1
    w, V = np.linalg.eigh(f.design.gram(f.s))
    result = Axes(np.maximum(w, 0.0), V)
    _known[key] = weakref.ref(f.s, lambda _: _known.pop(key, None)), f.design, result
    return result


def price(f: LinearModel) -> float:
    """What `axes` costs in passes, from the operations of either; those of LAPACK run about three times as fast."""
    D, n, k = f.design.D, f.n, f.k
    return (n * D**2 + 10 * D**3) / (4 * n * D * k) / 3


class Metric:
    """An approximate inverse of the Hessian of f, to be refreshed at a point."""

    def __init__(self, f: Objective, model: LinearModel) -> None:
        self.damping = float(np.mean(f.convexity))
        self.model = model
        self.w, self.V = axes(model)

    def at(self, point: Point) -> Solve:
        """v -> (M (x) C(x) + m I)^-1 v, with C at this point."""
        while isinstance(point, TiltedPoint):
            point = point.inner
        assert isinstance(point, LinearPoint)
        c, Q = np.linalg.eigh(self._mean_curvature(point.predictors))
        scales = np.outer(self.w, np.maximum(c, 0.0))
        scales += max(self.damping, FLOOR * float(scales.max(initial=0.0)), float(np.finfo(float).tiny))
        V, k = self.V, self.model.k

        def solve(v: Array) -> Array:
            rotated = (V.T @ v.reshape(-1, k)) @ Q
            return np.asarray(((V @ (rotated / scales)) @ Q.T).ravel())

        return solve

    def _mean_curvature(self, Z: Array) -> Array:
        f = self.model
        rows = slice(None, None, max(1, f.n // ROWS))
        Z, y, s = np.ascontiguousarray(Z[rows]), f.y[rows], f.s[rows]
        s = s * (f.s.sum() / max(float(s.sum()), float(np.finfo(float).tiny)))
        C = np.stack(
            [kernels.curvature_times(f.loss, Z, np.tile(e, (len(Z), 1)), y, s).sum(axis=0) for e in np.eye(f.k)]
        )
        return np.asarray(np.nan_to_num((C + C.T) / 2, posinf=1e300))


def choose_metric(name: MetricName, f: Objective, who: str) -> Metric | None:
    """The metric that is asked for; "auto" takes the Gram metric where its decomposition pays off."""
    model = f
    while isinstance(model, Tilted):
        model = model.base
    if name == "none" or (name == "auto" and not isinstance(model, LinearModel)):
        return None
    if not isinstance(model, LinearModel):
        raise NotSupported(f'{who} with metric="gram" needs a linear model, and {f.name} is none; take metric="auto".')
    D = model.design.D
    if name == "auto" and D > SMALL and (D > LARGE or price(model) > WORTH):
        return None
    return Metric(f, model)


def check_metric(name: str) -> None:
    if name not in get_args(MetricName):
        raise InputError(f'metric must be "auto", "gram" or "none", and it is {name!r}.')
