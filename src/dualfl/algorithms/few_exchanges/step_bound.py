"""What a Hessian proves of the point that a step from it leads to, before anybody has looked there.

Let H be the Hessian of E at x, g its gradient, h any step, t = |h| its length in the norm of H, and R as in
`self_concordance`: curvatures change at most by the factor exp(R s) along a way of the length s. So with r = R t

    E'(x + h)  =  g + H h + the integral of (H(x + s h) - H) h over s from 0 to 1,
    |E'(x + h)|  <=  |g + H h| + t (exp(r) - 1 - r)/r                              in the norm of H^-1,
    H(x + h)   >=  exp(-r) H,       and rows are as far out as exp(r/2) R in its norm.

With lam the right side times exp(r/2), and u = lam R exp(r/2) < 1, `self_concordance` at x + h says that

    E(x + h) - E*  <=  lam^2 psi(u).

After Newton's own step g + H h is rounding, so lam is of second order, and the bound of fourth. The bound at x itself,
compared with E(x + h), is of third order: it does not know how far E was to fall.

Rounding. The step is h = Z z + e, Z the coordinates in which H is known; e is what rounding and z leave of it, and
|e| <= sum_k |e_k| sqrt(H_kk). H is within a share of what is known for it (`Norm.doubt`). Losses with kinks are left
out: their curvatures have no such bound. So are sums that some clients have not added to: they are below H, which is
enough for a bound at x, but then g + H h is another vector.
"""

from __future__ import annotations

import numpy as np

from dualfl.algorithms.few_exchanges.self_concordance import Curvature, norm_of, psi
from dualfl.objectives.rounding import roundings
from dualfl.typing import Array


def slack(r: float) -> float:
    """(exp(r) - 1 - r)/r, by its series for small r."""
    return float(np.expm1(r) / r - 1) if r > 0.1 else r / 2 * (1 + r / 3 * (1 + r / 4 * (1 + r / 5 * (1 + r / 5))))


def left(C: Curvature, r: Array, off_r: Array, z: Array, astray: float, beside: float) -> float:
    """A bound of E(x + h) - E*: r, off by off_r, is the slope at x, z the step, `astray` the length of e.

    beside : lam^2 at x + h of directions that H does not hold
    """
    norm = norm_of(C) if len(r) and not np.any(C.kinks) else None
    if norm is None or not np.isfinite(z).all():
        return np.inf
    H, known = C.H, norm.length(z)
    rest = norm.dual(r + H @ z, off_r + roundings(2 * len(z)) * (np.abs(r) + np.abs(H) @ np.abs(z)))
    rest += norm.doubt * known / np.sqrt(norm.sure) + astray
    length, R = np.sqrt(1 + norm.doubt) * known + astray, C.reach / np.sqrt(norm.least)
    far = R * length
    if not far < 1:
        return np.inf
    decrement = np.exp(far) * (rest + length * slack(far)) ** 2 + beside
    u = np.sqrt(decrement) * R * np.exp(far / 2) * (1 + roundings(8))
    return float(decrement * psi(u) * (1 + roundings(32)))
