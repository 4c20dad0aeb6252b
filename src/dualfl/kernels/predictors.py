"""Functions of the predictors Z alone: what a line search or a dual step needs, without the rows."""

import numpy as np
import numpy.typing as npt

from .backends import serving
from .losses import Array, Loss


def value(loss: Loss, Z: Array, y: Array, s: Array) -> float:
    """sum_i s_i l(y_i, z_i)."""
    return serving().value(loss, Z, y, s)


def residual(loss: Loss, Z: Array, y: Array, s: Array) -> tuple[float, Array]:
    """The value, and R with rows s_i l'(y_i, z_i); a subgradient where the loss has a kink."""
    return serving().residual(loss, Z, y, s)


def curvature_times(loss: Loss, Z: Array, P: Array, y: Array, s: Array) -> Array:
    """The rows s_i l''(y_i, z_i) p_i, shape (n, k)."""
    return serving().curvature_times(loss, Z, P, y, s)


def ray(loss: Loss, Z: Array, P: Array, steps: npt.ArrayLike, y: Array, s: Array) -> tuple[Array, Array]:
    """phi(t) = sum_i s_i l(y_i, z_i + t p_i) and its slope phi'(t), for every t in steps."""
    return serving().ray(loss, Z, P, np.atleast_1d(np.asarray(steps, float)), y, s)
