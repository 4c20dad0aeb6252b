"""Wald's test of every term that has several coefficients: whether all of them are zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dualfl.analysis.whole_fit import Fit
from dualfl.estimators.statistics import TestResult
from dualfl.typing import Array


def term_tests(fit: Fit) -> dict[str, TestResult]:
    """By term; of several classes, whether its coefficients are the same for all. None that errors cannot bear."""
    if fit.errors is None:
        return {}
    found = {}
    places = {name: i for i, name in enumerate(fit.schema.names)}
    for term, names in fit.schema.blocks.items():
        C = contrasts([places[name] for name in names], fit.theta.shape)
        if len(C) < 2 or len(C) >= (fit.errors.clusters or np.inf):
            continue
        result = wald(C, fit.theta.ravel(), fit.errors.covariance, fit.errors.df)
        if np.isfinite(result.statistic):
            found[term] = result
    return found


def contrasts(rows: Sequence[int], shape: tuple[int, ...]) -> Array:
    """A line for each number that is to be zero, over coefficients that go feature by feature, then class by class."""
    outputs = shape[1]
    lines = []
    for row in rows:
        for k in range(1, outputs) if outputs > 1 else (0,):
            line = np.zeros(shape)
            line[row, k] = 1.0
            if outputs > 1:
                line[row, 0] = -1.0
            lines.append(line.ravel())
    return np.array(lines)


def wald(C: Array, estimate: Array, covariance: Array, df: float) -> TestResult:
    """d'(C V C')^-1 d, d = C theta; not finite where the covariance says nothing of some direction."""
    apart, V = C @ estimate, C @ covariance @ C.T
    scale = np.sqrt(np.maximum(np.diag(V), 1e-300))
    try:
        found = float((apart / scale) @ np.linalg.solve(V / np.outer(scale, scale), apart / scale))
    except np.linalg.LinAlgError:
        found = float("nan")
    return TestResult(found, len(C), df)


def in_words(name: str, result: TestResult) -> str:
    """smoker chi-square 22.3 on 3 df, p <0.0001"""
    from dualfl.lines import p_value

    if np.isinf(result.df_error):
        return f"{name} chi-square {result.statistic:.4g} on {result.df} df, p {p_value(result.p)}"
    df = f"{result.df} and {result.df_error:.4g} df"
    return f"{name} F {result.statistic / result.df:.4g} on {df}, p {p_value(result.p)}"
