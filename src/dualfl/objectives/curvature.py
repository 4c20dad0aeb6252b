"""The curvature of a linear model's rows, and the second-order sums that are made of it, without the ridge.

    f'' = sum_i (x_i x_i') (x) W_i,      W_i = s_i l''(z_i)  (k x k),      z_i = x_i' Theta.

Here the W_i are one k x k x n array W, which loss and predictors make; what follows from W needs neither. That is why
these are functions, and not the model's: it knows where it is, what a pass costs, and its ridge. The loops over rows
are those of `moments` and the kernels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dualfl import kernels
from dualfl.kernels import Design
from dualfl.objectives import moments
from dualfl.objectives.losses import Huber, Loss
from dualfl.typing import Array

TAIL_ROWS = 2048  # about so many rows, evenly spaced, are enough for means that are only diagonal
MANY = 2  # times the directions: so many columns are not added up one by one


def curvatures(loss: Loss, Z: Array, y: Array, s: Array) -> Array:
    """W."""
    n, k = Z.shape
    if k == 1:
        return kernels.curvature_times(loss, Z, np.ones((n, 1)), y, s).reshape(1, 1, n)
    columns = [kernels.curvature_times(loss, Z, np.tile(e, (n, 1)), y, s).T for e in np.eye(k)]
    return np.stack(columns)


def newton_curvatures(loss: Loss, Z: Array, y: Array, s: Array, straight: float) -> Array:
    """W where it is worth something; for Huber's loss a share of delta/|r| on the straight pieces, the curvature of the
    parabola that touches the loss there and lies above it (iteratively reweighted least squares)."""
    if not isinstance(loss, Huber):
        return curvatures(loss, Z, y, s)
    r, delta = np.abs(Z[:, 0] - y), loss.delta
    return np.asarray((s * np.where(r <= delta, 1.0, straight * delta / np.maximum(r, delta)))[None, None])


def traces(loss: Loss, Z: Array, y: Array, s: Array, straight: float) -> Array:
    """tr W_i of every row, without W: beside many outputs that would be k^2 numbers a row."""
    if Z.shape[1] == 1:
        return np.asarray(newton_curvatures(loss, Z, y, s, straight)[0, 0])
    R = kernels.residual(loss, Z, y, s)[1]  # s (p - e_y): only softmax has more than one output
    R[np.arange(len(y)), y.astype(np.intp)] += s
    return np.asarray(s - np.divide(np.einsum("ik,ik->i", R, R), s, out=np.zeros(len(s)), where=s > 0))


def row_curvatures(trace: Array, s: Array) -> Array:
    """tr W_i, none below a twentieth of the mean: a row may gain curvature later."""
    trace = np.maximum(trace, 0.0)
    low = 0.05 * float(trace.sum()) * s
    if not low.any():
        return np.array(s)
    c = np.maximum(trace, low)
    ratio = c / np.where(s > 0, s, 1.0)
    # Rounding aside, often all are equal; then bytes are multiplied as they are.
    return np.asarray(s * ratio.mean() if np.ptp(ratio) <= 1e-12 * ratio.max() else c)


def trace_of(W: Array) -> Array:
    """tr W_i of every row."""
    return np.asarray(np.einsum("aan->n", W))


def mean_block(W: Array) -> Array:
    """sum_i W_i, scaled to the trace 1."""
    mean = W.sum(axis=2)
    trace = float(np.trace(mean))
    return np.asarray((mean + mean.T) / (2 * trace) if trace > 0 else np.eye(len(W)) / len(W))


def hessian(design: Design, W: Array) -> Array:
    """f'', from weighted Gram matrices."""
    k, D = len(W), design.D
    if k == 1:
        return design.gram(W[0, 0])
    a, b = moments.pairs(k)
    H = np.empty((D, k, D, k))
    for i, j, triangle in zip(a, b, design.grams(np.ascontiguousarray(W[a, b].T)).T):
        H[:, i, :, j] = H[:, j, :, i] = moments.unpacked(triangle, D)
    return H.reshape(D * k, D * k)


def projected_hessian(design: Design, W: Array, U: Array) -> Array:
    """(U (x) I)' f'' (U (x) I) for a basis U of features."""
    Q = design.forward(np.ascontiguousarray(U, dtype=np.float64))
    return blockwise(U.shape[1], W, lambda w: Q.T @ (w[:, None] * Q))


def blockwise(size: int, W: Array, gram: Callable[[Array], Array]) -> Array:
    """The symmetric matrix with gram(W_ab) for the outputs a and b, indexed (direction, output) on both sides."""
    k = len(W)
    H = np.empty((size, k, size, k))
    for a in range(k):
        for b in range(a + 1):
            H[:, a, :, b] = gram(W[a, b])
            H[:, b, :, a] = H[:, a, :, b].T
    return H.reshape(size * k, size * k)


def sizes_above(W: Array, s: Array, sizes: Array) -> Array:
    """sqrt(sum_i w_i x_ij^2) of every column from above, from that for the weights s; a softmax has |W_i| <= s_i."""
    if len(W) > 1:
        return sizes
    ratio = np.divide(W[0, 0], s, out=np.zeros(len(s)), where=s > 0)
    return np.asarray(sizes * np.sqrt(float(np.abs(ratio).max(initial=0.0))) * (1 + 1e-12))


def metric(
    design: Design, W: Array, s: Array, U: Array, B: Array, rank: int, sizes: Array, ridge: float | Array
) -> tuple[Array, Array, Array]:
    """What a sketch of f'' needs, of the basis U of features and B of outputs (see `moments`): the metric on the first
    `rank` directions, its diagonal blocks on the others, and its mean block.

    `sizes` are those of the columns with the weights s, and `ridge` what is added to f'' beside them.
    """
    a, b = moments.pairs(B.shape[1])
    if len(W) == 1:  # one output
        V = float(B[0, 0]) ** 2 * W[0, 0][:, None]
    else:
        V = np.einsum("ka,kln,lb->nab", B, W, B, optimize=True)[:, a, b]
    M = moments.turned(design, V, U) if turns(design, len(W), U, rank) else None
    if M is None or not moments.keeps_digits(M, U, sizes_above(W, s, sizes), ridge):
        kind = moments.precision(design, rank * (rank + 1) // 2 * len(a))
        M = moments.metric(moments.projected(design, U[:, :rank]).astype(kind, copy=False), V)
    stride = max(1, design.n // TAIL_ROWS)
    share = float(s[::stride].sum()) or 1.0
    T = np.zeros((0, len(a)))
    if rank < U.shape[1]:
        T = moments.tail(moments.projected(design, U[:, rank:], stride), V[::stride]) / share
    return M, T, V.sum(axis=0)


def turns(design: Design, k: int, U: Array, rank: int) -> bool:
    """Whether a metric is first added up by columns: not where they are many more than the directions, nor with many
    pairs of outputs, for each of which BLAS would be asked once."""
    return rank == U.shape[1] and design.D <= MANY * rank and (k == 1 or kernels.is_sparse(design.X))
