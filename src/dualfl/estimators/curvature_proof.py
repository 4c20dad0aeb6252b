"""How near Cox, clog-log and ordinal models are to the best one, without a penalty too: what a summed Hessian proves.

Let H be the Hessian of E at theta, g its gradient, phi E along a direction of length 1 in the norm of H, and R such
that |phi'''| <= R phi'' while predictors move by at most 1. With lam = |g| in the norm of H^-1 and u = lam R,

    phi'(s) >= -lam + (1 - exp(-R s))/R,    so    E - E* <= lam^2 psi(u),    psi(u) = (u + (1 - u) log(1 - u))/u^2,

if u < 1, and if the right side is positive where predictors have moved by 1, so that the minimiser is nearer: it is,
for u < 1 - exp(-1), since they move by at most 1 as long as R s <= 1. psi is 1/2 at u = 0 (Newton's decrement).

    Cox        a third derivative is a third cumulant of x'h over a risk set, at most the range of x'h times its
               variance: R = 2 max over rows of |x_l - c| in the norm of H^-1, c any centre of a stratum
    clog-log   |l'''| <= max(1, e^z) l'' for y = +1, and l''' = l'' for y = -1: R = max over rows of c_i |x_i|, with
               c_i = max(1, e^(z_i + 1)) or 1
    ordinal    two logistic losses of t - x'w, for which |l'''| <= l'', and barriers h of gaps d between thresholds with
               |h'''| = coth(d/2) h'': R is the largest length of such a row (-x, e_k), and coth(d/4) times that of
               e_k - e_(k-1), which keeps gaps above half of what they are
    site       an intercept b_j of its own for each silo: H is that of all (w, b), so a row of a silo of weight w_j has
               the squared length 1/(w_j g_bb) + |x_i - xbar_j|^2 in the inverse of the summed Schur complement, with
               xbar_j = g_wb/g_bb; R is the largest length times c_i of its loss, and what is left of g_b adds
               w_j g_b^2/g_bb to lam^2

The silos send g, H and one maximum. Rounding: what is computed for H is at least (1 - delta) H for
delta = 8 K u d/lambda, lambda the least eigenvalue of H after its diagonal, without what the means take off, is
scaled to 1; g is off by at most its bound.

With an l1 penalty g is a subgradient of E, the shortest (`L1.steepest`): the penalty lies above its tangents, so the
bound is the same.

With g and H at hand a Newton step costs no message, and squares what is left (`refined`): energies that differ by
rounding only can belong to coefficients that differ in the sixth digit.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dualfl.algorithms.cuts import below
from dualfl.objectives.average import Average
from dualfl.objectives.penalties import L1
from dualfl.objectives.rounding import roundings
from dualfl.problem import Problem
from dualfl.silos.curvature import known_sums, told_by
from dualfl.typing import Array

MOST = 0.1  # of H that may be rounding
SURE = 0.1  # below such a u Newton's step leads down: E falls by nearly half of lam^2
INSIDE = 0.6  # below such a u the minimiser is where the bound of the third derivative holds
LARGEST = 2000  # coefficients; a larger Hessian is no message


def psi(u: float) -> float:
    """(u + (1 - u) log(1 - u))/u^2, without cancellation."""
    if u > 0.1:
        return (u + (1 - u) * float(np.log1p(-u))) / u**2
    return sum(u**k / ((k + 1) * (k + 2)) for k in range(18))


class CurvatureProof:
    """Bounds E* of one problem; counts the exchanges it takes, and the floats of all clients."""

    def __init__(self, problem: Problem) -> None:
        self.smooth, self.clients = Average([f.fresh() for f in problem.clients], problem.weights), problem.clients
        self.weights, self.d = np.array(problem.weights), problem.d
        free = self.clients[0].free
        self.penalised = np.ones(self.d, dtype=bool) if free is None else ~np.asarray(free)
        self.penalty = problem.penalty
        self.exchanges = self.floats_up = self.floats_down = 0
        self.step: tuple[Array, Array] | None = (
            None  # where something was proven last, and where Newton leads from there
        )

    @staticmethod
    def applies(problem: Problem) -> bool:
        known = all(told_by(f) is not None for f in problem.clients)
        return known and (problem.penalty is None or isinstance(problem.penalty, L1)) and problem.d <= LARGEST

    def _count(self, up: int, down: int) -> None:
        self.exchanges += 1
        self.floats_up += len(self.clients) * up
        self.floats_down += len(self.clients) * down

    @np.errstate(over="ignore", invalid="ignore")
    def bound(self, theta: Array) -> float:
        """A lower bound of E* from what is seen at theta; -inf where nothing is proven."""
        d, sums = self.d, [known_sums(f) for f in self.clients]
        self._count(d * (d + 1) // 2 + 2 * d + 2, d)
        value, g = self.smooth.value_gradient(theta)
        if self.penalty is not None:
            some = theta[self.penalised]
            value, g = value + self.penalty.value(some), np.array(g)
            g[self.penalised] = self.penalty.steepest(some, g[self.penalised])
        off, H = self.smooth.rounding(theta), self.smooth.hessian(theta)
        before = self.weights @ np.stack([one.diagonal(theta) for one in sums])
        scale: Array = np.sqrt(np.maximum(np.diag(H), before))
        if not (np.isfinite(H).all() and np.isfinite(off.gradient).all() and (scale > 0).all()):
            return -np.inf
        least = float(np.linalg.eigvalsh(H / np.outer(scale, scale))[0])
        delta = 8 * roundings(3 * max(f.n for f in self.clients) + d) * d / least if least > 0 else np.inf
        if not delta < MOST:
            return -np.inf
        try:
            factor = cho_factor(H, lower=True)
        except LinAlgError:
            return -np.inf
        left = float(self.weights @ [one.left(theta) for one in sums])
        lam = float(np.sqrt(max(float(g @ cho_solve(factor, g)), 0.0) + left))
        inverse = np.abs(cho_solve(factor, np.eye(d)))
        lam = (lam + float(np.sqrt(off.gradient @ inverse @ off.gradient))) * (1 + 2 * delta)
        self._count(1, d * (d + 1) // 2)
        L = np.tril(factor[0])
        u = lam * max(one.reach(theta, L, w) for one, w in zip(sums, self.weights)) * (1 + 2 * delta)
        if not u < INSIDE:
            return -np.inf
        if u < SURE and self.penalty is None:
            self.step = np.array(theta), theta - cho_solve(factor, g)
        gain = lam**2 * psi(u) * (1 + 1e-9)
        return below(value - off.value - gain, abs(value) + gain, 8)

    def refined(self, theta: Array) -> Array:
        """One Newton step from theta, if the sums there are known and tell that it leads down."""
        return self.step[1] if self.step is not None and np.array_equal(self.step[0], theta) else theta
