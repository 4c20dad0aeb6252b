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

What is sent of a'Sb is too small by what rounding may have made it too large, and dual_bound.py does the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Place
from dualfl.algorithms.cuts import below
from dualfl.algorithms.few_exchanges import dependence, dual_bound, vertex_bound
from dualfl.algorithms.few_exchanges.centring import centring, lowered, lowest, reach
from dualfl.algorithms.few_exchanges.dual_bound import FEW, Doubt, tipped
from dualfl.algorithms.few_exchanges.interior_point import Pieces, advance, central, first, metric, pieces
from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.algorithms.packing import part, symmetric, upper
from dualfl.kernels.losses import EPSILON_INSENSITIVE, HINGE, QUANTILE
from dualfl.objectives import moments
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.rounding import roundings
from dualfl.solvers.definite import independence
from dualfl.solvers.row_view import rows_of
from dualfl.typing import Array

ALONE, ACCURACY = 40, 1e-6  # iterations, and relative gap, of a client's own solution
HELD = 1e-6  # of the mean square of the columns: a ridge beside which nobody needs `vertex_bound`
FAR = 100.0  # deviations from zero: beyond, columns are centred before they are multiplied
NEVER = 1e20  # stands for infinity in what is sent, also in masked sums
SCALES = 1 - np.array([0.0, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5])


class PiecewiseSilo:
    """One client's rows, and the sums it sends."""

    def __init__(self, f: ClientCost, at: Place) -> None:
        rows = rows_of(f.objective)
        assert rows is not None, "an objective that offers a dual is a linear model"
        self.model: LinearModel = rows.model
        self.P: Pieces = pieces(rows.model)
        self.s: Array = rows.model.s
        self.weight = at.weight
        self.R = Regulariser.at(at, rows.ridge, rows.c)
        # In one process time counts: where a ridge holds everything, the other bounds do, and its sums are half of all.
        held = not self.R.flat.any() and float(self.R.m.min()) >= HELD * float(np.mean(rows.model.column_sizes**2))
        self.by_vertex = not (held and getattr(f, "remembers", False))
        # 0 < lo and hi < 0 do not occur; 0 at the end of a box leaves no room to scale into it
        self.centred = bool((self.P.lo < 0).all() and (self.P.hi > 0).all())

    def margins(self, th: Array) -> Array:
        return self.P.margins(self.model.predictors(th)[:, 0])

    def pull(self, *columns: Array) -> list[Array]:
        """Z'S applied to arrays of pieces by rows."""
        stacked = np.stack([self.s * (self.P.q * column).sum(axis=0) for column in columns], axis=1)
        self.model.cost.passes += 0.5
        return list(np.ascontiguousarray(self.model.design.backward(stacked).T))

    def step(
        self, th: Array, t: float, keep: float, a: Array, D: Array, origin: Array
    ) -> tuple[dict[str, Any], Array, Array]:
        """One interior point step of this client: its sums, and its new variables."""
        u = self.margins(th)
        a, wanted = advance(self.P, u, a, D, t, keep)
        D = metric(self.P, u, a, t)
        sums = self.sums(u, a, D, origin)
        if self.centred and np.count_nonzero(self.R.flat) > 1:
            sums |= self.unclipped(wanted)
        return sums, a, D

    def sums(self, u: Array, a: Array, D: Array, origin: Array) -> dict[str, Any]:
        """All that a step needs; H is that of columns which have their zeros at `origin`: see `far_origin`."""
        P, s = self.P, self.s
        p, q = np.maximum(P.hi - a, 1e-15), np.maximum(a - P.lo, 1e-15)
        loss = P.loss(u)
        r0, r1 = self.pull(a + D * u, D * (1 / q - 1 / p))
        self.model.cost.gradients += 1
        self.model.cost.passes += 1
        h = upper(self.gram(s * (P.q**2 * D).sum(axis=0), origin))
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
        slack = self.slack(a)
        found: dict[str, Any] = {}
        for (ab, v), point, pulled, times in zip(names, points, self.pull(*points), (len(points), 1)):
            # twice for the whole, so that what is left without the positive terms is too small as well
            found |= {ab: float(self.s @ (point * self.P.b).sum(axis=0)) - times * slack, v: pulled}
        return found

    def slack(self, a: Array) -> float:
        """How far off a'Sb may be by rounding."""
        return roundings(self.model.n) * float(self.s @ np.abs(a * self.P.b).sum(axis=0))

    @property
    def spread(self) -> float:
        """With the sizes of the columns, a bound of how far off v = Z'Sa may be for any a in the box."""
        largest = float(np.maximum(np.abs(self.P.lo), np.abs(self.P.hi)).sum())
        return (roundings(self.model.n + self.model.design.D) * largest) ** 2 * float(self.s.sum())

    def doubts(self, at: Place, D: Array) -> dict[str, Any]:
        """What the server needs once: to know the rounding errors of all sums, and for `reach_of`.

        It needs the largest of all silos; what is divided by the weight has a mean that is no smaller.
        """
        loss, s = self.model.loss, self.s * at.weight
        growth = NEVER if loss.code == HINGE else 1.0
        if loss.code == QUANTILE:
            growth = 1 / min(loss.parameter, 1 - loss.parameter)
        steep = float(np.max((self.P.q**2 * D).sum(axis=0)[s > 0] / s[s > 0]))
        return {
            "sizes2": self.model.column_sizes**2 + at.grid,
            "spread": self.spread,
            "grid": at.grid,
            "steep": steep / at.weight,
            "growth": growth / at.weight,
            "dead": loss.parameter if loss.code == EPSILON_INSENSITIVE else 0.0,
        }

    def at_the_end(self, end: Array, a: Array, D: Array, centre: Array) -> dict[str, Any]:
        """The dual point to which the step from (a, D) leads for t = 0."""
        u = self.margins(end)
        ends = np.clip(a + D * u, self.P.lo, self.P.hi)
        loss = self.P.loss(u)
        sums = self.dual(ends) | {"loss": float(self.s @ loss.sum(axis=0))}
        if self.by_vertex:
            sums |= self.room(ends, centre)
        sums["comp"] = float(self.s @ np.maximum(loss - ends * u, 0.0).sum(axis=0))
        return {f"end_{k}": v for k, v in sums.items()}

    def copies(self, guesses: Array) -> dict[str, Array]:
        """Which columns are not what the server guessed; nothing if it did not guess."""
        return {"unlike": dependence.unlike(self.model.design, guesses)} if len(guesses) else {}

    def slope(self, th: Array, t: float, end: Array, origin: Array) -> dict[str, Any]:
        """What a client with few rows sends: its losses, and one slope, which is its dual point at the end as well."""
        u = self.margins(th)
        a = central(self.P, u, t)
        sums = of_few_rows(self.sums(u, a, metric(self.P, u, a, t), origin))
        there: dict[str, Any] = {name: sums[name] for name in ("ab", "v", "plus_ab", "plus_v", "comp") if name in sums}
        there |= {"room": np.zeros_like(sums["h"]), "own_room": np.zeros(len(sums["v"])), "rough": 0.0}
        there["loss"] = float(self.s @ self.P.loss(self.margins(end)).sum(axis=0))
        return sums | {f"end_{name}": x for name, x in there.items()}

    def no_copies(self, guesses: Array) -> dict[str, Array]:
        """Whether columns are others is not told, so none is taken to be."""
        return {"unlike": np.ones(len(guesses))} if len(guesses) else {}

    def room(self, a: Array, centre: Array) -> dict[str, Any]:
        """G of `vertex_bound`, and how far off it may be."""
        room = np.maximum(np.minimum(self.P.hi - a, a - self.P.lo), 0.0) * (1 - FEW)
        w = self.weight * np.square(self.s * self.P.q * room).sum(axis=0)
        K, own = roundings(self.model.n + self.model.design.D), moments.squares(self.model.design, w)
        return {"room": upper(self.gram(w, centre)), "own_room": own, "rough": K**2 / self.weight}

    def gram(self, w: Array, centre: Array) -> Array:
        """Z' diag(w) Z, where Z has its columns less `centre` times the last one."""
        design = self.model.design
        if not centre.any():
            return design.gram(w)
        G = np.zeros((design.D, design.D))
        for rows, block in moments.blocks(design, design.D):
            centred = np.sqrt(w[rows])[:, None] * (block - block[:, -1:] * centre)
            G += centred.T @ centred
        return G

    def unclipped(self, wanted: Array) -> dict[str, Any]:
        """What Newton's method wanted, and which scales bring it into the box."""
        P = self.P
        fits = [float(((k * wanted >= P.lo) & (k * wanted <= P.hi)).all()) for k in SCALES]
        (v,) = self.pull(wanted)
        ab = float(self.s @ (wanted * P.b).sum(axis=0)) - self.slack(wanted)
        return {"wanted_v": v, "wanted_ab": ab, "fits": np.array(fits)}

    def alone(self) -> dict[str, Any]:
        """The solution of this client's own problem, by the same iteration, and its dual."""
        th, best = self.R.nearest(np.zeros(len(self.R.M))), np.inf
        u = self.margins(th)
        t = size = float(self.s @ np.abs(self.P.b).mean(axis=0)) or 1.0
        a = first(self.P, u, t)
        D = metric(self.P, u, a, t)
        m = self.sums(u, a, D, np.zeros(len(th)))
        origin = far_origin(self.R, symmetric(m["h"], len(th)))
        m = self.sums(u, a, D, origin) if origin.any() else m
        found: dict[str, Any] = {}
        for _ in range(ALONE):
            H = symmetric(m["h"], len(th))
            res = self.R.residual_beside(H, th, m["v"], origin)
            gap, E = m["comp"] + res, m["loss"] + self.R.value(th)
            if gap < best:
                best, found = gap, {"local": th, "local_ab": m["ab"], "local_v": m["v"]}
            if gap <= ACCURACY * abs(E) + 1e-12 * size:  # one label alone can be fitted without any loss
                break
            sigma = centring(m["comp"], res, E, False)
            t = lowered(t, sigma, m["comp"], res, lowest(m["loss"], size))
            th = self.R.newton_beside(H, m["r0"] + t * m["r1"], th, origin)
            m, a, D = self.step(th, t, reach(sigma), a, D, origin)
        return found


def far_origin(R: Regulariser, H: Array) -> Array:
    """Where columns should have their zeros for second-order sums to keep their digits, by H, a first such sum.

    Rows on their kinks weigh up to a million times as much as others. A column with a mean of r deviations has r^2
    roundings of its heaviest rows in its variance, and so loses the others. R must not feel a shift, and it does not if
    it is flat in the last coefficient, usually an intercept. Columns that are near their zeros stay as they are.
    """
    origin = np.zeros(len(H))
    if R.flat[-1] and H[-1, -1] > 0:
        mean, square = H[:-1, -1] / H[-1, -1], np.diag(H)[:-1] / H[-1, -1]
        origin[:-1] = np.where(mean**2 > FAR**2 * np.maximum(square - mean**2, 0.0), mean, 0.0)
    return origin


def of_few_rows(sums: dict[str, Any]) -> dict[str, Any]:
    """The sums of a client with few rows: losses, and the slope v of its smoothed loss; no metric.

    Its dual point goes with those of one sign, wherever these are scaled: that is a dual point, too.
    """
    found = dict(sums) | {"r0": sums["v"]}
    for name in ("h", "r1", "plus_ab", "plus_v"):
        if name in sums:
            found[name] = np.zeros_like(sums[name])
    if "sizes2" in found:  # one number for all columns bounds them all
        found["sizes2"] = np.full_like(sums["sizes2"], np.max(sums["sizes2"]))
    return found


# -- at the server: what the sums prove ------------------------------------------------------------


def lower_bound(
    R: Regulariser,
    m: Any,
    doubt: Doubt,
    spread: float,
    far: Array | None = None,
    end: Array | None = None,
    centre: Array | None = None,
    copies: Array = dependence.NONE,
) -> float:
    """What the sums m prove of E*; `far` is how far out a minimiser may be, if that is known, `end` is theta_0."""
    here = proven(R, m, doubt, spread, far)
    if end is None or centre is None or not hasattr(m, "end_v"):
        return here
    there = part(m, "end_")
    if not hasattr(there, "room"):
        return max(here, proven(R, there, doubt, spread, None))
    beside = vertex_bound.proven(R, there, end, doubt, spread, centre, copies)
    return max(here, proven(R, there, doubt, spread, None), beside)


def proven(R: Regulariser, m: Any, doubt: Doubt, spread: float, far: Array | None) -> float:
    """The bound of one dual point."""
    flat, off = np.flatnonzero(R.flat), doubt.off(spread, m.v)
    if not len(flat):
        return dual_bound.lower_bound(R, summed(m.ab, doubt), m.v, off)
    if len(flat) == 1 and hasattr(m, "plus_v"):
        return balanced(R, m, off, int(flat[0]), doubt)
    return -np.inf if far is None else unregularised(R, m, off, far, doubt)


def summed(ab: float, doubt: Doubt) -> float:
    """A mean over silos, too small by what adding up may have made it too large."""
    return float(ab) - roundings(doubt.silos) * abs(float(ab))


def balanced(R: Regulariser, m: Any, off: Array, k: int, doubt: Doubt) -> float:
    """v_k = 0 by scaling down the terms of the sign that has more, and a little more than that: see `dual_bound`."""
    plus, minus = float(m.plus_v[k]), float(m.plus_v[k] - m.v[k])
    around = np.where(np.arange(len(off)) == k, 0.0, 3 * off + FEW * np.abs(m.plus_v))
    bounds = []
    for up, down in tipped(plus, minus, float(off[k])):
        v = up * m.plus_v + down * (m.v - m.plus_v)
        v[k] = 0.0
        sizes = abs(m.plus_ab) + abs(m.ab)
        ab = up * m.plus_ab + down * (m.ab - m.plus_ab) - roundings(doubt.silos) * float(sizes)
        bounds.append(dual_bound.lower_bound(R, ab, v, around))
    return min(bounds) if bounds else dual_bound.lower_bound(R, 0.0, 0.0 * m.v, 0.0 * off)


def unregularised(R: Regulariser, m: Any, off: Array, far: Array, doubt: Doubt) -> float:
    """Newton's dual variables, scaled into the box; v vanishes but for rounding, which `far` weighs."""
    if not hasattr(m, "fits"):
        return -np.inf
    fits = np.flatnonzero(m.fits >= 1 - 1e-9)
    if not len(fits):
        return -np.inf
    scale = float(SCALES[fits[0]])
    v = np.where(R.flat, 0.0, scale * m.wanted_v)
    lost = float(np.where(R.flat, np.abs(m.wanted_v) + off, 0.0) @ np.where(R.flat, far, 0.0))
    around = np.where(R.flat, 0.0, off)
    bound = dual_bound.lower_bound(R, scale * summed(m.wanted_ab, doubt), v, around)
    return below(bound - lost, abs(bound) + lost, 4)


def reach_of(R: Regulariser, m: Any, th: Array) -> Array | None:
    """How far out a minimiser y may be, coordinate by coordinate, by the sums m at the start theta.

    A loss that grows on both sides, |r| <= growth (l + dead) for the residual r, has

        sum_i s_i |x_i'(y - theta)|  <=  growth (E(y) + E(theta) + 2 dead)  <=  B  =  2 growth (E(theta) + dead),

    so no term is above B/s_i, and with H = sum_i s_i D_i x_i x_i' and `steep` >= D_i/s_i

        (y - theta)'H(y - theta)  <=  max_i (D_i |x_i'(y - theta)|) B  <=  steep B^2.

    With h^2 the diagonal of H and lam the `independence` of its columns the left side is at least
    lam sum_k h_k^2 (y_k - theta_k)^2. A hinge does not grow on both sides, and nobody knows.
    """
    H = symmetric(m.h, len(th))
    there = np.diag(H) > 0  # a column of zeros is nowhere
    lam = independence(H[np.ix_(there, there)])
    if lam == 0 or not m.growth < NEVER / 2:
        return None
    h = np.sqrt(np.where(there, np.diag(H), np.inf))
    B = 2 * m.growth * (m.loss + R.value(th) + m.dead)
    return np.asarray(np.abs(th) + 2 * B * np.sqrt(m.steep / lam) / h)
