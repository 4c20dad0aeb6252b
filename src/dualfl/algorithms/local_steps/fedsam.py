r"""FedSAM: FedAvg with sharpness-aware local steps.

Z. Qu, X. Li, R. Duan, Y. Liu, B. Tang and Z. Lu, "Generalized federated learning via sharpness aware minimization",
ICML 2022. FedAvg in which f_j'(x_j) is replaced by the gradient where f_j is about largest within a radius rho,

    f_j'(x_j + rho f_j'(x_j)/|f_j'(x_j)|).

rho = 0 is FedAvg. For a convex problem the minimiser of the worst value nearby is not theta*, so there is a second
bias beside FedAvg's drift, and it falls with rho.

Defaults. rho = 0.05 as in the paper; it is a length in the units of the model, so rescale it with the problem. The rest
as in FedAvg.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Card, Constants
from dualfl.algorithms.local_steps.fedavg import FedAvg
from dualfl.typing import Array


@dataclass(frozen=True)
class FedSAM(FedAvg):
    """FedSAM: FedAvg with sharpness-aware local steps (Qu et al.), with full local gradients.

    Parameters
    ----------
    K : int, default 10
        How many local steps.
    eta : float, default 1 / (K L)
        The local step.
    eta_s : float, default 1.0
        The step of the server.
    C : int, default N
        How many clients take part in a round.
    rho : float, default 0.05
        The radius, >= 0; the other parameters are FedAvg's.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedSAM(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-2)
    True
    """

    rho: float = 0.05

    name = "fedsam"
    drifts = True
    grid: ClassVar = {"eta": [10.0**-m for m in range(7)], "rho": [0.01, 0.05, 0.1]}
    card = Card(
        title="FedSAM",
        year=2022,
        reference="Qu, Li, Duan, Liu, Tang and Lu",
        participation="any C",
        rate="none: drifts if clients differ",
        paper="arXiv:2206.02618",
    )

    def check(self, k: Constants) -> None:
        super().check(k)
        self.require(self.rho >= 0, "rho", "it is a radius, >= 0")

    def direction(self, f: ClientCost, y: Array) -> Array:
        g: Array = f.gradient(y)
        length = float(np.linalg.norm(g))
        if self.rho == 0 or length == 0:
            return g
        return f.gradient(y + self.rho / length * g)
