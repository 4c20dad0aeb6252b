"""APCG on the dual problem: DualFL with client sampling.

Q. Lin, Z. Lu and L. Xiao, "An accelerated randomized proximal coordinate gradient method", 2015, applied to the dual
problem of DualFL, whose blocks are the clients.

Any C of the N clients take part in a round. With sigma = 1/(L - nu), the strong convexity of g_j*, and p = C/N,

    L_b = p/nu + sigma,   m = sigma/L_b,   al = p sqrt(m),   A = sqrt(sigma L_b),   b = A - sigma

    everybody    y = (x + al z)/(1 + al),   w = (1 - al) z + al y
    sampled j    theta_j = argmin f_j(t) + ((1/b - nu)/2)|t|^2 - <(A w_j - ybar/nu - sigma y_j)/b, t>,   ybar = mean y_j
                 z_j+ = f_j'(theta_j) - nu theta_j,   x_j+ = y_j + (al/p)(z_j+ - z_j) + (al^2/p)(z_j - y_j)
    others       z_j+ = w_j,   x_j+ = y_j

A client that is not asked does nothing: its (x_j, z_j) follow a fixed linear map, whose power it applies when it is
asked again. The server keeps only the means of x and z, and the model is -mean x / nu. In expectation the error falls
by 1 - al a round, al >= 1/(N/C + sqrt(kappa N/C)). With C = N it needs fewer rounds than DualFL.

For nonsmooth costs sigma = 0, hence al = 0, and nothing would ever move: they are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.errors import InputError
from dualfl.solvers.stopping import GradientNorm
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    x: Array
    z: Array
    warm: Array | None
    k: int  # the next round it has not followed yet


@dataclass(frozen=True)
class Server:
    x: Array  # mean x_j
    z: Array  # mean z_j


@dataclass(frozen=True)
class APCGDual(Algorithm):
    """Accelerated coordinate ascent on DualFL's dual, C clients a round.

    Parameters
    ----------
    C : int, default N
        How many clients take part in a round.
    nu : float, default mu
        The shift of the dual problem, 0 < nu <= mu.
    L : float, default L
        The smoothness of the costs.
    accuracy : float, default 1.0
        How exactly clients solve their problems.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.APCGDual(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-7)
    True
    """

    C: int = theory("N", lambda k, a: k.N)
    nu: float = theory("mu", lambda k, a: k.mu)
    L: float = theory("L", lambda k, a: k.L)
    accuracy: float = 1.0  # G0 of the schedule |grad| <= sqrt(2 nu G0/N) (1 - al)^n

    name = "apcg-dual"
    needs = frozenset({"gradient", "local"})
    uniform = True
    grid: ClassVar = {"nu": [1.0, 0.5]}
    no_certificate = "its dual point is spread over clients that are not asked every round"
    card = Card(
        "APCG on the dual",
        2015,
        "Lin, Lu and Xiao",
        participation="any C",
        rate="(N/C + sqrt(kappa N/C)) log(1/eps)",
        accelerated=True,
        deterministic=False,
        paper="arXiv:1407.1296",
    )

    def check(self, k: Constants) -> None:
        if not np.isfinite(self.L):
            raise InputError(
                "apcg-dual needs smooth costs: with L = inf its steps are zero and nothing would move; "
                "dualfl with rho = 0 is the method for nonsmooth ones."
            )
        self.require(1 <= self.C <= k.N, "C", f"it must lie between 1 and N = {k.N}")
        self.require(
            0 < self.nu <= k.mu * (1 + 1e-12) or np.isnan(k.mu), "nu", f"it must lie in (0, mu], mu = {k.mu:g}"
        )
        self.require(self.L > self.nu, "L", "it must be larger than nu")
        self.require(self.accuracy > 0, "accuracy", "it must be positive")

    def steps(self, N: int) -> tuple[float, float, float, float, float]:
        """(p, al, A, b, sigma)."""
        sigma = 1 / (self.L - self.nu)
        p = self.C / N
        Lb = p / self.nu + sigma
        A = float(np.sqrt(sigma * Lb))
        return p, p * float(np.sqrt(sigma / Lb)), A, A - sigma, sigma

    def start(self, at: Place) -> Server:
        zero = np.zeros(at.d)
        return Server(zero, zero)

    def round(self, s: Server, at: Place) -> Round:
        p, al, *_ = self.steps(at.N)
        y = (s.x + al * s.z) / (1 + al)
        m = yield ask(self.coordinate, to=at.cohort(self.C), y=y / self.nu)
        z = (1 - al) * s.z + al * y + m.dz
        return Server(y + al / p * (z - s.z) + al**2 / p * (s.z - y), z)

    def model(self, s: Server) -> Array:
        return -s.x / self.nu

    def client(self, f: ClientCost, at: Place) -> Local:
        zero = np.zeros(at.d)
        return Local(zero, zero, None, 0)

    @client_step
    def coordinate(self, f: ClientCost, c: Local, at: Place, y: Array) -> tuple[Upload, Local]:
        p, al, A, b, sigma = self.steps(at.N)
        x_j, z_j = caught_up(c.x, c.z, al, at.round - c.k)
        y_j = (x_j + al * z_j) / (1 + al)
        w = (1 - al) * z_j + al * y_j
        eps = np.sqrt(2 * self.nu * self.accuracy / at.N) * (1 - al) ** at.round
        solved = f.local(
            1 / b - self.nu,
            (A * w - y - sigma * y_j) / b,
            warm=c.warm,
            stop=GradientNorm(max(float(eps), 1e-13), cap=2000),
        )
        z = f.gradient(solved.x) - self.nu * solved.x
        sent = at.send(dz=z - w)
        x = y_j + al / p * (z - z_j) + al**2 / p * (z_j - y_j)
        return sent, Local(x, z, solved.warm, at.round + 1)


def caught_up(x: Array, z: Array, al: float, rounds: int) -> tuple[Array, Array]:
    """(x, z) after `rounds` rounds without this client: (x, z) -> (y, w), as a power of a 2 x 2 matrix."""
    if rounds == 0:
        return x, z
    y = np.array([1.0, al]) / (1 + al)
    w = np.array([0.0, 1 - al]) + al * y
    many = np.linalg.matrix_power(np.stack([y, w]), rounds)
    return many[0, 0] * x + many[0, 1] * z, many[1, 0] * x + many[1, 1] * z
