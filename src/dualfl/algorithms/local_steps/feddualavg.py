r"""FedDualAvg: dual averaging, on the clients and on the server.

H. Yuan, M. Zaheer and S. Reddi, "Federated composite optimization", ICML 2021, Algorithm 2, with h = |.|^2/2. For
E = sum_j w_j fs_j + psi the server holds a dual point z and sends it to C clients, the set S. In round r = 0, 1, ...

    z_j = z;   for k = 0, ..., K - 1:   e = eta_s eta_c r K + eta_c k,
                                        w = argmin |w - z_j|^2/2 + e psi(w),      z_j <- z_j - eta_c fs_j'(w)
    z  <- z + eta_s mean_{j in S} (z_j - z)
    the model after round r - 1 is  argmin |w - z|^2/2 + eta_s eta_c r K psi(w)

psi = 0 is FedAvg. Here psi = (mu_psi/2)|.|^2 plus the problem's penalty, if there is one, and
fs_j = f_j - (mu_psi/2)|.|^2, so that w = prox_{e/(1 + e mu_psi) penalty}(z_j/(1 + e mu_psi)). With K = 1 and no penalty
this is gradient descent with the steps eta_c eta_s/(1 + eta_c eta_s mu_psi (r + 1)): since they vanish like 1/r, so
does the drift, and the squared error falls like 1/r^2. There is no linear rate.

Defaults. mu_psi = mu, K = 10, eta_c = 1/L, eta_s = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, State, Upload, ask, client_step, theory
from dualfl.typing import Array


@dataclass(frozen=True)
class Server:
    z: Array
    w: Array  # the model


@dataclass(frozen=True)
class FedDualAvg(Algorithm):
    """FedDualAvg: dual averaging on the clients and the server (Yuan, Zaheer and Reddi), with full local gradients.

    Parameters
    ----------
    K : int, default 10
        Local steps.
    eta_c, eta_s : float
        The clients' and the server's step.
    mu_psi : float, default mu
        How much of the ridge is in psi, 0 <= mu_psi <= mu; without it there is no averaging, only FedAvg.
    C : int, default N
        How many clients take part in a round.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedDualAvg(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-2)
    True
    """

    K: int = 10
    eta_c: float = theory("1 / L", lambda k, a: 1 / k.L)
    eta_s: float = 1.0
    mu_psi: float = theory("mu", lambda k, a: k.mu, zero=True)
    C: int = theory("N", lambda k, a: k.N)

    name = "feddualavg"
    drifts = True
    penalty = "server"
    grid: ClassVar = {"eta_c": [10.0**-m for m in range(7)], "K": [1, 10, 100]}
    card = Card(
        title="FedDualAvg",
        year=2021,
        reference="Yuan, Zaheer and Reddi",
        participation="any C",
        rate="1/eps^(1/2) for the squared error",
        paper="arXiv:2011.08474",
    )

    def check(self, k: Constants) -> None:
        self.require(self.K >= 1, "K", "it is a number of local steps, >= 1")
        self.require(self.eta_c > 0, "eta_c", "it must be positive")
        self.require(not self.eta_c >= 2 / k.L, "eta_c", f"gradient steps diverge from 2/L = {2 / k.L:.3g} on")
        self.require(self.eta_s > 0, "eta_s", "it must be positive")
        bad = self.mu_psi > k.mu * (1 + 1e-12)
        self.require(self.mu_psi >= 0 and not bad, "mu_psi", f"it must lie in [0, mu], and mu = {k.mu:.3g}")
        self.require(1 <= self.C <= k.N, "C", f"it must lie between 1 and the number of clients, {k.N}")

    def primal(self, z: Array, e: float, at: Place) -> Array:
        """argmin |w - z|^2/2 + e psi(w)."""
        shrink = 1 + e * self.mu_psi
        return at.prox(e / shrink, z / shrink) if e > 0 else z

    def start(self, at: Place) -> Server:
        return Server(z=np.zeros(at.d), w=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, to=at.cohort(self.C), z=s.z)
        z = s.z + self.eta_s * m.change / m.mass
        return Server(z=z, w=self.primal(z, self.eta_s * self.eta_c * (at.round + 1) * self.K, at))

    def model(self, s: Server) -> Array:
        return s.w

    @client_step
    def local(self, f: ClientCost, c: State, at: Place, z: Array) -> tuple[Upload, State]:
        y = z
        for k in range(self.K):
            w = self.primal(y, self.eta_c * (self.eta_s * at.round * self.K + k), at)
            y = y - self.eta_c * (f.gradient(w) - self.mu_psi * w)
        return at.send(change=y - z), None
