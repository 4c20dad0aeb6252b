"""The kernels in NumPy: the reference the C kernels are tested against, and the fallback without them.

Rows are taken in blocks, so that a uint8 or a sparse matrix is never turned into float64 as a whole.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from . import twin_epochs, twin_losses, twin_survival, twin_words
from .losses import Array, Loss

BLOCK_NUMBERS = 1 << 18  # float64 numbers a block may hold: 2 MB, about one cache


def quiet() -> Any:
    """An inf or a NaN is passed on like any other number, as the C kernels do."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def value(loss: Loss, Z: Array, y: Array, s: Array) -> float:
    """sum_i s_i l(y_i, z_i)."""
    return residual(loss, Z, y, s)[0]


def residual(loss: Loss, Z: Array, y: Array, s: Array) -> tuple[float, Array]:
    """The value, and the rows s_i l'(y_i, z_i)."""
    with quiet():
        values, slopes = twin_losses.values_and_slopes(loss, Z, y)
        return float(s @ np.where(s == 0, 0.0, values)), weighed(s, slopes)


def curvature_times(loss: Loss, Z: Array, P: Array, y: Array, s: Array) -> Array:
    """The rows s_i l''(y_i, z_i) p_i."""
    with quiet():
        return weighed(s, twin_losses.curvature_times(loss, Z, P, y))


def weighed(s: Array, rows: Array) -> Array:
    """s_i times each row; what has no weight is 0, also where the row overflows."""
    return np.where(s[:, None] == 0, 0.0, s[:, None] * rows)


def ray(loss: Loss, Z: Array, P: Array, steps: Array, y: Array, s: Array) -> tuple[Array, Array]:
    """phi(t) = sum_i s_i l(y_i, z_i + t p_i) and phi'(t) at every t in steps."""
    values, slopes = np.empty(len(steps)), np.empty(len(steps))
    with quiet():
        for j, t in enumerate(steps):
            values[j], R = residual(loss, Z + t * P, y, s)
            slopes[j] = np.vdot(R, P)
    return values, slopes


class Rows:
    """The rows of one client, scale * X with a last column of ones if there is an intercept."""

    def __init__(self, X: Any, scale: float, intercept: bool) -> None:
        self.X, self.scale, self.intercept = X, scale, intercept
        self.sparse = sparse.issparse(X)
        self.n, self.features = X.shape
        self.D = self.features + intercept

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Slices of rows, each with its float64 block of X (a view where X is float64 already)."""
        step = max(1, BLOCK_NUMBERS // max(1, self.features))
        for start in range(0, self.n, step):
            rows = slice(start, min(start + step, self.n))
            yield rows, self._block(rows)

    def _block(self, rows: slice) -> Any:
        if not self.sparse:
            return self.X[rows].astype(np.float64, copy=False)
        ptr = self.X.indptr[rows.start : rows.stop + 1]
        inside = slice(ptr[0], ptr[-1])
        data = self.X.data[inside].astype(np.float64, copy=False)
        shape = (rows.stop - rows.start, self.features)
        return sparse.csr_array((data, self.X.indices[inside], ptr - ptr[0]), shape=shape)

    def _predict(self, block: Any, W: Array) -> Array:
        Z: Array = self.scale * (block @ W[: self.features])
        return Z + W[-1] if self.intercept else Z

    def _add(self, G: Array, block: Any, R: Array) -> None:
        G[: self.features] += self.scale * (block.T @ R)
        if self.intercept:
            G[-1] += R.sum(axis=0)

    def forward(self, W: Array) -> Array:
        Z = np.empty((self.n, W.shape[1]))
        with quiet():
            for rows, block in self.blocks():
                Z[rows] = self._predict(block, W)
        return Z

    def backward(self, R: Array) -> Array:
        G = np.zeros((self.D, R.shape[1]))
        with quiet():
            for rows, block in self.blocks():
                self._add(G, block, R[rows])
        return G

    def value_gradient(self, W: Array, loss: Loss, y: Array, s: Array) -> tuple[float, Array, Array]:
        total, G, Z = 0.0, np.zeros(W.shape), np.empty((self.n, W.shape[1]))
        with quiet():
            for rows, block in self.blocks():
                Z[rows] = self._predict(block, W)
                part, R = residual(loss, Z[rows], y[rows], s[rows])
                total += part
                self._add(G, block, R)
        return total, G, Z

    def hessian_times(self, V: Array, loss: Loss, Z: Array, y: Array, s: Array) -> Array:
        G = np.zeros(V.shape)
        with quiet():
            for rows, block in self.blocks():
                P = self._predict(block, V)
                self._add(G, block, curvature_times(loss, Z[rows], P, y[rows], s[rows]))
        return G

    def gram(self, w: Array) -> Array:
        """BLAS does this best: only a block of rows is dense at a time."""
        G = np.zeros((self.D, self.D))
        root = np.sqrt(np.abs(w))
        signed = bool(np.any(w < 0))
        with quiet():
            for rows, block in self.blocks():
                B = np.empty((rows.stop - rows.start, self.D))
                factor = root[rows, None]
                B[:, self.features :] = factor
                np.multiply(block.toarray() if self.sparse else block, factor * self.scale, out=B[:, : self.features])
                # B' B is a symmetric product, at half the price, when no weight is negative
                G += B.T @ (np.sign(w[rows])[:, None] * B if signed else B)
        return G

    def grams(self, V: Array, columns: npt.NDArray[np.int64] | None = None) -> Array:
        """The upper triangles of several Gram matrices, of all columns or of these, one column a matrix."""
        rows = self if columns is None else self._with(columns)
        upper = np.triu_indices(rows.D)
        return np.stack([rows.gram(v)[upper] for v in V.T], axis=1)

    def block(self, w: Array, columns: npt.NDArray[np.int64]) -> Array:
        """Xtilde' diag(w) Xtilde of these columns."""
        return self._with(columns).gram(w)

    def _with(self, columns: npt.NDArray[np.int64]) -> "Rows":
        intercept = bool(self.intercept and len(columns) and columns[-1] == self.features)
        return Rows(self.X[:, columns[: len(columns) - intercept]], self.scale, intercept)

    def row_norms2(self) -> Array:
        norms = np.empty(self.n)
        for rows, block in self.blocks():
            if self.sparse:
                norms[rows] = block.multiply(block).sum(axis=1)
            else:
                norms[rows] = np.einsum("ij,ij->i", block, block)
        return norms * self.scale**2 + self.intercept

    def row(self, i: int) -> tuple[Any, Array]:
        """Where row i is not zero (an index array or a slice), and its float64 values there."""
        if self.sparse:
            inside = slice(self.X.indptr[i], self.X.indptr[i + 1])
            where, x = self.X.indices[inside], self.scale * self.X.data[inside].astype(np.float64)
            return (np.append(where, self.features), np.append(x, 1.0)) if self.intercept else (where, x)
        x = self.scale * self.X[i].astype(np.float64)
        return slice(None), np.append(x, 1.0) if self.intercept else x

    def sample_gradient(self, index: npt.NDArray[np.int64], W: Array, loss: Loss, y: Array, s: Array) -> Array:
        batch = Rows(self.X[index], self.scale, self.intercept)
        return batch.value_gradient(W, loss, y[index], s[index])[1]

    sdca_epoch = twin_epochs.sdca_epoch
    svrg_epoch = twin_epochs.svrg_epoch
    saga_epoch = twin_epochs.saga_epoch


cd_quadratic = twin_epochs.cd_quadratic
pairs_older, pairs_newer = twin_epochs.pairs_older, twin_epochs.pairs_newer
cox_residual, cox_curvature_times = twin_survival.cox_residual, twin_survival.cox_curvature_times
cox_means = twin_survival.cox_means
add_words, dot_words = twin_words.add_words, twin_words.dot_words
