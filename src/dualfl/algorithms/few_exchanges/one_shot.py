"""One exchange for squared losses: the clients send their second moments, and the server solves.

A quadratic cost f is known everywhere from one point: f(0), f'(0) and f'', which for least squares are y'Sy/2, X'Sy and
X'SX (plus the ridge). Their sums give E but for the penalty, and the server minimises

    E(z) = E(0) + g'z + z'Hz/2 + P(z),        P: l1, elastic net, group, box, or none,

to rounding. The bound comes from the same sums. Let r be the gradient of the losses at z. They are a quadratic, so

    E(y)  =  E(z) + <rho, y - z> + (1/2)(y - z)'(H + M)(y - z) + (something >= 0),      rho = r + Mz + p,  p in P'(z),

M the ridge. With h_k^2 the diagonal of H + M and lam > 0 the smallest eigenvalue that it has once its diagonal is 1,

    E*  >=  E(z) - sum_k (|rho_k|/h_k)^2/(2 lam),

whatever is regularised and whatever is not. Where columns are dependent, lam is 0 and duality has to do: the conjugate
of a squared loss is l*(u) = u^2/2 + u y, so with the losses L at z and R the ridge and the penalty

    E* >= -s (r'z - L) + s (1 - s) L - R*(-s r)        for every s in [0, 1].

Both are known to the server, as is how far off they may be by rounding: H_kl = sum_i s_i x_ik x_il is off by at most
K u h_k h_l, the loss and its gradient at the point where the clients computed them by what `objectives.rounding` says.

One exchange is all it takes. If a run goes on, each further round refines: the gradient at the solution, computed from
the rows and not from the moments, replaces g, which takes the error from kappa(X)^2 to kappa(X) roundings; and the loss
there replaces that of zero, which may be far larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step
from dualfl.algorithms.cuts import below
from dualfl.algorithms.few_exchanges import dependence
from dualfl.algorithms.few_exchanges.dual_bound import (
    FEW,
    MEAN,
    Doubt,
    at_scale,
    conjugate_above,
    largest_scale,
    leaning,
)
from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.algorithms.few_exchanges.smooth_sums import SmoothSilo
from dualfl.algorithms.few_exchanges.upload_limits import check_rows, check_size
from dualfl.algorithms.packing import symmetric, upper
from dualfl.algorithms.states import replace
from dualfl.errors import NotSupported
from dualfl.objectives.rounding import of_mean, roundings
from dualfl.solvers.coordinate_descent import is_quadratic
from dualfl.solvers.definite import independence
from dualfl.typing import Array

LARGEST = 2000
LOOSE = 1e-8  # of E: a gap that is worth another solve at the server
TIP = 3  # times how far off the mean of the residuals is, or may be


@dataclass(frozen=True)
class Server:
    x: Array
    bound: float = -np.inf
    M: Array | None = None
    H: Array | None = None  # of the losses
    K: float = 0.0  # what entries of H are off by rounding, relative to h_k h_l
    guesses: Array | None = None  # of columns that are others: see `dependence`
    still: tuple[int, ...] = ()  # those that are
    rows: bool = True  # all clients have rows and squared losses, so that dual points may be scaled


@dataclass(frozen=True)
class OneShot(Algorithm):
    """One exchange for squared losses: clients send their second moments, and the server solves the problem.

    Parameters
    ----------
    least_rows : int, default 5
        Clients with fewer rows refuse to send sums of second derivatives.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("diabetes", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.OneShot(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    least_rows: int = 5

    name = "one-shot"
    needs = frozenset({"gradient", "hessian"})
    penalty = "server"
    strongly_convex = False
    warm = True
    no_certificate = "nothing is regularised"
    grid: ClassVar = {}
    card = Card(
        "One shot",
        1805,
        "Legendre's normal equations",
        exchanges="1 in all",
        up="d (d + 1)/2 + 3d + 6 once, then 2d + 4",
        needs="squared loss, d <= 2000; any penalty with a prox",
        rate="exact after one exchange",
    )

    additive = True

    def check(self, k: Constants) -> None:
        self.require(self.least_rows >= 1, "least_rows", "it must be at least 1 row")
        check_size(self.name, k.d, LARGEST, "prox-newton with an l1 penalty, lbfgs or nesterov")

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d) if at.start is None else at.start)

    def round(self, s: Server, at: Place) -> Round:
        if s.M is None:
            m = yield ask(self.moments)
            s = replace(s, M=m.M, H=symmetric(m.h, at.d), K=of_mean(at.N) * float(m.K), rows=m.rows > 1 - 1e-9)
            R = Regulariser.at(at, m.M, np.zeros(at.d))
            guesses = dependence.guessed(symmetric(m.h, at.d), (R.m == 0) & ~R.penalised_at)
            guesses = guesses[(R.m == 0)[guesses[:, 0].astype(int)]]
            s = replace(s, guesses=guesses if len(guesses) and s.rows else None)
            return self.solved(s, np.zeros(at.d), m, at)
        m = yield ask(self.refine, x=s.x, guesses=dependence.NONE if s.guesses is None else s.guesses)
        if s.guesses is not None:
            copies = dependence.proven(s.guesses, m.unlike)
            s = replace(s, guesses=None, still=tuple(int(k) for k in copies[:, 0]))
        return self.solved(s, s.x, m, at)

    def solved(self, s: Server, x: Array, m: Any, at: Place) -> Server:
        """The minimiser, from the losses and their gradient at x."""
        assert s.M is not None and s.H is not None
        R = Regulariser.at(at, s.M, np.zeros(at.d))
        z = R.newton(s.H, -m.g, x)
        sums = Quadratics(s.H, s.K, float(m.grid), at.N)
        there = sums.moved(m, x, z)
        bound, E = max(s.bound, decrement_bound(R, there, s.still)), there.L + R.value(z)
        if E - bound > 3 * there.off_L:  # else it is as near as rounding lets anything be
            bound = max(bound, dual(R, sums, m, x, z, s.rows))
        if E - bound > max(LOOSE * abs(E), 10 * there.off_L):  # a dual point a hair further inside the domain of R*
            lean = leaning(R, z, there.off_r)
            if lean.any():
                bound = max(bound, dual(R, sums, m, x, R.newton(s.H, lean - m.g, x), s.rows))
        return replace(s, x=z, bound=bound)

    def model(self, s: Server) -> Array:
        return s.x

    def bound(self, s: Server) -> float:
        return s.bound

    @client_step
    def moments(self, f: ClientCost, c: Any, at: Place) -> tuple[Upload, Any]:
        if not is_quadratic(f.objective):
            raise NotSupported(
                f"one-shot is for squared losses, and client {at.j}'s is {f.objective.name}; "
                "use sketched-newton, or prox-newton with a penalty."
            )
        silo, zero = SmoothSilo(f), np.zeros(at.d)
        check_rows(self.name, at.j, f.objective, self.least_rows)
        loss, g = f.objective.value_gradient(zero)
        h = upper(f.objective.hessian(zero) - np.diag(silo.m))
        sums = {"loss": loss, "g": g, "M": silo.m, "h": h, "rows": float(silo.model is not None)}
        K = roundings(f.n + at.d)
        return at.send(**sums, **silo.doubts(zero), sizes2=silo.sizes2 + at.grid, K=K, grid=at.grid), c

    @client_step
    def refine(self, f: ClientCost, c: Any, at: Place, x: Array, guesses: Array) -> tuple[Upload, Any]:
        silo = SmoothSilo(f)
        sums = silo.sums(x, hessian=False)
        kept = {name: sums[name] for name in ("loss", "g", "off", "spread")}
        if len(guesses) and silo.model is not None:
            kept["unlike"] = dependence.unlike(silo.model.design, guesses)
        return at.send(**kept, sizes2=silo.sizes2 + at.grid, grid=at.grid), c


# -- what the sums prove ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class There:
    """The losses at z, with how far off everything may be."""

    z: Array
    L: float
    off_L: float
    conj: float  # r'z - L, from above
    r: Array
    off_r: Array
    H: Array
    K: float


@dataclass(frozen=True)
class Quadratics:
    """The Hessian of the losses, off by at most K h_k h_l + grid."""

    H: Array
    K: float
    grid: float
    silos: int

    def moved(self, m: Any, x: Array, z: Array) -> There:
        """The losses at z from those at x; m: what the clients sent of x."""
        H, d, many = self.H, z - x, of_mean(self.silos)
        h, size = np.sqrt(np.maximum(np.diag(H), 0.0)), np.abs(d)
        along, arithmetic = float(h @ size), roundings(len(z))
        Hd = H @ d
        off_g = Doubt(m.sizes2, self.grid, self.silos).off(m.spread, m.g)
        off_H = self.K * h * along + many * self.grid * float(size.sum())
        off_r = off_g + off_H + arithmetic * (np.abs(m.g) + h * along)
        r = m.g + Hd
        L = float(m.loss + m.g @ d + d @ Hd / 2)
        sizes = abs(float(m.loss)) + float(np.abs(m.g) @ size) + along**2
        off_L = many * float(m.off) + float(off_g @ size) + float(off_H @ size) / 2 + arithmetic * sizes
        rz, rz_size = float(r @ z), float(np.abs(r) @ np.abs(z))
        conj = rz - L + off_L + arithmetic * (rz_size + abs(L))
        return There(z, L, off_L, conj, r, off_r, H, self.K)


def decrement_bound(R: Regulariser, at: There, still: tuple[int, ...] = ()) -> float:
    """E(z) - sum_k (|rho_k|/h_k)^2/(2 lam); columns that are others need not be looked at."""
    total = at.H + np.diag(R.m)
    there = np.diag(total) > 0  # a column of zeros is nowhere
    there[list(still)] = False
    lam = independence(total[np.ix_(there, there)]) - 2 * int(there.sum()) * at.K
    if not lam > 0:
        return -np.inf
    own = R.m * at.z - R.c
    slope = at.r + own
    rho = slope if R.penalised is None else R.penalised.steepest(at.z, at.r + R.M * at.z - R.c)
    off = at.off_r + FEW * (np.abs(at.r) + np.abs(own) + (0.0 if R.penalised is None else np.abs(slope)))
    h = np.sqrt(np.diag(total)[there])
    price = float(np.sum(((np.abs(rho) + off)[there] / h) ** 2)) / (2 * lam)
    value = R.value(at.z)
    return below(at.L - at.off_L + value - price, abs(at.L) + abs(value) + price, len(at.z) + MEAN)


def dual(R: Regulariser, sums: Quadratics, m: Any, x: Array, z: Array, rows: bool) -> float:
    """What the residuals at z prove by duality; `rows`: they may be scaled.

    A free intercept wants residuals of mean 0, which rounding does not leave. So it is moved to either side, until the
    mean is surely positive, and surely negative: each proves a bound for one sign of y_k (see `dual_bound`).
    """
    there, flat = sums.moved(m, x, z), np.flatnonzero(R.flat)
    if not len(flat):
        return scaled_bound(R, there) if rows else at_scale(R, -there.conj, -there.r, there.off_r, 1.0)
    k = int(flat[0])
    if len(flat) > 1 or not rows or not sums.H[k, k] > 0:
        return -np.inf
    bounds = []
    for side in (1.0, -1.0):
        tipped = z.copy()
        tipped[k] += side * TIP * (abs(there.r[k]) + there.off_r[k]) / sums.H[k, k]
        at, other = sums.moved(m, x, tipped), np.arange(len(z)) != k
        if not side * at.r[k] >= at.off_r[k]:
            return -np.inf
        bounds.append(scaled_bound(R, replace(at, r=np.where(other, at.r, 0.0), off_r=np.where(other, at.off_r, 0.0))))
    return min(bounds)


def scaled_bound(R: Regulariser, at: There) -> float:
    """The best of the bounds by duality over a few s."""
    most = largest_scale(R, -at.r, at.off_r)
    scales = np.append(1 - np.geomspace(1e-16, 1.0, 33), most)
    least = max(at.L - at.off_L, 0.0)
    best = -np.inf
    for s in scales[scales <= most]:
        height = -s * at.conj + s * (1 - s) * least
        price = conjugate_above(R, -s * at.r, s * at.off_r)
        best = max(best, below(height - price, s * (abs(at.conj) + least) + price, 8))
    return float(best)
