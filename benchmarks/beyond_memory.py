"""Rows on disk, more than memory holds: a fit and its second-order sums within a stated memory.

    python -m benchmarks.beyond_memory [--gigabytes 20] [--memory 4] [--columns 256] [--folder DIR] [--save]

Rows of float32 are made on disk, in FOLDER, and deleted afterwards. The fit runs in a process of its own that may take
so many gigabytes of address space (RLIMIT_AS): more, and it fails. Two silos, logistic loss with ridge 1e-3, `auto`:
second-order sums over all rows at every exchange, to a proven 1e-6. One thread.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "DUALFL_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported

import numpy as np  # noqa: E402

SILOS = 2
PLACE = Path(__file__).parents[1] / "results" / "beyond-memory.md"


def write(folder: Path, gigabytes: float, columns: int) -> int:
    """Rows and targets of every silo; how many rows there are."""
    n = int(gigabytes * 1e9 / (4 * columns * SILOS))
    rng = np.random.default_rng(0)
    theta = (rng.normal(size=columns) / np.sqrt(columns)).astype(np.float32)
    base = rng.standard_normal((1 << 15, columns), dtype=np.float32)
    block = np.empty_like(base)
    for j in range(SILOS):
        with open(folder / f"{j}.npy", "wb") as file:
            head = {"descr": "<f4", "fortran_order": False, "shape": (n, columns)}
            np.lib.format.write_array_header_2_0(file, head)
            targets = np.empty(n, dtype=np.int8)
            for first in range(0, n, len(base)):
                # one block, its rows scaled anew: as many different rows at the price of a copy
                part, t = block[: n - first], targets[first : first + len(base)]
                np.multiply(base[: len(part)], rng.uniform(0.5, 1.5, (len(part), 1)).astype(np.float32), out=part)
                file.write(part.data)
                t[:] = np.where(part @ theta + rng.logistic(size=len(part)) > 0, 1, -1)
        np.save(folder / f"{j}-y.npy", targets)
    return SILOS * n


def child(folder: Path) -> None:
    """The fit, told as JSON."""
    import dualfl
    from dualfl.algorithms import Auto
    from dualfl.kernels import RowsOnDisk
    from dualfl.objectives import LinearModel, Logistic

    began, wall = time.process_time(), time.perf_counter()
    clients = [
        LinearModel(RowsOnDisk(folder / f"{j}.npy"), np.load(folder / f"{j}-y.npy").astype(float), Logistic(), 1e-3)
        for j in range(SILOS)
    ]
    result = dualfl.run(dualfl.Problem(clients), Auto(cost="time"), rounds=30, tol=1e-6, threads=1)
    status = Path("/proc/self/status").read_text().splitlines()
    told = {
        "chosen": result.choice,
        "exchanges": result.history[-1].exchanges,
        "proven": result.certificate / result.energy if result.certificate is not None else None,
        "cpu": time.process_time() - began,
        "wall": time.perf_counter() - wall,
        "peak": 1024 * int(next(line for line in status if line.startswith("VmHWM")).split()[1]),
        "passes": sum(f.cost.passes for f in clients) / SILOS,
    }
    print(json.dumps(told))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--memory", type=float, default=4.0)
    parser.add_argument("--columns", type=int, default=256)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        child(given.child)
        return
    allowed = int(given.memory * 1e9)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        began = time.perf_counter()
        rows = write(Path(name), given.gigabytes, given.columns)
        made = time.perf_counter() - began
        print(f"{rows:,} rows of {given.columns} float32 are on disk after {made:.0f} s", file=sys.stderr, flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.beyond_memory", "--child", name],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed)),
        )
    if done.returncode:
        raise SystemExit(f"missed: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    told = json.loads(done.stdout.splitlines()[-1])
    proven = "nothing" if told["proven"] is None else f"{told['proven']:.0e}"
    text = "\n".join(
        [
            "# Rows that are larger than memory",
            "",
            f"Printed by `python -m benchmarks.beyond_memory --gigabytes {given.gigabytes:g} --memory {given.memory:g} "
            f"--columns {given.columns} --save`; load of the machine at the end: {os.getloadavg()[0]:.1f}.",
            "",
            f"* {rows:,} rows of {given.columns} float32 in {SILOS} files, {given.gigabytes:g} GB; "
            f"address space allowed: {given.memory:g} GB",
            f"* {told['chosen']}",
            f"* {told['exchanges']} exchanges, proven {proven}; peak of resident memory {told['peak'] / 1e9:.2f} GB",
            f"* {told['cpu']:.0f} s of one processor, {told['wall']:.0f} s of the clock",
            "",
        ]
    )
    print(text)
    if given.save:
        PLACE.write_text(text)


if __name__ == "__main__":
    main()
