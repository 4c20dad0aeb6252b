"""A random effect of the site for the linear model, by restricted maximum likelihood over summed terms.

    y_j = X_j beta + b_j + e,      b_j ~ N(0, gamma sigma^2),  e ~ N(0, sigma^2 I),      X_j with a column of ones.

The inverse of I + gamma 11' is I - c 11', c = gamma/(1 + n_j gamma), so what is needed of a silo for a given gamma are

    A = X'X - c X'1 1'X,    h = X'y - c X'1 1'y,    q = y'y - c (1'y)^2,    log(1 + n_j gamma),    n_j,

and their derivatives in gamma. They add up: beta = A^-1 h, RSS = q - h'beta, sigma^2 = RSS/(N - p), and

    -2 log L(gamma)  =  (N - p) (log(2 pi sigma^2) + 1) + sum_j log(1 + n_j gamma) + log det A.

A silo that shows its moments is asked once. Under masks only the sums are seen, and gamma is searched by a few
exchanges of several values each: first a grid, then the interval in which the derivative changes its sign.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dualfl.engines.exchanges import drive
from dualfl.errors import InputError
from dualfl.typing import Array

GRID = np.concatenate([[0.0], np.logspace(-8, 8, 33)])
EXACT, MOST = 1e-8, 20  # relative width of the interval in which the search ends; exchanges at most
Terms = dict[str, Array]


@dataclass(frozen=True, eq=False)
class SiteMoments:
    """What a silo shows, or keeps and makes terms of: products of its columns, the ones last, and of its targets."""

    XX: Array
    Xy: Array
    yy: float

    @staticmethod
    def of(X: Array, y: Array) -> SiteMoments:
        rows = np.column_stack([X, y, np.ones(len(y))])
        return SiteMoments.from_products(rows.T @ rows)

    @staticmethod
    def from_products(products: Array) -> SiteMoments:
        """Of [X, y, 1] with each other."""
        y = len(products) - 2
        rest = np.delete(np.arange(len(products)), y)
        return SiteMoments(products[np.ix_(rest, rest)], products[rest, y], float(products[y, y]))

    @property
    def n(self) -> float:
        return float(self.XX[-1, -1])

    def terms(self, gammas: Array) -> Terms:
        """For each gamma the sums above, and their derivatives."""
        n, ones, total = self.n, self.XX[:, -1], float(self.Xy[-1])
        c, dc = gammas / (1 + n * gammas), 1 / (1 + n * gammas) ** 2
        outer, cross = np.outer(ones, ones), ones * total
        return {
            "A": self.XX - c[:, None, None] * outer,
            "dA": -dc[:, None, None] * outer,
            "h": self.Xy - c[:, None] * cross,
            "dh": -dc[:, None] * cross,
            "q": self.yy - c * total**2,
            "dq": -dc * total**2,
            "log": np.log1p(n * gammas),
            "dlog": n / (1 + n * gammas),
            "n": np.full(len(gammas), n),
        }


@dataclass(frozen=True, eq=False)
class RandomIntercept:
    """The fit: the intercept is the last coefficient."""

    coefficients: Array
    covariance: Array
    variance: float  # of the site effects, gamma sigma^2
    residual: float  # sigma^2
    log_likelihood: float  # restricted
    exchanges: int


def profile(terms: Mapping[str, Array], k: int) -> tuple[float, float, Array, float, Array]:
    """-2 log L, its derivative in gamma, beta, sigma^2 and A^-1, of the k-th gamma."""
    A, dA, h = terms["A"][k], terms["dA"][k], terms["h"][k]
    n, p = float(terms["n"][k]), len(h)
    if not n > p:
        raise InputError(f"There are {p} coefficients and {n:.0f} rows in all; a random site effect needs more rows.")
    scale = np.sqrt(np.maximum(np.diag(A), 1e-300))
    inverse = np.linalg.inv(A / np.outer(scale, scale)) / np.outer(scale, scale)
    beta = inverse @ h
    rss = float(terms["q"][k] - h @ beta)
    drss = float(terms["dq"][k] - 2 * beta @ terms["dh"][k] + beta @ dA @ beta)
    sigma2 = rss / (n - p)
    logdet = float(np.linalg.slogdet(A / np.outer(scale, scale))[1] + 2 * np.log(scale).sum())
    value = (n - p) * float(np.log(2 * np.pi * sigma2) + 1) + float(terms["log"][k]) + logdet
    slope = (n - p) * drss / rss + float(terms["dlog"][k]) + float(np.sum(inverse * dA))
    return value, slope, beta, sigma2, inverse


def fit_random_intercept(ask: Callable[[Array], Mapping[str, Array]], silos: int) -> RandomIntercept:
    """`ask` gives the summed terms for several values of gamma: one exchange."""
    return drive(searching(silos), ask)


def searching(silos: int) -> Generator[Array, Mapping[str, Array], RandomIntercept]:
    """The search: yields values of gamma, and is sent the summed terms for them."""
    if silos < 2:
        raise InputError(f"A random site effect needs at least 2 silos, and there are {silos}.")
    gammas, exchanges = GRID, 0
    while True:
        terms, exchanges = (yield gammas), exchanges + 1
        found = [profile(terms, k) for k in range(len(gammas))]
        best = int(np.argmin([one[0] for one in found]))
        slopes = [one[1] for one in found]
        if gammas[0] == 0 and best == 0 and slopes[0] >= 0:  # no variance at all is the most likely
            return _result(found[0], 0.0, exchanges)
        from_here = best if exchanges == 1 else 0  # within an interval the slopes tell more than the values
        low = max((k for k in range(from_here + 1) if slopes[k] < 0), default=0)
        high = min((k for k in range(low + 1, len(gammas)) if slopes[k] >= 0), default=len(gammas) - 1)
        low = high - 1
        a, b = float(gammas[low]), float(gammas[high])
        if b - a <= EXACT * b or high <= low or exchanges == MOST:
            return _result(found[best], float(gammas[best]), exchanges)
        # by the secant of the slopes, and around it, nearer and nearer
        middle = a + (b - a) * float(np.clip(-slopes[low] / (slopes[high] - slopes[low]), 0.0, 1.0))
        reach = (b - a) * np.array([1e-9, 1e-6, 1e-3])
        gammas = np.unique(np.clip(np.concatenate([[a, (a + b) / 2, b, middle], middle - reach, middle + reach]), a, b))


def _result(found: tuple[float, float, Array, float, Array], gamma: float, exchanges: int) -> RandomIntercept:
    value, _, beta, sigma2, inverse = found
    return RandomIntercept(beta, sigma2 * inverse, gamma * sigma2, sigma2, -value / 2, exchanges)


def from_moments(moments: Sequence[SiteMoments]) -> RandomIntercept:
    """Where silos show their moments: one exchange, and the search needs no more."""

    def ask(gammas: Array) -> Terms:
        parts = [one.terms(gammas) for one in moments]
        return {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}

    return replace(fit_random_intercept(ask, len(moments)), exchanges=1)
