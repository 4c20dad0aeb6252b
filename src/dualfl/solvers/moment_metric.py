"""The second moments of a client's features as a metric: what makes an ill-conditioned local problem easy.

The Hessian of a linear model with k outputs is  sum_i s_i (x_i x_i') (x) l''(z_i) + m I.  Replacing the mean of the
products by the product of the means, as in Kronecker-factored curvature (Martens & Grosse 2015),

    H(x)  ~  M (x) C(x) + m I,     M = sum_i s_i x_i x_i'  (D x D),     C(x) = sum_i s_i l''(z_i)  (k x k),

whose inverse is cheap in the eigenvectors of M and of C. The bad conditioning of linear models is mostly that of M,
and of its few largest eigenvalues, so for more than `FULL` features M is cut to rank `RANK`:

    M  ~  V diag(w) V' + w_min (I - V V'),

V from a randomised subspace iteration (Halko, Martinsson & Tropp 2011) on `ROWS` to twice as many rows. On MNIST and
CIFAR-10 with mu = 1e-2 rank 64 is nearly as good as all of M. Where mu is tiny it is not, and "full" takes all of M up
to `LARGEST` features, which pays for one problem that is solved to the last digit. M is found once for each data set,
however many local problems follow and whatever their tilt; C needs only the predictors, no pass.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from dualfl import kernels
from dualfl.errors import InputError, NotSupported
from dualfl.kernels import Design
from dualfl.kernels.blas_threads import one_blas_thread
from dualfl.objectives.base import Objective
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.linear_point import LinearPoint
from dualfl.objectives.losses import Loss
from dualfl.objectives.points import Point
from dualfl.objectives.tilted import Tilted, TiltedPoint
from dualfl.typing import AnyArray, Array

MetricName = Literal["auto", "gram", "full", "none"]
Solve = Callable[[Array], Array]

FULL = 256  # features up to which M is decomposed as a whole
LARGEST = 4096  # the same where it is asked for: a minute, and 128 megabytes
RANK, SPARE = 64, 8  # beyond: how many eigenvectors are kept, and how many more are iterated
ROWS = 2048  # from which M is estimated when it is cut
MEAN_ROWS = 1024  # of which C is the mean
FLOOR = 1e-8  # of the largest eigenvalue, where nothing is regularised
TINY = float(np.finfo(float).tiny)


class Axes(NamedTuple):
    """M ~ V diag(w) V', eigenvalues rising."""

    w: Array
    V: Array


# By the identity of the row weights, which all views of a data set share; entries die with them.
_known: dict[tuple[int, bool], tuple[weakref.ref[AnyArray], Design, Axes]] = {}
_one_at_a_time = threading.Lock()  # the limit on threads belongs to the process


def _unlock() -> None:
    """In a child process: whoever held the lock at the fork stayed behind in the parent, and would never let go."""
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_unlock)


def axes(f: LinearModel, most: int = FULL) -> Axes:
    """The eigenvectors of M, the leading ones if there are more than `most`; found when they are first asked for."""
    whole = f.design.D <= most
    key = id(f.s), whole
    found = _known.get(key)
    if found is not None and found[1] is f.design:
        return found[2]
    with _one_at_a_time, one_blas_thread():  # small matrices: more threads would cost time, and change the last bits
        result = _all_axes(f) if whole else _leading_axes(f)
    _known[key] = weakref.ref(f.s, lambda _: _known.pop(key, None)), f.design, result
    return result


def _all_axes(f: LinearModel) -> Axes:
    f.cost.passes += 1
    w, V = np.linalg.eigh(f.design.gram(f.s))
    return Axes(np.maximum(w, 0.0), V)


def _leading_axes(f: LinearModel) -> Axes:
    """Two steps of subspace iteration from a fixed random start, then Rayleigh and Ritz."""
    rows, s = _some_rows(f, ROWS)
    design = f.design if rows is None else f.design.rows(rows)
    f.cost.passes += 2 * design.n / f.n
    Q = np.random.default_rng(0).standard_normal((design.D, RANK + SPARE))
    for _ in range(2):
        Q = np.linalg.qr(Q)[0]
        MQ = design.backward(s[:, None] * design.forward(Q))
        Q, basis = MQ, Q
    w, U = np.linalg.eigh(basis.T @ MQ)
    return Axes(np.maximum(w[-RANK:], 0.0), np.ascontiguousarray(basis @ U[:, -RANK:]))


def _some_rows(f: LinearModel, most: int) -> tuple[Any, Array]:
    """Evenly spaced rows, at most twice `most` (None for all), with weights that sum to what all weights sum to."""
    if f.n < 2 * most:
        return None, f.s
    rows = np.arange(0, f.n, f.n // most)
    s = f.s[rows]
    return rows, s * (float(f.s.sum()) / max(float(s.sum()), TINY))


class MomentMetric:
    """An approximate inverse of the Hessian of f, to be refreshed at a point."""

    def __init__(self, f: Objective, model: LinearModel, most: int = FULL) -> None:
        self.damping = float(np.mean(f.convexity))
        self.model = model
        self.w, self.V = axes(model, most)

    def at(self, point: Point) -> Solve:
        """v -> (M (x) C(x) + m I)^-1 v, with C at this point."""
        while isinstance(point, TiltedPoint):
            point = point.inner
        assert isinstance(point, LinearPoint)
        c, Q = np.linalg.eigh(self._mean_curvature(point))
        c = np.maximum(c, 0.0)
        damping = max(self.damping, FLOOR * float(self.w[-1] * c[-1]))
        damping = damping if damping > TINY else 1.0  # nothing curves, as on a straight piece of a loss
        kept = 1 / (np.outer(self.w, c) + damping)
        rest = 1 / (self.w[0] * c + damping)
        V, k = self.V, self.model.k

        def solve(v: Array) -> Array:
            rotated = v.reshape(-1, k) @ Q
            inside = V.T @ rotated
            return np.asarray(((rest * rotated + V @ ((kept - rest) * inside)) @ Q.T).ravel())

        return solve

    def _mean_curvature(self, point: LinearPoint) -> Array:
        f = self.model
        rows, s = _some_rows(f, MEAN_ROWS)
        rows = slice(None) if rows is None else rows
        return np.nan_to_num(mean_curvature(f.loss, point.predictors_of(rows), f.y[rows], s), posinf=1e300)


def mean_curvature(loss: Loss, Z: Array, y: Array, s: Array) -> Array:
    """sum_i s_i l''(z_i), k x k. Only softmax has more than one column: diag(p) - p p' with the probabilities p."""
    if Z.shape[1] == 1:
        return np.array([[kernels.curvature_times(loss, Z, np.ones(Z.shape), y, s).sum()]])
    R = kernels.residual(loss, Z, y, s)[1]  # s (p - e_y)
    R[np.arange(len(y)), y.astype(np.intp)] += s
    P = R / np.maximum(s, TINY)[:, None]
    C: Array = -(R.T @ P)
    C[np.diag_indices(len(C))] += R.sum(axis=0)
    return C


def choose_metric(name: MetricName, f: Objective, who: str) -> MomentMetric | None:
    """The metric that is asked for; "auto" takes the Gram metric for every linear model, and "full" all of it."""
    model = f
    while isinstance(model, Tilted):
        model = model.base
    if name == "none" or (name != "gram" and not isinstance(model, LinearModel)):
        return None
    if not isinstance(model, LinearModel):
        raise NotSupported(f'{who} with metric="gram" needs a linear model, not {f.name}; take metric="auto".')
    return MomentMetric(f, model, LARGEST if name == "full" else FULL)


def check_metric(name: str) -> None:
    if name not in get_args(MetricName):
        raise InputError(f'metric must be "auto", "gram", "full" or "none", but it is {name!r}.')
