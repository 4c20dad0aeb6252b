"""Coordinates in which the units of columns do not matter, nor, beside a free intercept, where their zeros are.

    z_k = theta_k / scale_k,      z_D = (theta_D + sum_k centre_k theta_k) / scale_D

are the coefficients of the features (x_k - centre_k x_D) scale_k. Centring takes the mean off every column where the
last one, usually an intercept, is not regularised. It changes no problem: a method that works in z takes the same steps
on (X, M) and on (X T, T'MT), M the ridge and T diagonal or a shift, where one that works in theta would lose a column
of mean 1e3 and deviation 1 in the rounding of the mean.

Two kinds of scale. Where a Hessian is held as a whole any scale does in exact arithmetic, and one that makes its
diagonal 1 does in floating point. Where only its leading directions are held, they should be those that stand out from
the ridge; so the ridge is made the same everywhere, but no column stands out by more than 1e12, which is what rounding
leaves of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl.objectives.rounding import UNIT
from dualfl.typing import Array

CANCELLED = 1e-13  # of a second moment: a variance below it is rounding
FAR = 3.0  # deviations from zero: beyond, first-order methods lose a column in its mean
FAINT = 1e-12  # of a column's own curvature: less ridge than this is as good as none


@dataclass(frozen=True)
class Coordinates:
    """The map z -> theta for matrices with one row a feature."""

    scale: Array
    centre: Array  # 0 in the last place

    @staticmethod
    def plain(D: int) -> Coordinates:
        return Coordinates(np.ones(D), np.zeros(D))

    @property
    def apart(self) -> int:
        """1 if the last feature, which is free, is centred away from all others, and 0 otherwise."""
        return int(self.centre.any())

    def to(self, z: Array) -> Array:
        """theta."""
        x = self.scale[:, None] * z
        x[-1] -= self.centre @ x
        return np.asarray(x)

    def back(self, x: Array) -> Array:
        """z."""
        z = np.array(x)
        z[-1] += self.centre @ z
        return np.asarray(z / self.scale[:, None])

    def pull(self, g: Array) -> Array:
        """The gradient by z from the one by theta."""
        return np.asarray(self.scale[:, None] * (g - self.centre[:, None] * g[-1]))

    def moment(self, C: Array) -> Array:
        """The second moment of these features from that of the columns."""
        Z = self.pull(self.pull(C).T)
        if self.centre.any():
            Z[-1, :-1] = Z[:-1, -1] = 0.0  # but for rounding
        return np.asarray((Z + Z.T) / 2)

    def diagonal(self, own: Array) -> Array:
        """The diagonal of that moment from the one of the columns'."""
        return np.asarray(np.maximum(own - self.centre**2 * own[-1], 0.0) * self.scale**2)

    def sketched(self, CW: Array, cross: Array, W: Array) -> tuple[Array, float]:
        """The moment of these features times Omega, from C W and the last column of C, for W = scale Omega; and about
        how far off it is, by its norm.

        Columns are centred here, where their means are known, and the last row of Omega is 0. Of a column of mean 1e6
        and deviation 1 that leaves four digits.
        """
        noise = UNIT * float(np.linalg.norm(self.scale[:, None] * CW)) if self.apart else 0.0
        return self.pull(CW - np.outer(cross, self.centre @ W)), noise

    def agrees(self, scale: Array) -> bool:
        """Whether these are the units of `scale`, but for a feature that is apart."""
        D = len(scale) - self.apart
        return bool(np.allclose(self.scale[:D], scale[:D], rtol=1e-9, atol=0.0))

    @property
    def far(self) -> bool:
        """Whether a mean is far above its deviations."""
        return bool((np.abs(self.centre * self.scale) > FAR * self.scale[-1]).any())

    def slope(self, g: Array) -> float:
        """|E'(z)| of a flat E'(theta)."""
        return float(np.linalg.norm(self.pull(g.reshape(len(self.scale), -1))))

    def norm(self, x: Array) -> float:
        """|z| of a flat theta."""
        return float(np.linalg.norm(self.back(x.reshape(len(self.scale), -1))))


def ridge_scale(M: Array) -> Array:
    """The scale that makes a ridge (D x k) the same everywhere, as far as columns have one.

    Whoever has the ridge has it, so that clients can sketch in these units before anybody has seen the data.
    """
    ridge = M.mean(axis=1)
    return np.asarray(np.sqrt(ridge.max() / np.where(ridge > 0, ridge, 1.0)) if ridge.any() else np.ones(len(M)))


def chosen(C: Array, M: Array, curved: float, whole: bool) -> Coordinates:
    """From the second moment C of the columns, the ridge M (D x k) and how much curvature C stands for."""
    return chosen_by(np.diag(C), C[:, -1], M, curved, whole)


def chosen_by(own: Array, cross: Array, M: Array, curved: float, whole: bool) -> Coordinates:
    """The same from the diagonal of C and its last column, which is all that it takes."""
    own, centre = np.maximum(own, 0.0), np.zeros(len(own))
    if not M[-1].any() and own[-1] > 0:
        centre[:-1] = cross[:-1] / own[-1]
    data = curved * np.maximum(own - centre**2 * own[-1], CANCELLED * own)
    ridge = M.mean(axis=1)
    size = data + ridge
    if not whole and ridge.any():
        size = np.maximum(ridge, FAINT * data) / ridge.max()
        if centre.any():  # free and apart from all others
            size[-1] = data[-1] / max(float(data.max()), 1e-300)
    return Coordinates(1 / np.sqrt(np.where(size > 0, size, 1.0)), centre)
