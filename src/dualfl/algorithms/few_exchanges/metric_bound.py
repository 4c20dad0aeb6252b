"""What the whole Hessian that sketched-newton has at a point proves of E*: `self_concordance` in its basis.

Beside the directions z of the basis there may be two kinds that it leaves out. Sums of all outputs of a softmax: there
E has the curvature of the ridge, exactly, or does not change at all. And columns that are next to nothing beside the
ridge (`sketched_metric.NOTHING`): with half their ridge as mu and b the data's curvature there, Schur's complement
shows that at least (1 - b/mu) of the data's curvature is left in all other directions, and mu in these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualfl.algorithms.cuts import Cut
from dualfl.algorithms.few_exchanges.self_concordance import (
    FARTHEST,
    Curvature,
    errors_in,
    gain,
    kinks_of,
    lower_bound,
    turned,
)
from dualfl.algorithms.few_exchanges.sketched_metric import Basis, leading
from dualfl.objectives.rounding import of_mean, roundings
from dualfl.typing import Array

MOST = 0.1  # of the data's curvature, that columns beside the basis may take away


class Sums(NamedTuple):
    """What clients sent of the Hessian at one point."""

    M: Array
    own: Array
    rough: float
    slip: float
    kinks: Array
    reach: float
    radius: float
    grid: float
    direct: float
    inner: Array  # the norm in which the reach was measured; empty for the plain one


class Beside(NamedTuple):
    """lam^2 of the directions that a basis leaves out, and what they may take away from the others."""

    decrement: float
    taken: float


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def proven(basis: Basis, cut: Cut, off_g: Array, sums: Sums, silos: int) -> float:
    """The lower bound of E* from E and E' of `cut` and the Hessian; -inf where it says nothing."""
    if not (cut.sound and sums.reach < FARTHEST * (1 - 1e-6)) or np.ptp(basis.M, axis=1).any():
        return -np.inf
    D, k, U, B = basis.D, basis.M.shape[1], basis.U, basis.B
    G, off = cut.g.reshape(D, k), off_g.reshape(D, k)
    off = off + roundings(D + k) * np.abs(G)
    beside = left_out(basis, G, off, sums.own + (sums.grid if sums.grid else 0.0))
    if beside is None:
        return -np.inf
    H = leading(basis, sums.M, basis.q)
    ridge = (U.T * basis.M[:, 0]) @ U
    for a in range(basis.m):
        H[:, a, :, a] += ridge
    many = of_mean(silos)
    e = many * errors_in(U, sums.own, sums.rough, basis.m, sums.grid) + np.repeat(
        roundings(D) * np.sqrt(np.diag(ridge)), basis.m
    )
    if sums.grid:
        e = e + many * sums.grid * len(e) / np.sqrt(np.maximum(np.diag(H.reshape(len(e), -1)), 1e-300))
    r = (U.T @ G @ B).ravel()
    off_r = (np.abs(U).T @ off @ np.abs(B)).ravel()
    slip, direct = many * sums.slip + beside.taken, errors_in(U, sums.own, many * sums.direct, basis.m, sums.grid)
    H = H.reshape(len(r), len(r))
    curvature = Curvature(H, e, slip, sums.reach, many * sums.kinks, sums.radius, direct)
    if len(sums.inner):
        curvature, r, off_r = turned(curvature, r, off_r, sums.inner)
    found = gain(curvature, r, off_r, beside.decrement)
    return lower_bound(cut.E - cut.off, abs(cut.E) + cut.off, found, 8)


def left_out(basis: Basis, G: Array, off: Array, own: Array) -> Beside | None:
    """What is beside the basis; None where that spoils everything."""
    D, k, M = basis.D, basis.M.shape[1], basis.M[:, 0]
    decrement = taken = 0.0
    if basis.m < k:
        slope = np.abs(G.sum(axis=1)) + off.sum(axis=1)
        held = M > 0
        decrement += float(np.sum(slope[held] ** 2 / M[held])) / k * (1 + roundings(D + k))
    if basis.spans:
        return Beside(decrement, taken)
    rest = np.setdiff1d(np.flatnonzero(~basis.V.any(axis=1)), basis.still)
    if len(rest) != D - basis.q - len(basis.still):
        return None
    N = basis.at.to(np.eye(D)[:, rest])
    data = (np.abs(N).T @ np.sqrt(np.maximum(own, 0.0))) ** 2 * (1 + 1e-6)
    for k, c in basis.dull:
        N[-1, rest == int(k)] = -c * N[int(k), rest == int(k)]
        data[rest == int(k)] = 0.0
    mu = (N.T**2 @ M) / 2
    if ((mu == 0) & (data > 0)).any():
        return None
    held = mu > 0
    taken = float(np.sum(data[held] / mu[held])) * (1 + 1e-6)
    slope2 = ((np.abs(N.T @ G) + np.abs(N).T @ off) ** 2).sum(axis=1)
    decrement += float(np.sum(slope2[held] / mu[held])) * (1 + roundings(D + k))
    return Beside(decrement, taken) if taken < MOST else None


def of(m: Any, i: int, reach: float, radius: float, grid: float, inner: Array) -> Sums | None:
    """The sums that came with the i-th point, if they did and the metric is whole."""
    if not hasattr(m, f"own{i}") or len(getattr(m, f"T{i}")):
        return None
    M, own, rough, slip, direct = (getattr(m, f"{name}{i}") for name in ("M", "own", "rough", "slip", "direct"))
    return Sums(M, own, float(rough), float(slip), kinks_of(m, str(i)), reach, radius, grid, float(direct), inner)
