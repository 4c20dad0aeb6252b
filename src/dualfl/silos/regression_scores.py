"""How well a regressor does, from sums: the weight, mean and spread of the targets, and sums of residuals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import xlogy

from dualfl.errors import InputError
from dualfl.silos.chamber import SiloRows
from dualfl.silos.levelled_scores import FAR_OUT, level
from dualfl.typing import Array

LARGEST = 1e12  # of a prediction


@dataclass(frozen=True, eq=False)
class RegressionSums:
    """Sums over rows, all weighted; `y_squares` are around `y_mean`.

    Parameters
    ----------
    n : int
        Rows.
    mass : float
        The sum of their weights.
    y_mean : float
        The mean of the targets.
    y_squares : float
        The sum of their squares around the mean.
    squared : float
        The sum of squared residuals.
    absolute : float
        The sum of absolute residuals.
    pinball_sum : float
        The sum of pinball losses.
    quantile : float
        The quantile of the pinball loss.
    deviance_sum : float
        The sum of deviances.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualfl.estimators import Ridge, evaluate
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = Ridge(alpha=1e-6).fit(X, y, groups=[i % 2 for i in range(len(y))])
    >>> evaluate(model, [(X, y)]).overall.n
    442
    """

    n: int
    mass: float
    y_mean: float
    y_squares: float
    squared: float
    absolute: float
    pinball_sum: float
    quantile: float
    deviance_sum: float  # Poisson's, halved; nan where a prediction is not positive

    def __add__(self, other: RegressionSums) -> RegressionSums:
        if self.quantile != other.quantile:
            raise InputError(f"Pinball losses at {self.quantile:g} and {other.quantile:g} do not add up.")
        mass = self.mass + other.mass
        apart = other.y_mean - self.y_mean
        return RegressionSums(
            self.n + other.n,
            mass,
            self.y_mean + apart * other.mass / mass,
            self.y_squares + other.y_squares + apart**2 * self.mass * other.mass / mass,
            self.squared + other.squared,
            self.absolute + other.absolute,
            self.pinball_sum + other.pinball_sum,
            self.quantile,
            self.deviance_sum + other.deviance_sum,
        )

    @property
    def mean_squared_error(self) -> float:
        return self.squared / self.mass

    @property
    def mean_absolute_error(self) -> float:
        return self.absolute / self.mass

    @property
    def r2(self) -> float:
        """nan where all targets are equal."""
        return 1 - self.squared / self.y_squares if self.y_squares > 0 else np.nan

    @property
    def pinball(self) -> float:
        return self.pinball_sum / self.mass

    @property
    def poisson_deviance(self) -> float:
        return 2 * self.deviance_sum / self.mass

    def table(self) -> dict[str, float]:
        """The numbers that fit into a line."""
        return {
            "rows": float(self.n),
            "r2": self.r2,
            "mse": self.mean_squared_error,
            "mae": self.mean_absolute_error,
            "pinball": self.pinball,
            **({"deviance": self.poisson_deviance} if np.isfinite(self.poisson_deviance) else {}),
        }


def regression_sums(
    model: Any, silo: SiloRows, quantile: float = 0.5, together: int = 1, by_hand: bool = False
) -> RegressionSums:
    """What one silo sends about a regressor. `together`, `by_hand`: as of classifiers. Then neighbours have one
    prediction, and one residual in what depends on its sign."""
    y = np.asarray(silo.y, dtype=np.float64)
    w = np.ones(silo.n) if silo.weights is None else silo.weights
    mass = float(w.sum())
    z = levelled_predictions(model, silo.X, together) if by_hand else model.predict(silo.X)
    r = y - z
    near = level(r, together) if by_hand else r
    mean = float(w @ y) / mass
    positive = bool((z > 0).all() and (y >= 0).all())
    deviance = float(w @ (xlogy(y, y / z) - y + z)) if positive else np.nan
    return RegressionSums(
        silo.n,
        mass,
        mean,
        float(w @ (y - mean) ** 2),
        float(w @ r**2),
        float(w @ np.abs(near)),
        float(w @ np.maximum(quantile * near, (quantile - 1) * near)),
        quantile,
        deviance,
    )


def levelled_predictions(model: Any, X: Any, together: int) -> Array:
    logarithms = model.kind in ("counts", "amounts")
    limit = FAR_OUT if logarithms else LARGEST
    z = np.clip(level(model.decision_function(X), together), -limit, limit)
    return np.exp(z) if logarithms else z
