r"""5GCS: local training and client sampling by a primal-dual method.

M. Grudzien, G. Malinovsky and P. Richtarik, "Can 5th generation local training methods support client sampling? Yes!",
AISTATS 2023. E = (1/N) sum_j f_j = (mu/2)|.|^2 + sum_j F_j with F_j = (f_j - (mu/2)|.|^2)/N, which is L_F-smooth with
L_F = (L - mu)/N. The server holds x and v = sum_j u_j. A round:

    xh   = (x - gamma v)/(1 + gamma mu),   to C clients, the set S; each of them
        y_j ~ argmin F_j(y) + (tau/2) |y - (xh + u_j/tau)|^2,      u_j <- F_j'(y_j),     and sends the change of u_j
    v   <- v + sum_{j in S} (change of u_j)
    x   <- xh - gamma (N/C) sum_{j in S} (change of u_j)

u_j -> (f_j'(theta*) - mu theta*)/N. The 1/N is in every F_j; with N tau = mu the local problem is DualFL's.

Rate for Psi = |x - theta*|^2/gamma + (N/C)(1/tau + 1/L_F) sum_j |u_j - u_j*|^2:
    E Psi+  <=  (1 - min{gamma mu/(1 + gamma mu), (C/N) tau/(L_F + tau)}) Psi
with gamma = (3/16) sqrt(C/(mu L N)), tau = 1/(2 gamma N) and K gradient steps from xh for y_j, of length 1/(L_F + tau),
    K = ceil((3/4 sqrt(C kappa/N) + 2) log(4 kappa)).
These are the defaults. They are conservative: with all clients and exact solves gamma = 1/sqrt(mu L) with
tau = 1/(gamma N), the limit gamma tau N <= 1 of primal-dual methods, needs far fewer rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dualfl.algorithms.accuracy import exactly, gradient_scale
from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    u: Array
    warm: Array | None
    scale: float


@dataclass(frozen=True)
class Server:
    x: Array
    v: Array


@dataclass(frozen=True)
class FiveGCS(Algorithm):
    """5GCS: local training and client sampling by a primal-dual method (Grudzien, Malinovsky and Richtarik).

    Parameters
    ----------
    C : int, default N
        How many clients take part in a round.
    mu : float, default mu
        The curvature that the server keeps, at most the strong convexity of the clients.
    gamma, tau : float
        The primal step and the penalty of the local problems, gamma tau N <= 1.
    solve : {'steps', 'exact'}, default 'steps'
        "steps", K gradient steps of length `step` from xh, or "exact", the client's own solver.
    K : int, optional
        How many local steps.
    step : float, default 1 / (L_F + tau)
        The local step.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FiveGCS(), rounds=100)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-4)
    True
    """

    C: int = theory("N", lambda k, a: k.N)
    mu: float = theory("mu", lambda k, a: k.mu)
    gamma: float = theory("3/16 sqrt(C / (mu L N))", lambda k, a: 3 / 16 * np.sqrt(a.C / (a.mu * k.L * k.N)))
    tau: float = theory("1 / (2 gamma N)", lambda k, a: 1 / (2 * a.gamma * k.N))
    solve: Literal["steps", "exact"] = "steps"
    K: int = theory(
        "ceil((3/4 sqrt(C kappa / N) + 2) log(4 kappa))",
        lambda k, a: int(np.ceil((0.75 * np.sqrt(a.C * k.kappa / k.N) + 2) * np.log(4 * k.kappa))),
    )
    step: float = theory("1 / (L_F + tau)", lambda k, a: 1 / ((k.L - a.mu) / k.N + a.tau))

    name = "5gcs"
    uniform = True
    grid: ClassVar = {"gamma": [10.0**m for m in range(-5, 4)]}
    card = Card(
        title="5GCS",
        year=2023,
        reference="Grudzien, Malinovsky and Richtarik",
        participation="any C",
        rate="(N/C + sqrt(kappa N/C)) log(1/eps)",
        accelerated=True,
        deterministic=False,
        paper="arXiv:2212.14370",
    )

    def check(self, k: Constants) -> None:
        self.require(1 <= self.C <= k.N, "C", f"it must lie between 1 and the number of clients, {k.N}")
        bad = self.mu > k.mu * (1 + 1e-12)
        self.require(self.mu > 0 and not bad, "mu", f"it must lie in (0, mu], and the clients have mu = {k.mu:.3g}")
        self.require(self.gamma > 0, "gamma", "it must be positive")
        bound = 1 / (self.gamma * k.N)
        self.require(0 < self.tau <= bound * (1 + 1e-12), "tau", f"gamma tau N <= 1, so it is at most {bound:.3g}")
        self.require(self.solve in ("steps", "exact"), "solve", 'it is "steps" or "exact"')
        self.require(self.K >= 1, "K", "it is a number of gradient steps, >= 1")
        self.require(self.step > 0, "step", "it must be positive")

    def start(self, at: Place) -> Server:
        return Server(x=np.zeros(at.d), v=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        xh = (s.x - self.gamma * s.v) / (1 + self.gamma * self.mu)
        m = yield ask(self.local, to=at.cohort(self.C), xh=xh)
        change = at.N * m.change
        return Server(x=xh - self.gamma * at.N / self.C * change, v=s.v + change)

    def model(self, s: Server) -> Array:
        return s.x

    def client(self, f: ClientCost, at: Place) -> Local:
        return Local(u=np.zeros(at.d), warm=None, scale=gradient_scale(f) if self.solve == "exact" else 1.0)

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, xh: Array) -> tuple[Upload, Local]:
        u, warm = self.by_solver(f, c, at, xh) if self.solve == "exact" else (self.by_steps(f, c, at, xh), None)
        return at.send(change=u - c.u), Local(u=u, warm=warm, scale=c.scale)

    def by_steps(self, f: ClientCost, c: Local, at: Place, xh: Array) -> Array:
        def F_gradient(y: Array) -> Array:
            return (f.gradient(y) - self.mu * y) / at.N

        y = xh
        for _ in range(self.K):
            y = y - self.step * (F_gradient(y) + self.tau * (y - xh) - c.u)
        return F_gradient(y)

    def by_solver(self, f: ClientCost, c: Local, at: Place, xh: Array) -> tuple[Array, Array]:
        a = at.N * self.tau - self.mu  # may be negative; a + mu = N tau is not
        y = f.local(a, at.N * (self.tau * xh + c.u), warm=c.warm, stop=exactly(c.scale))
        return (y.subgradient - self.mu * y.x) / at.N, y.warm
