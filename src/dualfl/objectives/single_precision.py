"""A linear model of dense rows in single precision, a block of rows at a time: to find the way, not to prove anything.

Products with the rows are most of the time of a softmax with many classes, and BLAS makes them in a third of it in
single precision. Losses, and what is added up over blocks, are in double precision. Arrays of rows x classes are what
takes the memory, and there is none: a block gives its predictors, their residuals and its part of the gradient, and is
done. A gradient has six digits then, so whoever wants more goes on with the model itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dualfl import kernels
from dualfl.objectives.base import PlainRay
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.linear_point import LinearPoint
from dualfl.objectives.points import Point, Ray
from dualfl.typing import AnyArray, Array, frozen, sealed

BLOCK = 1 << 19  # numbers of rows, or of their predictors, in a block


def blocks(n: int, width: int) -> Iterator[slice]:
    """The rows, as many at a time as have BLOCK numbers, of `width` a row."""
    some = max(1, BLOCK // max(width, 1))
    for first in range(0, n, some):
        yield slice(first, min(first + some, n))


class SinglePrecision(LinearModel):
    """The view of a model whose rows are dense; its values and gradients have six digits."""

    def __init__(self, f: LinearModel) -> None:
        self.__dict__.update(f.fresh().__dict__)

    def _point(self, x: Array) -> Point:
        return SinglePoint(self, x)

    def loss_and_gradient(self, x: Array) -> tuple[float, Array]:
        """The mean loss and its gradient, in one pass."""
        self.cost.gradients += 1
        self.cost.passes += 1
        W, b = self._parts(x)
        value, G = 0.0, np.zeros((self.design.D, self.k))
        for block in blocks(self.n, max(self.k, len(W))):
            rows = self.design.X[block].astype(np.float32, copy=False)
            Z = (rows @ W).astype(np.float64) + b
            some, R = kernels.residual(self.loss, Z, self.y[block], self.s[block])
            value += some
            G[: len(W)] += rows.T @ R.astype(np.float32)
            if self.design.intercept:
                G[-1] += R.sum(axis=0)
        G[: len(W)] *= self.design.scale
        return value, G.ravel()

    def predictors_of(self, rows: AnyArray | slice, x: Array) -> Array:
        W, b = self._parts(x)
        return np.asarray((self.design.X[rows].astype(np.float32, copy=False) @ W).astype(np.float64) + b)

    def _parts(self, x: Array) -> tuple[AnyArray, Array]:
        """The coefficients of unscaled features, and the intercepts."""
        W, features = self.matrix(x), self.design.X.shape[1]
        return (self.design.scale * W[:features]).astype(np.float32), W[features:].sum(axis=0)


class SinglePoint(LinearPoint):
    """A point with its value and its gradient, and no predictors."""

    f: SinglePrecision

    @property
    def value(self) -> float:
        _ = self.gradient
        assert self._data_value is not None
        kept = self.f.ridge_part(self.x)
        return float(self._data_value + self.f.ridge / 2 * (kept @ kept))

    def _compute_gradient(self) -> Array:
        self._data_value, g = self.f.loss_and_gradient(self.x)
        g += self.f.ridge * self.f.ridge_part(self.x)
        return sealed(g)

    def predictors_of(self, rows: AnyArray | slice) -> Array:
        return self.f.predictors_of(rows, self.x)

    def ray(self, p: Array) -> Ray:
        return PlainRay(self.f, self.x, frozen(p))
