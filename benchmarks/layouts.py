"""Dense or sparse rows: the time of one gradient of a softmax model, on the sets that are there.

python -m benchmarks.layouts
"""

from __future__ import annotations

import time

import numpy as np

from dualfl import kernels
from dualfl.data import DATASETS, load, make_problem

REPEATS = 20


def milliseconds(name: str, layout: str) -> tuple[float, float]:
    """(the best time of a gradient on a tenth of the rows, megabytes of these rows)."""
    problem = make_problem(load(name, layout=layout), clients=10)
    f = problem.clients[0]
    best = np.inf
    for repeat in range(REPEATS):
        x = np.cos(np.arange(f.d) + repeat) / 100
        began = time.perf_counter()
        f.value_gradient(x)
        best = min(best, time.perf_counter() - began)
    return 1e3 * best, f.design.nbytes / 1e6


def main() -> None:
    print(kernels.describe())
    print(f"{'data set':<16}{'not zero':>10}{'dense':>12}{'sparse':>12}{'dense':>12}{'sparse':>12}")
    for name, entry in DATASETS.items():
        if entry.missing:
            print(f"{name:<16}missing: {entry.missing[0]}")
            continue
        share = load(name, layout="sparse").X.nnz / (entry.rows * entry.features)
        (dense, dense_mb), (sparse, sparse_mb) = milliseconds(name, "dense"), milliseconds(name, "sparse")
        print(f"{name:<16}{share:>10.0%}{dense:>9.2f} ms{sparse:>9.2f} ms{dense_mb:>9.2f} MB{sparse_mb:>9.2f} MB")


if __name__ == "__main__":
    main()
