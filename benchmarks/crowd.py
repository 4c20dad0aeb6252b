"""Many clients in one process: python -m benchmarks.crowd [--clients 1000,10000] [--features 1000] [--save]

Every client has 10 rows of float64 (logistic loss, ridge 1e-2, synthetic). `auto` and dualfl through `run`, five rounds
of dualfl; and the estimator with as many silos, which computes them as one. Each in a process of its own: processor
seconds, and the memory that a run takes beyond the program and the rows. One thread.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "DUALFL_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported

import numpy as np  # noqa: E402

ROWS = 10
PLACE = Path(__file__).parents[1] / "results" / "crowd.md"
METHODS = ("estimator", "dualfl", "auto", "scaffnew")


def child(N: int, d: int, how: str) -> dict[str, Any]:
    """One of them."""
    import dualfl
    from dualfl.algorithms.registry import make
    from dualfl.errors import InputError
    from dualfl.estimators import LogisticRegression
    from dualfl.objectives import LinearModel, Logistic

    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((N * ROWS, d)), rng.normal(size=d)
    y = np.where(X @ w / np.sqrt(d) + rng.logistic(size=len(X)) > 0, 1.0, -1.0)
    before, began = peak(), time.process_time()
    if how == "estimator":
        fit = LogisticRegression(C=100 / len(X), fit_intercept=False, tol=1e-6)
        fit.fit(X, y, groups=np.arange(len(X)) // ROWS)
        told = f"{fit.n_exchanges_} exchanges, proven {fit.certificate_ / fit.objective_:.0e}"
    else:
        clients = [LinearModel(X[i : i + ROWS], y[i : i + ROWS], Logistic(), 1e-2) for i in range(0, len(X), ROWS)]
        try:
            dense = how == "scaffnew"  # no certificate, so no tol
            result = dualfl.run(
                dualfl.Problem(clients), make(how), rounds=30 if how == "auto" else 5, tol=None if dense else 1e-6,
                threads=1, evaluate=not dense,
            )  # fmt: skip
            proven = "not proven" if not result.certificate else f"proven {result.certificate / result.energy:.0e}"
            told = f"{result.history[-1].exchanges} exchanges of {result.algorithm.name}, {proven}"
        except InputError as refused:
            told = f"refused: {refused}"
    return {"cpu": time.process_time() - began, "memory": peak() - before, "rows": X.nbytes, "told": told}


def peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", default="1000,10000")
    parser.add_argument("--features", type=int, default=1000)
    parser.add_argument("--methods", default=",".join(METHODS[:3]))
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(int(given.child[0]), given.features, given.child[1])))
        return
    words = " ".join(word for word in sys.argv[1:] if word != "--save")
    lines = [
        "# Many clients in one process",
        "",
        f"Printed by `python -m benchmarks.crowd {words} --save`; load of the machine: {os.getloadavg()[0]:.1f}.",
        f"Clients of {ROWS} rows x {given.features} float64, logistic, ridge 1e-2, one thread.",
        "",
        "| clients | method | CPU | memory beside rows and program | four vectors each would be | |",
        "|---:|---|---:|---:|---:|---|",
    ]
    print("\n".join(lines), flush=True)
    for N in map(int, given.clients.split(",")):
        for how in given.methods.split(","):
            command = [sys.executable, "-m", "benchmarks.crowd", "--features", str(given.features)]
            done = subprocess.run([*command, "--child", str(N), how], capture_output=True, text=True, check=False)
            dense = f"{32 * N * given.features / 1e6:,.0f} MB"
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no word"])[-1]
                lines.append(f"| {N:,} | {how} | | | {dense} | **missed:** {last} |")
            else:
                a = json.loads(done.stdout.splitlines()[-1])
                limit = "kept" if a["memory"] <= a["rows"] + 200e6 else "**missed**: rows + 200 MB"
                lines.append(
                    f"| {N:,} | {how} | {a['cpu']:.1f} s | {a['memory'] / 1e6:,.0f} MB (rows: {a['rows'] / 1e6:,.0f}) "
                    f"| {dense} | {a['told']}; {limit} |"
                )
            print(lines[-1], flush=True)
    if given.save:
        PLACE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
