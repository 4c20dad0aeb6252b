"""Estimates with what is known of their errors, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm, t

from dualfl.errors import InputError
from dualfl.typing import Array


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Estimates with what is known of their errors; one number each."""

    estimate: Array
    error: Array
    statistic: Array
    p: Array
    lower: Array
    upper: Array
    df: float  # of Student's distribution; infinite for the normal one
    level: float

    @property
    def ratio(self) -> tuple[Array, Array, Array]:
        """exp of the estimates and of the ends of their intervals."""
        with np.errstate(over="ignore"):
            return np.exp(self.estimate), np.exp(self.lower), np.exp(self.upper)


def coefficients(estimate: Array, covariance: Array, df: float = np.inf, level: float = 0.95) -> Coefficients:
    """Tests and intervals of each coefficient."""
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, but it is {level}.")
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    law: Any = norm if np.isinf(df) else t(df)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.asarray(estimate / error)
    q = float(law.ppf((1 + level) / 2))
    p = 2 * law.sf(np.abs(statistic))
    return Coefficients(estimate, error, statistic, p, estimate - q * error, estimate + q * error, df, level)


@dataclass(frozen=True, eq=False)
class Inference:
    """`inference_` of a model: tests, intervals, covariance and likelihood.

    names : of the coefficients, thresholds last.
    coefficients : estimates, errors, statistics, p-values and intervals, an array each.
    covariance : of the coefficients.
    ratio : what exp of a coefficient is called.
    log_likelihood : of the model.
    """

    names: tuple[str, ...]
    coefficients: Coefficients
    covariance: Array
    ratio: str
    log_likelihood: float

    @staticmethod
    def of(names: Sequence[str], estimate: Array, covariance: Array, ratio: str, log_likelihood: float) -> Inference:
        return Inference(tuple(names), coefficients(estimate, covariance), covariance, ratio, log_likelihood)

    def __str__(self) -> str:
        found, width = self.coefficients, max(11, *map(len, self.names))
        head = ["coefficient".ljust(width), *(f"{word:>9}" for word in ("estimate", "std err", "z", "p", "exp", "low"))]
        ratio, low, high = found.ratio
        columns = (found.estimate, found.error, found.statistic, found.p, ratio, low, high)
        lines = [
            "  ".join([name.ljust(width), *(f"{value:9.4g}" for value in row)])
            for name, row in zip(self.names, zip(*columns))
        ]
        last = f"exp is the {self.ratio}, with its interval; log-likelihood {self.log_likelihood:.8g}"
        return "\n".join(["  ".join([*head, f"{'high':>9}"]), *lines, last])
