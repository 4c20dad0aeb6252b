"""What a client with a smooth cost sends to a server that does second-order work, and what its dual point proves.

    f = loss + (1/2) x'mx,    up: loss(x), its gradient, its Hessian or a block of it, and, for linear models,

    conj_k = sum_i s_i l*(s_k p_i),    p_i = l'(z_i),    for the scales s_k = 1, ..., 0.

By Fenchel and Young E* >= -conj(s) - R*(-s g) for every scale s, and conj is convex: between two scales the chord is
above it, so the server may interpolate. Scales matter where R has little curvature of its own: R* is infinite, or
1/mu times too large, unless s g lies in its domain, and which s that takes is known only after g has been added up.
A free intercept asks for sum_i s_i p_i = 0; the p_i of either sign are then sent apart, and scaled apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dualfl import kernels
from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.cuts import below
from dualfl.algorithms.few_exchanges.dependence import unlike
from dualfl.algorithms.few_exchanges.dual_bound import (
    FEW,
    Doubt,
    at_scale,
    conjugate_above,
    largest_scale,
    tipped,
)
from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.algorithms.few_exchanges.self_concordance import Asked, curvature_doubts, row_reach
from dualfl.algorithms.packing import symmetric, upper
from dualfl.kernels import is_sparse
from dualfl.objectives import Squared, curvature
from dualfl.objectives.base import Objective
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.rounding import of_mean, roundings, slope_spread
from dualfl.solvers.row_view import rows_of
from dualfl.typing import Array

SCALES = 1 - np.array([0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.4, 1.0])
BLOCK_OF = b"block"  # where a model keeps it
HUGE = 1e100  # stands for infinity in what is sent; a mean loss above it says nothing
BETWEEN = np.linspace(0.0, 1.0, 6)[1:-1]


class SmoothSilo:
    """One client: its cost without the ridge."""

    def __init__(self, f: ClientCost) -> None:
        self.f, self.remembers = f.objective, bool(getattr(f, "remembers", False))
        self.m: Array = np.broadcast_to(np.asarray(self.f.convexity, dtype=float), (self.f.d,))
        rows = rows_of(self.f)
        self.model: LinearModel | None = None if rows is None or rows.c.any() else rows.model

    def value(self, x: Array) -> float:
        return float(self.f.value(x)) - float((self.m * x) @ x) / 2

    @np.errstate(over="ignore", invalid="ignore")
    def sums(
        self,
        x: Array,
        hessian: bool = True,
        index: npt.NDArray[np.intp] | None = None,
        straight: float = 0.0,
        frame: Sequence[Any] = (),
        dual: bool = True,
    ) -> dict[str, Any]:
        value, gradient = self.f.value_gradient(x)
        g = gradient - self.m * x
        sums: dict[str, Any] = {"loss": value - float((self.m * x) @ x) / 2, "g": g} | self.doubts(x)
        if index is not None:
            H = hessian_block(self.f, x, index, straight, self.remembers)
            sums["h"] = upper(raised(H, -self.m[index]))
        elif len(frame):
            sums |= self.framed(x, straight, *frame)
        elif hessian:
            sums["h"] = upper(self.f.newton_hessian(x, straight) - np.diag(self.m))
        return tamed(sums | (self.dual(x, sums["off"]) if dual else {}))

    def framed(
        self, x: Array, straight: float, U: Array, B: Array, radius: float, inner: Array, weight: float
    ) -> dict[str, Any]:
        """The Hessian in the directions of a frame, and what makes a bound of it: see `composite_bound`."""
        assert self.model is not None
        model = self.model
        model.cost.hessian_products += model.d
        model.cost.passes += 1
        W = np.einsum("ka,kln,lb->abn", B, model.newton_curvatures(x, straight), B, optimize=True)
        h = upper(curvature.projected_hessian(model.design, W, U))
        doubts = curvature_doubts(self.f, x, weight, Asked(None, U, straight, radius))
        return {"h": h, "reach": row_reach(self.f, U, weight, B, inner)} | doubts

    @property
    def sizes2(self) -> Array:
        """The mean squares of the columns, by which errors of the gradient are measured; 1 where there are none."""
        return np.ones(self.f.d) if self.model is None else np.repeat(self.model.column_sizes**2, self.model.k)

    def doubts(self, x: Array) -> dict[str, float]:
        """How far off the loss may be, and the square by which `sizes2` bounds how far off the gradient is."""
        value = self.f.rounding(x).value
        g, size = np.abs(self.f.gradient(x)), np.abs(x)
        off = value + roundings(self.f.d) * float(g @ size + (self.m * size) @ size)
        return {"off": off, "spread": self.spread(x)}

    def spread(self, x: Array) -> float:
        """The square by which `sizes2` bounds how far off the gradient is."""
        if self.model is None:
            return float(np.max(self.f.rounding(x).gradient, initial=0.0)) ** 2
        return slope_spread(self.model, x)

    def dual(self, x: Array, off: float) -> dict[str, Any]:
        """The conjugates of the slopes at all scales, too large by what rounding may have made them too small."""
        if self.model is None:  # the same fields as those who have rows, for sums over both kinds
            return {"conj": np.zeros(len(SCALES)), "rows": 0.0}
        model = self.model
        Z = model.predictors_at(x)
        _, p = kernels.residual(model.loss, Z, model.y, np.ones(model.n))
        if model.k == 1:
            p = p.reshape(-1)
        terms = np.stack([model.s * conjugates(model, k * p) for k in SCALES])
        slack = off + roundings(model.n) * np.abs(terms).sum(axis=1)
        if model.k > 1 or self.f.free is None:
            return {"conj": terms.sum(axis=1) + slack, "rows": 1.0}
        up = p > 0
        plus = model.design.backward((model.s * np.where(up, p, 0.0))[:, None])[:, 0]
        # twice, so that what is left without the positive slopes is too large as well
        sums = {"conj": terms.sum(axis=1) + 2 * slack, "rows": 1.0}
        return sums | {"plus_conj": terms[:, up].sum(axis=1) + slack, "plus_g": plus}

    def copies(self, guesses: Array) -> dict[str, Array]:
        """Which columns are not what the server guessed; nothing if it did not guess."""
        if not len(guesses):
            return {}
        return {"unlike": np.ones(len(guesses)) if self.model is None else unlike(self.model.design, guesses)}

    def working(self) -> dict[str, Array]:
        """The parabolas to begin with, where 0 is no good start."""
        sums = None if self.model is None else self.model.working_sums()
        return {} if sums is None else {"working_h": upper(sums[0]), "working_q": sums[1]}

    def null(self) -> dict[str, Array]:
        """What the models without features need, for a softmax with free intercepts: see `mixed`."""
        if self.model is None or self.model.k == 1 or self.f.free is None:
            return {}
        model, one_hot = self.model, np.zeros((self.model.n, self.model.k))
        one_hot[np.arange(model.n), model.y.astype(np.intp)] = model.s
        sums = model.design.backward(np.ascontiguousarray(np.column_stack([one_hot, model.s])))
        return {"classes": np.ascontiguousarray(sums[:, :-1]).ravel(), "features": sums[:, -1].copy()}

    @np.errstate(over="ignore", invalid="ignore")
    def ray(self, x: Array, base: Array, steps: tuple[float, ...]) -> Array:
        """The loss at base + t (x - base)."""
        ray = self.f.at(base).ray(x - base)
        points = [base + t * (x - base) for t in steps]
        values = ray.values(steps) - np.array([float((self.m * z) @ z) / 2 for z in points])
        return np.where(np.isfinite(values), values, HUGE)


def tamed(sums: dict[str, Any]) -> dict[str, Any]:
    """The sums of a trial so far away that they overflow: finite, and too large for anybody to go there.

    The loss is HUGE squared, so that the mean over clients, however light this one is, is above HUGE.
    """
    if all(np.abs(value).max(initial=0.0) < HUGE for value in sums.values()):
        return sums
    far = {name: np.full_like(value, HUGE if "conj" in name else 0.0) for name, value in sums.items()}
    return far | {"loss": HUGE**2} | {name: sums[name] for name in ("rows", "reach") if name in sums}


# Second-order sums, by name, and what else tells of single rows beside the loss and its gradient.
OF_ROWS = {"h", "own", "rough", "direct", "slip", "kinks_", "reach", "working_h", "working_q", "classes", "features"}
APART = {"plus_g", "plus_conj"}  # slopes of one sign: with 0 here all are scaled like the others


def of_few_rows(sums: dict[str, Any]) -> dict[str, Any]:
    """The sums of a client with few rows: no more than the loss and its gradient tell.

    The slopes' conjugate at scale 1 is g'x - loss, that at scale 0 a constant, and the chord between the two is above
    it, which proves less and nothing false.
    """
    found = {name: np.zeros_like(v) if name.rstrip("0123456789") in OF_ROWS | APART else v for name, v in sums.items()}
    first, last = sums["conj"][[0, -1]]
    if max(abs(first), abs(last)) < HUGE:
        found["conj"] = SCALES * first + (1 - SCALES) * last + roundings(4) * (abs(first) + abs(last))
    if "sizes2" in found:  # one number for all columns bounds them all
        found["sizes2"] = np.full_like(sums["sizes2"], np.max(sums["sizes2"]))
    if "unlike" in found:  # whether columns are others is not told, so none is taken to be
        found["unlike"] = np.ones_like(sums["unlike"])
    return found


def conjugates(model: LinearModel, u: Array) -> Array:
    """l* at u, row by row; a scale of a dual point is a dual point, so infinity would be rounding."""
    values = model.conjugate(u)
    return np.where(np.isfinite(values), values, HUGE)


def raised(H: Array, diagonal: Array) -> Array:
    """H itself, with this added to its diagonal: a matrix of zeros beside it would cost as much as the sums."""
    H[np.diag_indices_from(H)] += diagonal
    return H


def hessian_block(
    f: Objective, x: Array, index: npt.NDArray[np.intp], straight: float, remembered: bool = False
) -> Array:
    """The Hessian's rows and columns `index`; a linear model touches no others."""
    rows = rows_of(f)
    if rows is None:
        return np.asarray(f.newton_hessian(x, straight)[np.ix_(index, index)])
    model = rows.model
    features, classes = np.divmod(index, model.k)
    if model.k == 1 and is_sparse(model.design.X):
        W = model.newton_curvatures(x, straight)
        H = symmetric(model.design.grams(W[0, 0][:, None], features)[:, 0], len(index))
        model.cost.hessian_products += len(index)
        model.cost.passes += 1
        return raised(H, np.broadcast_to(np.asarray(f.convexity), (f.d,))[index])
    if remembered and isinstance(model.loss, Squared):
        return known_block(model, features) + np.diag(np.broadcast_to(np.asarray(f.convexity), (f.d,))[index])
    X = columns(model, features)
    W = model.newton_curvatures(x, straight)
    model.cost.hessian_products += len(index)
    model.cost.passes += 1
    ridge = np.diag(np.broadcast_to(np.asarray(f.convexity), (f.d,))[index])
    if model.k == 1 and W.min(initial=0.0) >= 0:  # a symmetric product, at half the price
        X *= np.sqrt(W[0, 0])[:, None]
        return np.asarray(X.T @ X + ridge)
    H = np.zeros((len(index), len(index)))
    for a in np.unique(classes):
        for b in np.unique(classes):
            rows_a, rows_b = classes == a, classes == b
            H[np.ix_(rows_a, rows_b)] = X[:, rows_a].T @ (W[a, b][:, None] * X[:, rows_b])
    return np.asarray((H + H.T) / 2 + ridge)


def known_block(model: LinearModel, features: npt.NDArray[np.intp]) -> Array:
    """X'SX of these columns of a squared loss, which is the same everywhere: only what is new is added up."""
    kept = model._moment.get(BLOCK_OF)
    if kept is None or kept[0] is not model.s:
        kept = (model.s, np.zeros(0, dtype=np.intp), np.zeros((model.n, 0)), np.zeros((0, 0)))
    _, have, root, G = kept
    new = np.setdiff1d(features, have)
    if len(new):
        model.cost.hessian_products += len(new)
        model.cost.passes += 1
        if len(have) + len(new) > 2 * len(features) + 100:  # most of it is of no use any more
            have, root, new = have[:0], root[:, :0], features
            G = G[:0, :0]
        more = columns(model, new) * np.sqrt(model.s)[:, None]
        across = root.T @ more
        G = np.block([[G, across], [across.T, more.T @ more]])
        have, root = np.append(have, new), np.hstack([root, more])
        model._moment[BLOCK_OF] = (model.s, have, root, G)
    order = np.argsort(have)
    place = order[np.searchsorted(have, features, sorter=order)]
    return np.ascontiguousarray(G[np.ix_(place, place)])


def columns(model: LinearModel, features: npt.NDArray[np.intp]) -> Array:
    """These columns of the design, dense."""
    X = model.design.X
    stored = features < X.shape[1]
    out = np.ones((model.n, len(features)))
    block: Any = X[:, features[stored]]
    out[:, stored] = model.design.scale * (block.toarray() if hasattr(block, "toarray") else block)
    return out


def lower_bound(R: Regulariser, m: Any, x: Array, doubt: Doubt, null: Null | None = None) -> float:
    """What the sums m at x prove of E*."""
    if not m.loss < HUGE:  # somebody's gradient is not what was sent
        return -np.inf
    off = doubt.off(m.spread, m.g, R.M * np.abs(x))
    flat = np.flatnonzero(R.flat)
    if not all_rows(m):  # somebody's conjugates are not known: Fenchel's equality at x itself
        size = abs(m.loss) + float(np.abs(m.g) @ np.abs(x))
        height = below(float(m.loss - m.g @ x) - of_mean(doubt.silos) * m.off, size, len(x))
        return at_scale(R, height, -m.g, off, 1.0)
    conj = m.conj + doubt.grid + roundings(doubt.silos) * np.abs(m.conj)
    if not len(flat):
        return best_scale(R, m.g, off, lambda s: -interpolated(conj, s))
    if len(flat) == 1 and hasattr(m, "plus_g"):
        return balanced(R, m, conj, off, int(flat[0]), doubt)
    if null is None or not R.flat[-null.k :].all() or len(flat) > null.k:
        return -np.inf
    return mixed(R, m.g, off, lambda s: -interpolated(conj, s), null, np.sqrt(doubt.sizes2))


def all_rows(m: Any) -> bool:
    """Whether the sums m are of linear models only."""
    return bool(m.rows > 1 - 1e-9)


def balanced(R: Regulariser, m: Any, conj: Array, off: Array, k: int, doubt: Doubt) -> float:
    """g_k = 0 by scaling down the slopes of the sign that has more, and a little more than that: see `dual_bound`."""
    plus, minus = float(m.plus_g[k]), float(m.plus_g[k] - m.g[k])
    plus_conj = m.plus_conj + doubt.grid + roundings(doubt.silos) * np.abs(m.plus_conj)
    rest = conj + doubt.grid - m.plus_conj + roundings(doubt.silos) * np.abs(m.plus_conj)
    bounds = []
    for up, down in tipped(plus, minus, float(off[k])):
        g = up * m.plus_g + down * (m.g - m.plus_g)
        g[k] = 0.0
        around = np.where(np.arange(len(g)) == k, 0.0, 3 * off + FEW * np.abs(m.plus_g))
        bounds.append(
            best_scale(
                R, g, around, lambda s, u=up, d=down: -interpolated(plus_conj, s * u) - interpolated(rest, s * d)
            )
        )
    return min(bounds, default=-np.inf)


@dataclass(frozen=True)
class Null:
    """The models without features of a softmax: all rows have the same distribution q.

    Their slopes q - e_y have the sums  features q' - classes, the free intercepts' part of which is q - shares, and
    their conjugate is -entropy(q).
    """

    classes: Array  # D by k: sum_i s_i x_i e_y'
    features: Array  # sum_i s_i x_i

    @property
    def k(self) -> int:
        return int(self.classes.shape[1])


def mixed(R: Regulariser, g: Array, off: Array, losses: Any, null: Null, columns: Array) -> float:
    """Free intercepts of a softmax: g's part of them made 0 by mixing in a model without features.

    (1 - t) r + t (q - shares) = 0 for the part r of g that belongs to the intercepts, if q = shares - r (1 - t)/t,
    which is a distribution for t large enough. What rounding leaves of that sum is not known, only that no class has
    more than `left`. But the same step once more, with t2 = 2 max(left/shares) and an unknown distribution, removes it;
    of that one only what holds for any is used: its entropy is not negative, and its sums are at most the columns'
    sizes.
    """
    k, shares = null.k, null.classes[-1]
    r = g.reshape(-1, k)[-1]
    if not (shares > 0).all():
        return -np.inf
    need = 2 * float((np.maximum(r, 0.0) / shares).max())
    t = need / (1 + need)
    q = shares - r * (1 - t) / t if t > 0 else shares
    q = np.maximum(q, 0.0) / np.maximum(q, 0.0).sum()
    entropy = -float(np.sum(q * np.log(np.maximum(q, 1e-300)))) * (1 - roundings(k))
    there = (np.outer(null.features, q) - null.classes).ravel()
    sizes = (np.outer(np.abs(null.features), q) + np.abs(null.classes)).ravel()
    mix = (1 - t) * g + t * there
    around = (1 - t) * off + t * (off + FEW * sizes) + FEW * np.abs(mix)
    left = np.abs(mix.reshape(-1, k)[-1]) + around.reshape(-1, k)[-1]
    t2 = 2 * float((left / shares).max())
    if not t2 < 1:
        return -np.inf
    mix = (1 - t2) * mix.reshape(-1, k)
    around = (1 - t2) * around.reshape(-1, k) + t2 * columns.reshape(-1, k)
    mix[-1] = around[-1] = 0.0

    def height(s: float) -> float:
        return (1 - t2) * ((1 - t) * float(losses(s)) + t * s * entropy)

    return best_scale(R, mix.ravel(), around.ravel(), height)


def best_scale(R: Regulariser, g: Array, off: Array, losses: Any) -> float:
    """The largest of losses(s) - R*(-s g) over a few s."""
    most = largest_scale(R, -g, off)
    grid = np.append(SCALES, most)
    steps = np.concatenate([grid, *((1 - r) * SCALES[1:] + r * SCALES[:-1] for r in BETWEEN)])
    best = -np.inf
    for s in steps[steps <= most]:
        height, price = float(losses(float(s))), conjugate_above(R, -float(s) * g, float(s) * off)
        if height - price > best:
            best = max(best, below(height - price, abs(height) + price, 8))
    return best


def interpolated(conj: Array, s: float) -> float:
    return float(np.interp(s, SCALES[::-1], conj[::-1]))
