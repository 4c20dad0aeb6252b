"""Second-order sums over the rows of a linear model, by BLAS on blocks of rows; `Design.gram` has the simplest.

    metric   sum_i (q_i q_i') (x) V_i,     q_i = U' x_i            pairs of directions l <= l', of outputs a <= b
    tail     sum_i q_il^2 V_i              for each direction l    the diagonal of the metric alone

A block (l, l') of the metric is symmetric in l and l' and in a and b, so pairs on both sides say everything: about
r^2 k^2 / 4 numbers. All is in double precision, with one exception: a metric of more than `LARGE` numbers of rows that
have no more digits themselves (bytes, float32). It is a sketch, or so large that its price counts; it steers a method
and proves nothing. Its blocks are multiplied in single precision, scaled so that none overflows, and added in double.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from dualfl.kernels import Design, is_sparse
from dualfl.typing import AnyArray, Array

BLOCK = 1 << 20  # numbers in a dense block of rows
PAIRS = 1 << 21  # numbers in a block of products of pairs
LOST = 1e-6  # of the squares that a direction is the difference of: less is not known well enough
LARGE = 1 << 18  # numbers in a metric
REMEMBERED = 512  # rows of a triangle whose indices are kept: 2 MB each


def pairs(k: int) -> tuple[Any, Any]:
    """The indices (a, b), a <= b, in the order in which triangles travel."""
    return _remembered(k) if k <= REMEMBERED else np.triu_indices(k)


@lru_cache(maxsize=16)
def _remembered(k: int) -> tuple[Any, Any]:
    a, b = np.triu_indices(k)
    a.flags.writeable = b.flags.writeable = False  # everybody has the same
    return a, b


def unpacked(packed: Array, k: int) -> Array:
    """(..., k(k+1)/2) to symmetric (..., k, k)."""
    square = np.empty((*packed.shape[:-1], k, k))
    a, b = pairs(k)
    square[..., a, b] = packed
    square[..., b, a] = packed
    return square


def precision(design: Design, numbers: int) -> Any:
    """What a metric of so many numbers is computed in."""
    return np.float32 if design.X.dtype != np.float64 and numbers > LARGE else np.float64


def blocks(design: Design, width: int, stride: int = 1) -> Iterator[tuple[slice, AnyArray]]:
    """Blocks of every `stride`-th row of [scale X, 1], each dense and about BLOCK / width rows."""
    size = max(16, BLOCK // max(1, width)) * stride
    for first in range(0, design.n, size):
        rows = slice(first, min(first + size, design.n), stride)
        yield rows, _dense(design, rows)


def _dense(design: Design, rows: slice) -> AnyArray:
    part = design.X[rows]
    count = part.shape[0]
    block = np.empty((count, design.D))
    features = design.X.shape[1]
    block[:, :features] = part.toarray() if bool(sparse.issparse(part)) else part
    if design.scale != 1.0:
        block[:, :features] *= design.scale
    block[:, features:] = 1.0
    return block


def squares(design: Design, w: Array) -> Array:
    """sum_i w_i x_ik^2, one number a column."""
    X: Any = design.X
    if bool(sparse.issparse(X)):
        total = np.asarray(type(X)((X.data.astype(np.float64) ** 2, X.indices, X.indptr), shape=X.shape).T @ w)
        total = design.scale**2 * total
        return np.append(total, w.sum()) if design.intercept else total
    return np.asarray(sum(w[rows] @ block**2 for rows, block in blocks(design, design.D)))


def last_column(design: Design, w: Array) -> Array:
    """sum_i w_i x_i x_iD."""
    unit = np.zeros((design.D, 1))
    unit[-1] = 1.0
    return np.asarray(design.backward(w[:, None] * design.forward(unit))[:, 0])


def projected(design: Design, U: Array, stride: int = 1) -> AnyArray:
    """The rows' coordinates X U."""
    U = np.ascontiguousarray(U)
    if design.X.dtype != np.float64 or is_sparse(design.X):  # as they are: BLAS would need them dense, in float64
        rows = design if stride == 1 else design.rows(np.arange(0, design.n, stride))
        return rows.forward(U)
    parts = [block @ U for _, block in blocks(design, design.D, stride)]
    return np.concatenate(parts)


def turned(design: Design, V: Array, U: Array) -> Array:
    """The metric in all directions U of a small model from the sums over the columns: U'(X'VX)U.

    That takes one sum over the rows in place of two, but digits get lost in directions that are differences of large
    numbers (a column of mean 1e4 and deviation 1, centred): see `keeps_digits`.
    """
    at = pairs(design.D)
    directions = pairs(U.shape[1])
    out = np.empty((len(directions[0]), V.shape[1]))
    triangles = [design.gram(V[:, 0])] if V.shape[1] == 1 else _squares(design.grams(V), design.D, at)
    for c, G in enumerate(triangles):
        out[:, c] = (U.T @ (G @ U))[directions]
    return out


def keeps_digits(M: Array, U: Array, sizes: Array, ridge: float | Array) -> bool:
    """Whether sums over columns of these sizes, turned into the metric M, have digits left beside the ridge."""
    q, m = U.shape[1], round((np.sqrt(8 * M.shape[1] + 1) - 1) / 2)
    own, alone = diagonal(M, q)[:, diagonal(np.arange(M.shape[1]), m)], np.square(U).T @ np.broadcast_to(ridge, len(U))
    return bool((own.min(axis=1) + alone >= LOST * (sizes @ np.abs(U)) ** 2).all())


def diagonal(packed: Any, k: int) -> Any:
    """The entries (a, a) of what is stored by pairs."""
    return packed[np.append(0, np.cumsum(np.arange(k, 1, -1)))]


def _squares(packed: Array, D: int, at: tuple[Any, Any]) -> Iterator[Array]:
    """One symmetric matrix after the other."""
    for column in packed.T:
        G = np.empty((D, D))
        G[at] = column
        G.T[at] = column
        yield G


def turned_blocks(design: Design, U: Array) -> Iterator[tuple[slice, Array]]:
    """Blocks of rows: which, and their coordinates X U; rows stay as they are stored."""
    U, features = np.ascontiguousarray(U), design.X.shape[1]
    by_blas = not is_sparse(design.X) and design.X.dtype == np.float64
    size = max(16, BLOCK // 4 // max(1, U.shape[1]))
    for first in range(0, design.n, size):
        rows = slice(first, min(first + size, design.n))
        if by_blas:
            Q = design.X[rows] @ (design.scale * U[:features] if design.scale != 1.0 else U[:features])
            if design.intercept:
                Q += U[-1]
        else:
            Q = Design(design.X[rows], scale=design.scale, intercept=design.intercept).forward(U)
        yield rows, Q


def metric(Q: AnyArray, V: Array) -> Array:
    """sum_i (q_i q_i') (x) V_i as (pairs of directions) x (pairs of outputs), from V given as rows x pairs."""
    n, r = Q.shape
    if V.shape[1] == 1:  # one output: an ordinary weighted Gram matrix
        return np.asarray(_gram(Q, V[:, 0])[pairs(r)][:, None])
    count = r * (r + 1) // 2
    total = np.zeros((count, V.shape[1]))
    V, unit = _in_units(V, Q.dtype)
    size = max(64, PAIRS // count)
    ends = np.cumsum(np.arange(r, 0, -1))
    for first in range(0, n, size):
        q = np.ascontiguousarray(Q[first : first + size].T)
        products = np.empty((count, q.shape[1]), dtype=Q.dtype)
        for line, end in enumerate(ends):
            np.multiply(q[line], q[line:], out=products[end - (r - line) : end])
        total += products @ V[first : first + size]
    return total * unit


def _in_units(V: Array, kind: Any) -> tuple[AnyArray, float]:
    """V and what to multiply it by: a curvature may be beyond what single precision holds."""
    unit = float(np.abs(V).max(initial=0.0)) if kind == np.float32 else 1.0
    return np.ascontiguousarray(V / (unit or 1.0), dtype=kind), unit or 1.0


def _gram(Q: AnyArray, v: Array) -> Array:
    total = np.zeros((Q.shape[1], Q.shape[1]))
    v, unit = _in_units(v, Q.dtype)
    root = np.sqrt(np.maximum(v, 0.0))[:, None]
    size = max(64, PAIRS // max(1, Q.shape[1]))
    for first in range(0, len(Q), size):
        q = Q[first : first + size] * root[first : first + size]
        total += q.T @ q
    return total * unit


def tail(Q: AnyArray, V: Array) -> Array:
    """sum_i q_il^2 V_i, directions x pairs of outputs."""
    total = np.zeros((Q.shape[1], V.shape[1]))
    V, unit = _in_units(V, Q.dtype)
    size = max(64, PAIRS // max(1, Q.shape[1]))
    for first in range(0, len(Q), size):
        q = Q[first : first + size]
        total += (q * q).T @ V[first : first + size]
    return total * unit
