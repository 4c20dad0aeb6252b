"""What a client with a smooth cost sends to a server that does second-order work, and what its dual point proves.

    f = loss + (1/2) x'mx,    up: loss(x), its gradient, its Hessian or a block of it, and, for linear models,

    conj_k = sum_i s_i l*(s_k p_i),    p_i = l'(z_i),    for the scales s_k = 1, ..., 0.

By Fenchel and Young E* >= -conj(s) - R*(-s g) for every scale s, and conj is convex: between two scales the chord is
above it, so the server may interpolate. Scales matter where R has little curvature of its own: R* is infinite, or
1/mu times too large, unless s g lies in its domain, and which s that takes is known only after g has been added up.
A free intercept asks for sum_i s_i p_i = 0; the p_i of either sign are then sent apart, and scaled apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dualfl import kernels
from dualfl.algorithms.few_exchanges.packing import upper
from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.objectives.linear import LinearModel
from dualfl.solvers.rows import rows_of
from dualfl.typing import Array

SCALES = 1 - np.array([0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.4, 1.0])
HUGE = 1e100  # stands for infinity in what is sent; a mean loss above it says nothing
BETWEEN = np.linspace(0.0, 1.0, 6)[1:-1]


class SmoothSilo:
    """One client: its cost without the ridge."""

    def __init__(self, f: Any) -> None:
        self.f = f.objective
        self.m: Array = np.broadcast_to(np.asarray(self.f.convexity, dtype=float), (self.f.d,))
        rows = rows_of(self.f)
        self.model: LinearModel | None = None if rows is None or rows.c.any() else rows.model

    def value(self, x: Array) -> float:
        return float(self.f.value(x)) - float((self.m * x) @ x) / 2

    @np.errstate(over="ignore", invalid="ignore")
    def sums(
        self, x: Array, hessian: bool = True, index: npt.NDArray[np.intp] | None = None, straight: float = 0.0
    ) -> dict[str, Any]:
        value, gradient = self.f.value_gradient(x)
        g = gradient - self.m * x
        sums = {"loss": value - float((self.m * x) @ x) / 2, "g": g}
        if index is not None:
            H = hessian_block(self.f, x, index, straight)
            sums["h"] = upper(H - np.diag(self.m[index]))
        elif hessian:
            sums["h"] = upper(self.f.newton_hessian(x, straight) - np.diag(self.m))
        return tamed(sums | self.dual(x))

    def dual(self, x: Array) -> dict[str, Any]:
        """The conjugates of the slopes at all scales."""
        if self.model is None:  # the same fields as those who have rows, for sums over both kinds
            return {"conj": np.zeros(len(SCALES)), "rows": 0.0}
        model = self.model
        Z = model.at(x).predictors  # type: ignore[attr-defined]
        _, p = kernels.residual(model.loss, Z, model.y, np.ones(model.n))
        if model.k == 1:
            p = p.reshape(-1)
        terms = np.stack([model.s * conjugates(model, k * p) for k in SCALES])
        if model.k > 1 or self.f.free is None:
            return {"conj": terms.sum(axis=1), "rows": 1.0}
        up = p > 0
        plus = model.design.backward((model.s * np.where(up, p, 0.0))[:, None])[:, 0]
        return {"conj": terms.sum(axis=1), "rows": 1.0, "plus_conj": terms[:, up].sum(axis=1), "plus_g": plus}

    @np.errstate(over="ignore", invalid="ignore")
    def ray(self, x: Array, base: Array, steps: tuple[float, ...]) -> Array:
        """The loss at base + t (x - base)."""
        ray = self.f.at(base).ray(x - base)
        points = [base + t * (x - base) for t in steps]
        values = np.array([ray.value(t) - float((self.m * z) @ z) / 2 for t, z in zip(steps, points)])
        return np.where(np.isfinite(values), values, HUGE)


def tamed(sums: dict[str, Any]) -> dict[str, Any]:
    """The sums of a trial so far away that they overflow: finite, and too large for anybody to go there.

    The loss is HUGE squared, so that the mean over clients, however light this one is, is above HUGE.
    """
    if all(np.abs(value).max() < HUGE for value in sums.values()):
        return sums
    far = {name: np.full_like(value, HUGE if "conj" in name else 0.0) for name, value in sums.items()}
    return far | {"loss": HUGE**2, "rows": sums["rows"]}


def conjugates(model: LinearModel, u: Array) -> Array:
    """l* at u, row by row; a scale of a dual point is a dual point, so infinity would be rounding."""
    values = model.loss.conjugate(u, model.y)
    return np.where(np.isfinite(values), values, HUGE)


def hessian_block(f: Any, x: Array, index: npt.NDArray[np.intp], straight: float) -> Array:
    """The Hessian's rows and columns `index`; a linear model touches no others."""
    rows = rows_of(f)
    if rows is None:
        return np.asarray(f.newton_hessian(x, straight)[np.ix_(index, index)])
    model = rows.model
    features, classes = np.divmod(index, model.k)
    X = columns(model, features)
    W = model.newton_curvatures(x, straight)
    H = np.zeros((len(index), len(index)))
    for a in np.unique(classes):
        for b in np.unique(classes):
            rows_a, rows_b = classes == a, classes == b
            H[np.ix_(rows_a, rows_b)] = X[:, rows_a].T @ (W[a, b][:, None] * X[:, rows_b])
    model.cost.hessian_products += len(index)
    model.cost.passes += 1
    return np.asarray((H + H.T) / 2 + np.diag(np.broadcast_to(np.asarray(f.convexity), (f.d,))[index]))


def columns(model: LinearModel, features: npt.NDArray[np.intp]) -> Array:
    """These columns of the design, dense."""
    X = model.design.X
    stored = features < X.shape[1]
    out = np.ones((model.n, len(features)))
    block: Any = X[:, features[stored]]
    out[:, stored] = model.design.scale * (block.toarray() if hasattr(block, "toarray") else block)
    return out


def lower_bound(R: Regulariser, m: Any, x: Array) -> float:
    """What the sums m at x prove of E*."""
    if not m.loss < HUGE:  # somebody's gradient is not what was sent
        return -np.inf
    flat = np.flatnonzero(R.flat)
    if not all_rows(m):  # somebody's conjugates are not known: Fenchel's equality at x itself
        return float(m.loss - m.g @ x) - R.conjugate(-m.g)
    if len(flat) == 1 and hasattr(m, "plus_g"):
        return balanced(R, m, int(flat[0]))
    if len(flat):
        return -np.inf
    return best_scale(R, m.g, lambda s: -interpolated(m.conj, s))


def all_rows(m: Any) -> bool:
    """Whether the sums m are of linear models only."""
    return bool(m.rows > 1 - 1e-9)


def balanced(R: Regulariser, m: Any, k: int) -> float:
    """g_k = 0 by scaling down the slopes of the sign that has more."""
    plus, minus = float(m.plus_g[k]), float(m.plus_g[k] - m.g[k])
    if not min(plus, minus) > 0:
        return -np.inf
    up, down = min(1.0, minus / plus), min(1.0, plus / minus)
    g = up * m.plus_g + down * (m.g - m.plus_g)
    g[k] = 0.0
    rest = m.conj - m.plus_conj
    return best_scale(R, g, lambda s: -interpolated(m.plus_conj, s * up) - interpolated(rest, s * down))


def best_scale(R: Regulariser, g: Array, losses: Any) -> float:
    """The largest of losses(s) - R*(-s g) over a few s."""
    most = R.largest_scale(-g)
    grid = np.append(SCALES, most)
    steps = np.concatenate([grid, *((1 - r) * SCALES[1:] + r * SCALES[:-1] for r in BETWEEN)])
    return max(float(losses(float(s))) - R.conjugate(-float(s) * g) for s in steps if s <= most)


def interpolated(conj: Array, s: float) -> float:
    return float(np.interp(s, SCALES[::-1], conj[::-1]))
