"""What a kernel needs to know of a loss: a number that names its formula, and one parameter.

code  loss                  l(y, z)                                            parameter
0     softmax               log(sum_j exp(z_j)) - z_y, y = 0..k-1              -
1     logistic              log(1 + exp(-y z)), y = -1 or +1                   -
2     squared               (z - y)^2 / 2                                      -
3     Huber                 quadratic up to |z - y| = delta, linear beyond     delta
4     Poisson               exp(z) - y z                                       -
5     squared hinge         max(0, 1 - y z)^2, y = -1 or +1                    -
6     hinge                 max(0, 1 - y z), y = -1 or +1                      -
7     absolute              |z - y|                                            -
8     quantile              tau max(y - z, 0) + (1 - tau) max(z - y, 0)        tau
9     epsilon-insensitive   max(0, |z - y| - eps)                              eps
10    gamma                 z + y exp(-z)                                      -
11    Tweedie               y exp(-(p-1) z)/(p-1) + exp((2-p) z)/(2-p)         p, between 1 and 2
12    negative binomial     (y + 1/a) log(1 + a exp(z)) - y z                  the dispersion a > 0
13    clog-log              y = -1: exp(z); y = +1: -log(1 - exp(-exp(z)))     -
"""

from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SOFTMAX: Final = 0
LOGISTIC: Final = 1
SQUARED: Final = 2
HUBER: Final = 3
POISSON: Final = 4
SQUARED_HINGE: Final = 5
HINGE: Final = 6
ABSOLUTE: Final = 7
QUANTILE: Final = 8
EPSILON_INSENSITIVE: Final = 9
GAMMA: Final = 10
TWEEDIE: Final = 11
NEGATIVE_BINOMIAL: Final = 12
CLOGLOG: Final = 13

NAMES: Final = (
    "softmax",
    "logistic",
    "squared",
    "Huber",
    "Poisson",
    "squared hinge",
    "hinge",
    "absolute",
    "quantile",
    "epsilon-insensitive",
    "gamma",
    "Tweedie",
    "negative binomial",
    "clog-log",
)
WITHOUT_CURVATURE: Final = (HINGE, ABSOLUTE, QUANTILE, EPSILON_INSENSITIVE)


class Loss(Protocol):
    """Any object with these two attributes is a loss to the kernels."""

    @property
    def code(self) -> int: ...

    @property
    def parameter(self) -> float: ...


def check_columns(code: int, k: int) -> None:
    """Only softmax has more than one predictor a row."""
    if not 0 <= code < len(NAMES):
        raise ValueError(f"loss.code is {code}: it must be one of 0..{len(NAMES) - 1}")
    if code != SOFTMAX and k != 1:
        raise ValueError(f"the {NAMES[code]} loss needs one column of predictors, not {k}")


def check_curvature(code: int) -> None:
    """The losses with kinks have no second derivative to offer."""
    if code in WITHOUT_CURVATURE:
        raise ValueError(f"the {NAMES[code]} loss has no curvature: use a method for nonsmooth losses")
