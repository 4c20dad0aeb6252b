"""What a silo sends of its columns: how much their rows weigh, their means and their spreads.

Two silos with masses a and b, means m and m', and sums of squares around them q and q' are together

    mean  m + (m' - m) b/(a + b),        sum of squares  q + q' + (m' - m)^2 a b/(a + b)

(Chan, Golub and LeVeque, 1983). Unlike sums of x and x^2 this loses no digits where means are large against spreads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dualfl.kernels import is_sparse
from dualfl.typing import Array


@dataclass(frozen=True, eq=False)
class Moments:
    """Of each column: how much its rows weigh, their mean, and the squares around it. Missing entries (NaN) are out."""

    mass: Array
    mean: Array
    squares: Array
    n: int = 0

    def __add__(self, other: Moments) -> Moments:
        mass = self.mass + other.mass
        share = other.mass / np.where(mass > 0, mass, 1.0)
        apart = other.mean - self.mean
        squares = self.squares + other.squares + apart**2 * (self.mass * share)
        return Moments(mass, self.mean + apart * share, squares, self.n + other.n)

    @property
    def variance(self) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            variance: Array = self.squares / self.mass
        return variance


def two_sums(X: Array, center: Array) -> tuple[Array, Array]:
    """Of each column the sum of what is there minus the centre, and of the squares of that."""
    apart = X - center
    return np.nansum(apart, axis=0), np.nansum(np.square(apart), axis=0)


def corrected(center: Array, present: Array | float, deviations: Array, squares: Array) -> tuple[Array, Array]:
    """Mean, and squares around it, from two sums around a centre that is the mean but for rounding.

    For means that are large against spreads this is better still than adding up the moments of silos, whose means are
    rounded each.
    """
    shift = deviations / np.maximum(present, 1.0)
    return center + shift, np.maximum(squares - present * shift**2, 0.0)


def moments(X: Any, weights: Array | None = None) -> Moments:
    """What one silo sends."""
    w = np.ones(X.shape[0]) if weights is None else weights
    if is_sparse(X):
        return _sparse_moments(X, w)
    missing = np.isnan(X) if X.dtype.kind == "f" else np.zeros(X.shape, dtype=bool)
    W = np.where(missing, 0.0, w[:, None])
    X = np.where(missing, 0.0, X)
    mass = W.sum(axis=0)
    mean = (W * X).sum(axis=0) / np.where(mass > 0, mass, 1.0)
    return Moments(mass, mean, (W * (X - mean) ** 2).sum(axis=0), X.shape[0])


def _sparse_moments(X: Any, w: Array) -> Moments:
    """Squares of the entries that are stored, around the mean, and of the zeros that are not."""
    n, d = X.shape
    weights = w[np.repeat(np.arange(n), np.diff(X.indptr))]
    missing = np.isnan(X.data)
    data = np.where(missing, 0.0, X.data)
    present = np.where(missing, 0.0, weights)
    mass = w.sum() - np.bincount(X.indices, weights - present, minlength=d)
    mean = np.bincount(X.indices, present * data, minlength=d) / np.where(mass > 0, mass, 1.0)
    squares = np.bincount(X.indices, present * (data - mean[X.indices]) ** 2, minlength=d)
    zeros = mass - np.bincount(X.indices, present, minlength=d)
    return Moments(mass, mean, squares + np.maximum(zeros, 0.0) * mean**2, n)
