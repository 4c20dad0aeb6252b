"""Cross-validation of least squares: the moments of every fold once, and everything else at the server.

With Z = [X - c, y - t, 1] and the moments A_i = Z'WZ of the rows in fold i, the rows outside it have the sum of all
other A_j. A squared loss is a quadratic whose coefficients these are, so every fit and every held-out loss is known:

    E(w)  =  (v - 2 r'w + w'Gw)/2 + (ridge/2)|w|^2 + l1 |w|_1,       G, r, v: the moments around the mean, by weight.

* l1 = 0: one eigendecomposition of G gives the minimisers of all penalties.
* otherwise: coordinate descent on G along the path. What is proven of w is the gap to the dual point s (y - Xw),

    E* >= s (v - r'w) - s^2/2 (v - 2 r'w + w'Gw + ridge |w|^2),      s = min(1, l1/|r - Gw - ridge w|_inf).

c and t are means of all rows, so that no digits are lost where a mean is large. Two exchanges: means, then moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dualfl import kernels
from dualfl.errors import DualflError
from dualfl.objectives import Squared
from dualfl.silos.costs import ALL, Rows, Sample
from dualfl.silos.questions import Conversation, Exchange, Query, Silos, measured_samples, measurement
from dualfl.silos.verbs import whole
from dualfl.solvers.coordinate_descent import Separable, minimise_model, quick_face_step
from dualfl.typing import Array

LARGEST = 2000  # coefficients: above it moments are too many numbers to be sent
SWEEPS, DOUBLED = 20, 3  # before the first Newton step; how often twice as many are made before the next
TURNS = 20  # looks before all digits are asked for
EPS = float(np.finfo(float).eps)
DIGITS = 1e-9  # a held-out loss that may be off by more, relatively, is asked for


class NotProven(DualflError):
    """Rounding leaves a gap above the tolerance."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Z'WZ of some rows, Z = [X - c, y - t, 1]."""

    A: Array

    @property
    def mass(self) -> float:
        return float(self.A[-1, -1])

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.A + other.A)

    def residuals(self, model: Array) -> tuple[float, float]:
        """The weighted sum of squared residuals of y - x'w - b, and how far off it may be; model: (w, -1, b)."""
        total = float(model @ self.A @ model)
        sizes = float(np.abs(model) @ np.abs(self.A) @ np.abs(model))
        return max(total, 0.0), 4 * len(model) * EPS * sizes


@dataclass(frozen=True, eq=False)
class Quadratic:
    """E as a function of w alone: (v - 2 r'w + w'Gw)/2; a free intercept is at its best for each w."""

    G: Array
    r: Array
    v: float
    mean: Array  # of the columns
    target: float  # mean of the targets
    intercept: Any

    @staticmethod
    def of(moments: Moments, intercept: Any) -> Quadratic:
        A, m = moments.A / moments.mass, moments.A[-1, :-1] / moments.mass
        if intercept == "free":
            A = A[:-1, :-1] - np.outer(m, m)
            return Quadratic(A[:-1, :-1].copy(), A[:-1, -1].copy(), float(A[-1, -1]), m[:-1], float(m[-1]), intercept)
        kept = np.r_[: len(m) - 1, len(m)] if intercept else np.arange(len(m) - 1)
        G, r = A[np.ix_(kept, kept)], A[kept, len(m) - 1]
        return Quadratic(G, r, float(A[-2, -2]), np.zeros(len(m) - 1), 0.0, intercept)

    def model(self, w: Array) -> Array:
        """(w, -1, b): what Z is multiplied by for the residuals, up to their sign."""
        if self.intercept == "free":
            b = self.target - float(self.mean @ w)
        else:
            w, b = (w[:-1], float(w[-1])) if self.intercept else (w, 0.0)
        return np.concatenate([w, [-1.0, b]])

    # -- minimisers -------------------------------------------------------------------------------

    def ridges(self, strengths: Sequence[float]) -> list[Array]:
        """The minimisers for these ridges, without l1."""
        values, V = np.linalg.eigh(self.G)
        pull, values = V.T @ self.r, np.maximum(values, 0.0)
        return [V @ np.divide(pull, values + a, out=np.zeros_like(pull), where=values + a > 0) for a in strengths]

    def sparse(self, strengths: Sequence[tuple[float, float]], tol: float) -> list[Array]:
        """The minimisers for these (ridge, l1), each started where the path leads from the two before it."""
        d, found = len(self.r), list[Array]()
        infinite, zeros, Q = np.full(d, np.inf), np.zeros(d), self.G.copy()
        diagonal = np.diag(self.G).copy()
        for k, (ridge, l1) in enumerate(strengths):
            Q.flat[:: d + 1] = diagonal + ridge
            start = ahead(strengths[: k + 1], found) if k else zeros
            found.append(
                self._descended(Q, Separable(np.full(d, l1), zeros, -infinite, infinite), ridge, l1, start, tol)
            )
        return found

    def _descended(self, Q: Array, P: Separable, ridge: float, l1: float, start: Array, tol: float) -> Array:
        """Sweeps of coordinate descent, which find the face, and Newton steps on it, until the gap is small enough.

        Between two kinks of the path the start is the minimiser already.
        """
        w = start.copy()
        for turn in range(TURNS):
            gap, E = self.gap(w, ridge, l1)
            if gap <= tol * E:
                return w
            kernels.cd_quadratic(Q, self.r, P.l1, P.lo, P.hi, w, Q @ w - self.r, SWEEPS << min(turn, DOUBLED), 0.0)
            quick_face_step(Q, l1, w, Q @ w - self.r)
        return minimise_model(Q, self.r, P, w, 1e-2 * tol * float(np.abs(self.r).max(initial=0.0)))

    def gap(self, w: Array, ridge: float, l1: float) -> tuple[float, float]:
        """What E(w) is above E* at most, and E(w)."""
        Gw = self.G @ w
        along = float(self.r @ w)
        rest = self.v - 2 * along + float(w @ Gw)
        slopes = self.r - Gw - ridge * w
        E = rest / 2 + ridge / 2 * float(w @ w) + l1 * float(np.abs(w).sum())
        noise = 8 * len(w) * EPS * (self.v + abs(along))
        if l1 == 0:
            convexity = ridge if ridge > 0 else float(np.linalg.eigvalsh(self.G)[0])
            return (float(slopes @ slopes) / (2 * convexity) if convexity > 0 else np.inf) + noise, E
        steepest = float(np.abs(slopes).max(initial=0.0))
        s = min(1.0, l1 / steepest) if steepest > 0 else 1.0
        dual = s * (self.v - along) - s * s / 2 * (rest + ridge * float(w @ w))
        return max(E - dual, 0.0) + noise, E


def ahead(strengths: Sequence[tuple[float, float]], found: Sequence[Array]) -> Array:
    """Where a path goes on: between two kinks it is a straight line in l1, for one ridge."""
    w = found[-1]
    if len(found) < 2:
        return w
    before, (_, first), (_, second), (_, third) = found[-2], *strengths[-3:]
    if first == second or not np.array_equal(np.sign(w), np.sign(before)):
        return w
    on = w + (w - before) * ((third - second) / (second - first))
    return np.where(on * w > 0, on, 0.0)


def possible(model: Any, silos: Silos) -> bool:
    """Whether the moments of a fold say all that there is to know of a fit."""
    squared = isinstance(model._cost(1.0).loss, Squared) and not getattr(model, "own_intercept", False)
    return squared and model.algorithm == "auto" and silos.features + 1 <= LARGEST


def means(silos: Silos, model: Any, rows: Sequence[Rows], purpose: str) -> Conversation[tuple[list[Sample], Array]]:
    """What all silos have in each of these choices of rows, and the means of all columns and of the target."""
    queries = [measurement(rows, model._cost(1.0).loss, 0)]
    free = model._intercept() == "free"
    if free:
        queries.append(Query("columns", {"rows": asdict(ALL), "center": None}))
    answers = yield Exchange(purpose, tuple(queries))
    samples = measured_samples(rows, answers[0])
    total = samples[rows.index(ALL)]
    center = np.zeros(silos.features + 1)
    if free:
        center = np.r_[np.asarray(answers[1]["sums"]) / total.mass, total.mean]
    return samples, center


def moments_of(rows: Sequence[Rows], center: Array, purpose: str) -> Conversation[list[Moments]]:
    """The moments of each of these choices of rows."""
    given = {"rows": [asdict(one) for one in rows], "center": center[:-1], "target": float(center[-1])}
    (answer,) = yield Exchange(purpose, (Query("moments", given),))
    return [Moments(whole(line)) for line in np.asarray(answer["moments"])]


def fitted(train: Moments, models: Sequence[Any], sample: Sample) -> list[Array]:
    """(w, -1, b) of each penalty, in the coordinates of the moments; NotProven where rounding stands against it."""
    found = Quadratic.of(train, models[0]._intercept())
    costs = [model._cost(sample.mass) for model in models]
    if costs[0].l1 == 0:
        ws = found.ridges([cost.ridge for cost in costs])
    else:
        ws = found.sparse([(cost.ridge, cost.l1) for cost in costs], float(models[0].tol))
    limits = models[0]._limits(sample)
    for cost, w in zip(costs, ws):
        gap, E = found.gap(w, cost.ridge, cost.l1)
        if not limits.met(gap, E, 8 * len(w) * EPS * found.v):
            raise NotProven(f"rounding proves no more than a gap of {gap:.1e} of E = {E:.6g}")
    return [found.model(w) for w in ws]


def theta(model: Array, center: Array, intercept: Any) -> Array:
    """The flat model on columns as they are."""
    w, b = model[:-2], float(model[-1])
    if intercept == "free":
        b += float(center[-1] - center[:-1] @ w)
    return np.concatenate([w, [b]]) if intercept else w
