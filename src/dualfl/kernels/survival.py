"""Cox's partial likelihood as a function of the predictors; see `twin_survival` for the formulas."""

from typing import Any

from .backends import serving
from .losses import Array
from .risk_sets import RiskSets


def cox_residual(sets: RiskSets, z: Array, s: Array) -> tuple[float, Array, Array]:
    """The negative log partial likelihood, its slopes in z, and the events that are expected of each row, weighted."""
    return serving().cox_residual(sets, z, s)


def cox_curvature_times(sets: RiskSets, z: Array, s: Array, p: Array) -> Array:
    """Its second derivative in z, applied to p."""
    return serving().cox_curvature_times(sets, z, s, p)


def cox_means(sets: RiskSets, z: Array, s: Array, X: Any) -> Array:
    """M with X' diag(expected) X - M'M the second derivative in theta, z = X theta; X is dense or CSR."""
    return serving().cox_means(sets, z, s, X)
