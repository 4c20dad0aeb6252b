r"""S-DANE and Acc-S-DANE: DANE with a stabilised centre.

X. Jiang, A. Rodomanov and S. U. Stich, "Stabilized proximal-point methods for federated optimization", NeurIPS 2024,
Algorithms 1 and 2. Each client solves DANE's problem around a centre y, and roughly is enough; what moves the centre is
not the mean of the solutions but a gradient step from it, which takes the errors of the solutions back:

    h_j = f_j'(y) - E'(y)                                                                        first exchange
    x_j ~ argmin f_j(t) - <h_j, t> + (lam/2)|t - y|^2,      |residual| <= (lam/2)|x_j - y|
    x+ = mean x_j,     v+ = (mu a x+ + B v - a mean f_j'(x_j))/(mu a + B)                        second exchange

    S-DANE       y = v,                         a = 1/lam,                                   B = 1
    Acc-S-DANE   y = (A x + a v)/(A + a),       a = (B + sqrt(B^2 + 4 lam A B))/(2 lam),     A+ = A + a,  B+ = B + mu a
                 from A = 0, B = 1: a solves lam a^2 = (A + a) B

With exact solves mean f_j'(x_j) = lam (y - x+), so v+ = x+ and S-DANE is DANE with the damping lam.

Adaptive: a third exchange asks for the gradients at x+, and the round is accepted if, with h_j taken at x+,
    mean <f_j'(x_j) - h_j, y - x_j>  >=  |mean f_j'(x_j)|^2/(2 lam);
then lam is halved. Otherwise nothing moves and lam is doubled. What rounding may have done to the left side is added to
it, or near the optimum no round would be accepted. (The authors' program goes on with the h_j of the rejected y. When
lam changes, so does y of Acc-S-DANE, and here its gradients are asked for again, and counted.)

Defaults. lam = 2 delta, for which the rates are proven. A and B grow like the inverse of the error; both are divided by
B every round, and a with them, which changes nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.solvers.stopping import RelativeStep
from dualfl.typing import Array

REACH = 2.0**40  # how far lam may go from where it began: at the optimum every round is accepted
ROUNDING = 16 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class Local:
    """Needed only within a round."""

    y: Array
    g: Array  # f_j'(y)
    x: Array  # x_j
    gx: Array  # f_j'(x_j)


@dataclass(frozen=True)
class Server:
    x: Array
    v: Array
    A: float  # divided by B
    lam: float
    bound: float


@dataclass(frozen=True)
class SDANE(Algorithm):
    """S-DANE: DANE with a stabilised centre (Jiang, Rodomanov and Stich).

    Parameters
    ----------
    lam : float, default 2 delta
        The weight of the proximal term; with `adaptive` the first one.
    adaptive : bool, default False
        Whether lam is searched for; costs a third exchange.
    accuracy : float, default 0.5
        The residual that a client may leave, relative to lam |x_j - y|; below 1/2 in theory.
    mu : float, default mu
        The strong convexity of E.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.SDANE(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-1)
    True
    """

    lam: float = theory("2 delta", lambda k, a: 2 * k.delta)
    adaptive: bool = False
    accuracy: float = 0.5
    mu: float = theory("mu", lambda k, a: k.mu, zero=True)

    name = "s-dane"
    needs = frozenset({"gradient", "local"})
    strongly_convex = False
    grid: ClassVar = {"lam": [10.0**m for m in range(-4, 3)], "adaptive": [False, True]}
    card = Card(
        "S-DANE",
        2024,
        "Jiang, Rodomanov and Stich",
        exchanges="2, adaptive 3",
        up="3d + 3, adaptive 4d + 4",
        down="2d + 1, adaptive 3d + 1",
        needs="convex, smooth",
        rate="(delta/mu) log(1/eps)",
        paper="arXiv:2407.07084",
    )

    def check(self, k: Constants) -> None:
        self.require(0 < self.lam < np.inf, "lam", "it must be positive; 2 delta in theory")
        self.require(0 < self.accuracy <= 0.5, "accuracy", "it must lie in (0, 1/2]")
        self.require(self.mu >= 0, "mu", "it must be >= 0")

    def start(self, at: Place) -> Server:
        zero = np.zeros(at.d)
        return Server(zero, zero, 0.0, self.lam, -np.inf)

    def coupled(self, s: Server) -> tuple[float, Array]:
        """a, in units of B, and the centre y."""
        return 1 / s.lam, s.v

    def round(self, s: Server, at: Place) -> Round:
        a, y = self.coupled(s)
        m = yield ask(self.own_gradient, x=y)
        bound = max(s.bound, self.lower_bound(at, self.mu, y, m))
        m = yield ask(self.local, g=m.g, lam=s.lam)
        x, g, lam = m.x, m.g, s.lam
        if self.adaptive:
            m = yield ask(self.progress, x=x)
            if not m.progress + float(m.g @ (y - x)) >= float(g @ g) / (2 * lam):
                return Server(s.x, s.v, s.A, min(2 * lam, REACH * self.lam), bound)
            lam = max(lam / 2, self.lam / REACH)
        growth = 1 + self.mu * a
        v = (self.mu * a * x + s.v - a * g) / growth
        return Server(x, v, (s.A + a) / growth, lam, bound)

    def model(self, s: Server) -> Array:
        return s.x

    def bound(self, s: Server) -> float:
        return s.bound

    @client_step
    def own_gradient(self, f: ClientCost, c: Any, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        return at.send(g=g).also(**at.measured(f, x, E)), Local(x, g, x, g)

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, g: Array, lam: float) -> tuple[Upload, Local]:
        stop = RelativeStep(self.accuracy * lam, f.place(c.y), cap=500)
        x = f.local(lam, lam * c.y + c.g - g, warm=f.place(c.y), stop=stop).x
        gx = f.gradient(x)
        return at.send(x=x, g=gx), Local(c.y, c.g, x, gx)

    @client_step
    def progress(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, None]:
        g, step = f.gradient(x), c.y - c.x
        size = float(np.linalg.norm(c.gx) + 2 * np.linalg.norm(g)) * float(np.linalg.norm(step))
        return at.send(g=g).also(progress=float((c.gx - g) @ step) + ROUNDING * size), None


@dataclass(frozen=True)
class AccSDANE(SDANE):
    """Acc-S-DANE: S-DANE with acceleration (Jiang, Rodomanov and Stich).

    Parameters
    ----------
    lam : float, default 2 delta
        The weight of the proximal term.
    adaptive : bool, default False
        Whether lam is searched for, with a third exchange.
    accuracy : float, default 0.5
        How exactly clients solve their problems.
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.AccSDANE(), rounds=100)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    name = "acc-s-dane"
    card = Card(
        "Acc-S-DANE",
        2024,
        "Jiang, Rodomanov and Stich",
        exchanges="2, adaptive 3",
        up="3d + 3, adaptive 4d + 4",
        down="2d + 1, adaptive 3d + 1",
        needs="convex, smooth",
        rate="sqrt(delta/mu) log(1/eps)",
        accelerated=True,
        paper="arXiv:2407.07084",
    )

    def coupled(self, s: Server) -> tuple[float, Array]:
        a = (1 + np.sqrt(1 + 4 * s.lam * s.A)) / (2 * s.lam)
        return float(a), (s.A * s.x + a * s.v) / (s.A + a)
