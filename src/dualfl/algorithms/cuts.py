"""What energies and gradients at a few points prove of E*, whatever rounding did to them.

If E is mu-strongly convex, a point x with E(x) and E'(x) proves, for all y, that

    E(y)  >=  E(x) + <E'(x), y - x> + (mu/2)|y - x|^2.

Known are numbers E and g that make this true but for errors: the right side is too large by at most
off + off_g |y - x| (see `objectives.rounding`). Take several such cuts k with weights b_k >= 0, of sum 1, and let

    q(y) = sum_k b_k ( E_k + <g_k, y - x_k> + (mu/2)|y - x_k|^2 ),         y0 = sum_k b_k (x_k - g_k/mu)  its minimiser.

q(y) = q(y0) + (mu/2)|y - y0|^2, and |y - x_k| <= |y0 - x_k| + |y - y0|, so with G = sum_k b_k off_g_k

    E*  >=  q(y0) - sum_k b_k (off_k + off_g_k |y0 - x_k|) - G^2/(2 mu).

q(y0) is added up from the terms above and never as E - |g|^2/(2 mu), and its own rounding errors, a few u times the
sizes of its terms, are taken off too; so is (mu/2)|y - y0|^2 for the y that stands for y0. What is returned is a proof,
also where |g|^2/mu is so large that E is lost beside it: then it is a very low bound, and not a wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dualfl.algorithms.client_cost import ClientCost, Solved
from dualfl.objectives.rounding import SPARE, UNIT, of_mean, roundings
from dualfl.typing import Array

LARGEST = 1e200  # an error bound that says nothing; infinity is not sent


class Cut(NamedTuple):
    """One point: E(y) >= E - off + <g, y - x> - off_g |y - x| + (mu/2)|y - x|^2."""

    x: Array
    E: float
    g: Array
    off: float
    off_g: float

    @property
    def sound(self) -> bool:
        return bool(np.isfinite(self.E + self.off + self.off_g) and np.isfinite(self.g).all())


def mean_cut(x: Array, E: float, g: Array, off: float, off_g: float, silos: int) -> Cut:
    """The cut of a mean over so many silos, from the means of their numbers."""
    return Cut(x, float(E), g, of_mean(silos) * float(off), of_mean(silos) * float(off_g))


@np.errstate(over="ignore", invalid="ignore")
def proven(mu: float, cuts: Sequence[Cut], weights: Sequence[float] | Array = (1.0,)) -> float:
    """The lower bound of E* that these cuts prove with these weights; -inf where numbers overflow."""
    used = [(b, cut) for b, cut in zip(weights, cuts) if b > 0]
    if not used or not mu > 0 or not all(cut.sound for _, cut in used):
        return -np.inf
    total = float(sum(b for b, _ in used))
    used = [(float(b) / total, cut) for b, cut in used]
    y = sum(b * (cut.x - cut.g / mu) for b, cut in used)
    value = size = errors = 0.0
    G = far = 0.0
    for b, (x, E, g, off, off_g) in used:
        step = y - x
        distance = float(np.linalg.norm(step))
        square = float(np.square(np.float64(distance)))
        value += b * (E + float(g @ step) + mu / 2 * square)
        size += b * (abs(E) + float(np.abs(g) @ np.abs(step)) + mu / 2 * square)
        errors += b * (off + off_g * distance)
        G += b * off_g
        far += b * float(np.linalg.norm(x) + np.linalg.norm(g) / mu)
    K = roundings(len(y) + len(used))
    errors += K * size + np.float64(G) ** 2 / (2 * mu) + mu / 2 * np.float64(K * far) ** 2  # may be infinite
    bound = float(value - (1 + K) * errors)
    return bound if np.isfinite(bound) else -np.inf


@np.errstate(over="ignore", invalid="ignore")
def penalised(mu: float, cut: Cut, penalty: Any) -> float:
    """The same for E + P with a penalty P that has a prox, from one cut of E:

        min over y of  <g, y - x> + (mu/2)|y - x|^2 + P(y),        y0 = prox_{P/mu}(x - g/mu).

    A computed y0 is that of a point v beside x - g/mu, off by a few u |x - g/mu|, and costs mu times its square.
    """
    if not mu > 0 or not cut.sound:
        return -np.inf
    x, E, g, off, off_g = cut
    v = x - g / mu
    y = penalty.prox(1 / mu, v)
    step, P = y - x, penalty.value(y)
    distance = float(np.linalg.norm(step))
    value = E + float(g @ step) + mu / 2 * distance**2 + P
    size = abs(E) + float(np.abs(g) @ np.abs(step)) + mu / 2 * distance**2 + abs(P)
    K = roundings(len(x))
    slip = K * float(np.linalg.norm(x) + np.linalg.norm(g) / mu)
    errors = off + off_g * (distance + slip) + off_g**2 / (2 * mu) + K * size + mu * slip**2
    bound = float(value - (1 + K) * errors)
    return bound if np.isfinite(bound) else -np.inf


def below(value: float, size: float, terms: int) -> float:
    """A number that was computed as a sum of so many terms of this total size, as a bound that is surely below it."""
    return value - roundings(terms) * size - UNIT * abs(value)


def dual_rounding(f: ClientCost, y: Solved, nu: float, c: Array) -> tuple[float, float]:
    """For g = f - (nu/2)|.|^2 at a local solution y of LOCAL(0, c) or the like: how far off the conjugate
    g*(xi) = <xi, y> - g(y), xi = f'(y) - nu y, and the length of xi may be.

    An error delta of xi changes the conjugate by <delta, y>.
    """
    value, gradient = f.rounding(y.x, solved=True)
    size = float(np.linalg.norm(y.x))
    off = float(np.linalg.norm(gradient)) + SPARE * UNIT * (float(np.linalg.norm(c)) + nu * size)
    terms = float(np.abs(y.subgradient) @ np.abs(y.x)) + 2 * nu * size**2 + abs(y.value)
    return min(2 * value + off * size + roundings(len(c)) * terms, LARGEST), min(off, LARGEST)
