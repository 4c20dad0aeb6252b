"""A data set for the lasso: correlated features, few of which matter.

x_i ~ N(0, C),  C_kl = 0.9^|k - l|,      y = X theta + noise,      20 of 200 coefficients are not zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dualfl.data import Dataset

ROWS, FEATURES, ACTIVE, CORRELATION, NOISE = 5_000, 200, 20, 0.9, 0.5


def correlated() -> Dataset:
    """5,000 x 200; the targets are sorted into ten bins of equal size for partitions by label.

    >>> data = correlated()
    >>> data.X.shape, round(float(np.corrcoef(data.X[:, 0], data.X[:, 1])[0, 1]), 1)
    ((5000, 200), 0.9)
    """
    rng = np.random.Generator(np.random.PCG64(0))
    X = rng.standard_normal((ROWS, FEATURES))
    for k in range(1, FEATURES):
        X[:, k] = CORRELATION * X[:, k - 1] + np.sqrt(1 - CORRELATION**2) * X[:, k]
    theta = np.zeros(FEATURES)
    theta[:: FEATURES // ACTIVE] = rng.choice([-1.0, 1.0], ACTIVE)
    y = X @ theta + NOISE * rng.standard_normal(ROWS)
    return Dataset(X, y, (), "correlated", 1.0, "drawn", "regression")


SYNTHETIC: dict[str, Callable[[], Dataset]] = {"correlated": correlated}
