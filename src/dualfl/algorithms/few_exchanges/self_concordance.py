"""What a Hessian proves of E*, without any penalty: losses whose curvature cannot vanish at once.

Let G be smooth and convex with |l'''| <= l'' row by row, H its Hessian at x, and for a step h of length |h|_H = t

    R >= |x_i'h| / |h|_H   for all rows i and all h.

Along h the curvature falls at most as exp(-R t), so G(x + h) >= G(x) + <G'(x), h> + (exp(-R t) + R t - 1)/R^2. With
lam^2 = <G'(x), H^-1 G'(x)> and u = lam R < 1 the minimum over t is

    min G  >=  G(x) - lam^2 psi(u),       psi(u) = [u + (1 - u) log(1 - u)]/u^2 = sum_k u^k/((k+1)(k+2)),

lam^2/2 for small u: as much as there is to gain. A penalty P enters by P(y) >= <p, y> - P*(p), for any p: G is then the
smooth part of E and <p, .>, and E* >= G(x) - P*(p) - lam^2 psi(u).

Kinks. Huber's loss and the squared hinge have no third derivative, but l'' may jump to 0. Within |z| <= r, in the
coordinates below, rows that are farther than r |q_i| from their kink keep their curvature. Those that are not, and what
else H has that E has not, take at most `kinks` = sum_i s_i w_i |q_i|^2 away from it, in every direction. With what is
left, if |z| = r is so far out that G cannot be below G(x) there, lam <= r sqrt(lambda_min)/2, nor can it be beyond: G
is convex.

Coordinates. All is computed for theta = x + (U (x) B) z, with the matrix U that the clients were given taken as exact:
they project their rows on it, q_i = U'x_i, so that H in z does not suffer from means and dependences of columns that U
takes away. R <= max_i |q_i| / sqrt(lambda_min(H)). A softmax, of which only differences of predictors matter, has
sqrt(2) times that, and B is a basis of the differences.

Rounding. Clients bound by `own` how far off each entry of H may be: |dH_kl| <= e_k h_l + h_k e_l + e_k e_l, with h_k^2
= H_kk and e_k = sum_j |U_jk| sqrt(rough own_j), own_j = sum_i s_i w_i x_ij^2, rough >= K^2, and by `slip` how far off a
curvature w_i = l'' may be because its predictor is. Where a client adds up X'WX first and turns it then, U'(X'WX)U,
entries are off by d_k d_l instead, d_k = sum_j |U_jk| sqrt(direct own_j), direct >= K, which is more if directions are
differences of columns. With a unit diagonal and s the smallest eigenvalue then, H >= (1 - slip)(1 - d/s) H~ for d = sum
of all these errors and those of Cholesky's method.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from dualfl.algorithms.cuts import below
from dualfl.objectives import curvature, moments
from dualfl.objectives.base import Objective
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.rounding import UNIT, roundings
from dualfl.solvers.row_view import rows_of
from dualfl.typing import Array

POWER = 6  # maxima over clients are bounded by the sum of this power of theirs, which travels with other sums
FARTHEST = 1e4  # a row farther out than this proves nothing
WIDEST = 300  # coordinates of a norm that is sent to clients
STEEPEST = 1e-8  # the least eigenvalue of such a norm, of its largest
SINGLE = 2.0**29  # times as coarse as double precision
LARGEST = 2000  # coefficients, for an eigenvalue at the server
SERIES = 0.05
SHARES = (1.0, 0.03, 1e-3, 1e-5)
KINKED = 1e-30  # what a loss with kinks has at least, so that one sees that there are some


def psi(u: float) -> float:
    """[u + (1 - u) log(1 - u)]/u^2 for 0 <= u < 1, by its series where the formula would cancel."""
    if u >= 1:
        return np.inf
    if u > SERIES:
        return float((u + (1 - u) * np.log1p(-u)) / u**2)
    return sum(u**k / ((k + 1) * (k + 2)) for k in range(14))


class Asked(NamedTuple):
    """Which Hessian a client sent, if not by projecting its rows, in which directions, what straight pieces count for;
    and within which radius, and which shares of it, its curvature is to last."""

    M: Array | None
    U: Array
    straight: float
    radius: float


# -- a client --------------------------------------------------------------------------------------------


def row_reach(f: Objective, U: Array, weight: float, B: Array, inner: Array) -> float:
    """The largest |q_i| of all rows, times what its loss has, as a power that may be added up.

    With several outputs and a matrix `inner` it is the largest |q_i (x) B'(e_a - e_b)| in that norm instead.
    """
    rows = rows_of(f)
    constant = None if rows is None else rows.model.loss.self_concordance
    if rows is None or constant is None:
        return FARTHEST**POWER
    model, most = rows.model, 0.0
    factor = 2.0 if model.k > 1 else 1.0
    for part, q in moments.turned_blocks(model.design, U):
        square = differences(q, B, inner) if len(inner) else factor * np.einsum("ij,ij->i", q, q)
        most = max(most, float(np.max(square, initial=0.0, where=model.s[part] > 0)))
    error = roundings(model.design.D) * float(np.linalg.norm(np.abs(U).T @ model.design.extents)) * np.sqrt(2.0)
    error *= float(np.sqrt(np.trace(inner))) if len(inner) else 1.0
    reach = constant * (np.sqrt(most) * (1 + 1e-6) + error)
    return float(min(reach, FARTHEST) ** POWER / weight) if np.isfinite(reach) else FARTHEST**POWER


def differences(q: Array, B: Array, inner: Array) -> Array:
    """The largest square of |q_i (x) B'(e_a - e_b)| over pairs of outputs, row by row, in the norm of `inner`."""
    n, m = q.shape[1], B.shape[1]
    half = (q @ inner.reshape(n, -1)).reshape(len(q), m, n, m)
    blocks = np.einsum("iajb,ij->iab", half, q, optimize=True)
    first, second = np.triu_indices(len(B), 1)
    between = B[first] - B[second]
    return np.asarray(np.einsum("pa,iab,pb->ip", between, blocks, between, optimize=True).max(axis=1))


@np.errstate(over="ignore", invalid="ignore")
def curvature_doubts(f: Objective, x: Array, weight: float, asked: Asked) -> dict[str, Any]:
    """`own`, `rough`, `direct`, `slip` and `kinks` of a Hessian at x."""
    rows = rows_of(f)
    calm = dict.fromkeys((f"kinks_{i}" for i in range(len(SHARES))), 0.0)
    nothing = {"own": np.zeros(f.shape[0]), "rough": 0.0, "direct": 0.0, "slip": 1.0 / weight} | calm
    if rows is None or rows.model.loss.self_concordance is None:
        return nothing
    model, design = rows.model, rows.model.design
    K, U, M = roundings(model.n + 2 * design.D), asked.U, asked.M
    numbers = 0 if M is None else M.size
    coarse = K * (SINGLE if moments.precision(design, numbers) != np.float64 else 1.0)
    sizes = model.column_sizes
    if model.k == 1:
        sizes = curvature.sizes_above(model.newton_curvatures(x, asked.straight), model.s, sizes)
    by_columns = curvature.turns(design, model.k, U, U.shape[1])
    direct = K if M is not None and by_columns and moments.keeps_digits(M, U, sizes, model.feature_ridge) else 0.0
    own = sizes**2
    far = float((design.extents @ np.abs(model.matrix(x))).max(initial=0.0))
    slip = min(2 * K * far, 1.0) / weight
    if not (np.isfinite(own).all() and np.isfinite(slip)):
        return nothing
    found = {f"kinks_{i}": float(taken) for i, taken in enumerate(kinks(model, x, asked))}
    return {"own": own, "rough": coarse**2 / weight, "direct": direct / weight, "slip": slip} | found


def kinks(model: LinearModel, x: Array, asked: Asked) -> Array:
    """What the curvature of rows near their kinks, and that which was added to straight ones, may amount to."""
    Z = model.predictors_at(x)
    distance = model.loss.to_kink(Z[:, 0], model.y)
    if distance is None:
        return np.zeros(len(SHARES))
    used, own = model.newton_curvatures(x, asked.straight)[0, 0], model.newton_curvatures(x, 0.0)[0, 0]
    far, K = float(model.design.extents @ np.abs(x)), roundings(model.design.D)
    total = np.full(len(SHARES), KINKED)
    for part, q in moments.turned_blocks(model.design, asked.U):
        square = np.maximum(np.einsum("ij,ij->i", q, q), 1e-300) * (1 + 1e-6)
        slack = K * (far + np.abs(model.y[part]) + model.loss.parameter + 1)
        away, more = (distance[part] - slack) / np.sqrt(square), (used[part] - own[part]) * square
        for i, share in enumerate(SHARES):
            total[i] += float(np.where(away > share * asked.radius, more, used[part] * square).sum())
    return np.where(np.isfinite(total), total * (1 + 1e-6), FARTHEST**POWER)


# -- the server ------------------------------------------------------------------------------------------


class Curvature(NamedTuple):
    """A Hessian in z, what its entries may be off (e_k), what its curvatures may be off, and the rows' reach.

    Added up by columns and turned then, entries may be off by d_k d_l as well: see `Rounding` above.
    """

    H: Array
    off: Array
    slip: float
    reach: float
    kinks: Array | tuple[float, ...] = (0.0,)  # within shares of the radius
    radius: float = np.inf
    direct: Array | float = 0.0  # d_k


def kinks_of(m: Any, suffix: str = "") -> Array:
    """What was sent of kinks, as it is used."""
    return np.array([float(getattr(m, f"kinks_{i}{suffix}")) for i in range(len(SHARES))])


def errors_in(U: Array, own: Array, rough: float, outputs: int, grid: float) -> Array:
    """e_k of every coordinate of z."""
    e = np.abs(U).T @ np.sqrt(float(rough) * (np.maximum(own, 0.0) + grid))
    return np.asarray(np.repeat(e, outputs) * (1 + 1e-6))


def inner_of(H: Array, outputs: int) -> Array:
    """The norm in which a softmax measures its rows: that of an earlier Hessian's inverse; empty if none will do."""
    if outputs == 1 or len(H) > WIDEST:
        return np.zeros((0, 0))
    values, vectors = np.linalg.eigh(H)
    if not values[0] > STEEPEST * values[-1]:
        return np.zeros((0, 0))
    inner = (vectors / values) @ vectors.T
    return np.ascontiguousarray((inner + inner.T) / 2)


def turned(C: Curvature, r: Array, off_r: Array, inner: Array) -> tuple[Curvature, Array, Array]:
    """All that in coordinates in which `inner` is the identity."""
    T = cholesky(inner, lower=True, check_finite=False)
    size = np.abs(T).T
    H = T.T @ C.H @ T
    h, K = np.sqrt(np.maximum(np.diag(C.H), 0.0)), roundings(4 * len(T))
    after = np.sqrt(np.maximum(np.diag(H), 1e-300))
    # Entries of T'HT are off by e'h' + h'e' + e'e' with e' = |T|'e and h' = |T|'h, and by their own sums.
    grown = max(float((size @ h / after).max()), 1.0)
    direct = np.broadcast_to(C.direct, len(T))
    off = grown * (size @ C.off) + K * grown**2 * after
    return C._replace(H=(H + H.T) / 2, off=off, direct=size @ direct), T.T @ r, size @ (off_r + K * np.abs(r))


class Gain(NamedTuple):
    """What there is to gain from x, at most: lam^2 psi(lam R)."""

    most: float
    decrement: float  # lam^2, from above
    least: float  # the smallest eigenvalue of H, from below


NOTHING = Gain(np.inf, np.inf, 0.0)


def gain(C: Curvature, r: Array, off_r: Array, beside: float = 0.0) -> Gain:
    """For a slope that is r in z, off by at most off_r; `beside`: lam^2 of directions that H does not hold."""
    d = len(r)
    if not d:  # columns of zeros only
        return NOTHING if beside else Gain(0.0, 0.0, np.inf)
    diagonal = np.diag(C.H)
    if d > LARGEST or not (np.isfinite(C.H).all() and (diagonal > 0).all()):
        return NOTHING
    h = np.sqrt(diagonal)
    S, e = C.H / np.outer(h, h), C.off / h
    wrong = 2 * np.sqrt(d) * float(np.linalg.norm(e)) + float(e @ e) + roundings(4 * d * d)
    wrong += float(np.sum((C.direct / h) ** 2))
    if not wrong < 1:
        return NOTHING
    smallest = float(np.linalg.eigvalsh(S)[0]) - roundings(10 * d)
    if not smallest > 2 * wrong:
        return NOTHING
    sure = (1 - min(C.slip, 1.0)) * (1 - wrong / smallest)
    if not sure > 0:
        return NOTHING
    try:
        L = cholesky(S, lower=True, check_finite=False)
    except LinAlgError:
        return NOTHING
    w = solve_triangular(L, (r / h), lower=True, check_finite=False)
    doubt = float(np.linalg.norm((off_r + roundings(4) * np.abs(r)) / h)) / np.sqrt(smallest)
    decrement = ((float(np.linalg.norm(w)) + doubt) ** 2 / sure) * (1 + roundings(4 * d))
    least = sure * smallest * float(diagonal.min())
    return min((kept(C, decrement, beside, least, taken, share) for taken, share in zip(C.kinks, SHARES)), key=most)


def kept(C: Curvature, decrement: float, beside: float, least: float, taken: float, share: float) -> Gain:
    """The gain, if kinks within this share of the radius take so much of the curvature."""
    rest = 1 - taken / least
    if not rest > 0:
        return NOTHING
    decrement, least = decrement / rest + beside, least * rest
    if taken and not 4 * decrement < least * (share * C.radius) ** 2:
        return NOTHING
    u = np.sqrt(decrement / least) * C.reach * (1 + roundings(8))
    return Gain(float(decrement * psi(u) * (1 + roundings(32))), decrement, least)


def most(found: Gain) -> float:
    return found.most


def lower_bound(height: float, size: float, found: Gain, terms: int) -> float:
    """height - gain from below; `height` was added up from so many terms of this total size."""
    if not np.isfinite(found.most):
        return -np.inf
    return below(height - found.most, size + found.most, terms)


def largest_of(powers: float) -> float:
    """The largest reach, from the sum of the powers of all."""
    return float(max(powers, 0.0) ** (1 / POWER) * (1 + 4 * UNIT * POWER))
