r"""SVRP and Catalyzed SVRP: one client a round takes a proximal step, corrected at a reference point.

A. Khaled and C. Jin, "Faster federated optimization under second-order similarity", ICLR 2023, Algorithms 2 and 3. All
clients share a reference w and E'(w). Every round one client m is drawn, and

    x <- prox_{eta f_m}(x - eta (E'(w) - f_m'(w)))                                      an exchange with client m alone
    with probability p:   w <- x, E'(w)                                                 an exchange with all

Catalyzed: after every T rounds the costs f_m become f_m + (gam/2)|. - y|^2 around a new centre, with x0 the x of the
last change of centre,

    y <- x + b (x - x0),     q = mu/(mu + gam),   b = (1 - sqrt(q))/(1 + sqrt(q)),    w <- x.

Most rounds ask one client, so contacts are few and exchanges are many. A sum over one client is no secret: with masks
both are refused. They are for equal weights; on unequal clients the engine puts N w_j into the data.

Defaults. p = 1/N. The paper proves eta = mu/(2 delta^2), which gives (N + delta^2/mu^2) log(1/eps) contacts, and is
very short on unlike clients. Since a proximal step of length eta is a gradient step preconditioned by I + eta f_m'',
and delta is what the correction leaves over, eta = max{mu/(2 delta^2), 1/(6 delta)} is taken here, as in SVRG; the grid
has others. Catalyzed: gam = max{delta/sqrt(N) - mu, 0} and eta = (mu + gam)/(2 delta^2) as in the paper, and T = 2 N.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.accuracy import exactly, gradient_scale
from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    g: Array  # f_m'(w)
    warm: Array | None
    scale: float


@dataclass(frozen=True)
class Server:
    x: Array
    g: Array  # E'(w)
    y: Array  # the centre, and x0, of the catalyst
    x0: Array
    bound: float


@dataclass(frozen=True)
class SVRP(Algorithm):
    """SVRP: one client a round takes a proximal step with variance reduction (Khaled and Jin).

    Parameters
    ----------
    mu : float, default mu
        The strong convexity of the clients.
    eta : float, default max(mu / (2 delta^2), 1 / (6 delta))
        The proximal step.
    p : float, default 1 / N
        The probability to renew the reference point.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.SVRP(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1)
    True
    """

    mu: float = theory("mu", lambda k, a: k.mu)
    eta: float = theory(
        "max(mu / (2 delta^2), 1 / (6 delta))", lambda k, a: max(a.mu / (2 * k.delta**2), 1 / (6 * k.delta))
    )
    p: float = theory("1 / N", lambda k, a: 1 / k.N)

    name = "svrp"
    needs = frozenset({"gradient", "local"})
    uniform = True
    grid: ClassVar = {"eta": [10.0**m for m in range(-5, 4)]}
    card = Card(
        "SVRP",
        2023,
        "Khaled and Jin",
        exchanges="1 with one client, and p with all",
        up="d/N + p (d + 3)",
        down="d/N + p d",
        participation="one",
        rate="(N + (delta/mu)^2) log(1/eps)",
        deterministic=False,
        paper="arXiv:2209.02257",
    )

    def check(self, k: Constants) -> None:
        self.require(self.mu > 0, "mu", "it must be positive")
        self.require(0 < self.eta < np.inf, "eta", "it must be positive; mu/(2 delta^2) in theory")
        self.require(0 < self.p <= 1, "p", "it is the probability to renew the reference point, in (0, 1]")

    def start(self, at: Place) -> Round:
        zero = np.zeros(at.d)
        m = yield ask(self.renew, x=zero)
        return Server(zero, m.g, zero, zero, self.lower_bound(at, self.mu, zero, m))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.step, to=at.common("client").subset(at.N, 1), tilt=s.x / self.eta - s.g + self.pull(s))
        moved = self.centred(Server(m.x / m.mass, s.g, s.y, s.x0, s.bound), at)
        if moved.x0 is s.x0 and not at.common("reference").coin(self.p):
            return moved
        m = yield ask(self.renew, x=moved.x)
        return replace(moved, g=m.g, bound=max(s.bound, self.lower_bound(at, self.mu, moved.x, m)))

    @property
    def weight(self) -> float:
        """gam, the weight of the catalyst."""
        return 0.0

    def pull(self, s: Server) -> Array | float:
        """What the catalyst adds to the linear part, gam y."""
        return 0.0

    def centred(self, s: Server, at: Place) -> Server:
        """The state with a new centre, if it is time for one."""
        return s

    def model(self, s: Server) -> Array:
        return s.x

    def bound(self, s: Server) -> float:
        return s.bound

    def client(self, f: ClientCost, at: Place) -> Local:
        return Local(g=np.zeros(at.d), warm=None, scale=gradient_scale(f))

    @client_step
    def step(self, f: ClientCost, c: Local, at: Place, tilt: Array) -> tuple[Upload, Local]:
        found = f.local(self.weight + 1 / self.eta, tilt + c.g, warm=c.warm, stop=exactly(c.scale))
        return at.send(x=found.x), Local(c.g, found.warm, c.scale)

    @client_step
    def renew(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        return at.send(g=g).also(**at.measured(f, x, E)), Local(g, c.warm, c.scale)


def catalyst(k: Constants, a: Any) -> float:
    """gam as it is given, or by theory."""
    return float(max(k.delta / np.sqrt(k.N) - a.mu, 0.0) if a.gam is None else a.gam)


@dataclass(frozen=True)
class CatalyzedSVRP(SVRP):
    """Catalyzed SVRP: SVRP, accelerated by Catalyst (Khaled and Jin).

    Parameters
    ----------
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.
    eta : float, default (mu + gam) / (2 delta^2)
        The local step.
    p : float, default 1 / N
        The probability that the reference is renewed.
    gam : float, default max(delta / sqrt(N) - mu, 0)
        The weight of the catalyst; 0 is SVRP.
    T : int, default 2 N
        How many rounds a centre is kept.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.CatalyzedSVRP(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-1)
    True
    """

    eta: float = theory("(mu + gam) / (2 delta^2)", lambda k, a: (a.mu + catalyst(k, a)) / (2 * k.delta**2))
    gam: float = theory("max(delta / sqrt(N) - mu, 0)", lambda k, a: catalyst(k, a), zero=True)
    T: int = theory("2 N", lambda k, a: 2 * k.N)

    name = "catalyzed-svrp"
    grid: ClassVar = {"eta": [10.0**m for m in range(-5, 4)], "gam": [0.0] + [10.0**m for m in range(-3, 3)]}
    card = replace(
        SVRP.card,
        title="Catalyzed SVRP",
        exchanges="1 with one client, and p + 1/T with all",
        up="d/N + (p + 1/T) (d + 3)",
        down="d/N + (p + 1/T) d",
        rate="(N + N^(3/4) sqrt(delta/mu)) log(1/eps)",
        accelerated=True,
        paper="arXiv:2209.02257",
    )

    def check(self, k: Constants) -> None:
        super().check(k)
        self.require(0 <= self.gam < np.inf, "gam", "it must be >= 0")
        self.require(self.T >= 1, "T", "it is a number of rounds, >= 1")

    @property
    def weight(self) -> float:
        return self.gam

    def pull(self, s: Server) -> Array | float:
        return self.gam * s.y

    def centred(self, s: Server, at: Place) -> Server:
        if (at.round + 1) % self.T:
            return s
        root = float(np.sqrt(self.mu / (self.mu + self.gam)))
        return replace(s, y=s.x + (1 - root) / (1 + root) * (s.x - s.x0), x0=s.x)
