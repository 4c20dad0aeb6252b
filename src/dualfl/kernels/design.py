"""The rows of one client, held once and in the type they came in."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .backends import serving
from .contract import RowKernels
from .disk_rows import BlockedRows, RowsOnDisk
from .losses import Array, Loss

KEPT_AS_THEY_ARE = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.uint8))

ROOM = 1 << 22  # numbers of all |X|' that are kept


def is_sparse(X: Any) -> bool:
    """Whether X is one of SciPy's sparse matrices."""
    return bool(sparse.issparse(X))


class _KeptSizes:
    """|X|' of recent X: clients take turns, so all of a problem are kept if they are small, and not one for each of
    very many."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Callable[[], Any], Any]] = {}  # by id, with a weak reference to X
        self._numbers = 0

    def of(self, X: Any) -> Any:
        reference, kept = self._known.get(id(X), (lambda: None, None))
        if reference() is not X:
            if self._numbers > ROOM:
                self._known.clear()
                self._numbers = 0
            kept = (X if X.dtype == np.uint8 else abs(X)).T
            self._known[id(X)] = weakref.ref(X), kept
            self._numbers += int(getattr(X, "nnz", X.size))
        return kept


_kept_sizes = _KeptSizes()


class Design:
    """The matrix Xtilde = [scale * X, 1]: n rows, D columns, the ones only with an intercept.

    X is a dense array, `RowsOnDisk`, or a SciPy CSR matrix of float64, float32 or uint8; neither the scaled matrix nor
    the column of ones is ever stored. All results are float64. The backend is chosen here, once.

    >>> design = Design(np.array([[0, 51], [102, 255]], dtype=np.uint8), scale=1 / 255, intercept=True)
    >>> design.forward(np.array([[1.0], [10.0], [100.0]]))
    array([[102. ],
           [110.4]])
    """

    __slots__ = ("D", "X", "_extents", "intercept", "kernel", "n", "scale")

    def __init__(self, X: Any, *, scale: float = 1.0, intercept: bool = False) -> None:
        self.X: Any = _as_stored(X)
        self.scale = float(scale)
        self.intercept = bool(intercept)
        self.n: int = self.X.shape[0]
        self.D: int = self.X.shape[1] + self.intercept
        self.kernel: RowKernels = self._kernel(self.X)
        self._extents: Array | None = None

    def _kernel(self, X: Any) -> RowKernels:
        if isinstance(X, RowsOnDisk):
            return BlockedRows(X, self._kernel)
        return serving().Rows(X, self.scale, self.intercept)

    def __getstate__(self) -> tuple[Any, float, bool]:
        return self.X, self.scale, self.intercept  # a copy in another process chooses its own backend

    def __setstate__(self, state: tuple[Any, float, bool]) -> None:
        X, scale, intercept = state
        Design.__init__(self, X, scale=scale, intercept=intercept)

    @property
    def nbytes(self) -> int:
        """The bytes of the rows."""
        names = ("data", "indices", "indptr")
        parts = [getattr(self.X, name) for name in names] if sparse.issparse(self.X) else [self.X]
        return sum(int(part.nbytes) for part in parts)

    @property
    def entries(self) -> int:
        """The numbers that are stored: all of a dense matrix, the nonzeros of a sparse one."""
        return int(getattr(self.X, "nnz", self.X.size))

    @property
    def extents(self) -> Array:
        """The largest |xtilde_ik| of every column, from above: of sparse rows, the largest of all."""
        if self._extents is None:
            X = self.X.data if is_sparse(self.X) else self.X
            found = np.ones(self.D)
            if X.size:
                largest = np.maximum(X.max(axis=0), 0), np.minimum(X.min(axis=0), 0)
                found[: self.X.shape[1]] = abs(self.scale) * np.maximum(largest[0], -largest[1].astype(np.float64))
            self._extents = found
        return self._extents

    @property
    def sizes(self) -> Any:
        """|X|'; for small designs, as it is a second X. Those of recent designs are kept, as far as there is room."""
        return _kept_sizes.of(self.X)

    def forward(self, W: Array) -> Array:
        """The predictors Xtilde W, shape (n, k)."""
        return self.kernel.forward(W)

    def backward(self, R: Array) -> Array:
        """Xtilde' R, shape (D, k)."""
        return self.kernel.backward(R)

    def value_gradient(self, W: Array, loss: Loss, y: Array, s: Array) -> tuple[float, Array, Array]:
        """The value sum_i s_i l(y_i, z_i), its gradient in W, and the predictors: one pass over the rows."""
        return self.kernel.value_gradient(W, loss, y, s)

    def hessian_times(self, V: Array, loss: Loss, Z: Array, y: Array, s: Array) -> Array:
        """The Hessian at the predictors Z times V: one pass over the rows."""
        return self.kernel.hessian_times(V, loss, Z, y, s)

    def gram(self, w: Array) -> Array:
        """Xtilde' diag(w) Xtilde, shape (D, D)."""
        return self.kernel.gram(w)

    def grams(self, V: Array, columns: npt.NDArray[np.int64] | None = None) -> Array:
        """The same for several weights, one column of V each: the upper triangles, row by row, one column each.

        `columns`, ascending, names those that are wanted; D - 1 is the intercept.
        """
        return self.kernel.grams(V, columns)

    def block(self, w: Array, columns: npt.NDArray[np.int64]) -> Array:
        """The rows and columns of `gram` that are named, ascending; D - 1 is the intercept."""
        return self.kernel.block(w, columns)

    def row_norms2(self) -> Array:
        """|xtilde_i|^2, shape (n,)."""
        return self.kernel.row_norms2()

    def rows(self, index: npt.ArrayLike) -> Design:
        """A design of these rows only; they are copied."""
        return Design(self.X[np.asarray(index)], scale=self.scale, intercept=self.intercept)


def _as_stored(X: Any) -> Any:
    """X itself where the kernels can read it; otherwise the one copy they can."""
    if sparse.issparse(X):
        return _sparse_as_stored(X)
    if isinstance(X, RowsOnDisk):
        return X
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions: it must have 2, rows and features")
    return np.ascontiguousarray(X, dtype=X.dtype if X.dtype in KEPT_AS_THEY_ARE else np.float64)


def _sparse_as_stored(X: Any) -> Any:
    if X.format != "csr":
        X = X.tocsr()
    dtype = X.dtype if X.dtype in KEPT_AS_THEY_ARE else np.dtype(np.float64)
    index = np.dtype(np.int32 if X.nnz < 2**31 else np.int64)
    if X.dtype == dtype and X.indices.dtype == index:
        return X
    parts = X.data.astype(dtype), X.indices.astype(index), X.indptr.astype(index)
    return type(X)(parts, shape=X.shape, copy=False)
