"""Losses of further generalised linear models, each the negative log-likelihood of a row up to a constant.

    Gamma              y > 0                  logarithm as link, dispersion left out
    Tweedie(p)         y >= 0, 1 < p < 2      logarithm as link, dispersion left out: amounts that are often zero
    NegativeBinomial   counts >= 0            logarithm as link, variance m + dispersion m^2
    CLogLog            -1 and +1              P(+1) = 1 - exp(-exp(z)), the complementary log-log link

The first two are half the deviance up to a constant, so that their minimiser does not depend on the dispersion, and
an inverse Hessian has to be multiplied by it. The canonical link would make none of them convex; these links do.

Two conjugates have no formula. Where l is convex and u in the range of l', u z - l(z) is concave in z, and for z in a
bracket of its maximiser, of width b, a tangent bounds it:

    l*(u)  <=  u z - l(z) + |u - l'(z)| b,

so what is returned is never too small, and exact to rounding once the bracket has closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlog1py, xlogy

from dualfl.arguments import checked
from dualfl.errors import InputError
from dualfl.kernels import twin_losses
from dualfl.objectives.losses import _SLACK, Loss, _inside, _signs
from dualfl.typing import Array

HALVINGS = 110  # of a bracket of predictors; Newton's steps make most of them unnecessary
FAR = 800.0  # beyond -+ this, exp(z) is 0 or infinite


@dataclass(frozen=True)
class Gamma(Loss):
    """z + y exp(-z), the log-link gamma likelihood. Its gradient is not Lipschitz: L is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, Gamma
    >>> f = LinearModel(np.eye(2), [1.0, 2.0], Gamma(), ridge=0.1)
    >>> round(f.value(np.zeros(f.d)), 4)
    1.5
    """

    code: ClassVar[int] = 10
    nonnegative: ClassVar[bool] = False
    curvature: ClassVar[float] = np.inf
    self_concordance: ClassVar[float | None] = 1.0

    def _check(self, y: Array) -> None:
        if (y <= 0).any():
            raise InputError(f"Gamma takes targets > 0, and y contains {y[y <= 0][0]:g}; Tweedie takes zeros too.")

    def working(self, y: Array) -> Array:
        return np.log(y)

    def conjugate(self, u: Array, y: Array) -> Array:
        rate = 1.0 - u
        ok = rate >= -_SLACK
        rate = np.maximum(rate, 0.0)
        return _inside(ok, xlogy(rate, rate / y) - rate)

    def rounding_sizes(self, z: Array, y: Array) -> tuple[Array, Array, float]:
        slopes = np.abs(1.0 - y * np.exp(-z)) + 2.0
        return 2 * np.abs(z), slopes, 2 * float(slopes.max(initial=0.0))


@checked
@dataclass(frozen=True)
class Tweedie(Loss):
    """y exp(-(p-1) z)/(p-1) + exp((2-p) z)/(2-p), the log-link Tweedie likelihood; 1 and 2 are Poisson and Gamma.

    Parameters
    ----------
    power : float, default 1.5
        The power p of the variance.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, Tweedie
    >>> f = LinearModel(np.eye(2), [0.0, 2.0], Tweedie(1.5), ridge=0.1)
    >>> round(f.value(np.zeros(f.d)), 4)
    4.0
    """

    power: float = 1.5
    code: ClassVar[int] = 11
    curvature: ClassVar[float] = np.inf

    def __post_init__(self) -> None:
        if not 1 < self.power < 2:
            raise InputError(
                f"Tweedie needs a power between 1 and 2, and power = {self.power}; take Poisson for 1 and Gamma for 2; "
                "beyond them the likelihood is not convex."
            )

    @property
    def parameter(self) -> float:
        return self.power

    @property
    def self_concordance(self) -> float:  # type: ignore[override]  # of the power, not of the class
        return max(self.power - 1, 2 - self.power)

    def _check(self, y: Array) -> None:
        if (y < 0).any():
            raise InputError(f"Tweedie takes targets >= 0, and y contains {y[y < 0][0]:g}.")

    def working(self, y: Array) -> Array:
        """A tenth of the mean stands for zeros."""
        return np.log(np.maximum(y, 0.1 * (y.mean() or 1.0)))

    def conjugate(self, u: Array, y: Array) -> Array:
        q = 2 - self.power
        zero = _inside(u >= -_SLACK, (xlogy(np.maximum(u, 0.0), np.maximum(u, 0.0)) - np.maximum(u, 0.0)) / q)
        kept = y > 0
        safe, v = np.where(kept, y, 1.0), np.where(kept, u, 0.0)
        # e^(qz) - y e^(-(p-1)z) = u lies between these: a half of each term is enough, or twice what one of them needs
        with np.errstate(divide="ignore"):
            size = np.log(safe)
            up = np.maximum(np.log(2 * np.maximum(v, 0.0)) / q, size + np.log(2.0))
            down = np.minimum((size - np.log(2 * np.maximum(-v, 0.0))) / (1 - q), size - np.log(2.0))
        return np.where(kept, highest(self, v, safe, np.where(v > 0, size, down), np.where(v > 0, up, size)), zero)

    @np.errstate(over="ignore", invalid="ignore")
    def rounding_sizes(self, z: Array, y: Array) -> tuple[Array, Array, float]:
        near = np.where(y == 0, 0.0, y * np.exp((1 - self.power) * z))
        far = np.exp((2 - self.power) * z)
        more = np.abs(z) / 16  # the exponent is rounded, and 16 roundings are to spare
        value = near / (self.power - 1) + far / (2 - self.power)
        slopes = (near + far) * (1 + more)
        return value * more, slopes, 2 * float(slopes.max(initial=0.0))


@checked
@dataclass(frozen=True)
class NegativeBinomial(Loss):
    """(y + 1/a) log(1 + a exp(z)) - y z for counts with mean exp(z) and variance m + a m^2, the dispersion a given.

    Parameters
    ----------
    dispersion : float, default 1.0
        a, how much more than Poisson's the counts spread.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, NegativeBinomial
    >>> f = LinearModel(np.eye(2), [1, 2], NegativeBinomial(1.0), ridge=0.1)
    >>> round(f.value(np.zeros(f.d)), 4)
    1.7329
    """

    dispersion: float = 1.0
    code: ClassVar[int] = 12
    nonnegative: ClassVar[bool] = False
    curvature: ClassVar[float] = np.inf  # over all counts; for given ones see `bound`
    self_concordance: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        if not 1e-12 <= self.dispersion < np.inf:
            raise InputError(
                f"NegativeBinomial needs a finite dispersion of at least 1e-12, and dispersion = {self.dispersion}; "
                "Poisson is the limit 0."
            )

    @property
    def parameter(self) -> float:
        return self.dispersion

    def _check(self, y: Array) -> None:
        if (y < 0).any():
            raise InputError(f"NegativeBinomial takes counts >= 0, and y contains {y[y < 0][0]:g}.")
        if (broken := y != np.floor(y)).any():
            raise InputError(
                f"NegativeBinomial takes whole counts, and y contains {y[broken][0]:g}; take Gamma or Tweedie for "
                "amounts, or counts with an exposure for rates."
            )

    def working(self, y: Array) -> Array:
        return np.log(y + 0.5)

    def bound(self, y: Array) -> Array:
        return (y + 1 / self.dispersion) / 4

    def conjugate(self, u: Array, y: Array) -> Array:
        total = y + 1 / self.dispersion
        t = (u + y) / total
        ok = (t >= -_SLACK) & (t <= 1 + _SLACK)
        t = np.clip(t, 0.0, 1.0)
        return _inside(ok, total * (xlogy(t, t) + xlog1py(1 - t, -t) - t * np.log(self.dispersion)))

    def rounding_sizes(self, z: Array, y: Array) -> tuple[Array, Array, float]:
        size = np.abs(z) + abs(np.log(self.dispersion))
        total = y + 1 / self.dispersion
        share = total / (1 + np.exp(-np.clip(z + np.log(self.dispersion), -FAR / 2, FAR / 2)))
        slopes = share * (1 + size / 16) + 2 * y
        return 2 * y * np.abs(z) + share * size / 16, slopes, float(self.bound(y).max(initial=0.0))


@dataclass(frozen=True)
class CLogLog(Loss):
    """exp(z) for y = -1 and -log(1 - exp(-exp(z))) for y = +1: the complementary log-log link. L is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.objectives import LinearModel, CLogLog
    >>> f = LinearModel(np.eye(2), [1, -1], CLogLog(), ridge=0.1)
    >>> round(f.value(np.zeros(f.d)), 4)
    0.7293
    """

    code: ClassVar[int] = 13
    curvature: ClassVar[float] = np.inf

    def _check(self, y: Array) -> None:
        _signs(self, y)

    def working(self, y: Array) -> Array:
        """Where the probability is 1/4 or 3/4."""
        return np.asarray(np.where(y > 0, np.log(np.log(4.0)), np.log(np.log(4.0 / 3.0))), dtype=np.float64)

    def conjugate(self, u: Array, y: Array) -> Array:
        v = np.maximum(u, 0.0)
        no = _inside(u >= -_SLACK, xlogy(v, v) - v)
        inside = (u <= _SLACK) & (u >= -1 - _SLACK)
        w = np.clip(np.where(y > 0, u, -0.5), -1.0, -1e-300)
        # m/(e^m - 1) = -u:  1 - m/2 <= that <= 1 - m/2 + m^2/12, and it is below m e^(-m/2) for m > 2
        m = np.where(w < -0.5, 2 * (1 + w), -2 * np.log(-w) + 10)
        with np.errstate(divide="ignore"):
            low, high = np.log(np.minimum(m / 2, 1.0)), np.log(np.maximum(3 * m, 1e-300))
        ends = (w <= -1) | (u >= 0)  # there it is the supremum at z -> -inf or +inf, which is 0
        some, yes = np.broadcast_to((y > 0) & inside & ~ends, w.shape), np.zeros_like(w)
        low, high = np.maximum(low, -FAR), np.maximum(high, -FAR)
        yes[some] = highest(self, w[some], np.ones(np.count_nonzero(some)), low[some], high[some])
        return np.where(y > 0, _inside(inside, yes), no)

    @np.errstate(over="ignore", invalid="ignore")
    def rounding_sizes(self, z: Array, y: Array) -> tuple[Array, Array, float]:
        m = np.exp(z)
        slopes = np.where(y > 0, 2.0, m)
        return np.where(y > 0, 1.0, 0.0), slopes, max(1.0, 2 * float(slopes.max(initial=0.0)))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def highest(loss: Loss, u: Array, y: Array, low: Array, high: Array) -> Array:
    """sup over z of u z - l(z), from above: Newton's method in a bracket of the maximiser, halved where that fails.

    Every third turn halves it, too: where slopes fall doubly exponentially Newton's steps creep. Rows that are done are
    not looked at again.
    """
    low, high = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
    least, left, z = np.full(low.shape, np.inf), np.arange(len(low)), (low + high) / 2
    for turn in range(HALVINGS):
        value, slopes = twin_losses.values_and_slopes(loss, z[:, None], y)
        rise = u - slopes[:, 0]
        low, high = np.where(rise >= 0, z, low), np.where(rise <= 0, z, high)
        best, doubt = u * z - value, np.abs(rise) * (high - low)
        least[left] = np.fmin(least[left], best + doubt)
        more = doubt > 4e-15 * (np.abs(u * z) + np.abs(value))
        if not more.any():
            break
        bend = twin_losses.curvature_times(loss, z[:, None], np.ones((len(z), 1)), y)[:, 0]
        trial = z + rise / bend
        z = np.where((trial > low) & (trial < high) & (turn % 3 < 2), trial, (low + high) / 2)
        z, low, high, u, y, left = z[more], low[more], high[more], u[more], y[more], left[more]
    return least
