"""Sequential methods: dual coordinate ascent, coordinate descent, SVRG and SAGA, one epoch a call."""

import numpy as np
import numpy.typing as npt

from .backends import serving
from .contract import SolvesByLBFGS
from .design import Design
from .losses import Array, Loss


def sdca_epoch(
    design: Design,
    q: Array,
    b: Array,
    lo: Array,
    hi: Array,
    eps: float,
    s: Array,
    alpha: Array,
    theta: Array,
    lam: float,
    norms2: Array,
    order: npt.ArrayLike,
) -> None:
    """One pass of dual coordinate ascent (Shalev-Shwartz & Zhang 2013); alpha and theta are updated in place.

    The problem is min_theta sum_i s_i l_i(x_i' theta) + (lam/2) |theta|^2 - <c, theta> with
    l_i(z) = max over a in [lo_i, hi_i] of a (b_i - q_i z) - eps |a|, and the caller keeps
    theta = (c + sum_i s_i alpha_i q_i x_i) / lam. Each step maximises the dual exactly in one alpha_i:

        h     = s_i q_i^2 |x_i|^2 / lam
        alpha_i <- clip(soft(alpha_i + (b_i - q_i x_i' theta) / h, eps / h), lo_i, hi_i)

    All arrays but theta (D,) have shape (n,); order lists the rows to visit; norms2 is design.row_norms2().
    """
    order = np.ascontiguousarray(order, dtype=np.int64)
    design.kernel.sdca_epoch(q, b, lo, hi, float(eps), s, alpha, theta, float(lam), norms2, order)


def lbfgs(
    design: Design,
    loss: Loss,
    y: Array,
    s: Array,
    m: float,
    c: Array,
    inverse: Array,
    Q: Array,
    u: Array,
    memory: int,
    eps: float,
    cap: int,
) -> int:
    """L-BFGS on sum_i s_i l(y_i, x_i'u) + (m/2)|u|^2 - <c, u> from u, which is moved; returns the iterations.

    H_0 = v -> (inverse * (v Q)) Q'. It ends at a gradient of norm eps, at the cap, or where rounding leaves no step.
    The native kernels alone have it: with the twin there is nothing to gain over `solvers.LBFGS`.
    """
    kernel = design.kernel
    assert isinstance(kernel, SolvesByLBFGS), "the caller asks for it where there is one"
    c, inverse, Q = (np.ascontiguousarray(a) for a in (c, inverse, Q))
    return kernel.lbfgs(loss, y, s, float(m), c, inverse, Q, u, int(memory), float(eps), int(cap))


def pairs_older(S: Array, Y: Array, sy: Array, count: int, newest: int, parts: Array, v: Array) -> None:
    """From the newest pair of the ring to the oldest: parts_i = <s_i, v>/<s_i, y_i>, v -= parts_i y_i."""
    serving().pairs_older(S, Y, sy, count, newest, parts, v)


def pairs_newer(S: Array, Y: Array, sy: Array, count: int, newest: int, parts: Array, v: Array) -> None:
    """The way back: v += (parts_i - <y_i, v>/<s_i, y_i>) s_i."""
    serving().pairs_newer(S, Y, sy, count, newest, parts, v)


def cd_quadratic(
    Q: Array,
    q: Array,
    l1: Array,
    lo: Array,
    hi: Array,
    x: Array,
    grad: Array,
    sweeps: int,
    tol: float,
) -> tuple[int, float]:
    """Coordinate descent for x'Qx/2 - q'x + sum_i l1_i |x_i| over lo <= x <= hi.

    x and grad = Qx - q are updated in place. Returns the sweeps made and the largest Q_ii |change of x_i|
    of the last one, which is at most tol unless the sweeps ran out. Where Q_ii = 0 the coordinate goes to
    the better end of its interval, if that end is finite.
    """
    return serving().cd_quadratic(Q, q, l1, lo, hi, x, grad, int(sweeps), float(tol))


def sample_gradient(design: Design, index: npt.ArrayLike, W: Array, loss: Loss, y: Array, s: Array) -> Array:
    """sum over the rows i of index of s_i l'(y_i, z_i) xtilde_i, shape (D, k)."""
    index = np.ascontiguousarray(index, dtype=np.int64)
    return design.kernel.sample_gradient(index, W, loss, y, s)


def svrg_epoch(
    design: Design,
    loss: Loss,
    y: Array,
    s: Array,
    Z: Array,
    G: Array,
    W: Array,
    step: float,
    ridge: float | Array,
    c: Array,
    indices: npt.ArrayLike,
) -> None:
    """The inner loop of SVRG (Johnson & Zhang 2013) over the rows in indices; W is updated in place.

        W <- W - step (n s_i (l'(z_i) - l'(Z_i)) x_i + G + ridge W - c)

    Z are the predictors and G the gradient of the data term at the snapshot; ridge is a number or one a row
    of W.
    """
    indices = np.ascontiguousarray(indices, dtype=np.int64)
    design.kernel.svrg_epoch(loss, y, s, Z, G, W, float(step), _ridges(ridge, design.D), c, indices)


def saga_epoch(
    design: Design,
    loss: Loss,
    y: Array,
    s: Array,
    R: Array,
    G: Array,
    W: Array,
    step: float,
    ridge: float | Array,
    c: Array,
    indices: npt.ArrayLike,
) -> None:
    """SAGA (Defazio, Bach & Lacoste-Julien 2014) over the rows in indices; R, G and W are updated in place.

    R is the table of the weighted slopes s_i l'(z_i) last seen, as `residual` gives it, and G = Xtilde' R:

        W <- W - step (n (s_i l'(z_i) - R_i) x_i + G + ridge W - c),  then R_i and G are brought up to date.
    """
    indices = np.ascontiguousarray(indices, dtype=np.int64)
    design.kernel.saga_epoch(loss, y, s, R, G, W, float(step), _ridges(ridge, design.D), c, indices)


def _ridges(ridge: float | Array, D: int) -> Array:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(ridge, dtype=np.float64), (D,)))
