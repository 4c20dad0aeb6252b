r"""FedAvgM, FedAdam, FedYogi and FedAdagrad: FedAvg whose mean change is a gradient for an optimiser at the server.

T.-M. H. Hsu, H. Qi and M. Brown, "Measuring the effects of non-identical data distribution for federated visual
classification", 2019 (FedAvgM); S. Reddi, Z. Charles, M. Zaheer, Z. Garrett, K. Rush, J. Konecny, S. Kumar and
H. B. McMahan, "Adaptive federated optimization", ICLR 2021, Algorithm 2 (the others). With FedAvg's x_j,

    Delta = mean_{j in S} (x_j - x)

    FedAvgM      m <- beta m + Delta,                           x <- x + eta_s m
    the others   m <- beta1 m + (1 - beta1) Delta,              x <- x + eta_s m / (sqrt(v) + tau),  v = tau^2 at first
    FedAdagrad   v <- v + Delta^2
    FedYogi      v <- v - (1 - beta2) Delta^2 sign(v - Delta^2)
    FedAdam      v <- beta2 v + (1 - beta2) Delta^2             all coordinate by coordinate

At rest Delta = 0, which is FedAvg's wrong point: the server's optimiser changes the way there, not where it ends.

Defaults. Local steps as in FedAvg. FedAvgM: beta = 0.9, and eta_s = 1 - beta, with which m is a mean of past changes.
The others: eta_s = tau = 0.1, so that near the end, where v is small, a step is FedAvg's, and far away no coordinate
moves by more than about 0.1. Both have grids, since the right scale is that of the coefficients.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.contract import Card, Constants, Place, Round, theory
from dualfl.algorithms.local_steps.fedavg import FedAvg
from dualfl.typing import Array

STEPS = [10.0**-m for m in range(7)]
NONE = "none: drifts if clients differ"


@dataclass(frozen=True)
class Heavy:
    x: Array
    m: Array


@dataclass(frozen=True)
class Adaptive:
    x: Array
    m: Array
    v: Array


@dataclass(frozen=True)
class FedAvgM(FedAvg):
    """FedAvg with momentum at the server (Hsu, Qi and Brown).

    Parameters
    ----------
    K, eta : int and float
        Number and length of the local steps.
    eta_s : float, default 1 - beta
        The server's step.
    C : int, default N
        How many clients take part in a round.
    beta : float, default 0.9
        The momentum, in [0, 1); 0 is FedAvg.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedAvgM(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-2)
    True
    """

    eta_s: float = theory("1 - beta", lambda k, a: 1 - a.beta)
    beta: float = 0.9

    name = "fedavgm"
    grid: ClassVar = {"eta": STEPS, "beta": [0.0, 0.7, 0.9, 0.97, 0.99]}
    card = Card(
        title="FedAvgM",
        year=2019,
        reference="Hsu, Qi and Brown",
        participation="any C",
        rate=NONE,
        paper="arXiv:1909.06335",
    )

    def check(self, k: Constants) -> None:
        self.require(0 <= self.beta < 1, "beta", "it must lie in [0, 1)")
        super().check(k)

    def start(self, at: Place) -> Any:
        return Heavy(x=np.zeros(at.d), m=np.zeros(at.d))

    def round(self, s: Any, at: Place) -> Round:
        Delta = yield from self.mean_change(s.x, at)
        m = self.beta * s.m + Delta
        return Heavy(x=s.x + self.eta_s * m, m=m)


@dataclass(frozen=True)
class FedOpt(FedAvg):
    """What the three adaptive methods of Reddi et al. share."""

    eta_s: float = 0.1
    beta1: float = 0.9
    tau: float = 0.1

    def check(self, k: Constants) -> None:
        super().check(k)
        self.require(0 <= self.beta1 < 1, "beta1", "it must lie in [0, 1)")
        self.require(0 < self.tau < np.inf, "tau", "it must be positive")

    def start(self, at: Place) -> Any:
        return Adaptive(x=np.zeros(at.d), m=np.zeros(at.d), v=np.full(at.d, self.tau**2))

    def round(self, s: Any, at: Place) -> Round:
        Delta = yield from self.mean_change(s.x, at)
        m = self.beta1 * s.m + (1 - self.beta1) * Delta
        v = self.second_moment(s.v, Delta**2)
        return Adaptive(x=s.x + self.eta_s * m / (np.sqrt(v) + self.tau), m=m, v=v)

    @abstractmethod
    def second_moment(self, v: Array, square: Array) -> Array: ...


def described(title: str) -> Card:
    return Card(
        title=title,
        year=2021,
        reference="Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar and McMahan",
        participation="any C",
        rate=NONE,
        paper="arXiv:2003.00295",
    )


ADAPTIVE_GRID: dict[str, Sequence[Any]] = {"eta": STEPS, "eta_s": [1.0, 0.1, 0.01], "tau": [0.1, 1e-3, 1e-5]}


@dataclass(frozen=True)
class FedAdagrad(FedOpt):
    """FedAvg with Adagrad at the server; beta1 = 0, as in the paper's experiments.

    Parameters
    ----------
    K : int, default 10
        How many local steps.
    eta : float, default 1 / (K L)
        The local step.
    eta_s : float, default 0.1
        The step of the server.
    C : int, default N
        How many clients take part in a round.
    beta1 : float, default 0.0
        The momentum of the server.
    tau : float, default 0.1
        What is added to the root of the squares.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedAdagrad(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-1)
    True
    """

    beta1: float = 0.0

    name = "fedadagrad"
    grid: ClassVar = ADAPTIVE_GRID
    card = described("FedAdagrad")

    def second_moment(self, v: Array, square: Array) -> Array:
        return v + square


@dataclass(frozen=True)
class Forgetting(FedOpt):
    """What Yogi and Adam share: a v that forgets by beta2."""

    beta2: float = 0.99

    def check(self, k: Constants) -> None:
        super().check(k)
        self.require(0 <= self.beta2 < 1, "beta2", "it must lie in [0, 1)")


@dataclass(frozen=True)
class FedYogi(Forgetting):
    """FedAvg with Yogi at the server.

    Parameters
    ----------
    K : int, default 10
        How many local steps.
    eta : float, default 1 / (K L)
        The local step.
    eta_s : float, default 0.1
        The step of the server.
    C : int, default N
        How many clients take part in a round.
    beta1 : float, default 0.9
        The momentum of the server.
    tau : float, default 0.1
        What is added to the root of the squares.
    beta2 : float, default 0.99
        The momentum of the squares.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedYogi(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-1)
    True
    """

    name = "fedyogi"
    grid: ClassVar = ADAPTIVE_GRID
    card = described("FedYogi")

    def second_moment(self, v: Array, square: Array) -> Array:
        return v - (1 - self.beta2) * square * np.sign(v - square)


@dataclass(frozen=True)
class FedAdam(Forgetting):
    """FedAvg with Adam at the server, without its bias correction, as in the paper.

    Parameters
    ----------
    K : int, default 10
        How many local steps.
    eta : float, default 1 / (K L)
        The local step.
    eta_s : float, default 0.1
        The step of the server.
    C : int, default N
        How many clients take part in a round.
    beta1 : float, default 0.9
        The momentum of the server.
    tau : float, default 0.1
        What is added to the root of the squares.
    beta2 : float, default 0.99
        The momentum of the squares.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedAdam(), rounds=60)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-2)
    True
    """

    name = "fedadam"
    grid: ClassVar = ADAPTIVE_GRID
    card = described("FedAdam")

    def second_moment(self, v: Array, square: Array) -> Array:
        return self.beta2 * v + (1 - self.beta2) * square
