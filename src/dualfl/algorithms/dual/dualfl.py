r"""DualFL: dualised federated learning.

J. Park and J. Xu, "DualFL: A duality-based federated learning algorithm with communication acceleration in the
general convex regime", 2023, Algorithm 1.

    theta_j^(n+1)  ~  argmin f_j(t) - nu <zeta_j^(n), t>                                    each client, locally
    theta^(n+1)    =  sum_j w_j theta_j^(n+1)                                               the exchange
    zeta_j^(n+1)   =  (1 + beta_n) s_j^(n+1) - beta_n s_j^(n),    s_j^(n+1) = zeta_j^(n) + theta^(n+1) - theta_j^(n+1)

    t_{n+1} = (1 - rho t_n^2 + sqrt((1 - rho t_n^2)^2 + 4 t_n^2)) / 2,        t_0 = 1
    beta_n  = (t_n - 1)/t_{n+1} * (1 - t_{n+1} rho)/(1 - rho)

Each f_j is mu-strongly convex. With 0 < nu <= mu and rho = 0 the squared error falls like 1/n^2, whether or not f_j is
smooth; if all f_j are L-smooth and 0 < rho <= nu/L, like (1 - sqrt(rho))^n. The defaults nu = mu and rho = nu/L give
the best of these rates, 1 - 1/sqrt(kappa); where L is infinite, nu/L is 0 and nothing else changes.

Behind it stands the dual problem  min sum_j w_j g_j*(xi_j) + |sum_j w_j xi_j|^2/(2 nu),  g_j = f_j - (nu/2)|.|^2:
DualFL is an accelerated forward-backward method on it, with xi_j = nu (zeta_j - theta_j).

How exactly must a client solve? A local point with residual r_j has the primal-dual gap
    Gamma_j = slack_j + |r_j|^2/(2 nu)
at the dual point g_j'(theta_j). (At the paper's own dual point nu (zeta_j - theta_j) the gap is infinite whenever that
is no gradient of g_j, which for nu = mu is the rule rather than the exception; see `dualfl.theory.gap`.) The clients
stop at the smaller of the thresholds of the two theorems, G0 times something that falls with n. A run that starts near
the optimum would wait until they have fallen to its own error, so there G0 is at most |E'(start)|^2/(2 nu).

The certificate. With xi_j = g_j'(theta_j) a client knows conj_j = g_j*(xi_j) = <xi_j, theta_j> - g_j(theta_j), plus
slack_j if xi_j is a subgradient only up to that, and weak duality gives
    E*  >=  - sum_j w_j conj_j - |sum_j w_j xi_j|^2/(2 nu).
Since sum_j w_j zeta_j = 0, with theta the mean of what was sent and theta' what was broadcast before,
    sum_j w_j xi_j = e - nu theta,      e = sum_j w_j e_j,      e_j = r_j - nu (theta_j - sent_j),
    E*  >=  - sum_j w_j (conj_j - <e_j, theta'>) - (nu/2)|theta|^2 + <e, theta - theta'> - |e|^2/(2 nu).
Three scalars a client are enough, conj_j - <e_j, theta'>, how far off that may be, and |e_j|: what the server does not
know of e is multiplied by theta - theta', which vanishes, so the bound is as good as the solves. With e itself, a
vector, it is tight. Either way the server knows E - E* from above each round, without any reference solution, and
whatever was rounded on the way (`rounding` below).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from dualfl.algorithms.client_cost import ClientCost, Solved
from dualfl.algorithms.contract import (
    Algorithm,
    Card,
    Constants,
    Place,
    Round,
    Upload,
    ask,
    client_step,
    theory,
)
from dualfl.algorithms.cuts import LARGEST, below
from dualfl.algorithms.dual.dual_memory import InSpan, Local, kept
from dualfl.errors import InputError
from dualfl.objectives.rounding import SPARE, UNIT, of_mean, roundings
from dualfl.solvers.stopping import (
    GeometricSchedule,
    GradientNorm,
    PolynomialSchedule,
    PrimalDualGap,
    RelativeEnergy,
    StopRule,
)
from dualfl.typing import Array, sealed

NO_MOMENTUM = 1 - 1e-12  # rho = 1, for nu = mu = L, makes beta = 0/0; there the first round is exact
ROUNDING = 1e-13  # no gradient is known better than this, relative to its parts


@dataclass(frozen=True)
class Server:
    theta: Array
    bound: float


@dataclass(frozen=True)
class DualFL(Algorithm):
    """DualFL, Algorithm 1 of Park and Xu (arXiv:2305.10294): an accelerated method that exchanges one vector a round.

    In every round each client minimises its own cost, tilted by a linear term that stands for the other clients, and
    the server averages the results. Use DualFL where a client may send only one vector a round, or where the model has
    too many coefficients for second-order methods; otherwise `dualfl.algorithms.Auto` needs fewer exchanges. The
    clients' data may differ in any way. Their costs must be strongly convex (a ridge is enough) and need not be smooth.
    The defaults come from the theory, so nothing has to be tuned, and every round has a certificate: a proven bound on
    how far the model is from the best one.

    Parameters
    ----------
    nu : float, default mu
        The shift of the dual problem, 0 < nu <= mu, where mu is the strong convexity of the costs, usually the ridge.
    rho : float, default nu / L
        Sets the momentum; 0 means the most. In theory 0 <= rho <= nu/L, where L is the smoothness of the costs, a bound
        on their second derivatives. Larger values are allowed, but no theorem covers them.
    upload : {'plain', 'corrected'}, default 'plain'
        "plain" sends theta_j. "corrected" sends theta_j - r_j/nu, where r_j is the residual of the local solve. The
        theorems hold for it word for word, but the iterates are worse when local solves are loose.
    accuracy : {'theorems', 'smooth', 'nonsmooth', 'energy', 'exact'}, default 'theorems'
        When a client may stop its local solve. "smooth" and "nonsmooth" are the thresholds of the paper's two theorems,
        and "theorems" is the smaller one; "energy" is the rule of the paper's experiments; "exact" goes on until
        gradients are at rounding level.
    gamma, G0 : float
        The free constants of the thresholds. By default gamma makes local errors fall as fast as the iterates.
    certificate : {'scalar', 'vector', 'none'}, default 'scalar'
        What clients send for the certificate: three scalars ("scalar"), another vector, which makes it tighter
        ("vector"), or nothing ("none").

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.DualFL(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-6)
    True
    """

    nu: float = theory("mu", lambda k, a: k.mu)
    rho: float = theory("nu / L", lambda k, a: min(a.nu / k.L, NO_MOMENTUM), zero=True)
    upload: Literal["plain", "corrected"] = "plain"
    accuracy: Literal["theorems", "smooth", "nonsmooth", "energy", "exact"] = "theorems"
    gamma: float | None = None
    G0: float = 1.0
    certificate: Literal["scalar", "vector", "none"] = "scalar"

    name = "dualfl"
    needs = frozenset({"local"})
    penalty = "client"
    warm = True
    compresses = True
    no_certificate = 'certificate="none" was chosen'
    grid: ClassVar = {"rho": [0.0] + [m * 10.0**-k for k in (4, 3, 2) for m in (1, 2, 3, 5)] + [0.1]}
    card = Card(
        title="DualFL",
        year=2023,
        reference="Park and Xu",
        up="d + 3",
        needs="strongly convex (by regularisation: convex)",
        rate="sqrt(kappa) log(1/eps); nonsmooth 1/sqrt(eps)",
        accelerated=True,
        paper="arXiv:2305.10294",
    )

    def check(self, k: Constants) -> None:
        if not 0 < self.nu < np.inf or self.nu > k.mu * (1 + 1e-12):
            raise InputError(f"dualfl: nu = {self.nu} is not allowed; it must lie in (0, mu], and mu = {k.mu:g}.")
        self.require(0 <= self.rho < 1, "rho", "it must lie in [0, 1), and theory asks for at most nu/L")
        self.require(self.gamma is None or self.gamma > 0, "gamma", "it must be positive")
        self.require(self.G0 > 0, "G0", "it must be positive")
        self.require(self.upload in ("plain", "corrected"), "upload", 'it is "plain" or "corrected"')
        self.require(
            self.certificate in ("scalar", "vector", "none"),
            "certificate",
            'it is "scalar", "vector" or "none"',
        )
        rules = ("theorems", "smooth", "nonsmooth", "energy", "exact")
        self.require(self.accuracy in rules, "accuracy", f"it is one of {', '.join(rules)}")

    def note(self, k: Constants) -> str | None:
        """A remark on settings that work but that no theorem covers."""
        if self.rho > self.nu / k.L * (1 + 1e-12):
            return f"rho = {self.rho:g} is above nu/L = {self.nu / k.L:.2g}: allowed, but no theorem covers it."
        return None

    # -- the server -------------------------------------------------------------------------------

    def start(self, at: Place) -> Round:
        """theta^(0) = 0, or from `at.start`: theta^(0) = -(1/nu) sum_j w_j xi_j^(0), xi_j^(0) = g_j'(start)."""
        if at.start is None:
            return Server(theta=np.zeros(at.d), bound=-np.inf)
        m = yield ask(self.warm_start, theta=at.start)
        return Server(theta=-m.xi / self.nu, bound=-np.inf)

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.solve, theta=s.theta)
        return Server(theta=m.theta, bound=max(s.bound, self.dual_value(m, m.theta - s.theta, at.N)))

    def dual_value(self, m: Any, moved: Array, silos: int) -> float:
        """The lower bound of E* that the answers of one round prove."""
        if self.certificate == "none":
            return -np.inf
        # what is not known of e, all of it for "scalar", does the worst that a vector of this length can do
        vector, distance = self.certificate == "vector", float(np.linalg.norm(moved))
        length = of_mean(silos) * float(m.off if vector else m.e)
        known, turn = (float(np.linalg.norm(m.e)), float(m.e @ moved)) if vector else (0.0, 0.0)
        worst = length * distance + (known + length) ** 2 / (2 * self.nu)
        theta2 = self.nu / 2 * float(m.theta @ m.theta)
        size = (known + length) * distance + worst + theta2 + abs(m.conj)
        bound = below(turn - m.conj - theta2 - worst - of_mean(silos) * float(m.slip), size, len(moved))
        return float(bound) if np.isfinite(bound) else -np.inf

    def model(self, s: Server) -> Array:
        return s.theta

    def bound(self, s: Server) -> float:
        return s.bound

    @property
    def certifies(self) -> bool:
        return self.certificate != "none"

    # -- a client ---------------------------------------------------------------------------------

    def client(self, f: ClientCost, at: Place) -> Local:
        zero = np.zeros(at.d)
        return Local(zeta=zero, s=zero, sent=zero, warm=None, t=0.0, G0=self.G0)

    @client_step
    def warm_start(self, f: ClientCost, c: Local, at: Place, theta: Array) -> tuple[Upload, Local]:
        sent = at.send(xi=f.subgradient(theta) - self.nu * theta)
        return sent, replace(c, sent=-sent.xi / self.nu, warm=f.warm_at(theta))

    @client_step
    def solve(self, f: ClientCost, c: Local | InSpan, at: Place, theta: Array) -> tuple[Upload, Local | InSpan]:
        t, beta = momentum(c.t, self.rho)
        s, before = c.brackets(f, theta)
        zeta = s + beta * (s - before)
        G0 = self.unit(c, at, theta) if c.t == 0 else c.G0
        y = f.local(0.0, sealed(self.nu * zeta), warm=c.begin(f, zeta), stop=self.stop_rule(at, G0, zeta))
        sent = at.send(theta=y.x if self.upload == "plain" else y.x - y.residual / self.nu)
        # sum_j w_j zeta_j = 0 but for this: each round's rounding errors stay, and momentum carries them on
        size = sum(float(np.linalg.norm(v)) for v in (zeta, s, theta)) + c.released
        after = Local(zeta, s, sent.theta, y.warm, t, G0, c.drift + SPARE * UNIT * size)
        return self.with_certificate(sent, y, theta, f, at, after), kept(f, after, theta, at.N, self.nu)

    def unit(self, c: Local | InSpan, at: Place, theta: Array) -> float:
        """The G0 of this run; the first broadcast is start - E'(start)/nu."""
        if at.start is None or c.warm is None:  # a solver that cannot begin at the start gains nothing from it
            return self.G0
        return min(self.G0, self.nu / 2 * float(np.sum((at.start - theta) ** 2)))

    def with_certificate(self, sent: Upload, y: Solved, theta: Array, f: ClientCost, at: Place, c: Local) -> Upload:
        """What the server needs for its lower bound; `theta` is what was broadcast."""
        if self.certificate == "none":
            return sent
        # <xi, x> - f(x) + (nu/2)|x|^2 with xi = f'(x) - nu x
        conj = float(y.subgradient @ y.x) - y.value - self.nu / 2 * float(y.x @ y.x) + y.slack
        e = y.residual if sent.theta is y.x else y.residual + self.nu * (sent.theta - y.x)
        conj -= float(e @ theta)
        slip, off = self.rounding(y, theta, e, f, at, c)
        if self.certificate == "scalar":
            return sent.also(conj=conj, slip=slip, e=float(np.linalg.norm(e)) + off)
        return sent.also(conj=conj, slip=slip, e=e, off=off + float(np.sqrt(at.d)) * at.grid)

    def rounding(self, y: Solved, theta: Array, e: Array, f: ClientCost, at: Place, c: Local) -> tuple[float, float]:
        """How far off conj_j - <e_j, theta'> may be, and the length of what is not known of e_j.

        An error delta of xi_j changes conj_j by <delta, theta_j>, and with e_j, which it changes too, by
        <delta, theta_j - theta'>. What sum_j w_j zeta_j is off, after n rounds at most n times the `drift`, is
        multiplied by nu theta.
        """
        value, gradient = f.rounding(y.x, solved=True)
        K, pull = roundings(at.d), self.nu * float(np.linalg.norm(c.zeta))
        off = float(np.linalg.norm(gradient)) + SPARE * UNIT * (pull + float(np.linalg.norm(e)))
        lost = self.nu * (at.round + 2) * c.drift
        size = np.abs(y.subgradient) @ np.abs(y.x) + self.nu / 2 * (y.x @ y.x) + np.abs(e) @ np.abs(theta)
        apart = float(np.linalg.norm(y.x - theta))
        slip = 2 * value + off * apart + lost * float(np.linalg.norm(theta)) + K * float(size + abs(y.value))
        return min(slip, LARGEST), min(off + lost, LARGEST)

    def stop_rule(self, at: Place, G0: float, zeta: Array) -> StopRule:
        """The rule for round n, the smaller of the two thresholds unless something else was asked for."""
        if self.accuracy == "energy":
            return RelativeEnergy(1e-12)
        if self.accuracy == "exact":
            return GradientNorm(1e-13, cap=2000)
        smooth = GeometricSchedule(self.rho, self.gamma)
        nonsmooth = PolynomialSchedule(0.1 if self.gamma is None else self.gamma)
        thresholds = {
            "smooth": smooth.threshold(at.round, at.N, self.nu),
            "nonsmooth": nonsmooth.threshold(at.round, at.N, self.nu),
        }
        eps = G0 * thresholds.get(self.accuracy, min(thresholds.values()))
        rounding = self.nu / 2 * ROUNDING**2 * float(zeta @ zeta)  # |r| = ROUNDING |nu zeta|
        return PrimalDualGap(max(eps, rounding), self.nu)


def momentum(t: float, rho: float) -> tuple[float, float]:
    """(t_{n+1}, beta_n) from t_n. t = 0 stands for "before the first round": it gives t_0 = 1 and beta = 0."""
    q = 1 - rho * t * t
    following = (q + np.sqrt(q * q + 4 * t * t)) / 2
    if rho >= NO_MOMENTUM:
        return float(following), 0.0
    beta = max(t - 1, 0.0) / following * (1 - following * rho) / (1 - rho)
    return float(following), float(beta)
