"""Many sparse columns and an l1 penalty, on all rows: Newton's models by columns, no matrix of pairs of columns.

    z  =  argmin  <g, z - x> + |V (z - x)|^2/2 + l1 |z|_1,       V = W^(1/2) X,     W: weights s_i l''(z_i)

over a working set: the columns that are not zero, and those with |g_k| > l1, which want to move. Two ways take turns:

* coordinate descent, which finds out which columns stay zero. It keeps v = V (z - x), so a visit costs the nonzeros of
  one column. The dual of a ridge is such a problem, so that the loop is that of dual coordinate ascent on the columns;
* conjugate gradients on the columns that are not zero, once sweeps no longer change which these are, to the best point
  on the way. A proof needs |g_k| <= l1 to as many digits as E, and sweeps crawl where gradients do not.

How exactly a model is minimised follows from how near x is: what is left of the gradient is about its square.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from dualfl import kernels
from dualfl.kernels import Design
from dualfl.solvers.coordinate_descent import best_on_the_way
from dualfl.typing import Array

ROUGH, SHARP = 0.1, 0.01  # of the violation: most that is left of it; and the same times how often it has l1 in it
FINEST = 0.3  # of the tolerance times l1: no proof needs more
SWEEPS, ROUNDS, GRADIENTS = 10, 50, 200  # before a step on a face; of these; in one
FACE = 0.3  # of the goal, to which a face is solved

Index = npt.NDArray[np.intp]


class Columns(NamedTuple):
    """The working set at one point: a row of V' each."""

    V: Design
    norms2: Array
    l1: Array

    @property
    def many(self) -> int:
        return len(self.l1)


def by_columns(design: Design) -> Any:
    """X' as sparse rows, with a row of ones for an intercept: the one copy of the data that is needed."""
    X = design.X.tocsc()
    rows = sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[1], X.shape[0]))
    if not design.intercept:
        return rows
    ones = sparse.csr_array(np.ones((1, design.n), dtype=rows.dtype))
    return sparse.csr_array(sparse.vstack([rows, ones], format="csr"))


def working_set(transposed: Any, design: Design, chosen: Index, w: Array, l1: Array) -> Columns:
    """The columns that were chosen, weighted; w are the weights of rows."""
    some = transposed[chosen]
    values = design.scale * some.data * np.sqrt(w)[some.indices]
    if design.intercept and len(chosen) and chosen[-1] == design.D - 1:  # ones have no scale
        last = slice(some.indptr[-2], some.indptr[-1])
        values[last] = np.sqrt(w)[some.indices[last]]
    V = Design(sparse.csr_array((values, some.indices, some.indptr), shape=some.shape))
    return Columns(V, V.row_norms2(), l1[chosen])


def goal_at(violation: float, l1: float, tol: float) -> float:
    """What a model may leave of the violation of |g_k| <= l1."""
    return max(violation * min(ROUGH, SHARP * violation / l1), FINEST * tol * l1)


def minimise(columns: Columns, g: Array, x: Array, goal: float) -> Array:
    """The minimiser of Newton's model at x, until no slope is more than `goal` from where it must be."""
    z, v = x.copy(), np.zeros(columns.V.D)
    for _ in range(ROUNDS):
        sweep(columns, g, z, v, goal)
        slopes = g + columns.V.forward(v[:, None])[:, 0]
        alive = (z != 0) | (columns.l1 == 0)
        left = np.where(alive, np.abs(slopes + columns.l1 * np.sign(z)), np.maximum(np.abs(slopes) - columns.l1, 0.0))
        if float(left.max(initial=0.0)) <= goal or not alive.any():
            break
        face_step(columns, slopes, np.flatnonzero(alive), z, v, goal)
    return z


def sweep(columns: Columns, g: Array, z: Array, v: Array, goal: float) -> None:
    """Coordinate descent until nothing moves by more than the goal, or the same columns stay zero; z and v move."""
    many, infinite, penalised = columns.many, np.full(columns.many, np.inf), columns.l1 > 0
    alpha = float(columns.l1.max(initial=0.0))
    orders = [(alpha, np.flatnonzero(penalised)), (0.0, np.flatnonzero(~penalised))]
    for i in range(SWEEPS):
        before = z.copy()
        for l1, order in orders:
            if len(order):
                kernels.sdca_epoch(
                    columns.V, np.ones(many), -g, -infinite, infinite, l1, np.ones(many), z, v, 1.0, columns.norms2, order
                )  # fmt: skip
        still = i > 0 and np.array_equal(before == 0, z == 0)
        if still or float((columns.norms2 * np.abs(z - before)).max(initial=0.0)) <= goal:
            return


def face_step(columns: Columns, slopes: Array, face: Index, z: Array, v: Array, goal: float) -> None:
    """Newton on the columns that are not zero, by conjugate gradients, to the best point on the way; z and v move."""
    x, l1, inside = z[face], columns.l1[face], columns.V.rows(face)
    slope = slopes[face] + l1 * np.sign(x)
    step = conjugate_gradients(inside, columns.norms2[face], -slope, FACE * goal)
    fall = -float(slope @ step)
    if not 0 < fall < np.inf:
        return
    with np.errstate(divide="ignore", invalid="ignore"):
        kinks = np.where((l1 > 0) & (x * step < 0), -x / step, np.inf)
    t, at_zero = best_on_the_way(fall, kinks, 2 * l1 * np.abs(step), 1.0)
    new = x + t * step
    if at_zero is not None:
        new[at_zero] = 0.0  # rounding must not leave it a hair off
    v += inside.backward((new - x)[:, None])[:, 0]
    z[face] = new


def conjugate_gradients(V: Design, diagonal: Array, r: Array, goal: float) -> Array:
    """p with V V'p = r, until no residual is more than the goal."""
    p, left = np.zeros(len(r)), r.copy()
    scale = 1 / np.where(diagonal > 0, diagonal, 1.0)
    q = scale * left
    size = float(left @ q)
    for _ in range(GRADIENTS):
        if not float(np.abs(left).max(initial=0.0)) > goal:
            break
        Hq = V.forward(V.backward(q[:, None]))[:, 0]
        curvature = float(q @ Hq)
        if not curvature > 0:  # columns that depend on each other
            break
        p += size / curvature * q
        left -= size / curvature * Hq
        new = scale * left
        before, size = size, float(left @ new)
        q = new + size / before * q
    return p
