"""The objectives in NumPy, apart from dualfl's own kernels: what all programs are measured by.

E = mean of l(y_i, x_i'w + b) + (ridge/2)|w|^2 + l1 |w|_1,      the intercept penalised too where `all_of_it` is set
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rivals.contest import Model


def logistic(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, -y * z[:, 0])


def hinge(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(0.0, 1 - y * z[:, 0])


def softmax(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    top = z.max(axis=1)
    return np.log(np.exp(z - top[:, None]).sum(axis=1)) + top - z[np.arange(len(y)), y.astype(int)]


def half_square(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (y - z[:, 0]) ** 2 / 2


def median_loss(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.abs(y - z[:, 0]) / 2


def poisson(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Half the deviance, so that a relative error means the same whatever the counts."""
    return np.exp(z[:, 0]) - y * z[:, 0] + np.where(y > 0, y * np.log(np.maximum(y, 1.0)) - y, 0.0)


def energy(
    X: Any,
    y: np.ndarray,
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ridge: float = 0.0,
    l1: float = 0.0,
    all_of_it: bool = False,
) -> Callable[[Model], float]:
    def at(model: Model) -> float:
        W, b = model.W, model.b
        penalised = np.append(W.ravel(), b) if all_of_it else W.ravel()
        mean = float(np.mean(loss(np.asarray(X @ W) + b, y)))
        return mean + ridge / 2 * float(penalised @ penalised) + l1 * float(np.abs(penalised).sum())

    return at
