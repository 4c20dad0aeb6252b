"""A sketch of the Hessian of a linear model, from sums, as a metric that is easy to invert.

    E''  =  sum_i s_i (x_i x_i') (x) W_i + mu I,         W_i = l''(z_i)  (k x k).

Let U (D x q) hold leading eigenvectors of the features' second moment C, and B (k x m) an orthonormal basis of the
outputs that have curvature at all (for softmax the complement of the ones, since only differences of its predictors
matter). In these coordinates the metric H0 is

    the first r directions     M + mu I,        M = sum_i s_i (q_i q_i') (x) B'W_iB,  q_i = U_r'x_i:  E'' itself
    each direction l > r       2 T_l + mu I,    T_l = sum_i s_i q_il^2 B'W_iB:        its diagonal block, doubled
    all that U leaves out      v S + mu I,      S = sum_i s_i B'W_iB, v the mean variance there
    all that B leaves out      mu I

With r = D it IS the Hessian. The factor 2 makes up for the coupling between the tail and everything else, which is
left out: too long a step there costs an exchange, too short a one is mended by a secant pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, eigh

from dualfl.objectives.moments import pairs, unpacked
from dualfl.typing import Array

DOUBLED = 2.0
NEGLIGIBLE = 0.01  # directions whose curvature is below so much of mu are left to the mean
FLOOR = 1e-11  # of the mean curvature, where there is no ridge


@dataclass(frozen=True)
class Basis:
    """Directions of features with their variances, and of outputs."""

    U: Array  # D x q
    variances: Array  # of all D directions; the last known one is repeated for a sketch
    B: Array  # k x m
    S: Array  # k x k, at the start: E'' - mu = C (x) S

    @property
    def q(self) -> int:
        return int(self.U.shape[1])

    @property
    def D(self) -> int:
        return int(self.U.shape[0])

    @property
    def m(self) -> int:
        return int(self.B.shape[1])

    @property
    def left_out(self) -> float:
        """The mean variance outside the span of U."""
        return float(self.variances[self.q :].mean()) if self.q < self.D else 0.0

    def floats(self, rank: int) -> int:
        """What a metric of this rank weighs."""
        return (rank * (rank + 1) // 2 + self.q - rank + 1) * (self.m * (self.m + 1) // 2)

    def largest_rank(self, floats: float) -> int:
        """The largest rank whose metric weighs about so much."""
        per = self.m * (self.m + 1) / 2
        return max(1, min(self.q, int(np.sqrt(2 * floats / per))))


def outputs(S: Array) -> Array:
    """An orthonormal basis of the outputs with curvature: all of them, or the complement of the ones."""
    k = len(S)
    if k == 1 or np.abs(S.sum(axis=0)).max() > 1e-9 * np.trace(S):
        return np.eye(k)
    B = np.tril(np.ones((k, k - 1)), -1) * -1.0  # Helmert: column a compares output a with those after it
    B[np.arange(k - 1), np.arange(k - 1)] = np.arange(k - 1, 0, -1)
    return np.asarray(B / np.linalg.norm(B, axis=0))


def eigenbasis(C: Array, S: Array, mu: float, least: int = 0) -> Basis:
    """The eigenvectors of C whose curvature is not negligible beside mu, the largest first."""
    values, U = eigh(C, driver="evd", check_finite=False)
    values, U = np.maximum(values[::-1], 0.0), U[:, ::-1]
    q = max(int((values * np.abs(S).max() >= NEGLIGIBLE * mu).sum()), min(least, len(C)), 1)
    return Basis(np.ascontiguousarray(U[:, :q]), np.ascontiguousarray(values), outputs(S), S)


def nystroem(Y: Array, Omega: Array, trace: float, S: Array) -> Basis:
    """The eigenvectors of the Nystroem approximation Y (Omega'Y)^-1 Y' of C, from Y = C Omega."""
    shift = 1e-10 * np.linalg.norm(Y)
    core = Omega.T @ (Y + shift * Omega)
    factor = cholesky((core + core.T) / 2, lower=True)
    U, sigma, _ = np.linalg.svd(np.linalg.solve(factor, (Y + shift * Omega).T).T, full_matrices=False)
    values = np.maximum(sigma**2 - shift, 0.0)
    left = max(trace - float(values.sum()), 0.0) / max(len(Y) - len(values), 1)
    rest = np.full(len(Y) - len(values), min(left, float(values[-1])))
    return Basis(np.ascontiguousarray(U), np.concatenate([values, rest]), outputs(S), S)


@dataclass(frozen=True)
class SketchedMetric:
    """H0^-1 as it is applied: a Cholesky factor and small inverses."""

    rank: int
    lead: Array  # Cholesky factor of M + mu I, (rm) x (rm), lower
    tail: Array  # (q - r) x m x m, inverse blocks
    outside: Array  # m x m
    flat: float  # 1/mu for what B leaves out, 0 if mu = 0

    def solve(self, basis: Basis, g: Array) -> Array:
        """H0^-1 g."""
        U, B = basis.U, basis.B
        G = g.reshape(basis.D, -1)
        A = G @ B
        c = U.T @ A
        R = (A - U @ c) @ self.outside if basis.q < basis.D else np.zeros_like(A)
        solved = np.empty_like(c)
        r = self.rank
        if r:
            solved[:r] = cho_solve((self.lead, True), c[:r].ravel(), check_finite=False).reshape(r, -1)
        if r < basis.q:
            solved[r:] = np.einsum("lab,lb->la", self.tail, c[r:])
        R += U @ solved
        return np.asarray((R @ B.T + self.flat * (G - A @ B.T)).ravel())

    @property
    def exact(self) -> bool:
        """Whether nothing is left to a tail."""
        return len(self.tail) == 0


def damping(basis: Basis, mu: float) -> float:
    """The mu of the metric: without a ridge, as little as keeps it invertible."""
    return max(mu, FLOOR * float(basis.variances.mean() * np.trace(basis.S)), 1e-290)


def first_metric(basis: Basis, mu: float) -> SketchedMetric:
    """The metric C (x) S + mu I of the start."""
    damp, eye = damping(basis, mu), np.eye(basis.m)
    S = basis.B.T @ basis.S @ basis.B
    tail = inverse(basis.variances[: basis.q, None, None] * S + damp * eye)
    outside = inverse(basis.left_out * S + damp * eye)
    return SketchedMetric(0, np.zeros((0, 0)), tail, outside, 1 / mu if mu > 0 else 0.0)


def metric(basis: Basis, mu: float, free: bool, M: Array, T: Array, S: Array) -> SketchedMetric:
    """The metric from the sums M, T and S that the clients sent; `free`: the last feature is not penalised."""
    m, damp, eye = basis.m, damping(basis, mu), np.eye(basis.m)
    r = basis.q - len(T)
    square = np.empty((r, m, r, m))
    for i, j, column in zip(*pairs(m), M.T):  # one pair of outputs at a time: all of them would be twice the matrix
        square[:, i, :, j] = square[:, j, :, i] = unpacked(column, r)
    H = square.reshape(r * m, r * m)
    H[np.diag_indices(r * m)] += damp
    if free and mu > 0:
        u = basis.U[-1, :r]
        H -= (1 - 1e-9) * mu * np.kron(np.outer(u, u), eye)
    tail = inverse(DOUBLED * unpacked(T, m) + damp * eye if len(T) else np.zeros((0, m, m)))
    # The mean curvature, spread over directions as the data are.
    share = basis.left_out * unpacked(S, m)
    return SketchedMetric(r, definite(H, damp), tail, inverse(DOUBLED * share + damp * eye), 1 / mu if mu > 0 else 0.0)


def inverse(blocks: Array) -> Array:
    return np.asarray(np.linalg.inv(blocks))


def definite(H: Array, damp: float) -> Array:
    """The Cholesky factor of H, with as much more damping as rounding demands."""
    mean = float(np.trace(H)) / len(H)
    for extra in (0.0, damp, *(10.0**e * mean for e in range(-12, 1, 2))):
        try:
            return np.asarray(cholesky(H + extra * np.eye(len(H)) if extra else H, lower=True, check_finite=False))
        except np.linalg.LinAlgError:
            continue
    return np.asarray(np.sqrt(max(mean, damp)) * np.eye(len(H)))
