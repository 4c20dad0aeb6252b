"""How exactly a client must solve LOCAL(a, tilt) in round n, for methods that take errors of the prox.

Splitting methods converge with inexact local solves if the errors can be summed up over all rounds (Eckstein and
Bertsekas 1992). If the exact method contracts by r a round, errors that fall like r^(1.5 n) do not slow it down:

    |r_j^n|  <=  0.1 |f_j'(0)| decay^n,        decay = r^1.5,

and where nothing contracts (r = 1: no smoothness or no strong convexity), they fall like (n + 1)^-2.
"""

from __future__ import annotations

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Constants
from dualfl.solvers.stopping import GradientNorm, StopRule
from dualfl.typing import Array

EXACT = 1e-13  # relative to |f_j'(0)|: rounding leaves nothing better


def gradient_scale(f: ClientCost) -> float:
    """|f'(0)|, a client's natural unit for residuals; 1 where there is no gradient or it vanishes."""
    if "gradient" not in f.objective.offers:
        return 1.0
    return float(np.linalg.norm(f.gradient(np.zeros(f.d)))) or 1.0


def exactly(scale: float = 1.0) -> StopRule:
    return GradientNorm(EXACT * scale, cap=2000)


def scheduled(scale: float, decay: float, n: int) -> StopRule:
    """The rule for round n; -1, the start of an algorithm, counts as 0."""
    n = max(n, 0)
    shrink = decay**n if decay < 1 else (n + 1.0) ** -2
    return GradientNorm(max(0.1 * scale * shrink, EXACT * scale), cap=2000)


def reflection(eta: float, k: Constants) -> float:
    """The contraction factor of 2 prox_{eta f} - I, max{(eta L - 1)/(eta L + 1), (1 - eta mu)/(1 + eta mu)}.

    (Giselsson and Boyd 2017, Theorem 1; it is smallest, (sqrt(kappa) - 1)/(sqrt(kappa) + 1), at eta = 1/sqrt(mu L).)
    """
    steep = (eta * k.L - 1) / (eta * k.L + 1) if np.isfinite(k.L) else 1.0
    return max(steep, (1 - eta * k.mu) / (1 + eta * k.mu))


def douglas_rachford(eta: float, relaxation: float, k: Constants) -> float:
    """The contraction factor of (1 - a/2) I + (a/2) (reflection of g)(reflection of f)."""
    return abs(1 - relaxation / 2) + relaxation / 2 * reflection(eta, k)


def norm2(x: Array) -> float:
    return float(x @ x)
