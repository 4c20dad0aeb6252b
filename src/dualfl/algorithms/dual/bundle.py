"""A multi-cut bundle method: a lower model of E from subgradients, from sums only.

C. H. Teo, S. V. N. Vishwanathan, A. Smola and Q. V. Le, "Bundle methods for regularized risk minimization", 2010, with
several cuts an exchange, and in the metric of the ridge.

The clients tell the ridge of every coefficient once, and all that follows is in coordinates z in which it is 1, so that
units of columns do not matter (`bundle_units`). Write E = G + (1/2)|.|^2. A subgradient q_k of G at z_k, with
b_k = G(z_k) - <q_k, z_k>, is a cut G >= <q_k, .> + b_k. The model of all cuts plus the ridge has the dual

    LB = max over the simplex of  beta'b - |sum_k beta_k q_k|^2/2,             minimiser  -sum_k beta_k q_k,

and LB <= E*. Each round cuts at several points on the way from the best point so far to that minimiser, all in ONE
exchange. E_best - LB is a certificate that needs nothing else (`cuts` and `bundle_units` compute LB). For nonsmooth
costs of moderate kappa.

With `proximal` some coefficients, or all, may have no ridge. The model has (rho/2)|z - z_best|^2 there instead (C.
Lemarechal, "Bundle methods in nonsmooth optimization", 1978), and rho falls whenever its minimiser is the best point.
Beside a ridge on all others an intercept without one has a certificate, too.

A point where a cost overflows, as a Poisson loss can, gives no cut. Where all of them do, the next round looks closer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Means, Place, Round, Upload, ask, client_step
from dualfl.algorithms.cuts import LARGEST
from dualfl.algorithms.dual.bundle_units import Units, columns, lower_bound
from dualfl.algorithms.dual.kinks import steady_subgradient
from dualfl.algorithms.dual.simplex import minimise_on_simplex
from dualfl.errors import InputError, NotSupported
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import BoxConstraint, Penalised
from dualfl.typing import Array

FRACTIONS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
FAR = 1e12  # times the best energy: beside a cut that high, rounding leaves nothing of the others in the model
BEYOND = 1e100  # an energy above it gives no cut; its square is sent for what overflows
EASED, LEAST = 0.1, 1e-12  # by which rho falls, and of the first one, where it ends
LEVEL = (
    1e-2  # the square of a slope: columns of size 1 have slopes near 1, and less is by chance, as between two classes
)


@dataclass(frozen=True)
class Local:
    scale: Array
    centre: Array


@dataclass(frozen=True)
class Server:
    """In coordinates z."""

    best: Array
    E_best: float
    target: Array  # minimiser of the model
    scale: Array  # what z is: see `Units`
    centre: Array
    ridge: Array
    rho: float
    easiest: float  # the least rho
    Z: Array  # cuts by d: where they were made
    S: Array  # the slopes of E
    E: Array  # its heights, and how far off both may be
    off: Array
    off_g: Array
    beta: Array
    bound: float
    told: bool = False  # whether the clients know what z is

    @property
    def units(self) -> Units:
        return Units(self.scale, self.centre, self.ridge)


@dataclass(frozen=True)
class Bundle(Algorithm):
    """Multi-cut bundle method: minimises the largest of the tangents that clients have sent, of which it keeps `most`.

    Parameters
    ----------
    most : int, default 300
        How many cuts are kept.
    proximal : bool, default False
        Whether coefficients may be without a ridge; a proximal term stands in for it.
    least_rows : int, default 5
        Clients with fewer rows tell no sizes and means of their columns.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.Bundle(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    most: int = 300
    proximal: bool = False
    least_rows: int = 5

    name = "bundle"
    needs = frozenset({"local"})
    penalty = "client"
    strongly_convex = cast(bool, property(lambda self: not self.proximal))  # of other algorithms a class knows it
    no_certificate = "a coefficient beside the intercept has no ridge, or rounding hides it"
    grid: ClassVar = {"most": [100, 300]}
    card = Card(
        "Multi-cut bundle",
        2010,
        "Teo, Vishwanathan, Smola and Le",
        up="6d + 18",
        down="6d",
        needs="strongly convex (proximal: convex)",
        rate="1/(mu eps)",
        paper="https://jmlr.org/papers/v11/teo10a.html",
    )

    def check(self, k: Constants) -> None:
        self.require(self.most >= 2 * len(FRACTIONS), "most", f"it must be at least {2 * len(FRACTIONS)} cuts")
        self.require(self.least_rows >= 1, "least_rows", "it must be at least 1 row")

    # -- the server --------------------------------------------------------------------------------

    def start(self, at: Place) -> Round:
        m = yield ask(self.begin)
        if not m.E < BEYOND:
            raise InputError("bundle needs a start where E is finite, but it is not; give another `start`.")
        units, z, none = Units.chosen(m.M, m.own, m.cross, float(m.grid)), np.zeros(at.d), np.zeros(0)
        flat = np.where(units.ridge == 0, units.pull(m.g), 0.0)
        rho = max(float(flat @ flat), LEVEL) / (2 * abs(float(m.E)) or 1.0)  # so that the first step promises E
        cuts = (np.zeros((0, at.d)), np.zeros((0, at.d)), none, none, none)
        s = Server(z, np.inf, z, units.scale, units.centre, units.ridge, rho, LEAST * rho, *cuts, none, -np.inf)
        first = Means(E=np.array([m.E]), g=m.g[None], off=np.array([m.off]), off_g=np.array([units.length(m.e)]))
        return self.with_cuts(s, z[None], first, at)

    def round(self, s: Server, at: Place) -> Round:
        Z = np.stack([s.best + t * (s.target - s.best) for t in FRACTIONS])
        X = s.units.to(Z)
        if s.told:
            m = yield ask(self.cuts, X=X)
        else:
            m = yield ask(self.first_cuts, X=X, scale=s.scale, centre=s.centre)
        return self.with_cuts(replace(s, told=True), Z, m, at)

    @np.errstate(over="ignore", invalid="ignore")
    def with_cuts(self, s: Server, Z: Array, m: Any, at: Place) -> Server:
        """The model with new cuts at the rows of Z, its minimiser and its minimum."""
        sound = np.flatnonzero(m.E < min(BEYOND, FAR * (1 + abs(s.E_best))))
        if not len(sound):
            return replace(s, target=Z[0])
        points = list(Z)
        new = [s.units.cut(points[i], m.E[i], m.g[i], m.off[i], m.off_g[i], at.N) for i in sound]
        lowest = min(new, key=lambda cut: cut.E)
        if lowest.E < s.E_best:
            rho = max(EASED * s.rho, s.easiest) if len(Z) > 1 and lowest.x is points[-1] else s.rho
            s = replace(s, best=lowest.x, E_best=lowest.E, rho=rho)
        keep = np.sort(np.argsort(-s.beta, kind="stable")[: self.most - len(new)])
        old = (s.Z, s.E, s.S, s.off, s.off_g)
        Z, E, S, off, off_g = (np.concatenate([part[keep], np.array(more)]) for part, more in zip(old, zip(*new)))
        beta = np.append(s.beta[keep], np.zeros(len(new)))
        return self.minimised(replace(s, Z=Z, E=E, S=S, off=off, off_g=off_g, beta=beta))

    def minimised(self, s: Server) -> Server:
        """The minimiser of the model, and what its cuts prove."""
        free = 1 - s.ridge
        Q = s.S - s.ridge * s.Z
        metric = s.ridge + s.rho * free
        b = s.E + np.einsum("ij,ij->i", s.Z, s.ridge * s.Z) / 2 - np.einsum("ij,ij->i", s.S, s.Z) + Q @ (free * s.best)
        beta = minimise_on_simplex((Q / metric) @ Q.T, b)
        target = (s.rho * free * s.best - beta @ Q) / metric
        s = replace(s, target=target, beta=beta)
        return replace(s, bound=max(s.bound, lower_bound(s.units, s.Z, s.S, s.E, s.off, s.off_g, beta, target)))

    def model(self, s: Server) -> Array:
        return np.asarray(s.units.to(s.best[None])[0])

    def bound(self, s: Server) -> float:
        return s.bound

    # -- a client ----------------------------------------------------------------------------------

    @client_step
    def begin(self, f: ClientCost, c: Any, at: Place) -> tuple[Upload, Any]:
        """The first cut, at 0, and all that says what z is."""
        check_penalty(f.objective)
        zero = np.zeros(at.d)
        E, g, off, e = cut_at(f, at, zero)
        M = np.broadcast_to(np.asarray(f.objective.convexity, dtype=float), (at.d,))
        own, cross = columns(f.objective, g, self.least_rows)
        return at.send(E=E, g=g, off=off, e=e, M=M, own=own, cross=cross, grid=at.grid), c

    @client_step
    def first_cuts(
        self, f: ClientCost, c: Any, at: Place, X: Array, scale: Array, centre: Array
    ) -> tuple[Upload, Local]:
        return self.answered(f, Local(scale, centre), at, X)

    @client_step
    def cuts(self, f: ClientCost, c: Local, at: Place, X: Array) -> tuple[Upload, Local]:
        return self.answered(f, c, at, X)

    def answered(self, f: ClientCost, c: Local, at: Place, X: Array) -> tuple[Upload, Local]:
        """E_j and a subgradient of it at the rows of X, and how far off they may be, slopes by their length in z."""
        units = Units(c.scale, c.centre, np.ones(at.d))
        E, g, off, e = zip(*(cut_at(f, at, x) for x in X))
        lengths = [min(units.length(one), LARGEST) + at.grid for one in e]
        return at.send(E=np.array(E), g=np.stack(g), off=np.array(off), off_g=np.array(lengths)), c


@np.errstate(over="ignore", invalid="ignore")
def cut_at(f: ClientCost, at: Place, x: Array) -> tuple[float, Array, float, Array]:
    """f and a subgradient at x, and how far off they may be."""
    E = f.value(x)
    g, high = steady_subgradient(f, x)
    if not (E < BEYOND and np.isfinite(g).all()):
        return BEYOND**2, np.zeros(at.d), 0.0, np.zeros(at.d)
    off, e = f.rounding(x)
    return E, g, min(off + 2 * high, LARGEST) + at.grid, np.minimum(e, LARGEST) + at.grid


def check_penalty(f: Objective) -> None:
    """Refuse bounds: a cut at a point outside of them would be infinite."""
    penalty = f.penalty if isinstance(f, Penalised) else None
    if isinstance(penalty, BoxConstraint) and np.isfinite([penalty.lower, penalty.upper]).any():
        raise NotSupported(
            f"bundle evaluates the cost anywhere, and outside of {penalty} the cost is infinite; "
            "use dualfl, prox-newton or fedipm, which stay inside."
        )
