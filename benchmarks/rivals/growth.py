"""How time and memory grow: with columns, classes, clients and rows. Each fit runs in a process of its own.

python -m benchmarks.rivals.growth CELL PROGRAM        one of them, as a line of JSON
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.rivals import energies
from benchmarks.rivals.contest import TRUE_ERROR, Model, model_of, relative

SECONDS, GIGABYTES = 240, 8
SPARE = 200e6  # bytes beyond twice the data
MANY = 100_000
DOUBLE = ", float64"


@dataclass
class Cell:
    """One problem, made afresh in every process."""

    name: str
    make: Callable[[], tuple[Any, np.ndarray]]
    loss: Any
    ridge: float = 0.0
    l1: float = 0.0
    silos: int = 8
    programs: tuple[str, ...] = ("dualfl auto", "dualfl lbfgs", "liblinear", "scikit-learn lbfgs")
    intercept: bool = False


def words(d: int, n: int = 50_000, length: int = 50) -> tuple[Any, np.ndarray]:
    """Rows of words whose frequencies fall as in a text, and two classes that some words tell apart."""
    rng = np.random.default_rng(0)
    column = np.minimum((d ** rng.random((n, length))).astype(np.int64) - 1, d - 1)
    rows = np.repeat(np.arange(n), length)
    X = sparse.csr_array((np.ones(n * length), (rows, column.ravel())), shape=(n, d))
    X.sum_duplicates()
    X.data = np.log1p(X.data)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    w = rng.normal(size=d) * (rng.random(d) < 0.2)
    z = X @ w
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-z / z.std())), 1.0, -1.0)


def classes(d: int, k: int, n: int = 10_000, kind: Any = np.float64) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(k, d)).astype(kind)
    y = rng.integers(0, k, size=n)
    y[:k] = np.arange(k)  # every class has a row
    X = rng.standard_normal((n, d), dtype=np.float32).astype(kind, copy=False)
    X *= 3
    X += centres[y]
    return X, y.astype(float)


def table(n: int, d: int = 100) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.where(X @ rng.normal(size=d) + 2 * rng.normal(size=n) > 0, 1.0, -1.0)


WIDE = ("dualfl auto", "liblinear", "scikit-learn lbfgs")
SPARSE_L1 = ("dualfl auto", "liblinear", "skglm", "celer")
CLASSES = ("dualfl auto", "scikit-learn lbfgs")
TALL = ("dualfl auto", "scikit-learn lbfgs", "scikit-learn newton-cholesky")

CELLS: dict[str, Cell] = {}
for exponent in (4, 5, 6):
    d = 10**exponent
    CELLS[f"words-{exponent}"] = Cell(
        f"50,000 rows of 50 words, l2, d = {d:,}", lambda d=d: words(d), energies.logistic, 2e-5, programs=WIDE
    )
    CELLS[f"words-l1-{exponent}"] = Cell(
        f"the same, l1, d = {d:,}", lambda d=d: words(d), energies.logistic, l1=1e-4, programs=SPARSE_L1
    )
for k in (10, 100, 1000):
    CELLS[f"classes-{k}"] = Cell(
        f"softmax, 10,000 x 500, {k} classes", lambda k=k: classes(500, k), energies.softmax, 1e-3, programs=CLASSES
    )
CELLS["probe"] = Cell(
    "a linear probe: 100,000 x 768 float32, 100 classes",
    lambda: classes(768, 100, 100_000, np.float32),
    energies.softmax,
    1e-3,
    programs=(*CLASSES, f"scikit-learn lbfgs{DOUBLE}"),
)
for n in (60_000, 240_000, 960_000):
    CELLS[f"rows-{n // 1000}k"] = Cell(
        f"{n:,} x 100", lambda n=n: table(n), energies.logistic, 1e-4, programs=TALL, intercept=True
    )


# -- the programs ---------------------------------------------------------------------------------------------


def program(name: str, cell: Cell, X: Any, y: np.ndarray, tol: float) -> Model:
    who, _, how = name.partition(" ")
    n = X.shape[0]
    penalty: dict[str, Any] = {"C": 1 / (n * (cell.l1 or cell.ridge)), "l1_ratio": float(cell.l1 > 0)}
    if who == "dualfl":
        from dualfl.estimators import LogisticRegression

        groups = np.arange(n) * cell.silos // n
        model = LogisticRegression(**penalty, fit_intercept=cell.intercept, algorithm=how, tol=tol, max_iter=1000)
        model.fit(X, y, groups=groups)
        floats = model.history_[-1].floats_up / cell.silos / model.coef_.size
        proven = "not proven" if model.certificate_ is None else f"proven {model.certificate_ / model.objective_:.0e}"
        return model_of(model, f"{model.n_exchanges_} exchanges, {floats:,.0f} d floats, {proven}")
    if who == "skglm":
        import skglm

        return model_of(skglm.SparseLogisticRegression(cell.l1, tol=tol, fit_intercept=False).fit(X.tocsc(), y))
    if who == "celer":
        import celer

        return model_of(celer.LogisticRegression(1 / (n * cell.l1), tol=tol).fit(X.tocsc(), y))
    from sklearn.linear_model import LogisticRegression as Theirs

    solver = "liblinear" if who == "liblinear" else how.removesuffix(DOUBLE)
    X = sparse.csr_matrix(X) if sparse.issparse(X) else X
    X = X.astype(np.float64) if how.endswith(DOUBLE) else X  # scikit-learn's lbfgs computes in the type that X has
    return model_of(Theirs(**penalty, solver=solver, tol=tol, max_iter=MANY, fit_intercept=cell.intercept).fit(X, y))


TOLS = {"dualfl": (1e-6,), "liblinear": (1e-2, 1e-3, 1e-4, 1e-5), "": (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)}


def memory(field: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at most. Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def child(key: str, name: str, tol: float) -> None:
    """One fit, told as JSON."""
    warnings.simplefilter("ignore")
    cell = CELLS[key]
    import sklearn.linear_model  # noqa: F401 (before memory is measured)

    import dualfl.estimators.classifiers  # noqa: F401

    if name in ("skglm", "celer"):  # what numba compiles is not counted
        few, labels = words(100, n=200)
        program(name, cell, few, labels, 1e-2)
    X, y = cell.make()
    stored = sum(a.nbytes for a in ((X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)))
    before = memory("VmRSS") - stored  # of the program itself
    Path("/proc/self/clear_refs").write_text("5")  # the peak of what came before, imports and all, is forgotten
    began, wall = time.process_time(), time.perf_counter()
    model = program(name, cell, X, y, tol)
    cpu, wall = time.process_time() - began, time.perf_counter() - wall
    peak = memory("VmHWM")
    E = energies.energy(X, y, cell.loss, cell.ridge, cell.l1)(model)
    print(
        json.dumps(
            {
                "E": E,
                "cpu": cpu,
                "wall": wall,
                "told": model.told,
                "stored": stored,
                "peak": peak - before,
            }
        )
    )


def one(key: str, name: str, tol: float) -> dict[str, Any]:
    """A child's answer, or why there is none."""
    bytes_allowed = GIGABYTES * 2**30

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (bytes_allowed, bytes_allowed))

    command = [sys.executable, "-m", "benchmarks.rivals.growth", key, name, str(tol)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, preexec_fn=limited, env=os.environ, check=False
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {SECONDS} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        return {"failed": last[:160]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def grow(key: str) -> list[str]:
    """The lines of one cell: every program at the loosest tolerance that reaches the error."""
    cell = CELLS[key]
    found: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    for name in cell.programs:
        tols = TOLS.get(name.partition(" ")[0], TOLS[""])
        found[name] = []
        for tol in tols:
            answer = one(key, name, tol)
            found[name].append((tol, answer))
            least = min((a["E"] for answers in found.values() for _, a in answers if "E" in a), default=np.nan)
            if "failed" in answer or relative(answer["E"], least) <= 0.1 * TRUE_ERROR:
                break
    least = min((a["E"] for answers in found.values() for _, a in answers if "E" in a), default=np.nan)
    chosen = {}
    for name, answers in found.items():
        good = [(t, a) for t, a in answers if "E" in a and relative(a["E"], least) <= TRUE_ERROR]
        chosen[name] = good[0] if good else answers[-1]
    times = [
        a["cpu"]
        for name, (_, a) in chosen.items()
        if not name.startswith("dualfl") and "E" in a and relative(a["E"], least) <= TRUE_ERROR
    ]
    best = min(times, default=np.nan)
    return [line(cell.name, name, tol, answer, least, best) for name, (tol, answer) in chosen.items()]


def line(cell: str, name: str, tol: float, a: dict[str, Any], least: float, best: float) -> str:
    if "failed" in a:
        return f"| {cell} | {name} | {tol:.0e} | | | | | **missed:** {a['failed']} |"
    error, ratio = relative(a["E"], least), a["cpu"] / best
    told = a["told"]
    if name == "dualfl auto":
        faults = []
        if not error <= TRUE_ERROR:
            faults.append("the true error")
        if not ratio <= 3:
            faults.append("at most 3 times the best" if np.isfinite(ratio) else "no rival reached the error")
        if a["peak"] > 2 * a["stored"] + SPARE:
            faults.append("memory")
        told += "; **missed:** " + ", ".join(faults) if faults else "; kept"
    return (
        f"| {cell} | {name} | {tol:.0e} | {error:.0e} | {a['cpu']:.2f} s | {ratio:.2g} "
        f"| {a['peak'] / 1e6:,.0f} MB ({a['stored'] / 1e6:,.0f} of data) | {told} |"
    )


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2], float(sys.argv[3]))
