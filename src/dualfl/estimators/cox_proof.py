"""How near a Cox model is to the best one, without a penalty too: what the summed Hessian proves.

Along a direction h the third derivative of a log-sum-exp is a third cumulant of x'h over a risk set, at most the range
of x'h times its variance. With H the Hessian of E at theta, g the gradient of E there, and c the centre of a stratum,

    lam = |g| in the norm of H^-1,      R = 2 max over rows of |x_l - c| in the norm of H^-1,      u = lam R < 1

give  E - E* <= lam^2 psi(u),  psi(u) = (u + (1 - u) log(1 - u))/u^2, which is 1/2 at u = 0 (Newton's decrement).

The silos send g, H and one maximum. Rounding: what is computed for H is at least (1 - delta) H for
delta = 8 K u d/lambda, lambda the least eigenvalue of H after its diagonal, without what the means take off, is
scaled to 1; g is off by at most its bound.

With g and H at hand a Newton step costs no message, and squares what is left (`refined`): energies that differ by
rounding only can belong to coefficients that differ in the sixth digit.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from dualfl.algorithms.cuts import below
from dualfl.objectives.cox import CoxPartialLikelihood
from dualfl.objectives.rounding import roundings
from dualfl.problem import Problem
from dualfl.typing import Array

MOST = 0.1  # of H that may be rounding
SURE = 0.1  # below such a u Newton's step leads down: E falls by nearly half of lam^2


def psi(u: float) -> float:
    """(u + (1 - u) log(1 - u))/u^2, without cancellation."""
    if u > 0.1:
        return (u + (1 - u) * float(np.log1p(-u))) / u**2
    return sum(u**k / ((k + 1) * (k + 2)) for k in range(18))


class CoxProof:
    """Bounds E* of one problem; counts the exchanges it takes, and the floats of all clients."""

    def __init__(self, problem: Problem) -> None:
        self.pooled = problem.pooled
        self.clients = [f for f in problem.clients if isinstance(f, CoxPartialLikelihood)]
        self.weights, self.d = np.array(problem.weights), problem.d
        self.exchanges = self.floats_up = self.floats_down = 0
        self.step: tuple[Array, Array] | None = (
            None  # where something was proven last, and where Newton leads from there
        )

    @staticmethod
    def applies(problem: Problem) -> bool:
        return problem.penalty is None and all(isinstance(f, CoxPartialLikelihood) for f in problem.clients)

    def _count(self, up: int, down: int) -> None:
        self.exchanges += 1
        self.floats_up += len(self.clients) * up
        self.floats_down += len(self.clients) * down

    def bound(self, theta: Array) -> float:
        """A lower bound of E* from what is seen at theta; -inf where nothing is proven."""
        d = self.d
        self._count(d * (d + 1) // 2 + 2 * d + 2, d)
        value, g = self.pooled.value_gradient(theta)
        off = self.pooled.rounding(theta)
        H = self.pooled.hessian(theta)
        size = self.weights @ np.stack([f.column_sizes**2 for f in self._sized(theta)])
        scale: Array = np.sqrt(np.maximum(np.diag(H), size))
        if not (np.isfinite(H).all() and (scale > 0).all()):
            return -np.inf
        least = float(np.linalg.eigvalsh(H / np.outer(scale, scale))[0])
        K = roundings(3 * max(f.n for f in self.clients) + d)
        delta = 8 * K * d / least if least > 0 else np.inf
        if not delta < MOST:
            return -np.inf
        try:
            factor = cho_factor(H, lower=True)
        except LinAlgError:
            return -np.inf
        lam = float(np.sqrt(max(float(g @ cho_solve(factor, g)), 0.0)))
        inverse = np.abs(cho_solve(factor, np.eye(d)))
        lam = (lam + float(np.sqrt(off.gradient @ inverse @ off.gradient))) * (1 + 2 * delta)
        self._count(1, d * (d + 1) // 2)
        R = 2 * max(farthest(f, factor[0]) for f in self.clients) * (1 + 2 * delta)
        u = lam * R
        if not u < 1:
            return -np.inf
        if u < SURE:
            self.step = np.array(theta), theta - cho_solve(factor, g)
        gain = lam**2 * psi(u) * (1 + 1e-9)
        return below(value - off.value - gain, abs(value) + gain, 8)

    def refined(self, theta: Array) -> Array:
        """One Newton step from theta, if the sums there are known and tell that it leads down."""
        return self.step[1] if self.step is not None and np.array_equal(self.step[0], theta) else theta

    def _sized(self, theta: Array) -> list[CoxPartialLikelihood]:
        """The clients with rows weighted by what is expected of them: the diagonal before the means are taken off."""
        views = []
        for f in self.clients:
            view = f.fresh()
            view.s = np.maximum(f.cox_point(theta).expected, 0.0)
            view.__dict__.pop("column_sizes", None)
            views.append(view)
        return views


def farthest(f: CoxPartialLikelihood, L: Array) -> float:
    """What a silo sends: the largest |x_l - c| in the norm of (L L')^-1."""
    X = f.design.X
    if not isinstance(X, np.ndarray):
        X = X.toarray() - f.centres[f.labels]
    Q = solve_triangular(L, X.T, lower=True)
    return float(np.sqrt((Q * Q).sum(axis=0).max(initial=0.0))) * (1 + roundings(f.d))
