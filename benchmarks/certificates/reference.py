"""E* in extended precision, by a method of its own that shares nothing with the library's solvers.

Every kink is rounded off by a parameter e, |r| -> sqrt(r^2 + e^2) and max(u, 0) -> (u + sqrt(u^2 + e^2))/2, every bound
is a barrier -e log(distance), and damped Newton steps follow the minimiser while e falls from the size of the problem
to nothing. Columns are scaled to size 1 first. All of it is in NumPy's long double, which has 64 bits here. What is
returned is the lowest E seen, computed without any rounding off; E* is not above it, so a certificate that is below
E(theta) - E is wrong whatever else is true. Where the result of the library is lower, Newton starts again from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.certificates.problems import Case
from dualfl.objectives import BoxConstraint, ElasticNetPenalty, GroupL2

LD: Any = np.longdouble
UNIT = 2.0**-53
STAGES = [10.0**-k for k in range(18)]
STEPS = 40


@dataclass(frozen=True)
class Reference:
    """The least energy found, where, and whether Newton's method had come to rest there."""

    E: Any
    theta: Any
    settled: bool


class Smooth:
    """The problem in extended precision, columns scaled to size 1, kinks rounded off by e."""

    def __init__(self, case: Case) -> None:
        self.case, self.loss = case, type(case.loss).__name__
        X = case.X.astype(LD)
        if case.intercept:
            X = np.column_stack([X, np.ones(len(X), dtype=LD)])
        self.s = case.weights.astype(LD) / case.weights.astype(LD).sum()
        size = np.sqrt((self.s[:, None] * X * X).sum(axis=0))
        self.scale = np.where(size > 0, size, LD(1))
        self.raw, self.X, self.y = X, X / self.scale, case.y.astype(LD)
        self.k = case.loss.outputs
        self.D = X.shape[1]
        kept = np.ones((self.D, self.k), dtype=bool)
        if case.intercept == "free":
            kept[-1] = False
        self.kept = kept
        self.parameter = LD(case.loss.parameter)
        P = case.penalty
        # The outputs of a softmax can move together at no cost. A bound on one side is then none, and a barrier would
        # drive them to infinity.
        one_sided = isinstance(P, BoxConstraint) and not np.isfinite(P.upper) and case.ridge == 0
        self.barred = isinstance(P, BoxConstraint) and not (one_sided and self.loss == "Softmax")
        labels = np.unique(P.groups, return_inverse=True)[1] if isinstance(P, GroupL2) and P.groups else range(self.D)
        self.members = np.equal.outer(np.arange(max(labels) + 1), np.asarray(labels)).astype(LD)  # of groups
        self.size = max(float(np.abs(self.y).max()), 1.0) if self.k == 1 else 1.0

    def unscaled(self, W: Any) -> Any:
        return W / self.scale[:, None]

    def allowed(self, W: Any) -> Any:
        """W, or where a bound that is no constraint (see `barred`) allows it."""
        P = self.case.penalty
        if self.barred or not isinstance(P, BoxConstraint):
            return W
        V = self.unscaled(W)
        V = np.where(self.kept, V - V.min(axis=1, keepdims=True) + LD(P.lower), V)
        return V * self.scale[:, None]

    def rows(self, Z: Any, e: Any) -> tuple[Any, Any, Any]:
        """Values (n), slopes (n, k), curvatures (n, k, k); e = 0: exactly, and then without curvatures."""
        y, name = self.y, self.loss
        if name == "Softmax":
            return softmax(Z, y.astype(int))
        z = Z[:, 0]
        if name == "Logistic":
            m = y * z
            t = np.exp(-np.abs(m))
            q = np.where(m >= 0, t, 1) / (1 + t)
            v, p, c = np.maximum(-m, 0) + np.log1p(t), -y * q, q * (1 - q)
        elif name == "Poisson":
            with np.errstate(over="ignore"):
                r = np.exp(z)
            v, p, c = r - y * z, r - y, r
        elif name == "Squared":
            v, p, c = (z - y) ** 2 / 2, z - y, np.ones_like(z)
        elif name == "Huber":
            r, d = z - y, self.parameter
            inside = np.abs(r) <= d
            v, p = np.where(inside, r * r / 2, d * (np.abs(r) - d / 2)), np.clip(r, -d, d)
            c = np.where(inside, LD(1), LD(1e-3) * d / np.maximum(np.abs(r), d))
        elif name == "SquaredHinge":
            u = np.maximum(1 - y * z, 0)
            v, p, c = u * u, -2 * y * u, np.where(u > 0, LD(2), LD(1e-6))
        else:
            v, p, c = self.kinks(z, e)
        return v, p[:, None], c[:, None, None]

    def kinks(self, z: Any, e: Any) -> tuple[Any, Any, Any]:
        y, name = self.y, self.loss
        if name == "Hinge":
            v, p, c = ramp(1 - y * z, e)
            return v, -y * p, c
        r = z - y
        if name == "EpsilonInsensitive":
            (v1, p1, c1), (v2, p2, c2) = ramp(r - self.parameter, e), ramp(-r - self.parameter, e)
            return v1 + v2, p1 - p2, c1 + c2
        up, down = (LD(1), LD(1)) if name == "Absolute" else (1 - self.parameter, self.parameter)
        (v1, p1, c1), (v2, p2, c2) = ramp(r, e), ramp(-r, e)
        return up * v1 + down * v2, up * p1 - down * p2, up * c1 + down * c2

    def energy(self, V: Any) -> Any:
        """E itself, at a model as it is."""
        case = self.case
        value = (self.s * self.rows(self.raw @ V, LD(0))[0]).sum() + LD(case.ridge) / 2 * (V[self.kept] ** 2).sum()
        P, kept = case.penalty, np.where(self.kept, V, 0)
        if isinstance(P, BoxConstraint):
            inside = ((V >= LD(P.lower)) & (V <= LD(P.upper)))[self.kept].all()
            return value if inside else LD(np.inf)
        if isinstance(P, GroupL2):
            return value + LD(P.alpha) * np.sqrt(self.members @ (kept**2).sum(axis=1)).sum()
        if P is not None:
            value = value + LD(P.alpha) * np.abs(kept).sum()
        return value + LD(P.beta) / 2 * (kept**2).sum() if isinstance(P, ElasticNetPenalty) else value

    def at(self, theta: Any) -> Any:
        """A model of the library's in the shape of this one."""
        return np.asarray(theta, dtype=LD).reshape(self.D, self.k)

    def model(self, W: Any, e: Any) -> tuple[Any, Any, Any]:
        """Value, gradient and Hessian of the problem that e has rounded off; e is relative to its sizes."""
        case, D, k = self.case, self.D, self.k
        v, p, c = self.rows(self.X @ W, e * self.size)
        value, g = (self.s * v).sum(), self.X.T @ (self.s[:, None] * p)
        H = np.zeros((D, k, D, k), dtype=LD)
        for a in range(k):
            for b in range(k):
                H[:, a, :, b] = self.X.T @ ((self.s * c[:, a, b])[:, None] * self.X)
        V, square = self.unscaled(W), (1 / self.scale**2)[:, None] * np.ones((1, k), dtype=LD)
        ridge = LD(case.ridge) + (LD(case.penalty.beta) if isinstance(case.penalty, ElasticNetPenalty) else 0)
        m = np.where(self.kept, ridge, 0)
        value, g, diagonal = value + (m * V * V).sum() / 2, g + m * V / self.scale[:, None], m * square
        P = case.penalty
        if self.barred:
            bv, bg, bh = barrier(V, P, e, self.kept)
            value, g, diagonal = value + bv, g + bg / self.scale[:, None], diagonal + bh * square
        elif isinstance(P, GroupL2):
            # e is a size of predictors, as that of scaled models
            E = e * self.size / (self.members * self.scale).max(axis=1)
            kept = np.where(self.kept, V, 0)
            norm = np.sqrt(self.members @ (kept**2).sum(axis=1) + E**2)
            wide = (self.members.T @ norm)[:, None]
            value, g = value + LD(P.alpha) * norm.sum(), g + LD(P.alpha) * kept / wide / self.scale[:, None]
            unit, size = (kept / wide / self.scale[:, None]).ravel(), (1 / wide * square).ravel()
            together = np.repeat(np.repeat(self.members.T @ self.members, k, axis=0), k, axis=1)
            bent = np.diag(self.kept.ravel() * size) - together * np.outer(unit, unit) / np.repeat(wide, k)
            H += LD(P.alpha) * bent.reshape(D, k, D, k)
        elif P is not None and not isinstance(P, BoxConstraint):
            E = e * self.size / self.scale[:, None]
            root = np.sqrt(V * V + E * E)
            alpha = np.where(self.kept, LD(P.alpha), 0)
            value, g = value + (alpha * root).sum(), g + alpha * V / root / self.scale[:, None]
            diagonal = diagonal + alpha * E * E / root**3 * square
        H = H.reshape(D * k, D * k)
        H[np.diag_indices(D * k)] += diagonal.ravel()
        return value, g.ravel(), H

    def start(self) -> Any:
        W = np.zeros((self.D, self.k), dtype=LD)
        P = self.case.penalty
        if self.barred:
            middle = (max(P.lower, -1.0) + min(P.upper, max(P.lower, -1.0) + 1)) / 2
            W = np.where(self.kept, LD(middle) * self.scale[:, None], W)
        return W

    def floor(self, theta: Any) -> tuple[float, float]:
        """What computing E at theta in float64 may be off, by the sizes of all that is added up; and what such errors
        of a gradient cost a bound that knows no curvature but that of the ridge."""
        V, terms = self.at(theta), UNIT * (len(self.y) + self.D + 16)
        Z, sizes = self.raw @ V, np.abs(self.raw) @ np.abs(V)
        v, p, _ = self.rows(Z, LD(0))
        parts, slope = np.abs(v), np.abs(p)
        if self.loss == "Poisson":
            parts, slope = parts + 2 * self.y * np.abs(Z[:, 0]), slope + 2 * self.y[:, None]
        elif self.loss == "Softmax":
            parts, slope = parts + 1, slope + 1
        elif not self.case.loss.smooth:  # a row beside its kink may fall on either side
            parts, slope = parts + (self.parameter if self.loss == "EpsilonInsensitive" else 0), np.ones_like(slope)
        value = (self.s * parts).sum() + (self.s[:, None] * slope * sizes).sum() + abs(self.energy(V))
        G = np.abs(self.raw).T @ (self.s[:, None] * slope)
        m = np.where(self.kept, LD(self.case.ridge + getattr(self.case.penalty, "beta", 0.0)), LD(np.inf))
        price = ((terms * G[m > 0]) ** 2 / (2 * m[m > 0])).sum()
        return float(terms * value), float(price)


def ramp(u: Any, e: Any) -> tuple[Any, Any, Any]:
    """max(u, 0), rounded off: value, slope and curvature."""
    if e == 0:
        return np.maximum(u, 0), (u > 0).astype(LD), np.zeros_like(u)
    root = np.sqrt(u * u + e * e)
    value = np.where(u > 0, (u + root) / 2, e * e / (2 * (root - u)))
    return value, value / root, e * e / (2 * root**3)


def barrier(V: Any, P: BoxConstraint, e: Any, kept: Any) -> tuple[Any, Any, Any]:
    value, g, h = LD(0), np.zeros_like(V), np.zeros_like(V)
    for side, edge in ((1, P.lower), (-1, P.upper)):
        if np.isfinite(edge):
            gap = np.where(kept, side * (V - LD(edge)), LD(1))
            if (gap <= 0).any():
                return LD(np.inf), g, h
            value = value - e * np.log(gap).sum()
            g, h = g - np.where(kept, side * e / gap, 0), h + np.where(kept, e / gap**2, 0)
    return value, g, h


def softmax(Z: Any, y: Any) -> tuple[Any, Any, Any]:
    top = Z.max(axis=1, keepdims=True)
    p = np.exp(Z - top)
    total = p.sum(axis=1, keepdims=True)
    p, rows = p / total, np.arange(len(y))
    value = np.log(total[:, 0]) + top[:, 0] - Z[rows, y]
    slope = p.copy()
    slope[rows, y] -= 1
    return value, slope, p[:, :, None] * (np.eye(p.shape[1], dtype=LD)[None] - p[:, None, :])


def solve(H: Any, g: Any) -> Any:
    """H^-1 g for a semidefinite H, by Gaussian elimination in extended precision after scaling the diagonal to 1."""
    h = np.sqrt(np.maximum(np.diag(H), LD(1e-4000)))
    A = np.column_stack([H / np.outer(h, h) + LD(1e-18) * np.eye(len(H), dtype=LD), g / h])
    n = len(H)
    for i in range(n):
        j = i + int(np.argmax(np.abs(A[i:, i])))
        if j != i:
            A[[i, j]] = A[[j, i]]
        if A[i, i] == 0:
            continue
        A[i + 1 :] -= np.outer(A[i + 1 :, i] / A[i, i], A[i])
    x = np.zeros(n, dtype=LD)
    for i in reversed(range(n)):
        x[i] = (A[i, n] - A[i, i + 1 : n] @ x[i + 1 :]) / A[i, i] if A[i, i] != 0 else 0
    return x / h


def minimise(smooth: Smooth, W: Any, e: Any) -> tuple[Any, bool]:
    """Damped Newton steps for one e; the model, and whether they came to rest."""
    value, g, H = smooth.model(W, e)
    for _ in range(STEPS):
        step = solve(H, g).reshape(W.shape)
        decrement = (g * step.ravel()).sum()
        if not decrement > LD(1e-17) * abs(value) + LD(1e-30):
            return W, True
        t = LD(1)
        while t > 1e-6:
            trial = W - t * step
            found = smooth.model(trial, e)
            if found[0] <= value - LD(1e-4) * t * decrement:
                break
            t /= 2
        else:
            return W, bool(decrement <= LD(1e-12) * abs(value))
        W, (value, g, H) = trial, found
    return W, False


def reference(case: Case, *results: Any) -> Reference:
    """The least energy that is found, also from these results of the library."""
    smooth = Smooth(case)
    with np.errstate(all="ignore"):
        W, settled = smooth.start(), False
        best: Any = (LD(np.inf), W)
        kinks = not case.loss.smooth or case.penalty is not None
        for e in STAGES if kinks else STAGES[-1:]:
            W, settled = minimise(smooth, W, LD(e))
            best = lower(smooth, best, W)
        for theta in results:
            there = smooth.at(theta) * smooth.scale[:, None]
            if smooth.energy(smooth.at(theta)) < best[0]:
                for e in STAGES[12:] if kinks else STAGES[-1:]:
                    best = lower(smooth, best, minimise(smooth, there, LD(e))[0])
                best = min(best, (smooth.energy(smooth.at(theta)), there), key=lambda pair: pair[0])
    return Reference(best[0], smooth.unscaled(best[1]), settled)


def lower(smooth: Smooth, best: Any, W: Any) -> Any:
    W = smooth.allowed(W)
    E = smooth.energy(smooth.unscaled(W))
    return (E, W) if E < best[0] else best
