"""Whether units and zeros of columns matter to a bundle: exchanges of losses with kinks that are too large for fedipm.

    python -m benchmarks.bundle_units          # two minutes; 300 rows x 8 columns as if 8 were too many

Four clients, rows sorted by their targets, exchanges of `auto` to a true error of 1e-6. Columns are as they are,
multiplied by 1e-6 to 1e6 (the ridge with them), or shifted beside a free intercept: the first one by so much, the
others by up to a hundredth of it.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "DUALFL_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported

from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

from dualfl import Problem, run  # noqa: E402
from dualfl.algorithms.few_exchanges import fedipm  # noqa: E402
from dualfl.algorithms.registry import make  # noqa: E402
from dualfl.objectives import Absolute, Hinge, LinearModel, Quantile  # noqa: E402
from dualfl.typing import Array  # noqa: E402

N, D, CLIENTS, MOST = 300, 8, 4, 60
LOSSES: dict[str, Any] = {"hinge": Hinge(), "absolute": Absolute(), "quantile": Quantile(0.7)}
SHIFTS = (1e2, 1e4, 1e5, 1e6)


def data(name: str) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)) @ (np.eye(D) + 0.3 * rng.standard_normal((D, D)))
    z = X @ rng.standard_normal(D) / np.sqrt(D)
    if name == "hinge":
        return X, np.where(z + 0.5 * rng.logistic(size=N) > 0, 1.0, -1.0)
    return X, z + 0.5 * rng.standard_normal(N) + 5 * (rng.random(N) < 0.05)


def problem(X: Array, y: Array, loss: Any, ridge: Array, intercept: Any) -> Problem:
    M = np.append(ridge, 0.0) if intercept else ridge
    parts = np.array_split(np.argsort(y, kind="stable"), CLIENTS)
    return Problem([LinearModel(X[p], y[p], loss, intercept=intercept).tilted(M) for p in parts])


def exchanges(here: Problem, star: float) -> str:
    fedipm.LARGEST = D - 1
    result = run(here, make("auto"), rounds=MOST, threads=1, stop=lambda row, _: row.energy - star <= 1e-6 * star)
    return str(result.history[-1].exchanges) if result.stopped == "tol" else f"> {MOST}"


def main() -> None:
    head = ["loss", "ridge", "intercept", "as they are", "multiplied", *(f"shifted by {by:.0e}" for by in SHIFTS)]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    rng, largest = np.random.default_rng(1), fedipm.LARGEST
    for name, loss in LOSSES.items():
        X, y = data(name)
        for mu in (1e-2, 1e-3, 0.0):
            for intercept in (False, "free"):
                ridge = np.full(D, mu)
                here, fedipm.LARGEST = problem(X, y, loss, ridge, intercept), largest
                star = float(run(here, make("fedipm"), rounds=60, threads=1).energy or 0.0)
                T = 10.0 ** rng.uniform(-6, 6, D)
                found = [exchanges(here, star), exchanges(problem(X * T, y, loss, ridge * T**2, intercept), star)]
                for shift in SHIFTS if intercept else ():
                    by = np.where(np.arange(D) == 0, shift, rng.uniform(-shift, shift, D) / 100)
                    found.append(exchanges(problem(X + by, y, loss, ridge, intercept), star))
                found += [""] * (len(head) - 3 - len(found))
                print(f"| {name} | {mu:g} | {intercept or 'none'} | " + " | ".join(found) + " |", flush=True)


if __name__ == "__main__":
    main()
