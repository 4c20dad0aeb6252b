"""A client's own minimiser, the same whatever the units of its columns, and with a free intercept wherever their zeros.

The mean of these minimisers is a start for a server that has seen nothing yet (DualFL's first round). A client with few
rows, or with one label, can fit them far too well, so each coefficient gets at least `SHARE` of its own curvature at
zero as a ridge; in the coordinates of `coordinates`, hence without units. Newton's method with a whole Hessian is for
models that are small enough to send one; others take the client's own solver, on columns that are scaled if the ridge
differs between them or is missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.coordinates import chosen, chosen_by
from dualfl.algorithms.few_exchanges.straight_pieces import STRAIGHT
from dualfl.kernels import Design, is_sparse
from dualfl.objectives.base import Objective
from dualfl.objectives.linear import LinearModel
from dualfl.solvers.base import default_solver
from dualfl.solvers.definite import solve
from dualfl.solvers.row_view import rows_of
from dualfl.solvers.stopping import GradientNorm
from dualfl.typing import Array

SHARE = 4e-3
MEAN_SHARE, FREE, NORM = 1e-2, 1e-2, 1e-3  # for the others: of the mean curvature, of that, of the gradient at zero
STEPS, ACCURACY, ARMIJO, SHORTEST = 30, 1e-6, 1e-4, 1e-9


@np.errstate(over="ignore", invalid="ignore")
def own_minimiser(f: Objective, C: Array, S: Array, working: Array | None = None) -> Array:
    """argmin of f and a little ridge, from zero; C (x) S is the Hessian there, but for the ridge.

    With `working` it begins at the minimiser of theta'C theta/2 - working'theta instead.
    """
    D, k, curved = len(C), len(S), float(np.abs(S).max())
    M = np.broadcast_to(np.asarray(f.convexity, dtype=float), (f.d,)).reshape(D, k)
    at = chosen(C, M, curved, whole=True)
    ridge = M * at.scale[:, None] ** 2
    data = 1 - ridge.mean(axis=1)  # in these coordinates the two make 1
    extra = np.maximum(SHARE * data[:, None] - ridge, 0.0)

    def energy(x: Array) -> float:
        return float(f.value(x)) + float((extra * at.back(x.reshape(D, k)) ** 2).sum()) / 2

    x = np.zeros(f.d)
    if working is not None:
        Z = at.moment(C) + np.diag(extra[:, 0] + ridge[:, 0])
        x = at.to(solve(Z, at.pull(working[:, None]).ravel())[:, None]).ravel()
    E = energy(x)
    for _ in range(STEPS):
        z = at.back(x.reshape(D, k))
        g = at.pull(f.gradient(x).reshape(D, k)) + extra * z
        half = at.pull(f.newton_hessian(x, STRAIGHT).reshape(D, -1)).reshape(D * k, D * k)
        H = at.pull(half.T.reshape(D, -1)).reshape(D * k, D * k)  # symmetric, so the other side is the other half
        p = solve(H + np.diag(extra.ravel()), g.ravel())
        decrement, t = float(g.ravel() @ p), 1.0
        step = at.to(p.reshape(D, k)).ravel()
        if not (np.isfinite(step).all() and decrement > ACCURACY * abs(E)):
            break
        while t > SHORTEST and not energy(x - t * step) <= E - ARMIJO * t * decrement:
            t /= 2
        if t <= SHORTEST:
            break
        x = x - t * step
        E = energy(x)
    return x


def first_order_minimiser(f: ClientCost, own: Array, cross: Array, S: Array) -> Array:
    """The same for large models, roughly; `own` is the diagonal of C, and `cross` its last column."""
    objective, rows = f.objective, rows_of(f.objective)
    D, curved = len(own), float(np.abs(S).max())
    M = np.broadcast_to(np.asarray(objective.convexity, dtype=float), (f.d,)).reshape(D, -1)
    at = chosen_by(own, cross, M, curved, whole=False)
    features = D if rows is None else rows.model.design.X.shape[1]
    scale = np.append(at.scale[:features], np.ones(D - features))  # an intercept is a column of ones
    data = curved * np.maximum(own - at.centre**2 * own[-1], 0.0) * scale**2
    ridge = M * scale[:, None] ** 2
    share, regularised = MEAN_SHARE * float(data.mean()), ridge[ridge > 0]
    more = max(share - float(regularised.min(initial=share)), 0.0 if ridge.all() else FREE * share)
    wide = np.repeat(scale, M.shape[1])
    centre = at.centre[:features] if rows is not None and at.far and not is_sparse(rows.model.design.X) else None
    if rows is None or (centre is None and not np.ptp(scale[:features])):
        stop = GradientNorm(NORM * float(np.linalg.norm(f.gradient(np.zeros(f.d)))), cap=STEPS)
        return np.asarray(f.local(more, np.zeros(f.d), stop=stop).x)
    c = np.asarray(rows.c, dtype=float).reshape(D, -1)
    if centre is not None:
        c = c - at.centre[:, None] * c[-1]
    problem = rescaled(rows.model, scale, centre).tilted(ridge.ravel() + more, wide * c.ravel())
    stop = GradientNorm(NORM * float(np.linalg.norm(problem.gradient(np.zeros(f.d)))), cap=STEPS)
    x = wide * default_solver(problem).solve(problem, None, stop).x
    if centre is not None:
        X = x.reshape(D, -1)
        X[-1] -= at.centre @ X
    return np.asarray(x if f.origin is None else x - f.origin)


def rescaled(model: LinearModel, scale: Array, centre: Array | None = None) -> LinearModel:
    """The model with its columns less `centre` and multiplied by `scale`, a copy of them, and without its ridge."""
    design, features = model.design, model.design.X.shape[1]
    by = design.scale * scale[:features]
    X: Any = design.X if centre is None else design.X - centre / design.scale
    view = model.fresh()
    scaled = sp.csr_array(X.astype(np.float64)) @ sp.diags_array(by) if is_sparse(X) else X * by
    view.design = Design(scaled, intercept=design.intercept)
    view.ridge = view.mu = 0.0
    for known in ("L_row", "_top"):
        view.__dict__.pop(known, None)
    return view
