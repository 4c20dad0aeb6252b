r"""The primal-dual gap of a client's problem, computed.

With E(theta) = f(theta) - nu <zeta, theta>, its dual E_d(xi) = g*(xi) + |xi - nu zeta|^2/(2 nu), g = f - (nu/2)|.|^2,
and any xi, the gap E(theta) + E_d(xi) is >= 0, and bounds E(theta) - min E. Two choices of xi from theta:

* the paper's, xi = nu (zeta - theta): `paper_gap`. It needs g*, and is infinite if xi is not in the domain of g*.
  For nu < mu that never happens; for nu = mu, where g is the loss without its ridge, it is the rule: the gradients of
  a loss are bounded, and lie in the span of the client's rows.
* xi = g'(theta): `gradient_gap`. Since g(theta) + g*(g'(theta)) = <g'(theta), theta>, the sum collapses to
  |f'(theta) - nu zeta|^2/(2 nu): always finite, and known to whoever has the gradient.

The conjugate. Quadratics: a closed form. nu < mu: g* is minus the minimum of LOCAL(-nu, xi). nu = mu and piecewise
linear losses: a linear programme. nu = mu and smooth losses: x_e = argmin g + (e/2)|.|^2 - <xi, .> for a falling e.
Then e x_e tends to xi minus its projection onto the closed domain of g*. If xi is inside, <xi, x_e> - g(x_e) rises to
g*(xi); if it is not, x_e runs away along a direction p with <xi, p> > rec(p), where rec(p), the slope of g at
infinity, is the support function of the domain: one such p proves that g*(xi) is infinite.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from dualfl.errors import NotSupported
from dualfl.objectives import (
    Huber,
    LinearModel,
    Logistic,
    Objective,
    Penalised,
    Poisson,
    Quadratic,
    Softmax,
    Squared,
    SquaredHinge,
    Tilted,
)
from dualfl.solvers import FISTA, SDCA, DampedNewton, GradientNorm, PrimalDualGap
from dualfl.typing import Array, frozen

OUTSIDE = 1e-9  # relative distance from the domain of g* above which a point counts as outside
PATH = range(1, 14)  # e = L 10^-k


def paper_gap(f: Objective, nu: float, zeta: Array, theta: Array) -> float:
    """E(theta) + E_d(nu (zeta - theta)), the Gamma of the paper; inf where the dual point is infeasible.

    Parameters
    ----------
    f : Objective
        The cost of one client.
    nu : float
        The shift.
    zeta : ndarray
        The tilt of the local problem.
    theta : ndarray
        The local model.

    Returns
    -------
    float
        The gap, which may be infinite.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.theory import paper_gap
    >>> f = dualfl.Quadratic(2 * np.eye(2), np.zeros(2))
    >>> round(float(paper_gap(f, 1.0, np.zeros(2), np.zeros(2))), 6)
    0.0
    """
    return gap(f, nu, zeta, theta, nu * (zeta - theta))


def gap(f: Objective, nu: float, zeta: Array, theta: Array, xi: Array) -> float:
    """E(theta) + E_d(xi)."""
    away = xi - nu * zeta
    primal = f.value(frozen(theta)) - nu * float(zeta @ theta)
    return float(primal + conjugate(f, nu, xi) + away @ away / (2 * nu))


def gradient_gap(f: Objective, nu: float, zeta: Array, theta: Array) -> float:
    """E(theta) + E_d(g'(theta)) in closed form.

    Parameters
    ----------
    f : Objective
        The cost of one client.
    nu : float
        The shift.
    zeta : ndarray
        The tilt of the local problem.
    theta : ndarray
        The local model.

    Returns
    -------
    float
        The gap.

    Examples
    --------
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.theory import gradient_gap
    >>> f = dualfl.Quadratic(2 * np.eye(2), np.zeros(2))
    >>> round(float(gradient_gap(f, 1.0, np.zeros(2), np.ones(2))), 6)
    4.0
    """
    r = f.gradient(frozen(theta)) - nu * zeta
    return float(r @ r) / (2 * nu)


def conjugate(f: Objective, nu: float, xi: Array) -> float:
    """g*(xi) for g = f - (nu/2)|.|^2; inf outside the domain.

    Parameters
    ----------
    f : Objective
        The cost of one client.
    nu : float
        The shift.
    xi : ndarray
        The dual point.

    Returns
    -------
    float
        g*(xi).

    Examples
    --------
    >>> from dualfl.objectives import Quadratic
    >>> f = Quadratic(np.diag([1.0, 3.0]), np.zeros(2))
    >>> conjugate(f, 1.0, np.array([0.0, 4.0])), conjugate(f, 1.0, np.array([1.0, 4.0]))
    (4.0, inf)
    """
    if isinstance(f, Tilted) and np.ndim(f.a) == 0:
        return conjugate(f.base, nu - float(f.a), xi + f.c)
    if isinstance(f, Quadratic) or (isinstance(f, LinearModel) and isinstance(f.loss, Squared)):
        return _of_quadratic(f, nu, xi)
    if f.mu - nu > 1e-9 * f.mu:
        return _by_solving(f, nu, xi)
    if isinstance(f, LinearModel) and f.free is None:
        return _along_a_path(f, nu, xi) if f.smooth else _by_programme(f, xi)
    raise NotSupported(f"The conjugate of {f.name} is not known for nu = mu; take nu < mu.")


def _of_quadratic(f: Objective, nu: float, xi: Array) -> float:
    """(1/2) <w, H^+ w> - g(0), w = xi - g'(0), where w is in the range of H = f'' - nu I."""
    zero = frozen(np.zeros(f.d))
    H = f.hessian(zero)
    values, vectors = np.linalg.eigh((H + H.T) / 2)
    w = vectors.T @ (xi - f.gradient(zero))
    flat = values - nu <= 1e-11 * values[-1]
    if np.linalg.norm(w[flat]) > OUTSIDE * (np.linalg.norm(xi) + np.linalg.norm(w)):
        return np.inf
    return float(np.sum(w[~flat] ** 2 / (2 * (values[~flat] - nu))) - f.value(zero))


def _by_solving(f: Objective, nu: float, xi: Array) -> float:
    local = f.tilted(-nu, frozen(xi))
    if isinstance(f, Penalised):
        return -FISTA().solve(local, None, GradientNorm(1e-12, cap=200_000)).value
    if "dual" in f.offers:
        found = SDCA().solve(local, None, PrimalDualGap(1e-13, cap=2000))
        return found.slack - found.value
    return -DampedNewton().solve(local, None, GradientNorm(0.0)).value


def _by_programme(f: LinearModel, xi: Array) -> float:
    """min of sum_i s_i (eps |a_i| - a_i b_i) over lo <= a <= hi with -sum_i s_i q_i a_i x_i = xi."""
    q, b, lo, hi, eps = f.loss.box(f.y)
    A = -f.design.backward(np.diag(f.s * q)) if f.n <= f.design.D else -(f.s * q) * rows(f).T
    cost = np.r_[f.s * (eps - b), f.s * (eps + b)]  # a = a+ - a-
    bounds = [(0.0, max(hi, 0.0))] * f.n + [(0.0, max(-lo, 0.0))] * f.n
    found = linprog(cost, A_eq=np.hstack([A, -A]), b_eq=xi, bounds=bounds, method="highs")
    return np.inf if found.status != 0 or found.fun is None else float(found.fun)


def _along_a_path(f: LinearModel, nu: float, xi: Array) -> float:
    x = last = np.zeros(f.d)
    L = f.L - nu if np.isfinite(f.L) else float(np.linalg.norm(f.hessian(frozen(x)), 2)) - nu
    highest = -np.inf
    for k in PATH:
        e = L * 10.0**-k
        local = f.tilted(e - nu, frozen(xi))
        found = DampedNewton().solve(local, frozen(x), GradientNorm(1e-14 * float(np.linalg.norm(xi))))
        last, x = x, found.x
        if any(proves_outside(f, xi, p) for p in (x, x - last)):
            return np.inf
        highest = max(highest, e / 2 * float(x @ x) - found.value)
    return highest


def proves_outside(f: LinearModel, xi: Array, p: Array) -> bool:
    """<xi, p> > rec(p): no u in the domain of g* has <u, p> as large."""
    margin = OUTSIDE * float(np.linalg.norm(xi) * np.linalg.norm(p))
    return float(xi @ p) - recession(f, p) > margin


def recession(f: LinearModel, p: Array) -> float:
    """The slope of the data part of f at infinity in the direction p: sup of <u, p> over the domain of g*."""
    Z = f.design.forward(f.matrix(p))
    Z = np.where(np.abs(Z) <= 1e-12 * np.sqrt(f.design.row_norms2())[:, None] * np.linalg.norm(p), 0.0, Z)
    z, y = Z[:, 0], f.y
    if isinstance(f.loss, Softmax):
        steep = Z.max(axis=1) - Z[np.arange(f.n), y.astype(int)]
    elif isinstance(f.loss, Logistic):
        steep = np.maximum(-y * z, 0.0)
    elif isinstance(f.loss, Huber):
        steep = f.loss.delta * np.abs(z)
    elif isinstance(f.loss, Poisson):
        steep = np.where(z > 0, np.inf, -y * z)
    elif isinstance(f.loss, SquaredHinge):
        steep = np.where(y * z < 0, np.inf, 0.0)
    else:
        raise NotSupported(f"The slope of {f.loss} at infinity is not known here.")
    return float(f.s[f.s > 0] @ steep[f.s > 0])


def rows(f: LinearModel) -> Array:
    """The rows x_i of a linear model as one dense matrix, with the intercept's column of ones."""
    return f.design.forward(np.eye(f.design.D))
