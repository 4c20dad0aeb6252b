r"""FedOSAA: FedLin's local steps, and one step of Anderson acceleration at their end.

X. Feng, M. P. Laiu and T. Strohmer, "FedOSAA: improving federated learning with one-step Anderson acceleration", CPAL
2025, the version with SVRG's correction.

    g = E'(x)                                                                                first exchange
    w_0 = x;    w_{l+1} = w_l - eta r_l,    r_l = f_j'(w_l) - f_j'(x) + g,    l = 0, ..., K - 1
    x_j = sum_l c_l (w_l - eta r_l),   where c, sum c_l = 1, makes |sum_l c_l r_l| smallest, l = 0, ..., K
    x+ = mean x_j                                                                            second exchange

Of K + 1 points and their shifted gradients the last step makes what GMRES would make of K products with f_j'': about
GIANT's x - f_j''(x)^{-1} g, without a Hessian. Like GIANT's its mean can overshoot on unlike clients. The paper proves
local convergence for clients that are alike enough; here the line search of GIANT follows, by a third exchange, and
line_search=False is the paper's method.

Defaults. K = 10 and eta = 1/L: all local steps are safe, and what acceleration makes of them does not depend on eta in
exact arithmetic, up to the last step eta r.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.line_search import Searching, Server
from dualfl.typing import Array

RANK = 1e-12  # relative size below which a direction of the history is rounding


@dataclass(frozen=True)
class Local:
    x: Array
    g: Array


@dataclass(frozen=True)
class FedOSAA(Searching):
    """FedOSAA: FedLin's local steps, then one step of Anderson acceleration (Feng, Laiu and Strohmer).

    Parameters
    ----------
    K, eta : int and float
        Number and length of the local steps; K = 0 is gradient descent.
    line_search : bool, default True
        Whether the server searches along the mean change.
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedOSAA(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    K: int = 10
    eta: float = theory("1 / L", lambda k, a: 1 / k.L)
    line_search: bool = True
    mu: float = theory("mu", lambda k, a: k.mu, zero=True)  # for the certificate only

    name = "fedosaa"
    grid: ClassVar = {"K": [3, 10, 30], "eta": [10.0**-m for m in range(7)]}
    card = Card(
        title="FedOSAA",
        year=2025,
        reference="Feng, Laiu and Strohmer",
        exchanges="3",
        up="2d + 10",
        down="3d",
        rate="local linear; faster the more alike the clients",
        paper="arXiv:2503.10961",
    )

    def check(self, k: Constants) -> None:
        self.require(self.K >= 0, "K", "it is a number of local steps, >= 0")
        self.require(self.eta > 0, "eta", "it must be positive")
        self.require(not self.eta >= 2 / k.L, "eta", f"gradient steps diverge from 2/L = {2 / k.L:.3g} on")

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d), -np.inf)

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.anchor, x=s.x)
        p = (yield ask(self.local, g=m.g)).p
        step = (yield from self.search(m.E, m.g, p)) if self.line_search else 1.0
        return Server(s.x - step * p, max(s.bound, self.lower_bound(at, self.mu, s.x, m)))

    @client_step
    def anchor(self, f: ClientCost, c: Any, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        return at.send(g=g).also(**at.measured(f, x, E)), Local(x, g)

    @client_step
    def local(self, f: ClientCost, c: Local, at: Place, g: Array) -> tuple[Upload, Local]:
        w, r = c.x, g
        points, residuals = [w], [r]
        for _ in range(self.K):
            w = w - self.eta * r
            r = f.gradient(w) - c.g + g
            points.append(w)
            residuals.append(r)
        return at.send(p=accelerated(np.array(points), np.array(residuals), self.eta)), c


def accelerated(points: Array, residuals: Array, eta: float) -> Array:
    """x minus Anderson's point, from the history: differences to its first point, least squares on the rest."""
    first = residuals[0]
    if len(points) == 1:
        return np.asarray(eta * first)
    W, R = points[1:] - points[0], residuals[1:] - first
    size = np.linalg.norm(R, axis=1)
    unit = 1 / np.where(size > 0, size, 1.0)  # rows of one length: steps grow shorter as they go
    c = unit * np.linalg.lstsq((R * unit[:, None]).T, -first, rcond=RANK)[0]
    return np.asarray(eta * (first + c @ R) - c @ W)
