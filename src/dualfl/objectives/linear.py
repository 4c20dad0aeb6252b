"""Linear models: a loss of a linear predictor, averaged over the rows, plus a ridge.

    f(Theta) = sum_i s_i l(y_i, x_i' Theta) + (ridge/2) |Theta|^2,      sum_i s_i = 1,

with x_i in R^D (the last entry is 1 if there is an intercept) and Theta in R^(D x k), kept as one flat vector,
row by row. The rows stay in the type they came in (float64, float32, uint8 with a scale, sparse CSR) and are
never copied; the intercept column is not stored.

Constants. The Hessian of the data part is at most  loss.curvature * lambda_max(sum_i s_i x_i x_i'), which a power
iteration finds; L adds the ridge. mu is the ridge. A free intercept makes mu = 0.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dualfl import kernels
from dualfl.errors import InputError
from dualfl.kernels import Design
from dualfl.objectives.base import Objective, Point, Ray
from dualfl.objectives.losses import Loss
from dualfl.typing import AnyArray, Array, frozen, sealed

Intercept = bool | Literal["free"]


class LinearModel(Objective):
    """A loss on a linear predictor plus a ridge.

    Parameters
    ----------
    X : rows by features; dense float64, float32 or uint8, or SciPy CSR of these.
    y : one target a row, as the loss takes them.
    loss : how to measure, e.g. `Softmax(10)`, `Logistic()`, `Hinge()`.
    ridge : the mu of (mu/2)|theta|^2.
    weights : one number >= 0 a row; None counts every row once.
    intercept : False; True, regularised like every coefficient; or "free".
    scale : the predictor uses scale * X, so that uint8 pixels need not be converted.

    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, Squared
    >>> f = LinearModel(np.array([[1.0], [2.0]]), np.array([1.0, 3.0]), Squared(), ridge=0.5)
    >>> f.value(np.array([1.0])), f.gradient(np.array([1.0]))
    (0.5, array([-0.5]))
    """

    def __init__(
        self,
        X: AnyArray | sp.csr_array | sp.csr_matrix,
        y: npt.ArrayLike,
        loss: Loss,
        ridge: float = 0.0,
        *,
        weights: npt.ArrayLike | None = None,
        intercept: Intercept = False,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        if not 0 <= ridge < np.inf:
            raise InputError(f"ridge must be a finite number >= 0, and it is {ridge}.")
        if intercept not in (True, False, "free"):
            raise InputError(f'intercept must be True, False or "free", and it is {intercept!r}.')
        X = check_features(X)
        self.loss, self.ridge, self.intercept = loss, float(ridge), intercept
        self.design = Design(X, scale=check_scale(scale), intercept=bool(intercept))
        self.y = loss.targets(np.asarray(y))
        self.n = self.design.n
        if len(self.y) != self.n:
            raise InputError(f"X has {self.n} rows and y has {len(self.y)}; give one target a row.")
        self.s = check_weights(weights, self.n)
        self._mass = float(self.n if weights is None else np.sum(weights))
        self.k = loss.outputs
        self.shape = (self.design.D, self.k) if self.k > 1 else (self.design.D,)
        self.mu = 0.0 if intercept == "free" else self.ridge
        if intercept == "free":
            free = np.zeros((self.design.D, self.k), dtype=bool)
            free[-1] = True
            self.free = free.ravel()  # type: ignore[assignment]
        if loss.smooth:
            self.offers = frozenset({"gradient", "hessian", "projected", "samples"})
        else:
            self.offers = frozenset({"dual"})

    @property
    def name(self) -> str:
        return str(self.loss)

    @property
    def mass(self) -> float:
        return self._mass

    # -- constants --------------------------------------------------------------------------------

    @cached_property
    def _top(self) -> float:
        """lambda_max(sum_i s_i x_i x_i'), from above."""
        return power_iteration(self.design, self.s)

    @property
    def L(self) -> float:
        return self.loss.curvature * self._top + self.ridge

    @cached_property
    def L_row(self) -> float:
        """The smoothness of the worst single row's loss, for stochastic solvers."""
        return float(self.loss.curvature * (self.n * self.s * self.design.row_norms2()).max() + self.ridge)

    # -- evaluation -------------------------------------------------------------------------------

    def matrix(self, x: Array) -> Array:
        return x.reshape(self.design.D, self.k)

    def ridge_part(self, x: Array) -> Array:
        """The coordinates of x that the ridge acts on; zero elsewhere."""
        return x if self.free is None else np.where(self.free, 0.0, x)

    def _point(self, x: Array) -> Point:
        return LinearPoint(self, x)

    def predictors(self, x: Array) -> Array:
        self.cost.passes += 0.5
        return self.design.forward(self.matrix(x))

    def sample_gradient(self, rows: npt.NDArray[np.intp], x: Array) -> Array:
        """An unbiased estimate of the gradient: the mean of n s_i l'(x_i'theta) x_i over `rows`, plus the ridge's."""
        self.require_gradient("A stochastic gradient")
        self.cost.gradients += len(rows) / self.n
        self.cost.passes += len(rows) / self.n
        G = kernels.sample_gradient(self.design, rows, self.matrix(x), self.loss, self.y, self.s)
        return G.ravel() * (self.n / len(rows)) + self.ridge * self.ridge_part(x)

    def hessian(self, x: Array) -> Array:
        """The dense Hessian, built blockwise from weighted Gram matrices."""
        self.require_gradient("A Hessian")
        D, k = self.design.D, self.k
        self.cost.hessian_products += self.d
        self.cost.passes += k * (k + 1) / 2
        W = self._curvatures(self.at(x))
        H = np.empty((D, k, D, k))
        for a in range(k):
            for b in range(a + 1):
                H[:, a, :, b] = self.design.gram(W[:, a, b])
                H[:, b, :, a] = H[:, a, :, b].T
        H = H.reshape(self.d, self.d)
        H[np.diag_indices(self.d)] += self.ridge * self.ridge_part(np.ones(self.d))
        return H

    def projected_hessian(self, x: Array, U: Array) -> Array:
        """U' H(x) U. A U with one row per feature stands for U (x) I_k: the same basis for every class,
        and the result is indexed (basis vector, class) by (basis vector, class)."""
        self.require_gradient("A projected Hessian")
        D, k = self.design.D, self.k
        if k > 1 and U.shape[0] == self.d:
            return super().projected_hessian(x, U)
        if U.ndim != 2 or U.shape[0] != D:
            raise InputError(
                f"U must have {D} rows (features) or {self.d} (coefficients), and its shape is {U.shape}."
            )
        q = U.shape[1]
        self.cost.hessian_products += q * k
        self.cost.passes += 1
        Q = self.design.forward(np.ascontiguousarray(U))
        W = self._curvatures(self.at(x))
        M = np.empty((q, k, q, k))
        for a in range(k):
            for b in range(a + 1):
                M[:, a, :, b] = Q.T @ (W[:, a, b, None] * Q)
                M[:, b, :, a] = M[:, a, :, b].T
        kept = U if not self.free_rows else U[:-1]
        return M.reshape(q * k, q * k) + self.ridge * np.kron(kept.T @ kept, np.eye(k))

    @property
    def free_rows(self) -> bool:
        return self.intercept == "free"

    def _curvatures(self, point: Point) -> Array:
        """s_i l''(z_i) as an n x k x k array."""
        assert isinstance(point, LinearPoint)
        Z = point.predictors
        columns = [
            kernels.curvature_times(self.loss, Z, np.tile(e, (self.n, 1)), self.y, self.s)
            for e in np.eye(self.k)
        ]
        return np.stack(columns, axis=2)

    # -- views ------------------------------------------------------------------------------------

    def scaled(self, factor: float) -> LinearModel:
        view = copy.copy(self.fresh())
        view.s = frozen(self.s * factor)
        view.__dict__.pop("L_row", None)
        view.__dict__.pop("_top", None)
        return view

    def _instead(self) -> str:
        return "use SDCA, or a federated method for nonsmooth costs"


class LinearPoint(Point):
    """A linear model at x, with its linear predictors Z = X Theta once they are known."""

    def __init__(self, f: LinearModel, x: Array, Z: Array | None = None) -> None:
        super().__init__(x)
        self.f = f
        self._Z = Z
        self._data_value: float | None = None
        self._gradient: Array | None = None

    @property
    def predictors(self) -> Array:
        if self._Z is None:
            self._Z = self.f.predictors(self.x)
        return self._Z

    @property
    def value(self) -> float:
        f = self.f
        if self._data_value is None:
            self._data_value = kernels.value(f.loss, self.predictors, f.y, f.s)
        kept = f.ridge_part(self.x)
        return float(self._data_value + f.ridge / 2 * (kept @ kept))

    @property
    def gradient(self) -> Array:
        if self._gradient is None:
            self._gradient = self._compute_gradient()
        return self._gradient

    def _compute_gradient(self) -> Array:
        f = self.f
        f.require_gradient("This step")
        f.cost.gradients += 1
        if self._Z is None:
            f.cost.passes += 1
            self._data_value, G, self._Z = f.design.value_gradient(f.matrix(self.x), f.loss, f.y, f.s)
        else:
            f.cost.passes += 0.5
            self._data_value, R = kernels.residual(f.loss, self._Z, f.y, f.s)
            G = f.design.backward(R)
        g = G.ravel()
        if f.ridge:
            g += f.ridge * f.ridge_part(self.x)
        return sealed(g)

    def hessian_times(self, v: Array) -> Array:
        f = self.f
        f.require_gradient("A Hessian product")
        f.cost.hessian_products += 1
        f.cost.passes += 1
        HV = f.design.hessian_times(f.matrix(v), f.loss, self.predictors, f.y, f.s)
        return HV.ravel() + f.ridge * f.ridge_part(v)

    def ray(self, p: Array) -> Ray:
        return LinearRay(self, frozen(p))


class LinearRay(Ray):
    """theta + t p: half a pass for the predictors of p, and none for any number of steps t."""

    def __init__(self, start: LinearPoint, p: Array) -> None:
        f = start.f
        self.start, self.p, self.f = start, p, f
        self.Z, self.P = start.predictors, f.predictors(p)
        x_kept, p_kept = f.ridge_part(start.x), f.ridge_part(p)
        # (ridge/2)|x + t p|^2 = constant + linear t + quadratic t^2 / 2
        self.constant = f.ridge / 2 * float(x_kept @ x_kept)
        self.linear = f.ridge * float(x_kept @ p_kept)
        self.quadratic = f.ridge * float(p_kept @ p_kept)
        self._seen: tuple[float, float, float] | None = None

    def _both(self, t: float) -> tuple[float, float]:
        if self._seen is None or self._seen[0] != t:
            values, slopes = kernels.ray(self.f.loss, self.Z, self.P, np.array([t]), self.f.y, self.f.s)
            self._seen = t, float(values[0]), float(slopes[0])
        return self._seen[1], self._seen[2]

    def value(self, t: float) -> float:
        return self._both(t)[0] + self.constant + t * (self.linear + t / 2 * self.quadratic)

    def slope(self, t: float) -> float:
        return self._both(t)[1] + self.linear + t * self.quadratic

    def point(self, t: float) -> Point:
        return LinearPoint(self.f, sealed(self.start.x + t * self.p), self.Z + t * self.P)


# -- checks on what comes in ------------------------------------------------------------------------------


def check_features(X: Any) -> Any:
    """X as the kernels take it, or a sentence. Nothing is copied unless the type or the order demands it, once."""
    if sp.issparse(X):
        X = X if X.format == "csr" else X.tocsr()
        values = X.data
    else:
        X = values = np.asarray(X)
    if X.ndim != 2:
        raise InputError(f"X must be a table of rows by features, and it has shape {X.shape}.")
    if X.shape[0] == 0:
        raise InputError("X has no rows: a client without data has nothing to minimise; leave it out.")
    if X.shape[1] == 0:
        raise InputError("X has no features.")
    if values.dtype not in (np.float64, np.float32, np.uint8):
        if values.dtype.kind not in "biuf":
            raise InputError(
                f"X has dtype {values.dtype}, and features must be numbers; encode the others first."
            )
        X = X.astype(np.float64)
        values = X.data if sp.issparse(X) else X
    if (
        values.dtype.kind == "f"
        and not np.isfinite(values.sum(dtype=np.float64))
        and not np.isfinite(values).all()
    ):
        place = _first_bad(X)
        raise InputError(
            f"X[{place[0]}, {place[1]}] is {X[place]}; features must be finite, so fill or drop what is missing."
        )
    return X


def _first_bad(X: Any) -> tuple[int, int]:
    if sp.issparse(X):
        entries = X.tocoo()
        bad = int(np.argmin(np.isfinite(entries.data)))
        return int(entries.row[bad]), int(entries.col[bad])
    row, column = np.argwhere(~np.isfinite(X))[0]
    return int(row), int(column)


def check_scale(scale: float) -> float:
    if not (np.isfinite(scale) and scale != 0):
        raise InputError(f"scale must be a finite number other than 0, and it is {scale}.")
    return float(scale)


def check_weights(weights: npt.ArrayLike | None, n: int) -> Array:
    """Weights that sum to one."""
    if weights is None:
        return frozen(np.full(n, 1.0 / n))
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n,):
        raise InputError(
            f"weights must be one number for each of the {n} rows, and their shape is {w.shape}."
        )
    if not np.isfinite(w).all() or (w < 0).any() or w.sum() <= 0:
        raise InputError(
            f"weights must be finite, >= 0 and not all 0; the smallest is {w.min()}, the largest {w.max()}."
        )
    return frozen(w / w.sum())


def power_iteration(design: Design, s: Array, tolerance: float = 1e-3, most: int = 200) -> float:
    """lambda_max(X' diag(s) X) by power iteration from a fixed start.

    The iteration approaches from below, so what it still gained at the end is added several times over, and the
    trace, which is never exceeded, caps it.
    """
    trace = float(s @ design.row_norms2())
    v = np.random.default_rng(0).standard_normal((design.D, 1))
    v /= np.linalg.norm(v)
    top = 0.0
    for _ in range(most):
        v = design.backward(s[:, None] * design.forward(v))
        norm = float(np.linalg.norm(v))
        if norm == 0.0:
            return 0.0
        v /= norm
        if norm - top <= tolerance * norm:
            break
        top = norm
    return min(trace, norm * (1 + 10 * tolerance))
