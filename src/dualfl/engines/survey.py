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
    """mu = min mu_j, L = max L_j and their kin, by one exchange of maxima."""

    name = "survey"

    def start(self, at: Place) -> Round:
        m = yield ask(self.constants, reduce="max")
        # An infinite L travels as 0 = 1/L: what is sent must be finite.
        return Found(-m.minus_mu, inverse(-m.minus_inverse_L), inverse(-m.minus_inverse_L_row), m.n)

    @client_step
    def constants(self, f: Any, c: State, at: Place) -> tuple[Upload, State]:
        L_row = getattr(f.objective, "L_row", f.L)
        return at.send(minus_mu=-f.mu, minus_inverse_L=-1 / f.L, minus_inverse_L_row=-1 / L_row, n=float(f.n)), None

    def round(self, s: State, at: Place) -> Round:
        raise NotImplementedError

    def model(self, s: State) -> Array:
        raise NotImplementedError

    @staticmethod
    def found(s: Found, at: Place) -> Constants:
        return Constants(mu=s.mu, L=s.L, N=at.N, d=at.d, L_row=s.L_row, n=int(s.n))


def inverse(x: float) -> float:
    return 1 / x if x > 0 else np.inf
