"""Table 2 of the paper: the hyperparameters of its Figure 1, the grids they were found on, and the values.

J. Park and J. Xu, "DualFL: A duality-based federated learning algorithm with communication acceleration in the general
convex regime" (2023). The paper's names are translated to the fields of our classes: its eta_y = 1/(32 eta_x) is
c = 32, its beta_y is beta, and 5GCS solves its local problems to the end, as all methods do in the paper's experiments.
What is not given here (tau, theta, nu) has the paper's formula as the default of its field.

The paper's grids are infinite, {10^-m : m >= 0}; they are cut off here beyond every value that the paper chose. They
stop at 1, so they hold neither a penalty 1/eta below 1 nor a FedDyn alpha below 1. That suits pixels up to 255, where L
is in the thousands; for pixels up to 1 the best values lie outside, and the wider grids are the `grid` of each class.
"""

from __future__ import annotations

from typing import Any, NamedTuple

DATASETS = ("mnist", "cifar10")
MU = 1e-2  # the ridge of the paper's experiments
CLIENTS = 8

PAPER: dict[str, dict[str, dict[str, Any]]] = {
    "fedpd": {"mnist": {"eta": 1e-4}, "cifar10": {"eta": 1e-4}},
    "feddr": {"mnist": {"eta": 1e-4, "alpha": 1.0}, "cifar10": {"eta": 1e-4, "alpha": 1.0}},
    "feddualavg": {
        "mnist": {"eta_c": 1e-3, "eta_s": 1.0, "K": 10},
        "cifar10": {"eta_c": 1e-4, "eta_s": 1.0, "K": 100},
    },
    "feddyn": {"mnist": {"alpha": 1e3}, "cifar10": {"alpha": 1e3}},
    "scaffnew": {"mnist": {"gamma": 1e-5, "p": 1e-1}, "cifar10": {"gamma": 1e-7, "p": 1e-3}},
    "apda-inexact": {
        "mnist": {"eta_x": 1e-3, "c": 32.0, "beta": 1e-2},
        "cifar10": {"eta_x": 1e-4, "c": 32.0, "beta": 1e-3},
    },
    "5gcs": {"mnist": {"gamma": 1e-4, "solve": "exact"}, "cifar10": {"gamma": 1e-4, "solve": "exact"}},
    "dualfl": {"mnist": {"rho": 3e-3}, "cifar10": {"rho": 0.0}},
}
ALGORITHMS = tuple(PAPER)

# What the paper keeps fixed, so that a search over its grids does too.
FIXED: dict[str, dict[str, Any]] = {
    "feddualavg": {"eta_s": 1.0},
    "apda-inexact": {"c": 32.0},
    "5gcs": {"solve": "exact"},
}


def _powers(most: int, base: float = 0.1) -> tuple[float, ...]:
    return tuple(float(f"1e{-m if base < 1 else m}") for m in range(most + 1))


GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "fedpd": {"eta": _powers(6)},
    "feddr": {"eta": _powers(6), "alpha": (1.0, 2.0)},
    "feddualavg": {"eta_c": _powers(6), "K": (1, 10, 100)},
    "feddyn": {"alpha": _powers(6, base=10)},
    "scaffnew": {"gamma": _powers(8), "p": _powers(4)},
    "apda-inexact": {"eta_x": _powers(6), "beta": _powers(6)},
    "5gcs": {"gamma": _powers(6)},
    "dualfl": {"rho": tuple(m / 1000 for m in range(11))},
}


class Line(NamedTuple):
    """One line of the printed table: a hyperparameter, as the paper writes it and as our field is called."""

    algorithm: str
    symbol: str
    field: str
    about: str
    grid: str
    formula: str = ""  # where the paper gives one instead of a number


LINES = (
    Line("fedpd", "eta", "eta", "local penalty", "10^-m"),
    Line("feddr", "eta", "eta", "local penalty", "10^-m"),
    Line("feddr", "alpha", "alpha", "overrelaxation", "1, 2"),
    Line("feddualavg", "eta_c", "eta_c", "client step", "10^-m"),
    Line("feddualavg", "eta_s", "eta_s", "server step", "1"),
    Line("feddualavg", "K", "K", "local steps", "10^m"),
    Line("feddyn", "alpha", "alpha", "regularisation", "10^m"),
    Line("scaffnew", "gamma", "gamma", "step", "10^-m"),
    Line("scaffnew", "p", "p", "communication prob.", "10^-m"),
    Line("apda-inexact", "eta_x", "eta_x", "primal step", "10^-m"),
    Line("apda-inexact", "eta_y", "c", "dual step I", "1/(32 eta_x)", "1/(32 eta_x)"),
    Line("apda-inexact", "beta_y", "beta", "dual step II", "10^-m"),
    Line("apda-inexact", "theta", "theta", "overrelaxation", "formula", "formula"),
    Line("5gcs", "gamma", "gamma", "primal step", "10^-m"),
    Line("5gcs", "tau", "tau", "dual step", "1/(2 gamma N)", "1/(2 gamma N)"),
    Line("dualfl", "rho", "rho", "momentum", "m 10^-3"),
    Line("dualfl", "nu", "nu", "duality", "mu", "mu"),
)
