"""The kernels in C: arrays are made here, and the work is shared out among threads."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from . import _native
from ._native import add_words, built, cd_quadratic, dot_words, isa, isas, use_isa
from ._native import newer as pairs_newer
from ._native import older as pairs_older
from .losses import Array, Loss
from .native_survival import cox_curvature_times, cox_means, cox_residual
from .thread_count import get_threads

__all__ = [
    "Rows",
    "add_words",
    "built",
    "cd_quadratic",
    "cox_curvature_times",
    "cox_means",
    "cox_residual",
    "curvature_times",
    "dot_words",
    "isa",
    "isas",
    "pairs_newer",
    "pairs_older",
    "ray",
    "residual",
    "use_isa",
    "value",
]

FORWARD, BACKWARD, GRADIENT, HESSIAN, RESIDUAL, CURVATURE, RAY = range(7)  # as in kernels.h

# Multiply-adds, or predictors, from which on a second thread is worth waking: about a tenth of a millisecond
WORTH_A_THREAD = 1 << 20
PREDICTORS_WORTH_A_THREAD = 1 << 16
SQUARES = 1 << 20  # numbers in the matrices of several weights
SPARSE_SUMS = 4  # numbers to one nonzero, from which on pairs of nonzeros are the quicker way to second-order sums


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The helpers of the calling thread; a forked process needs its own."""
    return ThreadPoolExecutor(max_workers=max(1, (os.cpu_count() or 1) - 1), thread_name_prefix="dualfl")


def _share_out(workers: int, *job_arguments: Any) -> float:
    """One job, its stripes taken by several threads, this one among them."""
    job = _native.begin(*job_arguments)
    pool = _pool(os.getpid())
    helpers = [pool.submit(job.work) for _ in range(workers - 1)]
    job.work()
    for helper in helpers:
        if not helper.cancel():  # one that never started has nothing left to do
            helper.result()
    return job.finish()


def _doubles(x: npt.ArrayLike) -> Array:
    return np.ascontiguousarray(x, dtype=np.float64)


def _parts(X: Any) -> tuple[Any, Any, Any]:
    """X as C reads it: 32-bit columns (64-bit ones, of matrices beyond 2^31 nonzeros, are copied)."""
    if not sparse.issparse(X):
        return X, None, None
    values, indices, indptr = (getattr(X, name) for name in ("data", "indices", "indptr"))
    return values, indices.astype(np.int32, copy=False), indptr.astype(np.int64)


class Rows:
    """The rows of one client; see `Design` for what the methods compute."""

    __slots__ = ("D", "X", "intercept", "n", "rows", "scale", "stripes", "work")

    def __init__(self, X: Any, scale: float, intercept: bool) -> None:
        self.X, self.scale, self.intercept = X, scale, intercept
        self.n, features = X.shape
        self.D = features + intercept
        values, indices, indptr = _parts(X)
        self.rows = _native.Rows(values, indices, indptr, self.n, features, scale, intercept)
        self.work = int(values.size)  # multiply-adds for one column
        self.stripes = self.rows.stripes

    def _run(self, task: int, code: int, parameter: float, k: int, *arrays: Any) -> float:
        if self.stripes > 1 and self.work * k >= WORTH_A_THREAD and (workers := get_threads()) > 1:
            workers = min(workers, self.stripes)
            return _share_out(workers, self.rows, task, code, parameter, self.n, k, *arrays)
        return _native.run(self.rows, task, code, parameter, self.n, k, *arrays)

    def forward(self, W: Array) -> Array:
        W = _doubles(W)
        k = W.shape[1]
        Z = np.empty((self.n, k))
        self._run(FORWARD, 0, 0.0, k, W, None, None, None, None, None, Z, None)
        return Z

    def backward(self, R: Array) -> Array:
        R = _doubles(R)
        k = R.shape[1]
        G = np.empty((self.D, k))
        self._run(BACKWARD, 0, 0.0, k, None, R, None, None, None, None, None, G)
        return G

    def value_gradient(self, W: Array, loss: Loss, y: Array, s: Array) -> tuple[float, Array, Array]:
        W, y, s = _doubles(W), _doubles(y), _doubles(s)
        k = W.shape[1]
        G, Z = np.empty((self.D, k)), np.empty((self.n, k))
        value = self._run(GRADIENT, loss.code, loss.parameter, k, W, None, None, y, s, None, Z, G)
        return value, G, Z

    def hessian_times(self, V: Array, loss: Loss, Z: Array, y: Array, s: Array) -> Array:
        V, Z, y, s = _doubles(V), _doubles(Z), _doubles(y), _doubles(s)
        k = V.shape[1]
        G = np.empty((self.D, k))
        self._run(HESSIAN, loss.code, loss.parameter, k, V, Z, None, y, s, None, None, G)
        return G

    def gram(self, w: Array) -> Array:
        if not self._sparse_sums():
            return np.asarray(self._dense_grams(_doubles(w)[:, None], None)[0])
        G = np.zeros((self.D, self.D))
        a, b = np.triu_indices(self.D)
        G[a, b] = G[b, a] = self.grams(_doubles(w)[:, None])[:, 0]
        return G

    def grams(self, V: Array, columns: npt.NDArray[np.int64] | None = None) -> Array:
        V = _doubles(V)
        if not self._sparse_sums():
            return self._dense_triangles(V, columns)
        m, place, bias = self._places(columns)
        out = np.zeros((m * (m + 1) // 2, V.shape[1]))

        def band(first: int, last: int) -> None:
            _native.gram(self.rows, V, place, m, bias, out, first, last)

        self._in_bands(band, m, self.work * V.shape[1])
        return out

    def block(self, w: Array, columns: npt.NDArray[np.int64]) -> Array:
        if not self._sparse_sums():
            return np.asarray(self._dense_grams(_doubles(w)[:, None], columns)[0])
        m = len(columns)
        G = np.zeros((m, m))
        a, b = np.triu_indices(m)
        G[a, b] = G[b, a] = self.grams(_doubles(w)[:, None], columns)[:, 0]
        return G

    def _places(self, columns: npt.NDArray[np.int64] | None) -> tuple[int, Any, int]:
        """How many columns are wanted, the place of each among them, and that of the intercept."""
        if columns is None:
            return self.D, None, self.D - 1 if self.intercept else -1
        place = np.full(self.D, -1, dtype=np.int32)
        place[columns] = np.arange(len(columns))
        return len(columns), np.ascontiguousarray(place[: self.X.shape[1]]), int(place[-1]) if self.intercept else -1

    def _dense_triangles(self, V: Array, columns: npt.NDArray[np.int64] | None) -> Array:
        """A few weights at a time, so that whole matrices are never many."""
        m = self.D if columns is None else len(columns)
        a, b = np.triu_indices(m)
        out = np.empty((len(a), V.shape[1]))
        some = max(1, SQUARES // max(1, m * m))
        for first in range(0, V.shape[1], some):
            squares = self._dense_grams(_doubles(V[:, first : first + some]), columns)
            out[:, first : first + some] = squares[:, a, b].T
        return out

    def _dense_grams(self, V: Array, columns: npt.NDArray[np.int64] | None) -> Array:
        m, where, bias = self._places(columns)
        if where is not None and not sparse.issparse(self.X) and columns is not None:
            where = np.ascontiguousarray(columns[: m - (bias >= 0)], dtype=np.int32)
        out = np.zeros((V.shape[1], m, m))

        def band(first: int, last: int) -> None:
            _native.dense_gram(self.rows, V, where, m, bias, out, first, last)

        self._in_bands(band, m, self.n * m * V.shape[1])
        return out

    @staticmethod
    def _in_bands(band: Callable[[int, int], None], m: int, work: int) -> None:
        """Pairs by their first column, shared out among threads."""
        workers = get_threads() if work >= WORTH_A_THREAD else 1
        if workers == 1:
            band(0, m)
        else:
            ends = np.linspace(0, m, min(4 * workers, m) + 1).astype(int)
            list(_pool(os.getpid()).map(band, ends[:-1].tolist(), ends[1:].tolist()))

    def _sparse_sums(self) -> bool:
        """Whether pairs of nonzeros take less time than dense sums, and each column is named once."""
        few = self.work * SPARSE_SUMS <= self.n * self.X.shape[1]
        return bool(sparse.issparse(self.X)) and few and bool(self.X.has_canonical_format)

    def row_norms2(self) -> Array:
        norms = np.empty(self.n)
        _native.row_norms2(self.rows, norms)
        return norms

    def sample_gradient(self, index: npt.NDArray[np.int64], W: Array, loss: Loss, y: Array, s: Array) -> Array:
        W, y, s = _doubles(W), _doubles(y), _doubles(s)
        G = np.zeros(W.shape)
        k = W.shape[1]
        _native.sample_gradient(self.rows, loss.code, loss.parameter, k, y, s, None, G, W, 0.0, None, None, index)
        return G

    def lbfgs(
        self, loss: Loss, y: Array, s: Array, m: float, c: Array, inverse: Array, Q: Array, u: Array, *rest: Any
    ) -> int:
        k = u.shape[1]
        return _native.lbfgs(self.rows, loss.code, loss.parameter, k, y, s, m, c, inverse, Q, u, *rest)

    def sdca_epoch(self, *arguments: Any) -> None:
        _native.sdca_epoch(self.rows, *arguments)

    def svrg_epoch(self, loss: Loss, y: Array, s: Array, Z: Array, G: Array, W: Array, *rest: Any) -> None:
        k = W.shape[1]
        _native.svrg_epoch(self.rows, loss.code, loss.parameter, k, y, s, Z, G, W, *rest)

    def saga_epoch(self, loss: Loss, y: Array, s: Array, R: Array, G: Array, W: Array, *rest: Any) -> None:
        k = W.shape[1]
        _native.saga_epoch(self.rows, loss.code, loss.parameter, k, y, s, R, G, W, *rest)


def _on_predictors(task: int, loss: Loss, Z: Array, *arrays: Any) -> float:
    n, k = Z.shape
    job = (None, task, loss.code, loss.parameter, n, k, None, Z, *arrays)
    if n * k >= PREDICTORS_WORTH_A_THREAD and (workers := get_threads()) > 1:
        return _share_out(workers, *job)
    return _native.run(*job)


def value(loss: Loss, Z: Array, y: Array, s: Array) -> float:
    return _on_predictors(RESIDUAL, loss, _doubles(Z), None, _doubles(y), _doubles(s), None, None, None)


def residual(loss: Loss, Z: Array, y: Array, s: Array) -> tuple[float, Array]:
    R = np.empty(Z.shape)
    total = _on_predictors(RESIDUAL, loss, _doubles(Z), None, _doubles(y), _doubles(s), None, R, None)
    return total, R


def curvature_times(loss: Loss, Z: Array, P: Array, y: Array, s: Array) -> Array:
    out = np.empty(Z.shape)
    _on_predictors(CURVATURE, loss, _doubles(Z), _doubles(P), _doubles(y), _doubles(s), None, out, None)
    return out


def ray(loss: Loss, Z: Array, P: Array, steps: Array, y: Array, s: Array) -> tuple[Array, Array]:
    out = np.empty((2, len(steps)))
    _on_predictors(RAY, loss, _doubles(Z), _doubles(P), _doubles(y), _doubles(s), _doubles(steps), None, out)
    return out[0], out[1]
