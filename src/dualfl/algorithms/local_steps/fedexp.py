r"""FedExP: FedAvg with a server step that is extrapolated.

D. Jhunjhunwala, S. Wang and G. Joshi, "FedExP: Speeding up federated averaging via extrapolation", ICLR 2023,
Algorithm 1. With FedAvg's changes Delta_j = x_j - x of the C clients of the set S, and Delta their mean,

    eta_g = max{eta_s, mean_{j in S} |Delta_j|^2 / (2 (|Delta|^2 + eps))},        x <- x + eta_g Delta

and the model is the mean of the last two x, which takes out an oscillation. A client sends |Delta_j|^2 along: d + 1
floats.

The step comes from projections onto convex sets that have a point in common: there all clients are at rest together.
Unlike clients have no such point. At FedAvg's fixed point Delta = 0 while the Delta_j are not, eta_g is as large as eps
lets it be, and x moves around that point without settling.

Defaults. eta_s = 1 and eps = 1e-3 as in the paper, local steps as in FedAvg.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Card, Constants, Place, Round, State, Upload, ask, client_step
from dualfl.algorithms.local_steps.fedavg import FedAvg
from dualfl.typing import Array


@dataclass(frozen=True)
class Server:
    x: Array
    before: Array


@dataclass(frozen=True)
class FedExP(FedAvg):
    """FedExP: FedAvg with an extrapolated server step (Jhunjhunwala, Wang and Joshi), with full local gradients.

    Parameters
    ----------
    K, eta : int and float
        Number and length of the local steps.
    eta_s : float, default 1.0
        The least step of the server.
    C : int, default N
        How many clients take part in a round.
    eps : float, default 0.001
        Keeps the step finite where the changes cancel.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedExP(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-2)
    True
    """

    eps: float = 1e-3

    name = "fedexp"
    grid: ClassVar = {"eta": [10.0**-m for m in range(7)], "eps": [1e-1, 1e-2, 1e-3]}
    card = Card(
        title="FedExP",
        year=2023,
        reference="Jhunjhunwala, Wang and Joshi",
        up="d + 1",
        participation="any C",
        rate="none: drifts if clients differ",
        paper="arXiv:2301.09604",
    )

    def check(self, k: Constants) -> None:
        super().check(k)
        self.require(0 < self.eps < np.inf, "eps", "it must be positive")

    def start(self, at: Place) -> Any:
        return Server(x=np.zeros(at.d), before=np.zeros(at.d))

    def round(self, s: Any, at: Place) -> Round:
        m = yield ask(self.local, to=at.cohort(self.C), x=s.x)
        Delta = m.change / m.mass
        eta_g = max(self.eta_s, m.square / m.mass / (2 * (float(Delta @ Delta) + self.eps)))
        return Server(x=s.x + eta_g * Delta, before=s.x)

    def model(self, s: Any) -> Array:
        mean: Array = (s.x + s.before) / 2
        return mean

    @client_step
    def local(self, f: ClientCost, c: State, at: Place, x: Array) -> tuple[Upload, State]:
        change = self.change(f, x)
        return at.send(change=change).also(square=float(change @ change)), None
