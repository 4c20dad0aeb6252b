"""The smooth local solvers against SciPy's L-BFGS-B, in the same run.

    DUALFL_DATA=... python -m benchmarks.solvers [--quick] [--save]

One client from zero to |grad| <= 1e-6 (quadratics have |b| = 1), and ten local problems of one client in a row, each
shifted by the gradients of a second client and started where the one before it ended, as in a federated run.
Solvers take turns, and a time is the median over the turns of its ratio to SciPy's in the same turn. Every turn
builds its objective anew, so what a solver prepares (the Gram metric, L) is in its time. BLAS gets one thread: others
at work on the machine would blur the times of many small products. There are three turns, one on CIFAR-10;
`--quick` has one everywhere and no CIFAR-10. A pass is a sweep over the rows, however many columns it carries: the two
sweeps behind the Gram metric carry 72 and are dearer than a gradient's, which only the time shows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from dualfl import kernels
from dualfl.data import load
from dualfl.objectives import Cost, LinearModel, Logistic, Objective, Quadratic, Softmax
from dualfl.solvers import (
    AOGM,
    LBFGS,
    DampedNewton,
    GradientNorm,
    Nesterov,
    NewtonCG,
    ScipySolver,
    Solver,
    minimise,
)

COMMAND = "python -m benchmarks.solvers --save"
CAP, IN_A_ROW = 3000, 10
SCIPY = "SciPy L-BFGS-B"
SECOND_ORDER: dict[str, Solver] = {
    SCIPY: ScipySolver(),
    "LBFGS": LBFGS(),
    'LBFGS, metric="none"': LBFGS(metric="none"),
    "NewtonCG": NewtonCG(),
    'NewtonCG, metric="none"': NewtonCG(metric="none"),
}
ALL: dict[str, Solver] = SECOND_ORDER | {
    "DampedNewton": DampedNewton(),
    "AOGM": AOGM(),
    "AOGM, step 1/L": AOGM(backtracking=False),
    "Nesterov": Nesterov(),
}


class Task(NamedTuple):
    make: Callable[[], Objective]
    solvers: dict[str, Solver]
    eps: float = 1e-6
    other: Callable[[], Objective] | None = None  # the client that shifts the local problems, if several


class Outcome(NamedTuple):
    seconds: float
    cost: Cost
    reached: bool


def client(name: str, rows: int, ridge: float, dtype: type | None = None, skip: int = 0) -> Callable[[], Objective]:
    data = load(name)
    X, y, scale = data.X[skip : skip + rows], data.y[skip : skip + rows], data.scale
    if dtype is not None:
        X, scale = X.astype(dtype) * scale, 1.0
    if (k := len(data.classes)) > 2:
        return lambda: LinearModel(X, y, Softmax(k), ridge, intercept=True, scale=scale)
    signs = np.where(np.asarray(y) > 0, 1, -1)
    return lambda: LinearModel(X, signs, Logistic(), ridge, intercept=True, scale=scale)


def quadratic(kappa: float, d: int = 100) -> Callable[[], Objective]:
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    A = Q @ np.diag(np.geomspace(1 / kappa, 1, d)) @ Q.T
    b = rng.standard_normal(d)
    return lambda: Quadratic((A + A.T) / 2, b / np.linalg.norm(b))


def tasks(quick: bool) -> dict[str, Task]:
    found = {
        "MNIST client, 7,500 rows, float64, ridge 1e-2": Task(client("mnist", 7500, 1e-2, np.float64), ALL),
        "MNIST client, uint8, ten local problems to 1e-4": Task(
            client("mnist", 7500, 1e-2), SECOND_ORDER, 1e-4, client("mnist", 7500, 1e-2, skip=7500)
        ),
        "a8a, ridge 1e-4": Task(client("a8a", 22_696, 1e-4), ALL),
        "a8a, ridge 1e-6": Task(client("a8a", 22_696, 1e-6), ALL),
        "digits, ridge 1e-2": Task(client("digits", 1797, 1e-2), ALL),
        "digits, ridge 1e-5": Task(client("digits", 1797, 1e-5), ALL),
        "quadratic, d = 100, kappa 1e2": Task(quadratic(1e2), ALL),
        "quadratic, d = 100, kappa 1e4": Task(quadratic(1e4), ALL),
        "quadratic, d = 100, kappa 1e6": Task(quadratic(1e6), ALL),
    }
    if not quick:
        cifar = Task(client("cifar10", 6250, 1e-2), SECOND_ORDER)
        found["CIFAR-10 client, 6,250 rows, uint8, ridge 1e-2"] = cifar
    return found


def run(task: Task, solver: Solver) -> Outcome:
    f = task.make()
    other = None if task.other is None else task.other()
    c, x, reached = np.zeros(f.d), np.zeros(f.d), True
    begin = time.perf_counter()
    for _ in range(1 if other is None else IN_A_ROW):
        solution = minimise(f, c=c, warm=x, solver=solver, stop=GradientNorm(task.eps, cap=CAP))
        x, reached = solution.x, reached and not solution.capped
        if other is not None:
            c = (f.fresh().gradient(x) - other.gradient(x)) / 2  # what two clients would shift their costs by
    return Outcome(time.perf_counter() - begin, f.cost, reached)


def measure(task: Task, turns: int) -> dict[str, tuple[Outcome, float]]:
    times: dict[str, list[float]] = {name: [] for name in task.solvers}
    last: dict[str, Outcome] = {}
    for _ in range(turns):
        for name, solver in task.solvers.items():
            last[name] = run(task, solver)
            times[name].append(last[name].seconds)
    ratios = {name: float(np.median(np.divide(times[name], times[SCIPY]))) for name in task.solvers}
    return {name: (last[name], ratios[name]) for name in task.solvers}


def table(title: str, outcomes: dict[str, tuple[Outcome, float]]) -> str:
    lines = [
        f"### {title}\n",
        "| solver | passes | gradients | Hessian products | time / SciPy |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, (outcome, ratio) in outcomes.items():
        note, cost = "" if outcome.reached else " (not reached)", outcome.cost
        work = f"{cost.passes:,.0f} | {cost.gradients:,.0f} | {cost.hessian_products:,.0f}"
        lines.append(f"| {name}{note} | {work} | {ratio:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    threadpool_limits(1)
    parts = [f"Local solvers, from zero to |grad| <= 1e-6 unless said otherwise; {kernels.describe()}\n"]
    for title, task in tasks(quick).items():
        print(f"{title} ...", file=sys.stderr)
        parts.append(table(title, measure(task, 1 if quick or "CIFAR" in title else 3)))
        print(parts[-1], flush=True)
    if "--save" in sys.argv[1:]:
        Path("results").mkdir(exist_ok=True)
        Path("results/solvers.md").write_text(f"`{COMMAND}`\n\n" + "\n".join(parts))


if __name__ == "__main__":
    main()
