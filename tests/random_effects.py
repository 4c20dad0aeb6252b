"""A random effect of the site by whole covariance matrices, and public tables in silos that have one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from dualfl.tables.reading import Table
from oracle_tables import Table as Public


def dense_reml(X: Any, y: Any, silo: Any) -> tuple[Any, Any, float, float]:
    """The most likely one of -2 log restricted likelihood, with whole covariance matrices: coefficients and errors."""
    rows = np.column_stack([X, np.ones(len(y))])
    same = (silo[:, None] == silo[None, :]).astype(float)
    n, p = rows.shape

    def fit(gamma: float) -> tuple[float, Any, Any, float]:
        V = np.eye(n) + gamma * same
        A = rows.T @ np.linalg.solve(V, rows)
        beta = np.linalg.solve(A, rows.T @ np.linalg.solve(V, y))
        r = y - rows @ beta
        s2 = float(r @ np.linalg.solve(V, r)) / (n - p)
        value = (n - p) * (np.log(2 * np.pi * s2) + 1) + np.linalg.slogdet(V)[1] + np.linalg.slogdet(A)[1]
        return value, beta, np.sqrt(s2 * np.diag(np.linalg.inv(A))), s2

    best = minimize_scalar(lambda t: fit(np.exp(t))[0], bounds=(-12, 8), method="bounded", options={"xatol": 1e-9})
    _, beta, errors, s2 = fit(float(np.exp(best.x)))
    return beta, errors, float(np.exp(best.x)) * s2, s2


class Split:
    """A public table in five silos, each with an effect of its own; some offset may be added to it."""

    def __init__(self, name: str, offset: Any = None) -> None:
        table = Public(name)
        n = len(table.y)
        self.X, self.silo = table.X, np.arange(n) // int(np.ceil(n / 5))
        self.y = table.y + 3 * np.sin(7 * self.silo)
        columns = dict(zip(table.names, table.X.T)) | {"y": self.y + (0.0 if offset is None else offset)}
        columns |= {} if offset is None else {"known": offset}
        of = [np.flatnonzero(self.silo == j) for j in np.unique(self.silo)]
        self.tables = [Table(f"s{j}", {key: one[rows] for key, one in columns.items()}) for j, rows in enumerate(of)]

    def check(self, fit: Any) -> None:
        """Against whole covariance matrices; slopes first, the intercept last."""
        beta, errors, variance, residual = dense_reml(self.X, self.y, self.silo)
        assert_allclose(fit.theta[:, 0], beta, rtol=1e-6)
        assert_allclose(fit.standard_errors[:, 0], errors, rtol=1e-6)
        assert fit.more["site effect"].variance == pytest.approx(variance, rel=1e-5)
        assert fit.more["site effect"].residual == pytest.approx(residual, rel=1e-6)
