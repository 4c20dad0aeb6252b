"""E* of problems of every kind: how accurate it is, by which method, and what it costs.

python -m benchmarks.references            # what takes seconds
python -m benchmarks.references --all      # MNIST and CIFAR-10 too; needs their files
"""

from __future__ import annotations

import sys
import time
from typing import Any

from dualfl.data import DATASETS, load, make_problem
from dualfl.optimum import find_reference

QUICK: list[tuple[str, dict[str, Any]]] = [
    ("digits", {"ridge": 1e-2}),
    ("digits", {"ridge": 1e-4}),
    ("digits", {"ridge": 1e-2, "l1": 1e-3}),
    ("diabetes", {"loss": "quantile:0.9", "ridge": 1e-2}),
    ("diabetes", {"loss": "epsilon-insensitive:5", "ridge": 1e-2, "l1": 0.1}),
    ("diabetes", {"ridge": 0.0, "l1": 1.0}),
    ("diabetes", {"ridge": 0.0}),
    ("a8a", {"ridge": 1e-4}),
    ("a8a", {"loss": "hinge", "ridge": 1e-2}),
    ("a8a", {"loss": "hinge", "ridge": 1e-4}),
    ("a8a", {"loss": "hinge", "ridge": 1e-4, "l1": 1e-3}),
]
LARGE: list[tuple[str, dict[str, Any]]] = [
    ("mnist", {"ridge": 1e-2}),
    ("mnist", {"ridge": 1e-4}),
    ("cifar10", {"ridge": 1e-2}),
    ("cifar10", {"ridge": 1e-4}),
]


def main(everything: bool) -> None:
    print(f"{'problem':<44}{'E*':>18}{'known to':>10}{'CPU s':>8}  method")
    for name, settings in QUICK + (LARGE if everything else []):
        if DATASETS[name].missing:
            print(f"{name:<44} its files are not here")
            continue
        problem = make_problem(load(name), **settings)
        started = time.process_time()
        found = find_reference(problem, cache=False)
        spent = time.process_time() - started
        words = f"{name} " + " ".join(f"{key}={value}" for key, value in settings.items())
        print(f"{words:<44}{found.energy:>18.12g}{found.accuracy:>10.0e}{spent:>8.1f}  {found.method}", flush=True)


if __name__ == "__main__":
    main("--all" in sys.argv[1:])
