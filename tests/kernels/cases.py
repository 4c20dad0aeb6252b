"""What the kernel tests share: small losses, data of every storage, and a clean choice of backend."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dualfl import kernels
from dualfl.kernels import Design
from dualfl.kernels.losses import (
    CLOGLOG,
    GAMMA,
    HINGE,
    LOGISTIC,
    NAMES,
    NEGATIVE_BINOMIAL,
    POISSON,
    SOFTMAX,
    SQUARED_HINGE,
    TWEEDIE,
    WITHOUT_CURVATURE,
)


@dataclass(frozen=True)
class Loss:
    code: int
    parameter: float = 0.0


LOSSES = [Loss(code, 1.3 if code == TWEEDIE else 0.3) for code in range(len(NAMES))]
SMOOTH = [loss for loss in LOSSES if loss.code not in WITHOUT_CURVATURE]
STORAGES = ["float64", "float32", "uint8", "csr float64", "csr float32", "csr uint8"]


def loss_name(loss: Loss) -> str:
    return NAMES[loss.code].replace(" ", "-")


def matrix(storage: str, n: int, features: int, rng: np.random.Generator) -> Any:
    """Half of the entries are zero, and so is every fifth row."""
    X = rng.normal(size=(n, features)) * (rng.random((n, features)) < 0.5)
    X[::5] = 0.0
    dtype = np.dtype(storage.split()[-1])
    if dtype == np.uint8:
        X = np.clip(np.abs(X) * 60, 0, 255)
    X = X.astype(dtype)
    return sparse.csr_array(X) if storage.startswith("csr") else X


def scale_of(storage: str) -> float:
    return 1 / 255 if storage.endswith("uint8") else 0.7


def targets(loss: Loss, n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    if loss.code == SOFTMAX:
        return rng.integers(0, k, n).astype(float)
    if loss.code in (POISSON, NEGATIVE_BINOMIAL, TWEEDIE):
        return rng.poisson(2.0, n).astype(float)
    y = rng.normal(size=n)
    if loss.code == GAMMA:
        return np.abs(y) + 0.01
    return np.sign(y) if loss.code in (LOGISTIC, SQUARED_HINGE, HINGE, CLOGLOG) else y


def weights(n: int, rng: np.random.Generator) -> np.ndarray:
    s = rng.random(n) + 0.1
    s[n // 2] = 0.0 if n > 2 else s[n // 2]
    return s / s.sum()


@contextmanager
def on(backend: str) -> Iterator[None]:
    """Designs made inside use this backend."""
    before = kernels.backend()
    kernels.use_backend(backend)
    try:
        yield
    finally:
        kernels.use_backend(before)


def both(X: Any, **options: Any) -> tuple[Design, Design]:
    """The same design in C and in NumPy."""
    with on("native"):
        native = Design(X, **options)
    with on("numpy"):
        twin = Design(X, **options)
    return native, twin


def close(a: Any, b: Any, tolerance: float = 1e-12) -> None:
    """Equal to rounding, relative to the largest entry: sums of different order differ by so much."""
    size = np.max(np.abs(b), initial=1e-300)
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * size)
