"""What a client with a piecewise linear cost sends to a server on the central path, and what its dual points prove.

The client's side of FedIPM, as `smooth_sums` is that of Newton's methods; the symbols are those of fedipm.py. A dual
variable a per sample and piece (interior_point.py) stays at home. For any a in the box, with v = Z'Sa,

    E* >= a'Sb - R*(v).

Two dual points of every exchange are tried, a and a_0, and either may be scaled down at no cost (regulariser.py). On
the central path nearly all of the gap is the dual's: every sample keeps t/|u| away from the bound on which it ends, and
costs t. a_0 is where Newton's step leads for t = 0. One cannot go on from there, as it is on the bounds, but it proves
in this exchange what a proves in the next or later. A free intercept asks for sum_i s_i a_i q_i = 0: the terms of
either sign are added up apart (2d + 2 more floats), and the larger sum is scaled down. Where nothing is regularised, v
must vanish: Newton's dual variables satisfy that before they are clipped, and they may be scaled into a box that has 0
inside; clients count which of a few scales suffice, so that the sums tell the smallest. What rounding leaves of v is
weighed by how far out a minimiser may be (see `reach_of`); where columns are dependent, nobody knows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dualfl.algorithms.contract import Place
from dualfl.algorithms.few_exchanges.centring import centring, lowered, lowest, reach
from dualfl.algorithms.few_exchanges.interior_point import Pieces, advance, first, metric, pieces
from dualfl.algorithms.few_exchanges.packing import part, symmetric, upper
from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.objectives.linear import LinearModel
from dualfl.solvers.definite import independence
from dualfl.solvers.rows import rows_of
from dualfl.typing import Array

ALONE, ACCURACY = 40, 1e-6  # iterations, and relative gap, of a client's own solution
SCALES = 1 - np.array([0.0, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5])


class PiecewiseSilo:
    """One client's rows, and the sums it sends."""

    def __init__(self, f: Any, at: Place) -> None:
        rows = rows_of(f.objective)
        assert rows is not None, "an objective that offers a dual is a linear model"
        self.model: LinearModel = rows.model
        self.P: Pieces = pieces(rows.model)
        self.s: Array = rows.model.s
        self.R = Regulariser.at(at, rows.ridge, rows.c)
        # 0 < lo and hi < 0 do not occur; 0 at the end of a box leaves no room to scale into it
        self.centred = bool((self.P.lo < 0).all() and (self.P.hi > 0).all())

    def margins(self, th: Array) -> Array:
        return self.P.margins(self.model.predictors(th)[:, 0])

    def pull(self, *columns: Array) -> list[Array]:
        """Z'S applied to arrays of pieces by rows."""
        stacked = np.stack([self.s * (self.P.q * column).sum(axis=0) for column in columns], axis=1)
        self.model.cost.passes += 0.5
        return list(np.ascontiguousarray(self.model.design.backward(stacked).T))

    def step(self, th: Array, t: float, keep: float, a: Array, D: Array) -> tuple[dict[str, Any], Array, Array]:
        """One interior point step of this client: its sums, and its new variables."""
        u = self.margins(th)
        a, wanted = advance(self.P, u, a, D, t, keep)
        D = metric(self.P, u, a, t)
        sums = self.sums(u, a, D)
        if self.centred and np.count_nonzero(self.R.flat) > 1:
            sums |= self.unclipped(wanted, th)
        return sums, a, D

    def sums(self, u: Array, a: Array, D: Array) -> dict[str, Any]:
        P, s = self.P, self.s
        p, q = np.maximum(P.hi - a, 1e-15), np.maximum(a - P.lo, 1e-15)
        loss = P.loss(u)
        r0, r1 = self.pull(a + D * u, D * (1 / q - 1 / p))
        self.model.cost.gradients += 1
        self.model.cost.passes += 1
        h = upper(self.model.design.gram(s * (P.q**2 * D).sum(axis=0)))
        return {
            "loss": float(s @ loss.sum(axis=0)),
            "comp": float(s @ np.maximum(loss - a * u, 0.0).sum(axis=0)),
            **self.dual(a),
            "r0": r0,
            "r1": r1,
            "h": h,
        }

    def dual(self, a: Array) -> dict[str, Any]:
        """What a dual point proves; those of its terms that have one sign apart, where they have to be balanced."""
        balance = np.count_nonzero(self.R.flat) == 1
        points = [a, np.where(a * self.P.q > 0, a, 0.0)] if balance else [a]
        names = [("ab", "v"), ("plus_ab", "plus_v")]
        found: dict[str, Any] = {}
        for (ab, v), point, pulled in zip(names, points, self.pull(*points)):
            found |= {ab: float(self.s @ (point * self.P.b).sum(axis=0)), v: pulled}
        return found

    def at_the_end(self, end: Array, a: Array, D: Array) -> dict[str, Any]:
        """The dual point to which the step from (a, D) leads for t = 0; it proves nothing if nothing is regularised."""
        if np.count_nonzero(self.R.flat) > 1:
            return {}
        ends = np.clip(a + D * self.margins(end), self.P.lo, self.P.hi)
        return {f"end_{k}": v for k, v in self.dual(ends).items()}

    def unclipped(self, wanted: Array, th: Array) -> dict[str, Any]:
        """What Newton's method wanted, and which scales bring it into the box."""
        P = self.P
        fits = [float(((k * wanted >= P.lo) & (k * wanted <= P.hi)).all()) for k in SCALES]
        (v,) = self.pull(wanted)
        ab = float(self.s @ (wanted * P.b).sum(axis=0))
        return {"wanted_v": v, "wanted_ab": ab, "fits": np.array(fits), "reach": 10 * np.abs(th)}

    def alone(self) -> dict[str, Any]:
        """The solution of this client's own problem, by the same iteration, and its dual."""
        th, best = self.R.nearest(np.zeros(len(self.R.M))), np.inf
        u = self.margins(th)
        t = size = float(self.s @ np.abs(self.P.b).mean(axis=0)) or 1.0
        a = first(self.P, u, t)
        D = metric(self.P, u, a, t)
        m = self.sums(u, a, D)
        found: dict[str, Any] = {}
        for _ in range(ALONE):
            H = symmetric(m["h"], len(th))
            res = self.R.residual_beside(H, th, m["v"])
            gap, E = m["comp"] + res, m["loss"] + self.R.value(th)
            if gap < best:
                best, found = gap, {"local": th, "local_ab": m["ab"], "local_v": m["v"]}
            if gap <= ACCURACY * abs(E) + 1e-12 * size:  # one label alone can be fitted without any loss
                break
            sigma = centring(m["comp"], res, E, False)
            t = lowered(t, sigma, m["comp"], res, lowest(m["loss"], size))
            th = self.R.newton(H, m["r0"] + t * m["r1"], th)
            m, a, D = self.step(th, t, reach(sigma), a, D)
        return found


# -- at the server: what the sums prove ------------------------------------------------------------


def lower_bound(R: Regulariser, m: Any, far: Array | None = None) -> float:
    """What the sums m prove of E*; `far` is how far out a minimiser may be, if that is known."""
    here = proven(R, m, far)
    return max(here, proven(R, part(m, "end_"), None)) if hasattr(m, "end_v") else here


def proven(R: Regulariser, m: Any, far: Array | None) -> float:
    """The bound of one dual point."""
    flat = np.flatnonzero(R.flat)
    if not len(flat):
        return R.lower_bound(m.ab, m.v)
    if len(flat) == 1 and hasattr(m, "plus_v"):
        return balanced(R, m, int(flat[0]))
    return -np.inf if far is None else unregularised(R, m, far)


def balanced(R: Regulariser, m: Any, k: int) -> float:
    """v_k = 0 by scaling down the terms of the sign that has more."""
    plus, minus = float(m.plus_v[k]), float(m.plus_v[k] - m.v[k])
    if not min(plus, minus) > 0:
        return R.lower_bound(0.0, 0.0 * m.v)
    up, down = min(1.0, minus / plus), min(1.0, plus / minus)
    v = up * m.plus_v + down * (m.v - m.plus_v)
    v[k] = 0.0
    return R.lower_bound(up * m.plus_ab + down * (m.ab - m.plus_ab), v)


def unregularised(R: Regulariser, m: Any, far: Array) -> float:
    """Newton's dual variables, scaled into the box; v vanishes but for rounding, which |theta| and `far` weigh."""
    if not hasattr(m, "fits"):
        return -np.inf
    fits = np.flatnonzero(m.fits >= 1 - 1e-9)
    if not len(fits):
        return -np.inf
    scale = float(SCALES[fits[0]])
    v = np.where(R.flat, 0.0, scale * m.wanted_v)
    off = float(np.abs(scale * m.wanted_v)[R.flat] @ (m.reach + far)[R.flat])
    return R.lower_bound(scale * m.wanted_ab, v) - off


def reach_of(R: Regulariser, H: Array, loss: float, th: Array, size: float) -> Array | None:
    """How far out a minimiser y may be, coordinate by coordinate, by the sums at the start.

    There D is about 1/(|u| + t), and E(y) <= E makes (y - theta)'H(y - theta) of the order of E^2/t. With h^2 the
    diagonal of H and lam the `independence` of its columns that is at least lam sum_k h_k^2 (y_k - theta_k)^2.
    """
    flat = R.flat & (np.diag(H) > 0)  # a column of zeros is nowhere
    lam = independence(H[np.ix_(flat, flat)])
    if lam == 0:
        return None
    h = np.sqrt(np.where(flat, np.diag(H), np.inf))
    return np.asarray(np.abs(th) + 10 * (loss + R.value(th)) / (h * np.sqrt(lam * (size or 1.0))))
