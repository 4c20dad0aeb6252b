r"""APDA and APDA-Inexact: an accelerated primal-dual method with local proxes.

A. Sadiev, D. Kovalev and P. Richtarik, "Communication acceleration of local gradient methods via an accelerated
primal-dual algorithm with inexact prox", NeurIPS 2022. Saddle point form of the consensus problem:

    min over x_1..x_N, max over y_1..y_N with mean y_j = 0, of   mean (f_j(x_j) + <y_j, x_j>),

all means weighted by the clients' sizes.

A round:
    yb_j = y_j + theta (y_j - yprev_j)
    xh_j ~ argmin f_j(x) + <yb_j, x> + |x - x_j|^2/(2 eta_x)
    x_j <- x_j - eta_x (f_j'(xh_j) + yb_j)                                  ( = xh_j - eta_x r_j, r_j the residual)
    w_j  = y_j + eta_y x_j - eta_y beta (y_j + f_j'(xh_j)),      wbar = mean w_j            (the exchange)
    y_j <- w_j - wbar                                                       (when the next message arrives)

y_j -> -f_j'(theta*). The server never sees an x_j; its model is wbar/eta_y = mean (x_j - beta f_j'(xh_j)), because
mean y_j = 0, and it tends to theta* as fast as x_j does.

Parameters. Let eta_y = 1/(c eta_x) and
    Phi = (1/eta_x + m)|x - x*|^2 + |y - y*|^2/eta_y + (1/eta_y - beta)|y - yprev|^2 - 2 <x - x*, y - yprev>.
Exact prox: c = 2, m = mu, and Phi+ <= theta Phi with theta = max{1/(1 + mu eta_x), 1 - beta eta_y}, if beta <= 1/L and
beta <= (c - 1) eta_x. Inexact: c = 4, m = mu/2, theta = max{2/(2 + mu eta_x), 1 - beta eta_y}, if beta <= 1/(2 L),
beta <= (c - 2) eta_x, and each client stops when
    2 eta_x^3 (2 L + mu) |r_j|^2  <=  |x_j+ - x_j|^2,
of which both sides are known to it; since |x_j+ - x_j| >= |xh_j - x_j| - eta_x |r_j|, it suffices that
    |r_j|  <=  |xh_j - x_j| / (eta_x + sqrt(2 eta_x^3 (2 L + mu))).
Defaults. beta as large as allowed, and the eta_x that makes both terms of theta equal, 1/sqrt(2 mu L) and
1/(2 sqrt(mu L)): then 1 - theta is about sqrt(mu/(2 L)) and sqrt(mu/L)/4. The paper's c = 32 works too, about three
times slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms.accuracy import exactly, gradient_scale
from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.solvers.stopping import RelativeStep, StopRule
from dualfl.typing import Array


@dataclass(frozen=True)
class Local:
    x: Array
    y: Array
    w: Array  # as it was sent
    warm: Array | None
    scale: float


@dataclass(frozen=True)
class Server:
    wbar: Array


@dataclass(frozen=True)
class APDA(Algorithm):
    """APDA: an accelerated primal-dual method with exact local proxes (Sadiev, Kovalev and Richtarik).

    Parameters
    ----------
    eta_x : float, default 1 / sqrt(2 mu L)
        The primal step.
    c : float, default 2.0
        The dual step is eta_y = 1/(c eta_x).
    beta : float, default 1 / L
        The second dual step.
    theta : float, default max(1 / (1 + mu eta_x), 1 - beta eta_y)
        The extrapolation of y.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.APDA(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-5)
    True
    """

    eta_x: float = theory("1 / sqrt(2 mu L)", lambda k, a: 1 / np.sqrt(2 * k.mu * k.L))
    c: float = 2.0
    beta: float = theory("1 / L", lambda k, a: 1 / k.L)
    theta: float = theory(
        "max(1 / (1 + mu eta_x), 1 - beta eta_y)",
        lambda k, a: max(1 / (1 + k.mu * a.eta_x), 1 - a.beta * a.eta_y),
    )

    name = "apda"
    needs = frozenset({"local"})
    compresses = True
    grid: ClassVar = {"eta_x": [10.0**m for m in range(-4, 3)], "beta": [10.0**m for m in range(-4, 3)]}
    card = Card(
        title="APDA",
        year=2022,
        reference="Sadiev, Kovalev and Richtarik",
        rate="sqrt(kappa) log(1/eps)",
        accelerated=True,
        paper="arXiv:2207.03957",
    )

    @property
    def eta_y(self) -> float:
        return 1 / (self.c * self.eta_x)

    def check(self, k: Constants) -> None:
        self.require(self.eta_x > 0, "eta_x", "it must be positive")
        self.require(self.c > 1, "c", "it must be greater than 1: eta_x eta_y < 1 keeps Phi positive")
        self.require(self.beta >= 0, "beta", "it must be >= 0, and theory asks for at most 1/L")
        self.require(0 <= self.theta <= 1, "theta", "it must lie in [0, 1]")

    def start(self, at: Place) -> Server:
        return Server(wbar=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.local, wbar=s.wbar)
        return Server(wbar=m.w)

    def model(self, s: Server) -> Array:
        return s.wbar / self.eta_y

    def client(self, f: ClientCost, at: Place) -> Local:
        zero = np.zeros(at.d)
        return Local(x=zero, y=zero, w=zero, warm=None, scale=gradient_scale(f))

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, wbar: Array) -> tuple[Upload, Local]:
        y = c.w - wbar
        yb = y + self.theta * (y - c.y)
        found = f.local(1 / self.eta_x, c.x / self.eta_x - yb, warm=c.warm, stop=self.stop_rule(f, c))
        x = found.x - self.eta_x * found.residual
        w = y + self.eta_y * (x - self.beta * (y + found.subgradient))
        sent = at.send(w=w)
        return sent, Local(x=x, y=y, w=sent.w, warm=found.warm, scale=c.scale)

    def stop_rule(self, f: ClientCost, c: Local) -> StopRule:
        return exactly(c.scale)


@dataclass(frozen=True)
class APDAInexact(APDA):
    """APDA-Inexact: APDA with a few local iterations a round (Sadiev, Kovalev and Richtarik).

    Parameters
    ----------
    eta_x, c, beta, theta : float
        As in APDA.
    accuracy : float, default 1 / (eta_x + sqrt(2 eta_x^3 (2 L + mu)))
        a client stops when its residual is at most this times the step that it has made.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.APDAInexact(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-3)
    True
    """

    eta_x: float = theory("1 / (2 sqrt(mu L))", lambda k, a: 1 / (2 * np.sqrt(k.mu * k.L)))
    c: float = 4.0
    beta: float = theory("1 / (2 L)", lambda k, a: 1 / (2 * k.L))
    theta: float = theory(
        "max(2 / (2 + mu eta_x), 1 - beta eta_y)",
        lambda k, a: max(2 / (2 + k.mu * a.eta_x), 1 - a.beta * a.eta_y),
    )
    accuracy: float = theory(
        "1 / (eta_x + sqrt(2 eta_x^3 (2 L + mu)))",
        lambda k, a: 1 / (a.eta_x + np.sqrt(2 * a.eta_x**3 * (2 * k.L + k.mu))),
    )

    name = "apda-inexact"
    card = Card(
        title="APDA-Inexact",
        year=2022,
        reference="Sadiev, Kovalev and Richtarik",
        rate="sqrt(kappa) log(1/eps)",
        accelerated=True,
        paper="arXiv:2207.03957",
    )

    def check(self, k: Constants) -> None:
        super().check(k)
        self.require(self.accuracy > 0, "accuracy", "it must be positive")

    def stop_rule(self, f: ClientCost, c: Local) -> StopRule:
        return RelativeStep(self.accuracy, f.place(c.x), cap=2000)
