"""What all gradients seen so far prove of E*, at the server and without a message.

A point x with E and g = E'(x) proves E(y) >= E + <g, y - x> + (mu/2)|y - x|^2 for all y, a parabola

    e + (mu/2)|y - v|^2,      v = x - g/mu,      e = E - |g|^2/(2 mu).

Its lowest value e is the usual bound. The parabolas together prove more: E* is at least the minimum of their maximum,

    max over the simplex of   sum_k b_k e_k + (mu/2) ( sum_k b_k |v_k|^2 - |sum_k b_k v_k|^2 ),

and every point of the simplex gives a valid bound. The v are measured from the newest one, so that nothing cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl.algorithms.dual.simplex import minimise_on_simplex, value
from dualfl.typing import Array


@dataclass(frozen=True)
class Parabolas:
    """The newest parabolas, and the best bound so far."""

    v: tuple[Array, ...] = ()
    e: tuple[float, ...] = ()
    bound: float = -np.inf

    def with_point(self, mu: float, x: Array, E: float, g: Array, most: int) -> Parabolas:
        """These and the parabola of one more point."""
        if not mu > 0:
            return self
        v, e = (*self.v, x - g / mu)[-most:], (*self.e, E - float(g @ g) / (2 * mu))[-most:]
        return Parabolas(v, e, max(self.bound, e[-1]))

    def tightened(self, mu: float) -> Parabolas:
        """The bound of all parabolas together."""
        if len(self.v) < 2:
            return self
        V = np.stack(self.v) - self.v[-1]
        gram = mu * (V @ V.T)
        highest = float(max(self.e))
        c = np.array(self.e) - highest + gram.diagonal() / 2
        beta = minimise_on_simplex(gram, c, iterations=200)
        return Parabolas(self.v, self.e, max(self.bound, highest - value(gram, c, beta)))
