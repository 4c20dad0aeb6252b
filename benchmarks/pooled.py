"""A federated fit against a pooled one: MNIST, 60,000 rows, softmax, ridge 1e-2, to the same accuracy in the same run.

    python -m benchmarks.pooled              prints the table
    python -m benchmarks.pooled --save       writes it to results/pooled.md too

Both minimise the same E, with the intercept as a regularised column of ones: dualfl's `auto` on 8 silos until it has
PROVEN a relative error of 1e-6, and scikit-learn's LogisticRegression(solver="lbfgs") on the pooled rows, dense and
sparse, with the loosest tolerance of 1e-2, 1e-3, ... whose result is at least as good. They take turns. Reading the
files and finding E* are not counted. The MNIST files must lie in the folder that DUALFL_DATA names.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from dualfl.algorithms.registry import make
from dualfl.data import load, make_problem
from dualfl.engines import Problem, Result, run
from dualfl.optimum import reference

PLACE = Path(__file__).parents[1] / "results" / "pooled.md"
RIDGE, TOL, TURNS = 1e-2, 1e-6, 3
lines: list[str] = []


def say(text: str = "") -> None:
    print(text, flush=True)
    lines.append(text)


def federated(problem: Problem) -> Result:
    return run(problem, make("auto"), rounds=50, tol=TOL)


def pooled(X: Any, y: Any, tol: float) -> np.ndarray:
    """The model of scikit-learn, flat as ours: features by classes."""
    model = LogisticRegression(C=1 / (len(y) * RIDGE), tol=tol, solver="lbfgs", fit_intercept=False, max_iter=10_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X, y)
    return np.ascontiguousarray(model.coef_.T).ravel()


def with_ones(X: Any) -> Any:
    ones = np.ones((X.shape[0], 1))
    return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])


def loosest(error: Callable[[np.ndarray], float], X: Any, y: Any) -> float:
    """The tolerance at which scikit-learn reaches TOL."""
    for tol in 10.0 ** -np.arange(2, 9):
        if error(pooled(X, y, tol)) <= TOL:
            return float(tol)
    raise SystemExit(f"scikit-learn reaches {TOL:g} with no tolerance down to 1e-8.")


def main() -> None:
    data = load("mnist")
    problem = make_problem(data, clients=8, ridge=RIDGE)
    minimum = reference(problem)

    def error(theta: np.ndarray) -> float:
        return (problem.value(theta) - minimum) / minimum

    rows = with_ones(data.X.astype(np.float64) * data.scale)
    tables = {"sparse": rows, "dense": rows.toarray()}
    tols = {kind: loosest(error, X, data.y) for kind, X in tables.items()}
    contenders: dict[str, Callable[[], Any]] = {"dualfl auto, 8 silos": lambda: federated(problem).theta}
    for kind, X in tables.items():
        contenders[f"scikit-learn, pooled, {kind}, tol={tols[kind]:g}"] = lambda X=X, t=tols[kind]: pooled(X, data.y, t)
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    errors: dict[str, float] = {}
    for _ in range(TURNS):
        for name, fit in contenders.items():
            began, burnt = time.perf_counter(), time.process_time()
            theta = fit()
            wall[name].append(time.perf_counter() - began)
            cpu[name].append(time.process_time() - burnt)
            errors[name] = error(theta)
    once = federated(problem)
    say("# Federated against pooled")
    say()
    say("Printed by `python -m benchmarks.pooled --save`: MNIST, 60,000 rows, softmax, ridge 1e-2; medians of 3 turns.")
    say(f"{os.cpu_count()} processors; load of the machine at the end: {os.getloadavg()[0]:.1f}.")
    say()
    say("| who | relative error | seconds | CPU seconds | times as long as dualfl |")
    say("|---|---:|---:|---:|---:|")
    first = median(wall["dualfl auto, 8 silos"])
    for name in contenders:
        times = median(wall[name])
        say(f"| {name} | {errors[name]:.1e} | {times:.1f} | {median(cpu[name]):.1f} | {times / first:.1f} |")
    say()
    last = once.history[-1]
    assert once.certificate is not None
    say(f"dualfl needed {last.exchanges} exchanges and proved {once.certificate / minimum:.1e}. {once.choice}")
    if "--save" in sys.argv:
        PLACE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
