"""What the server knows of the cost without asking: the ridge and the penalty, and what it can do with them.

    R(z) = (1/2) z'Mz - c'z + P(z),        M = diag(m_1, ..., m_d) >= 0,

P a penalty with a prox. With second-order sums (Q, q) of the loss the server minimises  z'Qz/2 - q'z + R(z)  itself, to
rounding; and its conjugate R*(v) = sup_z v'z - R(z) turns any dual point of the losses into a lower bound of E*:

    E* >= a'b - R*(Z'a)         for every a in the domain of the losses' conjugates.

Those domains contain 0 and are convex, so s a is as good a dual point for 0 <= s <= 1, and s is free to choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dualfl.algorithms.contract import Place
from dualfl.algorithms.coordinates import Coordinates
from dualfl.objectives.penalties import L1, GroupL2, Penalised
from dualfl.objectives.quadratic import Quadratic
from dualfl.solvers.coordinate_descent import Separable, minimise_model, separable
from dualfl.solvers.definite import EPS, definite, solve
from dualfl.solvers.fista import FISTA
from dualfl.solvers.stopping import GradientNorm
from dualfl.typing import Array

ROUNDING = 1e-12  # a dual point that leaves its domain by less is not outside of it


@dataclass(frozen=True)
class Regulariser:
    """R(z) = z'Mz/2 - c'z + P(z)."""

    M: Array
    c: Array
    penalised: Penalised | None = None  # P, on some cost of the right shape; coordinates that are free stay free

    @staticmethod
    def at(place: Place, M: Array, c: Array) -> Regulariser:
        """R with the penalty of the problem, as the server sees it."""
        return Regulariser(M, c, None if place.penalty is None else place.penalty.penalised)

    @cached_property
    def group(self) -> GroupL2 | None:
        """The penalty on groups; groups of one are single coordinates, |z_k|."""
        penalty = None if self.penalised is None else self.penalised.penalty
        return penalty if isinstance(penalty, GroupL2) and not self._single(penalty) else None

    def _single(self, penalty: GroupL2) -> bool:
        assert self.penalised is not None
        rows = self.penalised.shape[0]
        return rows == len(self.M) and (penalty.groups is None or len(set(penalty.groups)) == rows)

    @cached_property
    def P(self) -> Separable:
        """The part of P that acts on single coordinates."""
        if self.penalised is None or self.group is not None:
            zero, infinite = np.zeros(len(self.M)), np.full(len(self.M), np.inf)
            return Separable(zero, zero, -infinite, infinite)
        if isinstance(self.penalised.penalty, GroupL2):
            return separable(Penalised(self.penalised.smooth_part, L1(self.penalised.penalty.alpha)))
        return separable(self.penalised)

    @cached_property
    def m(self) -> Array:
        """All the curvature that R has, coordinate by coordinate."""
        return np.asarray(self.M + self.P.beta)

    @cached_property
    def penalised_at(self) -> npt.NDArray[np.bool_]:
        """Where P says anything at all."""
        if self.group is not None:
            free = self.penalised.free if self.penalised is not None else None
            return np.ones(len(self.M), dtype=bool) if free is None else ~free
        somewhere: npt.NDArray[np.bool_] = (self.P.l1 > 0) | np.isfinite(self.P.lo) | np.isfinite(self.P.hi)
        return somewhere

    @cached_property
    def flat(self) -> npt.NDArray[np.bool_]:
        """Where R is linear: a dual point must vanish there."""
        where: npt.NDArray[np.bool_] = (self.m == 0) & ~self.penalised_at
        return where

    def value(self, z: Array) -> float:
        penalty = 0.0 if self.penalised is None else self.penalised.penalty_value(z)
        return float((self.M * z) @ z / 2 - self.c @ z + penalty)

    def nearest(self, z: Array) -> Array:
        """z, or the point nearest to it at which R is finite: a point between two of a box may leave it by rounding."""
        return z if self.penalised is None else self.penalised.nearest(z)

    def between(self, x: Array, z: Array, t: float) -> Array:
        """x + t (z - x), where R is finite if it is so at x and z."""
        return self.nearest(x + t * (z - x))

    # -- the server's own problem ------------------------------------------------------------------

    def minimise(self, Q: Array, q: Array, start: Array) -> Array:
        """argmin z'Qz/2 - q'z + R(z), to rounding; Q is left as it is."""
        Q = Q.copy()
        Q[np.diag_indices_from(Q)] += self.m
        q = q + self.c
        if not self.penalised_at.any():
            return solve(Q, q)
        if self.group is None:
            scale = float(np.linalg.norm(q)) + float(np.linalg.norm(Q @ start))
            lo, hi = self.P.lo, self.P.hi
            return minimise_model(definite(Q), q, self.P, np.clip(start, lo, hi), 1e-15 * scale)
        assert self.penalised is not None
        return minimise_groups(Q, q, self.penalised, start)

    def newton(self, H: Array, pull: Array, x: Array) -> Array:
        """argmin (z - x)'H(z - x)/2 - pull'(z - x) + R(z): a Newton step on R minus what the data pull."""
        if self.group is not None:
            return self.minimise(H, H @ x + pull, x)
        Q = H.copy()
        Q[np.diag_indices_from(Q)] += self.m
        right = pull - self.m * x + self.c  # by the step: H x may be far larger
        if not self.penalised_at.any():
            return x + solve(Q, right)
        return self.polished(Q, right, x, self.minimise(H, H @ x + pull, x))

    def newton_beside(self, H: Array, pull: Array, x: Array, origin: Array) -> Array:
        """`newton`, where H belongs to columns that have their zeros at `origin`, which R does not feel."""
        if not origin.any():
            return self.newton(H, pull, x)
        moved = Coordinates(np.ones(len(x)), origin)
        c, pull = moved.pull(np.stack([self.c, pull], axis=1)).T
        z = moved.back(x[:, None])[:, 0]
        return moved.to(Regulariser(self.M, c, self.penalised).newton(H, pull, z)[:, None])[:, 0]

    def polished(self, Q: Array, right: Array, x: Array, z: Array) -> Array:
        """z once more, computed as a step from x on the face on which it lies."""
        P = self.P
        face = ((z != 0) | (P.l1 == 0)) & (z > P.lo) & (z < P.hi)
        if not face.any():
            return z
        step = z - x
        here = right - P.l1 * np.sign(z) - Q[:, ~face] @ step[~face]
        step[face] = solve(Q[np.ix_(face, face)], here[face])
        better = np.where(face, x + step, z)
        same = (np.sign(better) == np.sign(z)) | (P.l1 == 0)
        return better if (same & (better >= P.lo) & (better <= P.hi)).all() else z

    # -- duality -----------------------------------------------------------------------------------

    def conjugate(self, v: Array) -> float:
        """R*(v); infinite outside its domain."""
        return self._dual(v)[0]

    def _dual(self, v: Array) -> tuple[float, Array]:
        """R*(v) and the z at which it is attained."""
        w, m = v + self.c, self.m
        if self.group is not None:
            return self._dual_groups(w)
        P = self.P
        slack = ROUNDING * (np.abs(w) + P.l1)
        rest = np.sign(w) * np.maximum(np.abs(w) - P.l1 - np.where(m > 0, 0.0, slack), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.clip(np.where(rest != 0, rest / m, 0.0), P.lo, P.hi)
        if not np.isfinite(z).all():
            return np.inf, z
        return float(w @ z - (m * z) @ z / 2 - P.l1 @ np.abs(z)), z

    def _dual_groups(self, w: Array) -> tuple[float, Array]:
        assert self.penalised is not None and self.group is not None
        kept = np.where(self.penalised_at, w, 0.0)
        shrunk = self.group.prox(1.0, kept.reshape(self.penalised.shape)).ravel()
        shrunk = np.where(self.penalised_at, shrunk, w)
        small = np.abs(shrunk) <= ROUNDING * (np.abs(w) + self.group.alpha)
        shrunk = np.where(small & (self.m == 0), 0.0, shrunk)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(shrunk != 0, shrunk / self.m, 0.0)
        if not np.isfinite(z).all():
            return np.inf, z
        return float(w @ z - (self.m * z) @ z / 2 - self.penalised.penalty_value(z)), z

    def residual_beside(self, H: Array, z: Array, v: Array, origin: Array) -> float:
        """`residual` as it is for columns that are centred by the last one, if R is flat there, usually an intercept.

        R does not feel that, nor does v'z, but how far out z is in flat directions depends on where columns have their
        zeros. H tells their means, as seen from `origin`.
        """
        if not self.flat[-1] or not H[-1, -1] > 0:
            return self.residual(z, v)
        centre = origin + np.append(H[:-1, -1] / H[-1, -1], 0.0)
        return self.residual(np.append(z[:-1], z[-1] + centre @ z), v - centre * v[-1])

    def residual(self, z: Array, v: Array) -> float:
        """R(z) + R*(v) - v'z >= 0; where R is flat, what a finite z can make of a v that is not zero."""
        bound = np.where(v + self.c > 0, self.P.hi, self.P.lo)  # where v pulls
        flat = (self.m == 0) & np.isinf(bound)
        if not flat.any():
            return max(self.value(z) + self.conjugate(v) - float(v @ z), 0.0)
        curved = Regulariser(np.where(flat, 1.0, self.M), self.c, self.penalised)
        most = np.where(flat, v + self.c, 0.0)
        if self.group is not None:
            over = self._beyond_groups(most)
        else:
            over = np.sign(most) * np.maximum(np.abs(most) - self.P.l1, 0.0)
        inside = np.where(flat, v - over, v)
        rest = curved.value(z) - float(np.sum(z[flat] ** 2)) / 2 + curved.conjugate(inside) - float(inside @ z)
        return max(rest, 0.0) + float(np.abs(over) @ np.abs(z))

    def _beyond_groups(self, w: Array) -> Array:
        """What of w is outside of the balls of its groups; all of it where there is no group."""
        assert self.group is not None and self.penalised is not None
        kept = np.where(self.penalised_at, w, 0.0).reshape(self.penalised.shape)
        return np.asarray(np.where(self.penalised_at, self.group.prox(1.0, kept).ravel(), w))


def minimise_groups(Q: Array, q: Array, penalised: Penalised, start: Array) -> Array:
    """argmin z'Qz/2 - q'z + P(z) for groups: FISTA finds the groups that are not zero, Newton's method their values."""
    Q = definite(Q)
    F = Penalised(Shaped(Q, q, penalised), penalised.penalty)
    z, goal = start, 1e-14 * (float(np.linalg.norm(q)) + float(np.linalg.norm(Q @ start)))
    least = np.inf
    for _ in range(30):
        z = FISTA().solve(F, z, GradientNorm(goal, cap=200)).x
        for _ in range(30):
            trial = face_newton(Q, q, F, z)
            if trial is None or np.array_equal(trial, z):
                break
            z = trial
        now = residual_of(Q, q, F, z)
        if now <= goal or now >= least / 2:
            break
        least = now
    return z


class Shaped(Quadratic):
    """A quadratic in the shape and with the free coordinates of a model."""

    def __init__(self, Q: Array, q: Array, model: Penalised) -> None:
        super().__init__(Q + EPS * len(Q) * float(np.abs(np.diag(Q)).max(initial=0.0)) * np.eye(len(Q)), q)
        self.shape, self.free = model.shape, model.free


def residual_of(Q: Array, q: Array, F: Penalised, z: Array) -> float:
    return float(np.linalg.norm(F.steepest(z, Q @ z - q)))


def face_newton(Q: Array, q: Array, F: Penalised, z: Array) -> Array | None:
    """A Newton step on the groups that are not zero, for P(z) = alpha sum |z_G|."""
    penalty, free = F.penalty, np.zeros(len(z), dtype=bool) if F.free is None else F.free
    assert isinstance(penalty, GroupL2)
    kept = np.where(free, 0.0, z)
    norms = np.broadcast_to(
        penalty._norms(kept.reshape(F.shape))[1].reshape(-1, *(1,) * (len(F.shape) - 1)), F.shape
    ).ravel()
    labels = np.arange(F.shape[0]) if penalty.groups is None else penalty._labels
    labels = np.broadcast_to(labels.reshape(-1, *(1,) * (len(F.shape) - 1)), F.shape).ravel()
    face = np.flatnonzero((norms > 0) | free)
    if not len(face):
        return None
    unit = np.where(free | (norms == 0), 0.0, z / np.where(norms > 0, norms, 1.0))[face]
    strength = np.where(free[face], 0.0, penalty.alpha / np.where(norms[face] > 0, norms[face], 1.0))
    same = labels[face][:, None] == labels[face][None, :]
    H = Q[np.ix_(face, face)] + np.diag(strength) - np.where(same, strength[:, None] * np.outer(unit, unit), 0.0)
    g = (Q @ z - q)[face] + penalty.alpha * unit
    step = solve(H, g)
    wide = np.zeros(len(z))
    wide[face] = step
    trials = [z - t * wide for t in (1.0, 0.5, 0.25, 0.06, 0.01)]
    for group in np.unique(labels[face[~free[face]]]):  # on the way a group may become zero, where its slope changes
        own = (labels == group) & ~free
        t = float(z[own] @ wide[own]) / (float(wide[own] @ wide[own]) or 1.0)
        if 0 < t < 1:
            trials.append(np.where(own, 0.0, z - t * wide))
    here, values = model_value(Q, q, F, z), [model_value(Q, q, F, trial) for trial in trials]
    best = int(np.argmin(values))
    if values[best] < here - 1e-14 * abs(here):
        return trials[best]
    # values no longer tell, residuals do
    return trials[0] if residual_of(Q, q, F, trials[0]) < residual_of(Q, q, F, z) else None


def model_value(Q: Array, q: Array, F: Penalised, z: Array) -> float:
    return float(z @ (Q @ z) / 2 - q @ z) + F.penalty_value(z)
