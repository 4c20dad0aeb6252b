"""A sketch of the Hessian of a linear model, from sums, as a metric that is easy to invert.

    E''  =  sum_i s_i (x_i x_i') (x) W_i + ridge,         W_i = l''(z_i)  (k x k).

In the coordinates of `coordinates`, where units and means of columns do not matter, let V (D x q) hold leading
eigenvectors of the features' second moment C, and B (k x m) an orthonormal basis of the outputs that have curvature at
all (for softmax the complement of the ones, since only differences of its predictors matter). The metric H0 is

    the first r directions     M + ridge,        M = sum_i s_i (q_i q_i') (x) B'W_iB,  q_i = U_r'x_i:  E'' itself
    each direction l > r       2 T_l + ridge,    T_l = sum_i s_i q_il^2 B'W_iB:        its diagonal block, doubled
    all that V leaves out      v S + ridge,      S = sum_i s_i B'W_iB, v the mean variance there
    all that B leaves out      ridge

with U = V in the coordinates of the columns, which is what the clients are given. With r = D it IS the Hessian, and V
the identity, so that nothing is lost where columns differ by many orders. The factor 2 makes up for the coupling
between the tail and everything else, which is left out: too long a step there costs an exchange, too short a one is
mended by a secant pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, eigh, solve_triangular

from dualfl.algorithms.coordinates import Coordinates, chosen
from dualfl.objectives.moments import pairs, unpacked
from dualfl.typing import Array

EXACT = 2**18  # numbers in a Hessian that is sent as a whole, every time
DOUBLED = 2.0
NEGLIGIBLE = 0.01  # directions whose curvature is below so much of the ridge are left to the mean
NOTHING = 1e-12  # the same for columns, which are coupled by the root of it
FLOOR = 1e-11  # of the mean curvature, where there is no ridge
WHITE = 0.2  # from the identity: a metric that is as good as it
ROUNDING = 4 * float(np.finfo(float).eps)  # times the size of a matrix: what its Cholesky factor may be off by


@dataclass(frozen=True)
class Basis:
    """Directions of features with their variances, and of outputs."""

    V: Array  # D x q, orthonormal in z
    variances: Array  # of all D directions; the last known one is repeated for a sketch
    B: Array  # k x m
    S: Array  # k x k, at the start: E'' - ridge = C (x) S
    at: Coordinates
    M: Array  # D x k, the ridge
    units: Array | None = None  # q powers of two, by which the clients are given each direction shorter; None: by 1
    still: tuple[int, ...] = ()  # columns that are others exactly, and need not move: see `dependence`
    dull: tuple[
        tuple[float, float], ...
    ] = ()  # (k, c): columns with a ridge that are c times the last one, which has none

    @property
    def spans(self) -> bool:
        """Whether nothing is left out that could matter."""
        return self.q + len(self.still) == self.D

    @property
    def U(self) -> Array:
        """The directions as the clients are given them."""
        return np.ascontiguousarray(self.at.to(self.V if self.units is None else self.V / self.units))

    @property
    def q(self) -> int:
        return int(self.V.shape[1])

    @property
    def D(self) -> int:
        return int(self.V.shape[0])

    @property
    def m(self) -> int:
        return int(self.B.shape[1])

    @property
    def left_out(self) -> float:
        """The mean variance outside the span of V."""
        return 0.0 if self.spans else float(self.variances[self.q :].mean())

    @property
    def complete(self) -> bool:
        """Whether all that V leaves out is negligible beside the ridge."""
        return self.spans or self.left_out * float(np.abs(self.S).max()) < NEGLIGIBLE * self.ridge

    @property
    def ridges(self) -> Array:
        """The ridge in z, D x k."""
        return np.asarray(self.M * self.at.scale[:, None] ** 2)

    @property
    def ridge(self) -> float:
        """The least ridge in z, but for a free intercept."""
        ridges = self.ridges[: self.D - bool(self.at.centre.any())]
        return float(ridges.min()) if len(ridges) else 0.0

    def ridge_blocks(self) -> Array:
        """The ridge of every direction on its own, q x m x m."""
        return np.asarray(np.einsum("dl,dk,ka,kb->lab", self.V**2, self.ridges, self.B, self.B, optimize=True))

    @property
    def of_columns(self) -> bool:
        """Whether V leaves out single columns, few enough that each can have its own ridge."""
        few = self.D * self.m**2 <= EXACT
        return few and not self.spans and np.count_nonzero(self.V) == self.q

    def column_ridges(self) -> Array:
        """The ridge of every column, D x m x m."""
        return np.asarray(np.einsum("dk,ka,kb->dab", self.ridges, self.B, self.B, optimize=True))

    def floats(self, rank: int) -> int:
        """What a metric of this rank weighs."""
        return weight(self.q, rank, self.m)

    def largest_rank(self, floats: float) -> int:
        """The largest rank whose metric weighs about so much."""
        per = self.m * (self.m + 1) / 2
        return max(1, min(self.q, int(np.sqrt(2 * floats / per))))


def weight(q: int, rank: int, m: int) -> int:
    return (rank * (rank + 1) // 2 + q - rank + 1) * (m * (m + 1) // 2)


def outputs(S: Array) -> Array:
    """An orthonormal basis of the outputs with curvature: all of them, or the complement of the ones."""
    k = len(S)
    if k == 1 or np.abs(S.sum(axis=0)).max() > 1e-9 * np.trace(S):
        return np.eye(k)
    B = np.tril(np.ones((k, k - 1)), -1) * -1.0  # Helmert: column a compares output a with those after it
    B[np.arange(k - 1), np.arange(k - 1)] = np.arange(k - 1, 0, -1)
    return np.asarray(B / np.linalg.norm(B, axis=0))


def whole(C: Array, S: Array) -> bool:
    """Whether a Hessian is small enough to be sent as it is."""
    return weight(len(C), len(C), outputs(S).shape[1]) <= EXACT


def basis_of(C: Array, S: Array, M: Array) -> Basis:
    """All directions as they are where a Hessian is small; elsewhere the eigenvectors of C."""
    B, curved = outputs(S), float(np.abs(S).max())
    at = chosen(C, M, curved, whole(C, S))
    Z = at.moment(C)
    if whole(C, S):
        variances, least = np.diag(Z), NOTHING * M.min(axis=1) * at.scale**2
        felt = np.flatnonzero(variances * curved >= least)
        order = np.concatenate([felt, np.setdiff1d(np.arange(len(C)), felt)])
        return Basis(np.eye(len(C))[:, felt], variances[order], B, S, at, M)
    return eigenbasis(Z, B, S, at, M)


def eigenbasis(Z: Array, B: Array, S: Array, at: Coordinates, M: Array) -> Basis:
    """The eigenvectors of Z whose curvature is not negligible beside the ridge, the largest first.

    A free intercept, from which centring has taken all others apart, is the very first.
    """
    D, apart = len(Z), int(at.centre.any())
    values, V = np.empty(D), np.zeros((D, D))
    values[:apart], V[D - apart :, :apart] = Z[-1, -1], np.eye(apart)
    found, vectors = eigh(Z[: D - apart, : D - apart], driver="evd", check_finite=False)
    values[apart:], V[: D - apart, apart:] = np.maximum(found[::-1], 0.0), vectors[:, ::-1]
    basis = Basis(V, values, B, S, at, M)
    q = max(int((values * np.abs(S).max() >= NEGLIGIBLE * basis.ridge).sum()), 1)
    V = np.ascontiguousarray(V[:, :q])
    return Basis(V, values, B, S, at, M, unit_sizes(values[:q]))


def unit_sizes(variances: Array) -> Array:
    """Units in which all directions vary alike, so that sums of few digits lose the same of each."""
    _, exponent = np.frexp(np.maximum(variances, NOTHING * float(variances.max())))
    return np.asarray(2.0 ** (exponent // 2))


def nystroem(Y: Array, Omega: Array, own: Array, S: Array, at: Coordinates, M: Array, noise: float = 0.0) -> Basis:
    """The eigenvectors of the Nystroem approximation Y (Omega'Y)^-1 Y' of C, from Y = C Omega and the diagonal of C.

    All in z, and all without a feature that is apart, which is the very first direction. `noise` is about how far off
    Y may be: what is smaller than that is not told from it.
    """
    D, apart = len(own), at.apart
    Y, Omega = Y[: D - apart], Omega[: D - apart]
    shift = max(1e-10 * float(np.linalg.norm(Y)), 4 * noise / np.sqrt(D))
    core = Omega.T @ (Y + shift * Omega)
    factor = cholesky((core + core.T) / 2, lower=True)
    vectors, sigma, _ = np.linalg.svd(np.linalg.solve(factor, (Y + shift * Omega).T).T, full_matrices=False)
    found = np.maximum(sigma**2 - shift, 0.0)
    left = max(float(own[: D - apart].sum() - found.sum()), 0.0) / max(len(Y) - len(found), 1)
    rest = np.full(len(Y) - len(found), min(left, float(found[-1])))
    V = np.zeros((D, apart + len(found)))
    V[D - apart :, :apart], V[: D - apart, apart:] = np.eye(apart), vectors
    variances = np.concatenate([own[D - apart :], found, rest])
    return Basis(V, variances, outputs(S), S, at, M, unit_sizes(variances[: V.shape[1]]))


def diagonal(own: Array, S: Array, at: Coordinates, M: Array) -> Basis:
    """All that the diagonal of C tells: one direction to begin with, and the mean of the others; `own` is in z."""
    V = np.zeros((len(own), 1))
    V[-1] = 1.0
    return Basis(V, np.append(own[-1], own[:-1]), outputs(S), S, at, M)


@dataclass(frozen=True)
class SketchedMetric:
    """H0^-1 as it is applied: a Cholesky factor and small inverses."""

    rank: int
    lead: Array  # Cholesky factor of the leading block, its diagonal scaled to 1, (rm) x (rm), lower
    unit: Array  # what scales it
    tail: Array  # (q - r) x m x m, inverse blocks
    outside: Array  # m x m; or D of them, where single columns are left out, each with a ridge of its own
    exact: bool  # whether it is the Hessian, but for what is negligible

    def solve(self, basis: Basis, g: Array) -> Array:
        """H0^-1 g."""
        V, B, r = basis.V, basis.B, self.rank
        G = g.reshape(basis.D, -1)
        A = basis.at.pull(G @ B)
        c = V.T @ A
        R = np.zeros_like(A) if basis.spans else self.left_out(A - V @ c)
        solved = np.empty_like(c)
        if r:
            right = c[:r].ravel() * self.unit
            solved[:r] = (self.unit * cho_solve((self.lead, True), right, check_finite=False)).reshape(r, -1)
        if r < basis.q:
            solved[r:] = np.einsum("lab,lb->la", self.tail, c[r:])
        R += V @ solved
        R = R @ B.T
        if basis.m < G.shape[1]:  # what B leaves out, the mean, has the ridge alone; without one there is no gradient
            ridges = basis.ridges
            mean = np.repeat(
                G.mean(axis=1, keepdims=True), G.shape[1], axis=1
            )  # G - G B B' would be rounding elsewhere
            R += np.where(ridges > 0, basis.at.pull(mean) / np.where(ridges > 0, ridges, 1.0), 0.0)
        return np.asarray(basis.at.to(R).ravel())

    def left_out(self, A: Array) -> Array:
        """The inverse applied to what V leaves out."""
        return A @ self.outside if self.outside.ndim == 2 else np.einsum("dab,db->da", self.outside, A)


def first_metric(basis: Basis, C: Array | None = None) -> SketchedMetric:
    """The metric C (x) S + ridge of the start; in the directions of the basis C is diagonal, or given as a whole."""
    S, m = basis.B.T @ basis.S @ basis.B, basis.m
    if C is not None and basis.floats(basis.q) <= EXACT:
        Z = basis.at.moment(C)
        return built(basis, np.einsum("ij,ab->iajb", basis.V.T @ Z @ basis.V, S), np.zeros((0, m, m)), np.eye(m))
    blocks = basis.variances[: basis.q, None, None] * S
    return built(basis, np.zeros((0, m, 0, m)), blocks, basis.left_out * S)


def metric(basis: Basis, M: Array, T: Array, S: Array) -> SketchedMetric:
    """The metric from the sums M, T and S that the clients sent."""
    m = basis.m
    r = basis.q - len(T)
    tail = DOUBLED * unpacked(T, m) if len(T) else np.zeros((0, m, m))
    if basis.units is not None:
        tail *= basis.units[r:, None, None] ** 2
    # The mean curvature, spread over directions as the data are.
    return built(basis, leading(basis, M, r), tail, DOUBLED * basis.left_out * unpacked(S, m))


def leading(basis: Basis, M: Array, r: int) -> Array:
    """The block of the first r directions, r x m x r x m, without the ridge."""
    m = basis.m
    lead = np.empty((r, m, r, m))
    across = 1.0 if basis.units is None else np.outer(basis.units[:r], basis.units[:r])
    for i, j, column in zip(*pairs(m), M.T):  # one pair of outputs at a time: all of them would be twice the matrix
        lead[:, i, :, j] = lead[:, j, :, i] = unpacked(column, r) * across
    return lead


def add_ridge(basis: Basis, lead: Array) -> None:
    """To the block of the first directions, in place."""
    V, ridges = basis.V[:, : len(lead)], basis.ridges
    if np.ptp(ridges, axis=1).any():
        for output, b in zip(ridges.T, basis.B):
            lead += np.einsum("ij,ab->iajb", (V.T * output) @ V, np.outer(b, b))
    else:
        mean = (V.T * ridges[:, 0]) @ V
        for a in range(basis.m):
            lead[:, a, :, a] += mean


def built(basis: Basis, lead: Array, tail: Array, outside: Array) -> SketchedMetric:
    """H0 from its blocks, to which the ridge is added."""
    r, m, ridges = len(lead), basis.m, basis.ridges
    add_ridge(basis, lead)
    floor = FLOOR * float(basis.variances.mean() * np.trace(basis.S)) + 1e-290
    eye = floor * np.eye(m)
    # Ridges of single columns differ in z. Where one is more than twice what a step takes it for, the step goes too
    # far, and rounding grows from step to step.
    rest = basis.column_ridges() if basis.of_columns else float(ridges.mean()) * np.eye(m)
    factor, unit = definite(lead.reshape(r * m, r * m))
    tails = tail + basis.ridge_blocks()[basis.q - len(tail) :] + eye if len(tail) else tail
    exact = len(tail) == 0 and basis.complete
    return SketchedMetric(r, factor, unit, inverse(tails), inverse(outside + rest + eye), exact)


def whole_matrix(metric: SketchedMetric) -> Array:
    """The leading block of a metric, from its factor."""
    root = metric.lead / metric.unit[:, None]
    return np.asarray(root @ root.T)


def whitened(basis: Basis, metric: SketchedMetric) -> tuple[Basis, SketchedMetric]:
    """Directions in which a whole metric is the identity, or for several outputs their mean is; the metric in them.

    It takes away what columns depend on each other, so that the next Hessian is sent without loss, and rows are as far
    out as they count. Only where V is square: then nothing asks it to be orthonormal.
    """
    q, m = basis.q, basis.m
    H = whole_matrix(metric).reshape(q, m, q, m)
    average = np.einsum("iaja->ij", H) / m
    if np.abs(average - np.eye(q)).max() <= WHITE:
        return basis, metric
    mean, unit = definite(average)
    turn = unit[:, None] * solve_triangular(mean, np.eye(q), lower=True, trans="T", check_finite=False)
    after = np.einsum("il,iajb,jn->lanb", turn, H, turn, optimize=True).reshape(q * m, q * m)
    factor, scale = definite((after + after.T) / 2)
    return replace(basis, V=np.ascontiguousarray(basis.V @ turn)), replace(metric, lead=factor, unit=scale)


def without(basis: Basis, metric: SketchedMetric, still: tuple[int, ...]) -> tuple[Basis, SketchedMetric, Any]:
    """The basis of single columns and its whole metric without these columns, and which directions are kept."""
    keep = ~basis.V[list(still)].any(axis=0)
    wide = np.repeat(keep, basis.m)
    root = (metric.lead / metric.unit[:, None])[wide]
    factor, unit = definite(root @ root.T)
    order = np.concatenate([np.flatnonzero(keep), np.flatnonzero(~keep), np.arange(basis.q, basis.D)])
    less = replace(basis, V=np.ascontiguousarray(basis.V[:, keep]), variances=basis.variances[order], still=still)
    return less, replace(metric, rank=int(keep.sum()), lead=factor, unit=unit, exact=less.complete), keep


def kept_sums(M: Array, keep: Any) -> Array:
    """The sums of a metric in the directions that are kept."""
    first, second = pairs(len(keep))
    return np.ascontiguousarray(M[keep[first] & keep[second]])


def inverse(blocks: Array) -> Array:
    if blocks.shape[-1] == 1:
        return np.asarray(1 / blocks)
    return np.asarray(np.linalg.inv(blocks))


def definite(H: Array) -> tuple[Array, Array]:
    """The Cholesky factor of uHu, u chosen so that its diagonal is 1, and u; a little is added, more if rounding asks.

    With a unit diagonal the units of columns are gone, and what is added is small beside every one of them.
    """
    diagonal = np.diag(H)
    unit = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = H * unit * unit[:, None]
    eye = np.diag_indices(len(H))
    scaled[eye] = 1.0
    for extra in (ROUNDING * len(H), *(10.0**e for e in range(-12, 1, 2))):
        scaled[eye] = 1.0 + extra
        try:
            return np.asarray(cholesky(scaled, lower=True, check_finite=False)), unit
        except np.linalg.LinAlgError:
            continue
    return np.eye(len(H)), unit
