"""What a silo tells of the curvature of its cost, for a bound of E* (`estimators.curvature_proof` has the theory).

A silo says how large the diagonal of its Hessian was before anything was taken off it, how far its rows reach in the
norm of the inverse Hessian of all silos, and what it has not minimised itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from dualfl.objectives.base import Objective
from dualfl.objectives.cox import CoxPartialLikelihood
from dualfl.objectives.families import CLogLog
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.ordinal import ProportionalOdds
from dualfl.objectives.rounding import roundings
from dualfl.objectives.site_effect import OwnIntercept
from dualfl.typing import Array

POWER = 6  # maxima over silos are bounded by the sum of this power of theirs
NEAREST, FARTHEST = 1.0, 1e8  # what is told of rows nearer or farther out: a looser bound, or that nothing is proven
DISTANCE = 1e4  # in units of which it is told, so that masks carry the power of both


class Told:
    """What a silo tells."""

    def diagonal(self, theta: Array) -> Array:
        """Of its Hessian, before anything is taken off it."""
        raise NotImplementedError

    def reach(self, theta: Array, L: Array, weight: float) -> float:
        """R, in the norm of (L L')^-1; `weight` is the silo's among all."""
        raise NotImplementedError

    def left(self, theta: Array) -> float:
        """What it has not minimised itself, as a part of lam^2."""
        return 0.0


class CoxSums(Told):
    """Survival times."""

    def __init__(self, f: CoxPartialLikelihood) -> None:
        self.f = f

    def diagonal(self, theta: Array) -> Array:
        X: Any = self.f.design.X
        e = self.f.cox_point(theta).expected
        squares = np.einsum("l,lk,lk->k", e, X, X) if isinstance(X, np.ndarray) else X.multiply(X).T @ e
        return np.asarray(squares + self.f.ridge)

    def reach(self, theta: Array, L: Array, weight: float) -> float:
        X: Any = self.f.design.X
        if not isinstance(X, np.ndarray):
            X = X.toarray() - self.f.centres[self.f.labels]
        return 2 * float(lengths(X, L).max(initial=0.0)) * (1 + roundings(self.f.d))


class CLogLogSums(Told):
    """Two classes."""

    def __init__(self, f: LinearModel) -> None:
        self.f = f

    def diagonal(self, theta: Array) -> Array:
        return np.diag(self.f.hessian(theta))

    def reach(self, theta: Array, L: Array, weight: float) -> float:
        f = self.f
        rows = dense(f)
        rows = np.column_stack([rows, np.ones(f.n)]) if f.design.intercept else rows
        counts = f.s > 0
        return float((rates(f, theta) * lengths(rows, L))[counts].max(initial=0.0)) * (1 + roundings(f.d))


class OrdinalSums(Told):
    """Ordered levels."""

    def __init__(self, f: ProportionalOdds) -> None:
        self.f = f

    def diagonal(self, theta: Array) -> Array:
        return np.diag(self.f.hessian(theta))

    def reach(self, theta: Array, L: Array, weight: float) -> float:
        f = self.f
        rows = -dense(f)
        t = f.split(theta)[1]
        E = np.vstack([np.eye(f.levels - 1), np.zeros(f.levels - 1)])  # the last row is of no threshold, also as -1
        ends = [np.column_stack([rows[has], E[k[has]]]) for k, has in ((f.y, f.y < len(t)), (f.y - 1, f.y > 0))]
        longest = max(float(lengths(end, L).max(initial=0.0)) for end in ends)
        gaps = np.column_stack([np.zeros((len(t) - 1, f.design.D)), np.diff(np.eye(len(t)), axis=0)])
        barrier = lengths(gaps, L) / np.tanh(np.diff(t) / 4)
        return max(longest, float(barrier.max(initial=0.0))) * (1 + roundings(f.d))


class SiteSums(Told):
    """A loss with an intercept of the silo's own."""

    def __init__(self, f: OwnIntercept) -> None:
        self.f = f

    def diagonal(self, theta: Array) -> Array:
        if self.f.silent:
            return np.diag(self.f.hessian(theta))
        return np.diag(self.f.base.hessian(self.f.site_point(theta).whole))[:-1]

    def reach(self, theta: Array, L: Array, weight: float) -> float:
        f = self.f
        if f.silent:
            return 0.0
        whole = f.site_point(theta).whole
        H = f.base.hessian(whole)
        centre, counts = H[:-1, -1] / H[-1, -1], f.base.s > 0
        longest = np.sqrt(1 / (weight * H[-1, -1]) + lengths(dense(f.base) - centre, L) ** 2)
        return float((rates(f.base, whole) * longest)[counts].max(initial=0.0)) * (1 + roundings(f.d))

    def left(self, theta: Array) -> float:
        if self.f.silent:
            return 0.0
        point = self.f.site_point(theta)
        r = abs(float(self.f.base.gradient(point.whole)[-1])) + float(self.f.base.rounding(point.whole).gradient[-1])
        return r**2 / point.bend if point.bend > 0 else np.inf


def rates(f: LinearModel, theta: Array) -> Array:
    """c of each row, with |l'''| <= c l'' while its predictor moves by at most 1."""
    if isinstance(f.loss, CLogLog):
        return np.where(f.y > 0, np.exp(np.clip(f.predictors(theta)[:, 0] + 1, 0.0, 300.0)), 1.0)
    return np.full(f.n, f.loss.self_concordance or 0.0)


def dense(f: Any) -> Array:
    """The rows, without an intercept."""
    X = f.design.X
    return np.asarray(f.design.scale * np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64))


def lengths(X: Array, L: Array) -> Array:
    """Of the rows, in the norm of (L L')^-1."""
    Q = solve_triangular(L, X.T, lower=True)
    return np.asarray(np.sqrt((Q * Q).sum(axis=0)))


def told_by(f: Objective) -> Told | None:
    if isinstance(f, CoxPartialLikelihood):
        return CoxSums(f)
    if isinstance(f, ProportionalOdds):
        return OrdinalSums(f)
    if isinstance(f, OwnIntercept):
        known = isinstance(f.base.loss, CLogLog) or f.base.loss.self_concordance is not None
        return SiteSums(f) if known else None
    return CLogLogSums(f) if isinstance(f, LinearModel) and isinstance(f.loss, CLogLog) else None


def known_sums(f: Objective) -> Told:
    found = told_by(f)
    assert found is not None, "`applies` has looked"
    return found
