"""One exchange for squared losses: the clients send their second moments, and the server solves.

A quadratic cost f is known everywhere from one point: f(0), f'(0) and f'', which for least squares are y'Sy/2, X'Sy and
X'SX (plus the ridge). Their sums give E but for the penalty, and the server minimises

    E(z) = E(0) + g'z + z'Hz/2 + P(z),        P: l1, elastic net, group, box, or none,

to rounding. The bound comes from the same sums. The conjugate of a squared loss is l*(u) = u^2/2 + u y, so with the
residuals p = Xz - y, their pull r = X'Sp, and R the ridge and the penalty,

    E* >= -s^2 p'Sp/2 - s p'Sy - R*(-s r)        for every s in [0, 1]:

all of it known at the server, for all s. At the minimiser and s = 1 it is E itself, but for rounding.

One exchange is all it takes. If a run goes on, each further round refines: the gradient at the solution, computed from
the rows and not from the moments, replaces g, which takes the error from kappa(X)^2 to kappa(X) roundings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step
from dualfl.algorithms.few_exchanges.packing import symmetric, upper
from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.algorithms.few_exchanges.smooth_sums import SmoothSilo
from dualfl.algorithms.few_exchanges.upload_limits import check_rows, check_size
from dualfl.errors import NotSupported
from dualfl.solvers.coordinate_descent import is_quadratic
from dualfl.solvers.definite import independence
from dualfl.typing import Array

LARGEST = 2000
ROUNDING = 8 * float(np.finfo(float).eps)  # of sums of products; ten times what was seen


@dataclass(frozen=True)
class Server:
    x: Array
    bound: float = -np.inf
    M: Array | None = None
    H: Array | None = None  # of the losses
    g: Array | None = None  # at 0
    E: float = np.inf  # at 0
    rows: bool = True  # all clients have rows and squared losses, so that dual points may be scaled


@dataclass(frozen=True)
class OneShot(Algorithm):
    """Second moments once; everything else happens at the server."""

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
        up="d (d + 1)/2 + 2d + 2 once, then d",
        needs="squared loss, d <= 2000; any penalty with a prox",
        rate="exact after one exchange",
    )

    def check(self, k: Constants) -> None:
        self.require(self.least_rows >= 1, "least_rows", "it must be at least 1 row")
        check_size(self.name, k.d, LARGEST, "prox-newton with an l1 penalty, lbfgs or nesterov")

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d) if at.start is None else at.start)

    def round(self, s: Server, at: Place) -> Round:
        if s.M is None:
            m = yield ask(self.moments)
            s = replace(s, M=m.M, H=symmetric(m.h, at.d), g=m.g, E=m.loss, rows=m.rows > 1 - 1e-9)
            return self.solved(s, np.zeros(at.d), m.g, at)
        m = yield ask(self.refine, x=s.x)
        return self.solved(s, s.x, m.g, at)

    def solved(self, s: Server, x: Array, g: Array, at: Place) -> Server:
        """The minimiser, from the gradient g of the losses at x."""
        assert s.M is not None and s.H is not None and s.g is not None
        R = Regulariser.at(at, s.M, np.zeros(at.d))
        z = R.newton(s.H, -g, x)
        r = g + s.H @ (z - x)
        # l*(s p) of squared losses is quadratic in s, so D(s) is known for all s
        bend, line = float(z @ s.H @ z) / 2, float(s.g @ z)
        conj = bend - s.E  # sum_i s_i l*(p_i) = r'z - loss(z)
        quadratic = bend + line + s.E
        most = R.largest_scale(-r) if s.rows else 1.0
        scales = np.append(1 - np.geomspace(1e-16, 1.0, 33), most) if s.rows else np.ones(1)
        off = self.rounding(s, z)
        bounds = [
            -(quadratic * k * k + (conj - quadratic) * k) - R.conjugate(-k * r) - k * off for k in scales if k <= most
        ]
        if R.flat.any():
            bounds = [self.unregularised(R, s, z, r) - conj - off]
        return replace(s, x=z, bound=max(s.bound, *bounds))

    @staticmethod
    def rounding(s: Server, z: Array) -> float:
        """How far off the sums may be: x'z and y are squared, and may be far larger than x'z - y."""
        assert s.H is not None
        size = float(np.sqrt(np.maximum(np.diag(s.H), 0.0)) @ np.abs(z)) + float(np.sqrt(2 * abs(s.E)))
        return ROUNDING * size**2

    @staticmethod
    def unregularised(R: Regulariser, s: Server, z: Array, r: Array) -> float:
        """-R*(-r). Where nothing is regularised, r vanishes but for rounding, which is weighed by |z|.

        By the |z| of the minimiser, that is: nobody knows it where columns are so nearly dependent that the moments do
        not tell them apart.
        """
        assert s.H is not None
        flat = R.flat & (np.diag(s.H) > 0)  # a column of zeros is nowhere
        if independence(s.H[np.ix_(flat, flat)]) == 0:
            return -np.inf
        rest = np.where(R.flat, 0.0, r)
        return -R.conjugate(-rest) - 10 * float(np.abs(r[R.flat]) @ np.abs(z[R.flat]))

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
        return at.send(loss=loss, g=g, M=silo.m, h=h, rows=float(silo.model is not None)), c

    @client_step
    def refine(self, f: ClientCost, c: Any, at: Place, x: Array) -> tuple[Upload, Any]:
        return at.send(g=f.gradient(x) - SmoothSilo(f).m * x), c
