"""Linear models: a loss of a linear predictor, averaged over the rows, plus a ridge.

    f(Theta) = sum_i s_i l(y_i, o_i + x_i' Theta) + (ridge/2) |Theta|^2,      sum_i s_i = 1,

with x_i in R^D (the last entry is 1 if there is an intercept) and Theta in R^(D x k), kept as one flat
vector, row by row. The rows stay in the type they came in (float64, float32, uint8 with a scale, sparse CSR)
and are never copied; the intercept column is not stored. The offsets o_i are 0 unless they are given.

Constants. The Hessian of the data part is at most  loss.curvature * lambda_max(sum_i s_i x_i x_i'), which a
Lanczos iteration bounds; L adds the ridge. mu is the ridge. A free intercept makes mu = 0.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dualfl import kernels
from dualfl.arguments import check
from dualfl.errors import InputError, NotSupported
from dualfl.kernels import Design, RowsOnDisk
from dualfl.objectives import curvature, moments, rounding
from dualfl.objectives.base import Objective, check_factor
from dualfl.objectives.inputs import check_features, check_offset, check_scale, check_weights
from dualfl.objectives.linear_point import LinearPoint
from dualfl.objectives.losses import Loss
from dualfl.objectives.points import Point
from dualfl.objectives.rounding import Rounding
from dualfl.objectives.spectrum import largest_eigenvalue
from dualfl.typing import AnyArray, Array, frozen, sealed

Intercept = bool | Literal["free"]

REMEMBERED = 1 << 8  # numbers of a second moment that may be more than the rows have


class LinearModel(Objective):
    """The objective of one client: the mean loss of a linear predictor on its rows, plus a ridge.

    Parameters
    ----------
    X : ndarray or SciPy CSR or RowsOnDisk
        Rows by features; dense float64, float32 or uint8, or SciPy CSR of these; `dualfl.kernels.RowsOnDisk` for
        more rows than memory holds.
    y : array_like
        One target for each row, of the kind that the loss needs.
    loss : Loss
        The loss, such as `Softmax(10)`, `Logistic()` or `Hinge()`.
    ridge : float, default 0.0
        The mu of (mu/2)|theta|^2.
    weights : array_like, optional
        One number >= 0 for each row; by default every row counts once.
    intercept : Intercept, default False
        False; True, penalised like every coefficient; or "free", not penalised.
    scale : float, default 1.0
        The predictor uses scale * X, so that uint8 pixels need not be converted.
    offset : array_like, optional
        One number for each row that is added to its predictor, such as the logarithm of an exposure.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, Squared
    >>> f = LinearModel(np.array([[1.0], [2.0]]), np.array([1.0, 3.0]), Squared(), ridge=0.5)
    >>> f.value(np.array([1.0])), f.gradient(np.array([1.0]))
    (0.5, array([-0.5]))
    """

    def __init__(
        self,
        X: AnyArray | sp.csr_array | sp.csr_matrix | RowsOnDisk,
        y: npt.ArrayLike,
        loss: Loss,
        ridge: float = 0.0,
        *,
        weights: npt.ArrayLike | None = None,
        intercept: Intercept = False,
        scale: float = 1.0,
        offset: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__()
        check("ridge", ridge, float)
        if not 0 <= ridge < np.inf:
            raise InputError(f"ridge must be a finite number >= 0, but it is {ridge}.")
        if not isinstance(intercept, bool | int | np.bool_ | str) or intercept not in (True, False, "free"):
            raise InputError(f'intercept must be True, False or "free", but it is {intercept!r}.')
        if not isinstance(loss, Loss):
            raise InputError(f"loss must be a loss such as Logistic() or Softmax(10), but it is {loss!r}.")
        X = check_features(X)
        self.loss, self.ridge, self.intercept = loss, float(ridge), intercept
        self.design = Design(X, scale=check_scale(scale), intercept=bool(intercept))
        self.y = loss.targets(np.asarray(y))
        self.n = self.design.n
        if len(self.y) != self.n:
            raise InputError(f"X has {self.n} rows and y has {len(self.y)}; give one target a row.")
        self.s, self._mass = check_weights(weights, self.n)
        self.offset: Array | None = None
        if offset is not None:
            self._take_offset(check_offset(offset, self.n))
        self.k = loss.outputs
        self.shape = (self.design.D, self.k) if self.k > 1 else (self.design.D,)
        self.mu = 0.0 if intercept == "free" else self.ridge
        if intercept == "free":
            free = np.zeros((self.design.D, self.k), dtype=bool)
            free[-1] = True
            self.free = free.ravel()
        self._moment: dict[bytes, Any] = {}  # the last one, shared by views of these rows
        if loss.smooth:
            self.offers = frozenset({"gradient", "hessian", "projected", "moments"})
            if self.offset is None:
                self.offers |= {"samples"}
        else:
            self.offers = frozenset({"dual"})

    def _take_offset(self, offset: Array) -> None:
        """A loss of y - z takes it off the targets; others add it to the predictors."""
        if self.loss.location:
            self.y = sealed(self.y - offset)
        elif self.loss.smooth and self.loss.outputs == 1:
            self.offset = sealed(offset)
        else:
            raise NotSupported(f"{self.loss} takes no offset; a loss of a count, an amount or a probability does.")

    @property
    def name(self) -> str:
        return str(self.loss)

    @property
    def mass(self) -> float:
        return self._mass

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_moment": {}}

    def with_ridge(self, ridge: float) -> LinearModel:
        """The same rows, targets and loss under another ridge; the rows are neither copied nor looked at again."""
        view = self.fresh()
        view.ridge = float(ridge)
        view.mu = 0.0 if self.intercept == "free" else view.ridge
        view.__dict__.pop("L_row", None)
        return view

    # -- constants --------------------------------------------------------------------------------

    @property
    def convexity(self) -> float | Array:
        return self.ridge if self.free is None else np.where(self.free, 0.0, self.ridge)

    @cached_property
    def _top(self) -> float:
        """lambda_max(sum_i s_i c_i x_i x_i'), from above; c_i = 1, or the bound of l'' where that differs by rows."""
        design, s = self.design, self._steepest[:, None]

        def times(v: Array) -> Array:
            return design.backward(s * design.forward(v[:, None]))[:, 0]

        with np.errstate(over="ignore", invalid="ignore"):
            trace = float(self._steepest @ design.row_norms2())
            return largest_eigenvalue(times, design.D, trace)

    @property
    def _steepest(self) -> Array:
        bound = self.loss.bound(self.y)
        return self.s if np.ndim(bound) == 0 else self.s * bound

    @property
    def _factor(self) -> float:
        """What `_top` lacks: the bound of l'' where it is one number."""
        bound = self.loss.bound(self.y)
        return float(bound) if np.ndim(bound) == 0 else 1.0

    @property
    def L(self) -> float:
        return self._factor * self._top + self.ridge if np.isfinite(self._factor) else np.inf

    @cached_property
    def L_row(self) -> float:
        """The smoothness of the worst single row's loss, for stochastic solvers."""
        if not np.isfinite(self._factor):
            return np.inf
        with np.errstate(over="ignore", invalid="ignore"):
            worst = float((self.n * self._steepest * self.design.row_norms2()).max())
        return self._factor * worst + self.ridge

    # -- evaluation -------------------------------------------------------------------------------

    def matrix(self, x: Array) -> Array:
        """A flat model as the D x k matrix that the kernels take."""
        return np.ascontiguousarray(x, dtype=np.float64).reshape(self.design.D, self.k)

    def ridge_part(self, x: Array) -> Array:
        """The coordinates of x that the ridge acts on; zero elsewhere."""
        return x if self.free is None else np.where(self.free, 0.0, x)

    def _point(self, x: Array) -> Point:
        return LinearPoint(self, x)

    def predictors(self, x: Array) -> Array:
        Z = self.directions(x)
        return Z if self.offset is None else Z + self.offset[:, None]

    def directions(self, p: Array) -> Array:
        """X p, by which predictors change along p: they have no offset."""
        self.cost.passes += 0.5
        return self.design.forward(self.matrix(p))

    def sample_gradient(self, rows: npt.NDArray[np.intp], x: Array) -> Array:
        """An unbiased gradient: the mean of n s_i l'(x_i'theta) x_i over `rows` + the ridge's."""
        self.require_gradient("A stochastic gradient")
        self.cost.gradients += len(rows) / self.n
        self.cost.passes += len(rows) / self.n
        G = kernels.sample_gradient(self.design, rows, self.matrix(x), self.loss, self.y, self.s)
        return G.ravel() * (self.n / len(rows)) + self.ridge * self.ridge_part(x)

    @cached_property
    def column_sizes(self) -> Array:
        """sqrt(sum_i s_i x_ik^2) of every feature, from above."""
        return rounding.column_sizes(self)

    def rounding(self, x: Array, drift: float = 0.0) -> Rounding:
        if drift:
            return rounding.linear(self, x, drift)
        point = self.at(x)
        assert isinstance(point, LinearPoint)
        if point.rounding is None:
            point.rounding = rounding.linear(self, x)
        return point.rounding

    def conjugate(self, u: Array) -> Array:
        """The conjugate of each row's loss as a function of x_i'theta."""
        values = self.loss.conjugate(u, self.y)
        return values if self.offset is None else values - u * self.offset

    # -- curvature --------------------------------------------------------------------------------

    def predictors_at(self, x: Array) -> Array:
        point = self.at(x)
        assert isinstance(point, LinearPoint)
        return point.predictors

    def _curvatures(self, x: Array) -> Array:
        """s_i l''(z_i) as a k x k x n array."""
        return curvature.curvatures(self.loss, self.predictors_at(x), self.y, self.s)

    def newton_curvatures(self, x: Array, straight: float) -> Array:
        """The same, with a share of the parabola above the straight pieces of a loss: where most residuals are beyond
        Huber's delta, l'' alone makes Newton steps a hundred times too long."""
        return curvature.newton_curvatures(self.loss, self.predictors_at(x), self.y, self.s, straight)

    def hessian(self, x: Array) -> Array:
        """The dense Hessian, built blockwise from weighted Gram matrices."""
        self.require_gradient("A Hessian")
        return self._hessian(self._curvatures(x))

    def newton_hessian(self, x: Array, straight: float) -> Array:
        self.require_gradient("A Hessian")
        return self._hessian(self.newton_curvatures(x, straight))

    def _hessian(self, W: Array) -> Array:
        self.cost.hessian_products += self.d
        self.cost.passes += self.k * (self.k + 1) / 2
        H = curvature.hessian(self.design, W)
        H[np.diag_indices(self.d)] += self.convexity
        return H

    def projected_hessian(self, x: Array, U: Array) -> Array:
        """U' H(x) U. A U with one row per feature stands for U (x) I_k: the same basis for every class,
        and the result is indexed (basis vector, class) by (basis vector, class)."""
        self.require_gradient("A projected Hessian")
        D, k = self.design.D, self.k
        if U.ndim != 2 or U.shape[0] not in (D, self.d):
            raise InputError(
                f"U must be a matrix with {D} rows (features) or {self.d} (coefficients), but its shape is {U.shape}."
            )
        if U.shape[0] != D:
            return super().projected_hessian(x, U)
        self.cost.hessian_products += U.shape[1] * k
        self.cost.passes += 1
        kept = U if self.free is None else U[:-1]
        M = curvature.projected_hessian(self.design, self._curvatures(x), U)
        M = M + self.ridge * np.kron(kept.T @ kept, np.eye(k))
        return (M + M.T) / 2

    # -- second-order sums, without the ridge -----------------------------------------------------

    def moment(self, x: Array) -> tuple[Array, Array]:
        """C (D x D) and S (k x k) with C (x) S the data part of the Hessian at x; exactly where all l''(z_i) are
        multiples of one matrix: for one output anywhere, for softmax at 0. Rows without curvature count a little."""
        self.cost.passes += 1
        # Fits that differ in their penalty ask for it at one point, zero: whoever shares the rows shares the answer.
        own = (self.design, self.y, self.s, self.loss, self.offset)
        known = self._moment.get(x.tobytes())
        if known is not None and all(a is b for a, b in zip(known[0], own)):
            shared: tuple[Array, Array] = known[1]
            return shared
        W = self.newton_curvatures(x, 1.0)
        C = self.design.gram(curvature.row_curvatures(curvature.trace_of(W), self.s))
        found = sealed(C), sealed(curvature.mean_block(W))
        self._moment.clear()
        if C.size <= max(REMEMBERED, self.design.entries):  # of many clients with few rows, more than all their rows
            self._moment[x.tobytes()] = own, found
        return found

    def working_sums(self) -> tuple[Array, Array] | None:
        """C as in `moment` and q: C and q - C theta are the Hessian and minus the gradient of the parabolas that touch
        the losses where targets suggest, as iteratively reweighted least squares begins; None where 0 will do."""
        z = self.loss.working(self.y)
        if z is None:
            return None
        self.cost.passes += 1
        Z = np.ascontiguousarray(z[:, None])
        w = curvature.curvatures(self.loss, Z, self.y, self.s)[0, 0]
        slopes = kernels.residual(self.loss, Z, self.y, self.s)[1][:, 0]
        own = z if self.offset is None else z - self.offset
        q = self.design.backward(np.ascontiguousarray((w * own - slopes)[:, None]))[:, 0]
        return self.design.gram(curvature.row_curvatures(w, self.s)), q

    def sketched_moment(self, x: Array, Omega: Array) -> tuple[Array, float, Array]:
        """C Omega and the trace of C for the C of `moment`, and its S; for more features than C may have."""
        self.cost.passes += 1
        W = self.newton_curvatures(x, 1.0)
        c = curvature.row_curvatures(curvature.trace_of(W), self.s)
        Y = self.design.backward(c[:, None] * self.design.forward(np.ascontiguousarray(Omega)))
        return Y, float(c @ self.design.row_norms2()), curvature.mean_block(W)

    def column_moments(self, x: Array) -> tuple[Array, Array]:
        """The diagonal of that C, and its last column."""
        self.cost.passes += 1
        c = self._row_curvatures(x)
        return moments.squares(self.design, c), moments.last_column(self.design, c)

    def feature_moment(self, x: Array) -> Array:
        """That C without its S, which has k^2 numbers."""
        self.cost.passes += 1
        return self.design.gram(self._row_curvatures(x))

    def _row_curvatures(self, x: Array) -> Array:
        """What every row counts for in C."""
        return curvature.row_curvatures(curvature.traces(self.loss, self.predictors_at(x), self.y, self.s, 1.0), self.s)

    def metric(self, x: Array, U: Array, B: Array, rank: int, straight: float = 0.0) -> tuple[Array, Array, Array]:
        """What a sketch of the Hessian at x needs: see `curvature.metric`, and `newton_curvatures` for `straight`."""
        self.cost.passes += 1
        W, ridge = self.newton_curvatures(x, straight), self.feature_ridge
        return curvature.metric(self.design, W, self.s, U, B, rank, self.column_sizes, ridge)

    @property
    def feature_ridge(self) -> float | Array:
        """The ridge of every column, or of all."""
        if self.free is None:
            return self.ridge
        ridge = np.full(self.design.D, self.ridge)
        ridge[-1] = 0.0
        return ridge

    # -- views ------------------------------------------------------------------------------------

    def some_rows(self, rows: slice) -> LinearModel:
        """The part of the mean that belongs to these rows, which keep their weights, under the whole ridge."""
        view = self.scaled(1.0)
        view.design = Design(self.design.X[rows], scale=self.design.scale, intercept=self.design.intercept)
        view.n, view.y, view.s, view._moment = view.design.n, sealed(self.y[rows]), sealed(self.s[rows]), {}
        view.offset = None if self.offset is None else sealed(self.offset[rows])
        return view

    def in_units(self, factor: float) -> LinearModel:
        """The same function of W/factor, intercepts apart: features are `factor` times as large. Powers of two change
        no bit of it."""
        view = self.scaled(1.0)
        view.design = Design(self.design.X, scale=factor * self.design.scale, intercept=self.design.intercept)
        view._moment = {}
        return view.with_ridge(self.ridge * factor**2)

    def scaled(self, factor: float) -> LinearModel:
        view = self.fresh()
        view.s = frozen(self.s * check_factor(factor))
        view.__dict__.pop("L_row", None)
        view.__dict__.pop("_top", None)
        view.__dict__.pop("column_sizes", None)
        return view

    def _instead(self) -> str:
        return "use SDCA, or a federated method for nonsmooth costs"
