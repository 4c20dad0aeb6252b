"""A client with fewer rows than features: its local problem lives in the span of its rows.

For  F = sum_i s_i l(y_i, x_i'Theta) + (m/2)|Theta|^2 - <c, Theta>  write Theta = Q u + Theta_perp with Q an orthonormal
basis of the rows' span, r <= n columns. The loss does not see Theta_perp, so its best value is known, c_perp/m, and

    F = sum_i s_i l(y_i, (Q'x_i)'u) + (m/2)|u|^2 - <Q'c, u>  -  |c_perp|^2/(2m):

a local problem of the same kind with r instead of D features. With X X' = V diag(w) V' and Q = X' V w^{-1/2}, products
with Q are products with X, and only n x n numbers are kept. On 60 rows of MNIST a vector of the solver has 600 entries
instead of 7,850, and vectors are what such a solve spends its time on.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dualfl import kernels
from dualfl.kernels import Design, SolvesByLBFGS
from dualfl.objectives.base import Objective
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.tilted import Tilted
from dualfl.solvers.moment_metric import mean_curvature
from dualfl.solvers.stopping import GradientNorm, PrimalDualGap, StopRule
from dualfl.typing import AnyArray, Array, frozen

MOST_ROWS = 1024  # beyond, the n x n decomposition costs more than it saves in a first solve
NOISE = 1e-13  # relative size below which an eigenvalue of X X' is rounding


class Span(NamedTuple):
    """The model in the span: its rows are Q'x_i, and Q = X' back; `moments` are their weighted squares, by feature."""

    model: LinearModel
    back: Array
    moments: Array


# By the identity of the row weights, which all views of a data set share; entries die with them.
_known: dict[int, tuple[weakref.ref[AnyArray], Design, Span | None]] = {}


def span_of(f: LinearModel) -> Span | None:
    """The span of f's rows; None if all of them are zero."""
    key = id(f.s)
    found = _known.get(key)
    if found is not None and found[1] is f.design:
        return found[2]
    span = _find(f)
    _known[key] = weakref.ref(f.s, lambda _: _known.pop(key, None)), f.design, span
    return span


def _find(f: LinearModel) -> Span | None:
    w, V = np.linalg.eigh(_row_products(f.design))
    kept = w > NOISE * max(float(w[-1]), np.finfo(float).tiny)
    if not kept.any():
        return None
    root, V = np.sqrt(w[kept]), V[:, kept]
    model = LinearModel(np.ascontiguousarray(V * root), f.y, f.loss, f.ridge)
    model.s = frozen(np.array(f.s))  # an identity of its own: what is remembered of f is not of this model
    return Span(model, np.ascontiguousarray(V / root), f.s @ (V * root) ** 2)


def _row_products(design: Design) -> Array:
    """X X', the intercept's ones included."""
    X: Any = design.X
    X = X.astype(np.float64)
    products: Any = X @ X.T
    if sparse.issparse(design.X):
        products = products.toarray()
    return np.asarray(products * design.scale**2 + design.intercept)


def applies(f: Objective, stop: StopRule) -> bool:
    """Whether f is a linear model with so few rows, regularised in all coordinates alike, and the rule carries over."""
    model = f
    a: Any = 0.0
    if isinstance(f, Tilted):
        model, a = f.base, f.a
    return (
        isinstance(model, LinearModel)
        and model.free is None
        and model.offset is None
        and np.ndim(a) == 0
        and model.ridge + a > 0
        and 2 * model.n <= model.design.D
        and model.n <= MOST_ROWS
        and isinstance(stop, GradientNorm | PrimalDualGap)
    )


def inside(f: Objective, warm: Array | None, stop: StopRule, solver: Any) -> tuple[Array, int]:
    """The minimiser by way of the span, and the iterations it took."""
    model, a, c = (f.base, f.a, f.c) if isinstance(f, Tilted) else (f, 0.0, None)
    assert isinstance(model, LinearModel)
    span, design, m = span_of(model), model.design, model.ridge + float(a)
    if span is None:  # the loss is a constant
        return (np.zeros(f.d) if c is None else c / m), 0

    def project(x: Array | None) -> Array:
        return np.zeros(shape) if x is None else span.back.T @ design.forward(model.matrix(x))

    shape = (span.model.design.D, model.k)
    u, u_c = project(warm), project(c)
    assert isinstance(stop, GradientNorm | PrimalDualGap)
    tighter = replace(stop, eps=stop.eps / 2)  # leaves room for the rounding of the way back
    # A remembered span keeps the kernels it was made with, whatever serves now.
    solve = _solve_natively if isinstance(span.model.design.kernel, SolvesByLBFGS) else _solve
    u, gradients, iterations = solve(span, m, u_c, u, tighter, solver)
    model.cost.gradients += gradients
    model.cost.passes += gradients
    if c is None:
        return design.backward(span.back @ u).ravel(), iterations
    # Q u + (c - Q Q'c)/m
    x = design.backward(span.back @ (u - u_c / m)).ravel() + c / m
    return x, iterations


def _solve(span: Span, m: float, c: Array, u: Array, stop: StopRule, solver: Any) -> tuple[Array, float, int]:
    """The minimiser in the span, gradients and iterations."""
    reduced = span.model.fresh()
    problem = reduced.tilted(m - reduced.ridge, frozen(c.ravel()))
    found = solver.solve(problem, frozen(u.ravel()), stop)
    return found.x.reshape(u.shape), found.cost.gradients, found.iterations


def _solve_natively(
    span: Span, m: float, c: Array, u: Array, stop: GradientNorm | PrimalDualGap, solver: Any
) -> tuple[Array, float, int]:
    """The same in one call, with the metric of the start: so few rows cost less than an interpreter between them."""
    model, eps = span.model, stop.eps
    if isinstance(stop, PrimalDualGap):
        eps = float(np.sqrt(2 * (stop.modulus or m) * eps))
    curvatures, Q = np.linalg.eigh(mean_curvature(model.loss, model.design.forward(u), model.y, model.s))
    inverse = 1 / (np.outer(span.moments, np.maximum(curvatures, 0.0)) + m)
    u = np.array(u, order="C")
    iterations = kernels.lbfgs(
        model.design, model.loss, model.y, model.s, m, c, inverse, Q, u, solver.memory, eps, stop.cap
    )
    return u, iterations + 1.0, iterations
