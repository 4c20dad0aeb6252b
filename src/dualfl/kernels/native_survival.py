"""Cox's partial likelihood in C; rows that enter late, and sparse rows, are left to the twin."""

from typing import Any

import numpy as np

from . import _native, twin_survival
from .losses import Array
from .risk_sets import RiskSets


def cox_residual(sets: RiskSets, z: Array, s: Array) -> tuple[float, Array, Array]:
    if sets.intervals is not None:
        return twin_survival.cox_residual(sets, z, s)
    R, expected = np.empty(sets.n), np.empty(sets.n)
    value = _native.cox_residual(sets.start, sets.end, sets.deaths, sets.efron, z, s, R, expected)
    return value, R, expected


def cox_curvature_times(sets: RiskSets, z: Array, s: Array, p: Array) -> Array:
    if sets.intervals is not None:
        return twin_survival.cox_curvature_times(sets, z, s, p)
    out = np.empty(sets.n)
    _native.cox_curvature_times(sets.start, sets.end, sets.deaths, sets.efron, z, s, p, out)
    return out


def cox_means(sets: RiskSets, z: Array, s: Array, X: Any) -> Array:
    if sets.intervals is not None or not isinstance(X, np.ndarray):
        return twin_survival.cox_means(sets, z, s, X)
    tied = int(np.count_nonzero(sets.deaths > 1)) if sets.efron else 0
    out = np.empty((sets.groups + tied, X.shape[1]))
    _native.cox_means(sets.start, sets.end, sets.deaths, sets.efron, z, s, X, out)
    return out
