"""What all gradients seen so far prove of E*, at the server and without a message.

A point x with E and g = E'(x) proves E(y) >= E + <g, y - x> + (mu/2)|y - x|^2 for all y, a parabola

    e + (mu/2)|y - v|^2,      v = x - g/mu,      e = E - |g|^2/(2 mu).

Its lowest value e is the usual bound. The parabolas together prove more: E* is at least the minimum of their maximum,

    max over the simplex of   sum_k b_k e_k + (mu/2) ( sum_k b_k |v_k|^2 - |sum_k b_k v_k|^2 ),

and every point of the simplex gives a valid bound. The v are measured from the newest one, so that little cancels; but
e loses E where |g|^2/mu is large. So the b that is found here is only a choice: what it proves is computed by `cuts`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl.algorithms.cuts import Cut, proven
from dualfl.algorithms.dual.simplex import minimise_on_simplex


@dataclass(frozen=True)
class Parabolas:
    """The newest parabolas, and the best bound so far."""

    cuts: tuple[Cut, ...] = ()
    bound: float = -np.inf

    def with_point(self, mu: float, cut: Cut, most: int) -> Parabolas:
        """These and the parabola of one more point."""
        if not mu > 0 or not cut.sound:
            return self
        return Parabolas((*self.cuts, cut)[-most:], max(self.bound, proven(mu, [cut])))

    @np.errstate(over="ignore", invalid="ignore")
    def tightened(self, mu: float) -> Parabolas:
        """The bound of all parabolas together."""
        if len(self.cuts) < 2:
            return self
        v = np.stack([cut.x - cut.g / mu for cut in self.cuts])
        e = np.array([cut.E - float(cut.g @ cut.g) / (2 * mu) for cut in self.cuts])
        V = v - v[-1]
        gram = mu * (V @ V.T)
        c = e - e.max() + gram.diagonal() / 2
        beta = minimise_on_simplex(gram, c)
        return Parabolas(self.cuts, max(self.bound, proven(mu, self.cuts, beta)))
