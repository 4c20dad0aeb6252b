"""DualFL on MNIST: how much local accuracy does it need?

    DUALFL_DATA=... python -m benchmarks.dualfl [--save]

8 clients in file order, ridge 1e-2, pixels/255, rho = 0; rounds and local gradients to relative error 1e-6 with the
default rule (the smaller threshold of the two theorems), with exact local solves, and with the paper's rule (AOGM until
the relative energy difference is 1e-12).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from dualfl.algorithms import DualFL
from dualfl.data import load, make_problem
from dualfl.engines import Result, run
from dualfl.optimum import reference
from dualfl.solvers import AOGM

COMMAND = "python -m benchmarks.dualfl --save"
LEVEL, MOST = 1e-6, 60
RULES = {
    "default rule": (DualFL(rho=0.0), None),
    "exact solves": (DualFL(rho=0.0, accuracy="exact"), None),
    "the paper's rule, AOGM": (DualFL(rho=0.0, accuracy="energy"), AOGM()),
}


def measure() -> dict[str, Result]:
    data = load("mnist")
    star = reference(make_problem(data))
    results = {}
    for name, (algorithm, solver) in RULES.items():
        print(f"{name} ...", file=sys.stderr)
        problem = make_problem(data, solver=solver)
        results[name] = run(
            problem,
            algorithm,
            rounds=MOST,
            reference=star,
            progress=True,
            stop=lambda row, theta: row.relative_error is not None and row.relative_error <= LEVEL,
        )
    return results


def table(results: dict[str, Result]) -> str:
    paper = results["the paper's rule, AOGM"].history[-1].local_gradients
    exact = results["exact solves"].history.rounds_to(LEVEL)
    lines = [
        "| local rule | rounds to 1e-6 | to exact | local gradients | to the paper's | error after 1, 10, 20, 30 |",
        "|---|---|---|---|---|---|",
    ]
    for name, result in results.items():
        rounds, gradients = result.history.rounds_to(LEVEL), result.history[-1].local_gradients
        errors = result.history.column("relative_error")
        shown = ", ".join(f"{errors[n]:.1e}" if n < len(errors) else "-" for n in (1, 10, 20, 30))
        lines.append(
            f"| {name} | {rounds:g} | {rounds / exact:.2f} | {gradients:,.0f} | {gradients / paper:.2f} | {shown} |"
        )
    return "\n".join(lines)


def verdicts(results: dict[str, Result]) -> str:
    """The two figures to reach, and whether they are."""
    mine = results["default rule"].history
    rounds = mine.rounds_to(LEVEL) / results["exact solves"].history.rounds_to(LEVEL)
    work = mine[-1].local_gradients / results["the paper's rule, AOGM"].history[-1].local_gradients
    return "\n".join(
        [
            f"- rounds against exact solves: {rounds:.2f}, wanted at most 1.15: {word(rounds <= 1.15)}",
            f"- local gradients against the paper's rule: {work:.2f}, wanted at most 0.33: {word(work <= 1 / 3)}",
        ]
    )


def word(ok: bool) -> str:
    return "reached" if ok else "MISSED"


def main() -> None:
    results = measure()
    text = f"DualFL on MNIST, 8 clients in file order, ridge 1e-2, rho = 0\n\n{table(results)}\n\n{verdicts(results)}\n"
    print(text)
    if "--save" in sys.argv[1:]:
        Path("results").mkdir(exist_ok=True)
        Path("results/dualfl-accuracy.md").write_text(f"`{COMMAND}`\n\n{text}")
    if not np.isfinite(results["default rule"].history.rounds_to(LEVEL)):
        sys.exit(1)


if __name__ == "__main__":
    main()
