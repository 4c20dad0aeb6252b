"""What the clients' costs are like, found out before the first round: one exchange of a few scalars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dualfl.algorithms.contract import Algorithm, Constants, Place, Round, State, Upload, ask, client_step
from dualfl.typing import Array


@dataclass(frozen=True)
class Found:
    mu: float
    L: float
    L_row: float
    n: float


@dataclass(frozen=True)
class Survey(Algorithm):
    """mu = min mu_j, L = max L_j and their kin, by one exchange of maxima.

    Without `smoothness` only mu is asked for: a client knows it, while L takes passes over its data.
    """

    smoothness: bool = True

    name = "survey"

    def start(self, at: Place) -> Round:
        m = yield ask(self.constants, reduce="max")
        if not self.smoothness:
            return Found(-m.minus_mu, np.nan, np.nan, m.n)
        # An infinite L travels as 0 = 1/L: what is sent must be finite.
        return Found(-m.minus_mu, inverse(-m.minus_inverse_L), inverse(-m.minus_inverse_L_row), m.n)

    @client_step
    def constants(self, f: Any, c: State, at: Place) -> tuple[Upload, State]:
        known = at.send(minus_mu=-f.mu, n=float(f.n))
        if not self.smoothness:
            return known, None
        L_row = getattr(f.objective, "L_row", f.L)
        largest = np.finfo(float).max  # stands for 1/L of a constant cost
        inverse_L, inverse_L_row = min(inverse(f.L), largest), min(inverse(L_row), largest)
        return known.also(minus_inverse_L=-inverse_L, minus_inverse_L_row=-inverse_L_row), None

    def round(self, s: State, at: Place) -> Round:
        raise NotImplementedError

    def model(self, s: State) -> Array:
        raise NotImplementedError

    @staticmethod
    def found(s: Found, at: Place) -> Constants:
        return Constants(mu=s.mu, L=s.L, N=at.N, d=at.d, L_row=s.L_row, n=int(s.n))


def inverse(x: float) -> float:
    return 1 / x if x > 0 else np.inf
