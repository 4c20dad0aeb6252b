"""Cox's proportional hazards: the negative log partial likelihood of one client's rows, plus a ridge.

    f(theta) = (1/m) [ sum over events i of  w_i (log sum over R(t_i) of w_l exp(z_l)  -  z_i) ]
               + (ridge/2) |theta|^2,

with predictors z_l = x_l'theta + o_l, whose offset o_l is 0 unless it is given, and R(t) the rows that are at risk at
t, in the stratum of i: those that have entered before t and have neither died nor left before t. m is the total weight
of the rows, so that the mean of clients, weighted by m, is the partial likelihood of all rows stratified by client;
times are compared within a client and a stratum only. Ties are Efron's or Breslow's.

The rows are copied once, sorted as `kernels.risk_sets` wants them and, if they are dense, with the mean of their
stratum taken off, which changes nothing but the rounding: f depends on differences of rows only.

Constants. Along any direction the second derivative is a mean of variances over risk sets, and a variance is at most
the square of the largest distance from any centre c, so  L <= sum over events of s_i max over R(t_i) of |x_l - c|^2,
and the ridge.

Rounding. As for linear models (`rounding`): a predictor is off by at most K u sum_k |x_lk theta_k|. In the predictors f
has the slopes expected_l - s_l [event], and expected_l is known to about (2n + 16 + 4 max |z|) u, relatively: sums over
a risk set and over times, and an exponential whose argument is a difference. The second derivative along dz is at most
max |dz|^2 sum_l expected_l.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dualfl import kernels
from dualfl.arguments import check
from dualfl.errors import InputError
from dualfl.kernels import Design, RiskSets, sorted_risk_sets
from dualfl.objectives.base import Objective, check_factor
from dualfl.objectives.inputs import check_features, check_offset, check_weights
from dualfl.objectives.points import Point
from dualfl.objectives.predictors import PredictorPoint
from dualfl.objectives.rounding import UNIT, Rounding, roundings
from dualfl.typing import AnyArray, Array, frozen, sealed

Ties = Literal["efron", "breslow"]


class CoxPartialLikelihood(Objective):
    """The partial likelihood of proportional hazards.

    Parameters
    ----------
    X : ndarray or SciPy CSR
        Rows by features; dense or SciPy CSR.
    time : array_like
        When a row died or was last seen, > 0.
    event : array_like
        Whether it died, 0/1 or booleans.
    ridge : float, default 0.0
        The mu of (mu/2)|theta|^2.
    entry : array_like, optional
        When a row came under observation, before its time; None for 0.
    strata : array_like, optional
        a label a row; only rows of one label are compared.
    weights, offset : array_like, optional
        One number a row, as in `LinearModel`.
    ties : Ties, default 'efron'
        "efron" or "breslow".

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import CoxPartialLikelihood
    >>> f = CoxPartialLikelihood(np.array([[0.0], [1.0]]), time=[1.0, 2.0], event=[1, 1])
    >>> round(2 * f.value(np.zeros(1)), 6)  # log 2, the first event has two candidates and the second has one
    0.693147
    """

    code = 60  # by which a survey knows it

    def __init__(
        self,
        X: AnyArray | sp.csr_array | sp.csr_matrix,
        time: npt.ArrayLike,
        event: npt.ArrayLike,
        ridge: float = 0.0,
        *,
        entry: npt.ArrayLike | None = None,
        strata: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
        offset: npt.ArrayLike | None = None,
        ties: Ties = "efron",
    ) -> None:
        super().__init__()
        check("ridge", ridge, float)
        if not 0 <= ridge < np.inf:
            raise InputError(f"ridge must be a finite number >= 0, but it is {ridge}.")
        if ties not in ("efron", "breslow"):
            raise InputError(f'ties must be "efron" or "breslow", but it is {ties!r}.')
        X = check_features(X)
        n = X.shape[0]
        time, event = check_times("time", time, n), check_events(event, n)
        entered = None if entry is None else check_entries(entry, time)
        s, self._mass = check_weights(weights, n)
        labels = np.zeros(n, dtype=np.int64) if strata is None else check_strata(strata, n)
        names = np.zeros(1, dtype=np.int64) if strata is None else np.unique(np.asarray(strata))
        kept = np.flatnonzero(s > 0)  # a row that counts nothing is at no risk
        self.ridge, self.mu, self.ties = float(ridge), float(ridge), ties
        used, labels = np.unique(labels[kept], return_inverse=True)
        self.stratum_names = names[used].tolist()
        self.sets: RiskSets = sorted_risk_sets(
            time[kept], event[kept], labels, None if entered is None else entered[kept], ties == "efron"
        )
        self.order = kept[self.sets.order]  # the given row of each sorted one
        self.labels = labels[self.sets.order]
        self.s = frozen(s[self.order])
        self.offset = None if offset is None else sealed(check_offset(offset, n)[self.order])
        self._unit = 1 / self._mass  # s_l in terms of the given weights, of which the logarithms in f are
        self.centres = _centres(X, self.order, self.labels, self.s)
        self.centred = not bool(sp.issparse(X))
        rows = X[self.order]
        rows = np.ascontiguousarray(rows - self.centres[self.labels]) if self.centred else rows
        self.design = Design(rows)
        self.n = self.design.n
        self.shape = (X.shape[1],)
        self.offers = frozenset({"gradient", "hessian"})

    @property
    def name(self) -> str:
        return "Cox"

    @property
    def mass(self) -> float:
        return self._mass

    @cached_property
    def events(self) -> float:
        """The weight of the events, of all rows' 1."""
        return float(self.s[self.sets.dead_rows].sum())

    @property
    def constant(self) -> float:
        """What the logarithms of sums of s_l, not of the given weights, lack."""
        return -self.events * float(np.log(self._unit))

    # -- constants --------------------------------------------------------------------------------

    @cached_property
    def _top(self) -> float:
        """What is proven of the largest eigenvalue of the data part."""
        with np.errstate(over="ignore"):
            norms = self.design.row_norms2()
            if not self.centred:  # |x - c|^2 <= 2 |x|^2 + 2 |c|^2
                norms = 2 * norms + 2 * (self.centres**2).sum(axis=1)[self.labels]
            largest = [np.maximum.accumulate(part) for part in _by_stratum(norms, self.labels)]
            widest = np.concatenate(largest) if largest else norms
            sets = self.sets
            return float(self.s[sets.dead_rows] @ widest[sets.end[sets.dead_groups] - 1]) * (1 + 1e-12)

    @property
    def L(self) -> float:
        return self._top + self.ridge

    @cached_property
    def column_sizes(self) -> Array:
        """sqrt(sum_l s_l x_lk^2), a little too large."""
        X: Any = self.design.X
        squares = X.multiply(X).T @ self.s if bool(sp.issparse(X)) else np.einsum("l,lk,lk->k", self.s, X, X)
        return np.asarray(np.sqrt(squares) * (1 + roundings(self.n)))

    # -- evaluation -------------------------------------------------------------------------------

    def _point(self, x: Array) -> Point:
        return CoxPoint(self, x)

    def predictors(self, x: Array) -> Array:
        z = self.directions(x)
        return z if self.offset is None else z + self.offset

    def directions(self, p: Array) -> Array:
        self.cost.passes += 0.5
        return self.design.forward(np.ascontiguousarray(p)[:, None])[:, 0]

    def cox_point(self, x: Array) -> CoxPoint:
        point = self.at(x)
        assert isinstance(point, CoxPoint)
        return point

    def data_value(self, x: Array) -> float:
        """f without the ridge."""
        return self.cox_point(x).data_value

    def hessian(self, x: Array) -> Array:
        """X' diag(expected) X less what the means of the risk sets take off."""
        self.cost.hessian_products += self.d
        self.cost.passes += 2
        point = self.cox_point(x)
        M = kernels.cox_means(self.sets, point.predictors, self.s, self.design.X)
        H = self.design.gram(point.expected) - M.T @ M
        H[np.diag_indices(self.d)] += self.ridge
        return np.asarray((H + H.T) / 2)

    @np.errstate(over="ignore", invalid="ignore")
    def rounding(self, x: Array, drift: float = 0.0) -> Rounding:
        point, size = self.cox_point(x), np.abs(x)
        far = float(np.abs(point.predictors).max(initial=0.0))
        sums, products = roundings(2 * self.n) + 4 * UNIT * far, roundings(self.d)
        p = point.expected + np.where(self.sets.dead, self.s, 0.0)
        P, ridge = float(np.sqrt((p * p / self.s).sum())), self.ridge * size
        pull = self.column_sizes * P
        off = products * self._farthest * float(np.linalg.norm(x)) + drift * far
        reach = 0.0
        if self.offset is not None:  # like a column whose coefficient is 1
            reach = P * float(np.sqrt(self.s @ self.offset**2))
            off += products * float(np.abs(self.offset).max(initial=0.0))
        logarithms = abs(point.data_value - self.constant) + self.events * (1 + 4 * far)
        value = sums * logarithms + products * (float((pull + ridge) @ size) + reach) + 8 * UNIT * abs(self.constant)
        value += 2 * self.events * drift * far + self.events / 2 * off**2
        gradient = (sums + products) * (pull + ridge)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return Rounding(np.inf, np.full(self.d, np.inf))
        return Rounding(value, gradient)

    @cached_property
    def _farthest(self) -> float:
        return float(np.sqrt(self.design.row_norms2().max(initial=0.0)))

    # -- views ------------------------------------------------------------------------------------

    def with_ridge(self, ridge: float) -> CoxPartialLikelihood:
        """The same rows under another ridge."""
        view = self.fresh()
        view.ridge = view.mu = float(ridge)
        return view

    def scaled(self, factor: float) -> CoxPartialLikelihood:
        view = self.fresh()
        view.s, view._unit = frozen(self.s * check_factor(factor)), self._unit * factor
        for known in ("_top", "events", "column_sizes"):
            view.__dict__.pop(known, None)
        if factor == 0:  # nobody counts, and a logarithm of no weights is none
            view.s, view._unit = self.s, self._unit
            view.sets = sorted_risk_sets(np.ones(self.n), np.zeros(self.n, dtype=bool), self.labels, None, True)
        return view


class CoxPoint(PredictorPoint["CoxPartialLikelihood"]):
    """A partial likelihood at x, with its predictors once they are known."""

    @cached_property
    def _sums(self) -> tuple[float, Array, Array]:
        return kernels.cox_residual(self.f.sets, self.predictors, self.f.s)

    @property
    def expected(self) -> Array:
        """The events that are expected of each row, times its weight."""
        return self._sums[2]

    @property
    def data_value(self) -> float:
        return float(self._sums[0] + self.f.constant)

    @property
    def value(self) -> float:
        return float(self.data_value + self.f.ridge / 2 * (self.x @ self.x))

    @cached_property
    def gradient(self) -> Array:
        self.f.cost.gradients += 1
        self.f.cost.passes += 0.5
        return sealed(self.f.design.backward(self._sums[1][:, None])[:, 0] + self.f.ridge * self.x)

    def hessian_times(self, v: Array) -> Array:
        f = self.f
        f.cost.hessian_products += 1
        f.cost.passes += 1
        q = kernels.cox_curvature_times(f.sets, self.predictors, f.s, f.directions(v))
        f.cost.passes -= 0.5  # the half that `directions` counted
        return np.asarray(f.design.backward(q[:, None])[:, 0] + f.ridge * v)

    def slope(self, p: Array, q: Array) -> float:
        """Without the pass of a gradient."""
        return float(self._sums[1] @ q + self.f.ridge * (self.x @ p))


# -- what comes in ------------------------------------------------------------------------------------------


def check_times(name: str, time: npt.ArrayLike, n: int) -> Array:
    """Times > 0, one a row, or a sentence."""
    t = np.asarray(time)
    if t.dtype.kind not in "biuf" or t.shape != (n,):
        raise InputError(f"{name} must be one number for each of the {n} rows, but its shape is {t.shape} ({t.dtype}).")
    t = t.astype(np.float64)
    wrong = ~((t > 0) & np.isfinite(t))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(f"{name}[{i}] is {t[i]:g}; times must be finite and > 0.")
    return t


def check_events(event: npt.ArrayLike, n: int) -> npt.NDArray[np.bool_]:
    """Whether each row is an event, from booleans or 0 and 1, or a sentence."""
    e = np.asarray(event)
    if e.shape != (n,):
        raise InputError(f"event must be one value for each of the {n} rows, but its shape is {e.shape}.")
    if e.dtype.kind not in "biuf" or not np.isin(e, (0, 1)).all():
        wrong = e[~np.isin(e, (0, 1))][0] if e.dtype.kind in "biuf" else e[0]
        raise InputError(f"event must be 1 (it happened) or 0 (censored), and it contains {wrong}.")
    return e.astype(bool)


def check_entries(entry: npt.ArrayLike, time: Array) -> Array:
    t = np.asarray(entry)
    if t.dtype.kind not in "biuf" or t.shape != time.shape:
        raise InputError(f"entry must be one number for each of the {len(time)} rows, but its shape is {t.shape}.")
    t = t.astype(np.float64)
    wrong = ~(np.isfinite(t) & (t < time))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(f"entry[{i}] is {t[i]:g} and time[{i}] is {time[i]:g}; a row must enter before its time.")
    return t


def check_strata(strata: npt.ArrayLike, n: int) -> npt.NDArray[np.int64]:
    labels = np.asarray(strata)
    if labels.shape != (n,):
        raise InputError(f"strata must be one label for each of the {n} rows, but its shape is {labels.shape}.")
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _centres(X: Any, order: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], s: Array) -> Array:
    """The weighted mean row of each stratum; of sparse rows too, where only distances from it are of use."""
    strata = int(labels.max(initial=-1)) + 1
    share = sp.csr_array((s, (labels, order)), shape=(strata, X.shape[0]))
    total = np.bincount(labels, weights=s, minlength=strata)
    sums: Any = share @ (X.astype(np.float64) if X.dtype != np.float64 else X)
    return np.asarray(sums.toarray() if bool(sp.issparse(sums)) else sums) / total[:, None]


def _by_stratum(v: Array, labels: npt.NDArray[np.int64]) -> list[Array]:
    return np.split(v, np.flatnonzero(labels[1:] != labels[:-1]) + 1) if len(v) else []
