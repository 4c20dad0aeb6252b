"""From sums over silos to tests and curves: log-rank, proportional hazards, Kaplan and Meier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2, norm

from dualfl.errors import InputError
from dualfl.silos.survival_sums import GridCounts, LogRankSums, ProportionalitySums
from dualfl.typing import Array


@dataclass(frozen=True)
class ChiSquare:
    """A statistic that is chi-square with `df` degrees of freedom if there is nothing to see."""

    name: str
    statistic: float
    df: int

    @property
    def p(self) -> float:
        return float(chi2.sf(self.statistic, self.df))


def log_rank(sums: LogRankSums) -> ChiSquare:
    """Whether all arms have the same hazard in every silo: exact, stratified by silo."""
    seen = sums.expected > 0
    if np.count_nonzero(seen) < 2:
        raise InputError(
            "A log-rank test needs at least two arms with somebody at risk at an event, in all silos together."
        )
    last = np.flatnonzero(seen)[:-1]  # one is determined by the others
    gap = (sums.observed - sums.expected)[last]
    V = sums.V[np.ix_(last, last)]
    return ChiSquare("log-rank", float(gap @ np.linalg.lstsq(V, gap, rcond=None)[0]), len(last))


def proportionality(
    sums: ProportionalitySums, names: Sequence[str], terms: Mapping[str, Sequence[int]] | None = None
) -> list[ChiSquare]:
    """Whether coefficients change with time: a score test for each term and for all together, as R's cox.zph.

    `terms` names the coefficients that belong together, such as the levels of a column; None takes each alone.
    """
    d = len(sums.score)
    groups = {name: [j] for j, name in enumerate(names)} if terms is None else {k: list(v) for k, v in terms.items()}
    I, U = sums.information, sums.score
    found = [_score_test(name, I, U, columns, d) for name, columns in groups.items()]
    return found if len(groups) == 1 else [*found, _score_test("GLOBAL", I, U, list(range(d)), d)]


def _score_test(name: str, I: Array, U: Array, columns: Sequence[int], d: int) -> ChiSquare:
    growth = [d + j for j in columns]
    rest = I[np.ix_(growth, growth)] - I[np.ix_(growth, range(d))] @ np.linalg.solve(
        I[:d, :d], I[np.ix_(range(d), growth)]
    )
    u = U[list(columns)]
    return ChiSquare(name, float(u @ np.linalg.solve(rest, u)), len(growth))


@dataclass(frozen=True, eq=False)
class Curve:
    """A survival curve with its pointwise band, at the ends of the intervals of a grid."""

    times: Array
    survival: Array
    error: Array  # Greenwood's standard error
    lower: Array
    upper: Array
    at_risk: Array
    events: Array

    def median(self) -> float:
        """The first time at which the curve is at most one half; nan if it never is."""
        below = np.flatnonzero(self.survival <= 0.5)
        return float(self.times[below[0]]) if len(below) else float("nan")


def kaplan_meier(counts: GridCounts, grid: Array, arm: int = 0, level: float = 0.95, band: str = "log-log") -> Curve:
    """The product-limit curve: exact if the grid has all times of all silos, else as if events came at its points."""
    if band not in ("log-log", "log", "plain"):
        raise InputError(f'band must be "log-log", "log" or "plain", but it is {band!r}.')
    n, d = counts.at_risk[:, arm], counts.events[:, arm]
    safe = np.maximum(n, 1)
    S: Array = np.cumprod(np.where(n > 0, 1 - d / safe, 1.0)).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.cumsum(np.where(n > d, d / (safe * np.maximum(n - d, 1)), np.where(d > 0, np.inf, 0.0)))
        error = np.where(S > 0, S * np.sqrt(spread), 0.0)
        lower, upper = _band(S, np.sqrt(spread), float(norm.ppf((1 + level) / 2)), band)
    return Curve(np.asarray(grid), S, error, lower, upper, n, d)


def _band(S: Array, e: Array, q: float, band: str) -> tuple[Array, Array]:
    """e is the standard error of log S."""
    if band == "plain":
        low, high = S - q * S * e, S + q * S * e
    elif band == "log":
        low, high = S * np.exp(-q * e), S * np.exp(q * e)
    else:
        low, high = (S ** np.exp(sign * q * e / np.log(S)) for sign in (-1, 1))
    sure = (S == 1) | (S == 0)
    return np.where(sure, S, np.clip(low, 0, 1)), np.where(sure, S, np.clip(high, 0, 1))


def log_rank_on_grid(counts: GridCounts) -> ChiSquare:
    """The pooled log-rank test, not stratified, from summed counts: approximate, as the grid is."""
    n, d = counts.at_risk.sum(axis=1), counts.events.sum(axis=1)
    kept = (n > 0) & (d > 0)
    share = counts.at_risk[kept] / n[kept, None]
    spread = d[kept] * (n[kept] - d[kept]) / np.maximum(n[kept] - 1, 1)
    V = np.diag(spread @ share) - share.T @ (spread[:, None] * share)
    return log_rank(LogRankSums(counts.events[kept].sum(axis=0), d[kept] @ share, V, counts.at_risk[0]))
