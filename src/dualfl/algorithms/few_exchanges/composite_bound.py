"""What a Hessian and a Newton step prove of E* = min F + P, P a penalty: `self_concordance` with a slope of P.

F is the loss and the ridge, x the point where its sums are known, z the minimiser of Newton's model from there. That
step says which slope P has where it ends, p = -(F'(x) + H(z - x)). For this p, moved into the domain of P* so that
nothing hangs on how well the model was solved,

    E*  >=  min over y of F(y) + <p, y> - P*(p)  >=  F(x) + <p, x> - P*(p) - lam^2 psi(lam R),

with lam = |F'(x) + p| in the norm of H^-1: the value of the model at z but for terms of third order: a step earlier
than what can be said at z itself.

A `Frame` is what the clients compute H in: features U = L^-T for a Cholesky factor L of an earlier Hessian, outputs B.
For a softmax without a ridge the sum of all outputs has no curvature, and F does not change with it. So p must not have
such a part either, but rounding leaves some: it can cost no more than it times how far out a y with E(y) <= E(x) is,
which the penalty tells.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from dualfl.algorithms.few_exchanges.dual_bound import FEW, Doubt
from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.algorithms.few_exchanges.self_concordance import (
    FARTHEST,
    LARGEST,
    Curvature,
    errors_in,
    gain,
    inner_of,
    kinks_of,
    largest_of,
    lower_bound,
    turned,
)
from dualfl.algorithms.few_exchanges.sketched_metric import definite
from dualfl.algorithms.packing import symmetric
from dualfl.objectives.rounding import of_mean, roundings
from dualfl.typing import Array


class Frame(NamedTuple):
    """theta = (U (x) B) z, and back; without columns that are others (`copies`, see `dependence`)."""

    U: Array
    back: Array
    B: Array
    radius: float
    copies: Array
    inner: Array  # the norm in which the clients measure their rows

    def hessian(self, h: Array) -> tuple[Array, Array]:
        """From the triangle that travels: the Hessian in z, and in theta."""
        D, m = len(self.back), self.B.shape[1]
        Z = symmetric(h, D * m)
        back = np.kron(self.back, self.B.T)
        H = back.T @ Z @ back
        return Z, (H + H.T) / 2


def helmert(k: int) -> Array:
    """An orthonormal basis of the differences of k outputs; of one output, that."""
    if k == 1:
        return np.ones((1, 1))
    B = -np.tril(np.ones((k, k - 1)), -1)
    B[np.arange(k - 1), np.arange(k - 1)] = np.arange(k - 1, 0, -1)
    return np.asarray(B / np.linalg.norm(B, axis=0))


def framed(H: Array, m: Array, k: int, radius: float, copies: Array) -> Frame | None:
    """The directions in which H + m, its mean over outputs if there are several, is the identity."""
    d = len(H)
    if d > LARGEST or not np.isfinite(H).all():
        return None
    D, B = d // k, helmert(k)
    total = H + np.diag(m)
    mean = np.einsum("iajb,ac,bc->ij", total.reshape(D, k, D, k), B, B) / B.shape[1]
    keep = np.setdiff1d(np.arange(D), copies[:, 0].astype(int))
    both = np.eye(D)
    for column, other, c in copies:
        if other >= 0:
            both[int(other)] += c * both[int(column)]
    L, unit = definite(mean[np.ix_(keep, keep)])
    U = np.zeros((D, len(keep)))
    U[keep] = unit[:, None] * solve_triangular(L, np.eye(len(keep)), lower=True, trans="T", check_finite=False)
    wide = np.kron(U, B)
    inner = inner_of(wide.T @ total @ wide, B.shape[1])
    return Frame(U, np.ascontiguousarray((L.T / unit) @ both[keep]), B, radius, copies, inner)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def proven(R: Regulariser, frame: Frame, m: Any, x: Array, z: Array, H: Array, doubt: Doubt) -> float:
    """The bound from the sums m at x and the step to z, H the losses' Hessian; -inf where it says nothing."""
    k, reach = len(frame.B), largest_of(float(m.reach))
    if not reach < FARTHEST * (1 - 1e-6) or not np.isfinite(z).all():
        return -np.inf
    ridge = R.m.reshape(-1, k)
    if np.ptp(ridge, axis=1).any():
        return -np.inf
    smooth = m.g + R.m * x - R.c
    off = doubt.off(m.spread, m.g, R.m * np.abs(x) + np.abs(R.c))
    p = slope_of(R, on_its_face(R, -(smooth + H @ (z - x) + R.m * (z - x)), z), k)
    for column, other, c in frame.copies.astype(float):
        own, its = (slice(int(i) * k, int(i) * k + k) for i in (column, other))
        p[own] = c * p[its] if other >= 0 else 0.0
    P, size = conjugate(R, p)
    value = float(m.loss + (R.m * x) @ x / 2 - R.c @ x + p @ x) - P
    sizes = abs(float(m.loss)) + float((R.m * x) @ x / 2 + np.abs(R.c) @ np.abs(x) + np.abs(p) @ np.abs(x)) + size
    many = of_mean(doubt.silos)
    height = value - many * float(m.off)
    r = (smooth + p).reshape(-1, k)
    around = off.reshape(-1, k) + roundings(8) * np.abs(p).reshape(-1, k) + FEW * np.abs(r)
    beside, leak = 0.0, 0.0
    if k > 1:
        held = ridge[:, 0] > 0
        along = (np.abs(r.sum(axis=1)) + around.sum(axis=1)) ** 2 / k
        beside = float(np.sum(along[held] / ridge[held, 0])) * (1 + roundings(k))
        leak = leaked(R, p.reshape(-1, k), x.reshape(-1, k), ~held, float(m.loss) + R.value(x))
    C = curvature(R, frame, m, ridge[:, 0], reach, doubt)
    in_z = (frame.U.T @ r @ frame.B).ravel()
    off_z = (np.abs(frame.U).T @ (around + roundings(len(frame.U) + k) * np.abs(r)) @ np.abs(frame.B)).ravel()
    if len(frame.inner):
        C, in_z, off_z = turned(C, in_z, off_z, frame.inner)
    found = gain(C, in_z, off_z, beside)
    return lower_bound(height - leak, sizes + leak + many * float(m.off), found, len(x) + 8)


def curvature(R: Regulariser, frame: Frame, m: Any, ridge: Array, reach: float, doubt: Doubt) -> Curvature:
    """The Hessian of F in z, with the ridge."""
    U, outputs, many = frame.U, frame.B.shape[1], of_mean(doubt.silos)
    Z = symmetric(m.h, U.shape[1] * outputs)
    own = (U.T * ridge) @ U
    Z = Z + np.kron(own, np.eye(outputs))
    e = many * errors_in(U, m.own, float(m.rough), outputs, doubt.grid) + np.repeat(
        roundings(len(U)) * np.sqrt(np.diag(own)), outputs
    )
    if doubt.grid:
        e = e + many * doubt.grid * len(e) / np.sqrt(np.maximum(np.diag(Z), 1e-300))
    return Curvature(Z, e, many * float(m.slip), reach, many * kinks_of(m), frame.radius)


# -- the penalty -----------------------------------------------------------------------------------------


def usable(R: Regulariser, copies: Array, k: int) -> Array:
    """Copies whose slope of P can be that of their column, exactly."""
    flat = np.asarray(R.flat.reshape(-1, k).all(axis=1))
    kept = [other < 0 or abs(c) == 1 or flat[int(other)] for _, other, c in copies]
    return np.asarray(copies[np.array(kept, dtype=bool)])


def on_its_face(R: Regulariser, p: Array, z: Array) -> Array:
    """p as P has it at z, where it has but one slope: a step may aim beside it (see `dual_bound.leaning`)."""
    P = R.P
    if R.group is not None:
        assert R.penalised is not None
        shape = R.penalised.shape
        norms = R.group._norms(np.where(R.penalised_at, z, 0.0).reshape(shape))[1].reshape(-1, *(1,) * (len(shape) - 1))
        unit = z.reshape(shape) / np.where(norms > 0, norms, 1.0)
        return np.asarray(np.where(norms > 0, R.group.alpha * unit, p.reshape(shape)).ravel())
    inside = (z > P.lo) & (z < P.hi) & ((z != 0) | (P.l1 == 0))
    return np.asarray(np.where(inside, P.l1 * np.sign(z), p))


def slope_of(R: Regulariser, p: Array, k: int) -> Array:
    """p moved into the domain of P*, and without a sum over outputs where F has no curvature along it."""
    p = np.where(R.penalised_at, p, 0.0)
    if k > 1:
        flat = np.asarray((R.m.reshape(-1, k) == 0).all(axis=1))[:, None]
        P = R.P
        one_sided = np.asarray((np.isfinite(P.lo) != np.isfinite(P.hi)).reshape(-1, k).any(axis=1))[:, None]
        rows = p.reshape(-1, k)
        whole = np.asarray(R.penalised_at.reshape(-1, k).all(axis=1))[:, None]
        balanced = np.where(one_sided | ~whole, 0.0, rows - rows.mean(axis=1, keepdims=True))
        p = np.where(flat, balanced, rows).ravel()
        if R.group is None and (P.l1 > 0).any():
            steepest = np.abs(p.reshape(-1, k)).max(axis=1, keepdims=True)
            limit = P.l1.reshape(-1, k).min(axis=1, keepdims=True)
            shrink = np.where(steepest > limit, limit / np.where(steepest > 0, steepest, 1.0) * (1 - FEW), 1.0)
            p = np.where(flat, p.reshape(-1, k) * shrink, p.reshape(-1, k)).ravel()
    if R.group is not None:
        assert R.penalised is not None
        wide = (-1, *(1,) * (len(R.penalised.shape) - 1))
        norms = R.group._norms(p.reshape(R.penalised.shape))[1].reshape(wide)
        shrink = np.minimum(1.0, R.group.alpha / np.where(norms > 0, norms, 1.0) * (1 - roundings(len(p))))
        return np.asarray((p.reshape(R.penalised.shape) * shrink).ravel())
    P = R.P
    boxed = np.where(np.isinf(P.hi), np.minimum(p, P.l1), p)  # without an upper bound the slope is at most l1
    return np.asarray(np.where(np.isinf(P.lo), np.maximum(boxed, -P.l1), boxed))


def conjugate(R: Regulariser, p: Array) -> tuple[float, float]:
    """P*(p) for such a p, without the ridge of an elastic net, and the size of its terms."""
    if R.group is not None:
        return 0.0, 0.0
    P = R.P
    ends = [np.where(np.isfinite(end), p * np.where(np.isfinite(end), end, 0.0), -np.inf) for end in (P.lo, P.hi)]
    most = np.maximum(*ends)
    terms = np.where(np.isinf(most), 0.0, most)  # no bounds: 0 within the l1 strength
    return float(terms.sum()), float(np.abs(terms).sum())


def leaked(R: Regulariser, p: Array, x: Array, flat: Any, E: float) -> float:
    """What the sums of p over outputs, which should be 0 and are not quite, may cost where F is flat along them."""
    k = p.shape[1]
    left = (np.abs(p.sum(axis=1)) + roundings(k) * np.abs(p).sum(axis=1))[flat] / k
    if not (left > 0).any():
        return 0.0
    if R.group is not None:
        far = np.sqrt(k) * E / R.group.alpha
    elif (R.P.l1 > 0).any():
        far = E / float(R.P.l1[R.P.l1 > 0].min())
    else:
        edge = np.maximum(np.abs(R.P.lo), np.abs(R.P.hi))
        far = k * float(np.max(edge[np.isfinite(edge)], initial=0.0))  # where there is none, p is 0
    return float(left @ (far + np.abs(x).sum(axis=1)[flat])) * (1 + 1e-6)
