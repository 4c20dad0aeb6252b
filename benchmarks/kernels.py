"""How fast the kernels are, against plain NumPy and against the machine, all measured in the same run.

    python -m benchmarks.kernels              prints the tables
    python -m benchmarks.kernels --save       writes them to results/kernels.md too
    python -m benchmarks.kernels sums --save  one part of tiny, sums, mnist, cifar; to a file of its own
    python -m benchmarks.kernels --one        one thread each, and its CPU time: ratios that hold on a busy machine

MNIST and CIFAR-10 are read from the folder that DUALFL_DATA names; what is absent is said and left out. Contenders take
turns of a quarter of a second, and a time is that of the quickest turn: what others do on the machine only adds to it.
The limits are a plain read of a large array and multiply-adds in registers, on all threads. For sparse rows there is a
third: a bare loop in C that reads what the two products must gather, from the same places in the same order, and adds it
up: no values, no multiplications, no losses. What a machine allows is the slowest of the three.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from dualfl import kernels
from dualfl.data import load
from dualfl.errors import InputError
from dualfl.kernels import Design, _native

CLASSES = 10
TURN = 0.25  # seconds
GROUP = 256  # rows that go back to the gradient together, as in kernels.h
ROUNDS = 4  # of a bare loop, which looks at its places once before
PLACE = Path(__file__).parents[1] / "results" / "kernels.md"


class Loss(NamedTuple):
    code: int
    parameter: float = 0.0


SOFTMAX, LOGISTIC = Loss(0), Loss(1)
ONE = "--one" in sys.argv[1:]
clock = time.thread_time if ONE else time.perf_counter
lines: list[str] = []


def say(text: str = "") -> None:
    print(text, flush=True)
    lines.append(text)


def table(head: str, rows: list[str]) -> None:
    say(head)
    say("|---" + "|---:" * (head.count("|") - 2) + "|")
    for row in rows:
        say(row)
    say()


def quickest(contenders: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Seconds; the contenders take turns, so that a busy moment of the machine hits all of them.

    Before each there is a pause and a call that is not timed: the threads of a BLAS go on spinning for some tens of
    milliseconds after a product, and would take a processor from whoever comes next. A turn is as many calls as fit
    into TURN seconds, as a solver makes them: a processor that has slept takes some ten milliseconds to be itself. A
    call that takes longer than that is a turn by itself, also the first.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(turns):
        for name, call in contenders.items():
            time.sleep(0.1)
            start = clock()
            call()
            now = clock()
            if now - start > TURN:
                times[name].append(now - start)
                continue
            start, calls = now, 0
            while now - start < TURN:
                call()
                calls, now = calls + 1, clock()
            times[name].append((now - start) / calls)
    return {name: min(seen) for name, seen in times.items()}


class Limits(NamedTuple):
    read: float  # bytes a second
    fma: float  # operations a second


def limits() -> Limits:
    """What this machine reads and multiplies at best, on all threads."""
    count = kernels.get_threads()
    parts = np.array_split(np.ones(1 << 26), count)
    rounds = 4_000_000
    with ThreadPoolExecutor(count) as pool:
        each = map if ONE else pool.map
        t = quickest(
            {
                "read": lambda: list(each(_native.read_loop, parts)),
                "fma": lambda: list(each(_native.fma_loop, [rounds] * count)),
            },
            7,
        )
    operations = count * _native.fma_loop(1) * rounds
    return Limits(sum(part.nbytes for part in parts) / t["read"], operations / t["fma"])


class NumPySoftmax:
    """The plain way: two matrix products with the whole float64 matrix, and the formulas between them."""

    def __init__(self, X: np.ndarray, y: np.ndarray, s: np.ndarray) -> None:
        self.X, self.s, self.rows, self.label = X, s[:, None], np.arange(len(y)), y.astype(np.intp)

    def predict(self, W: np.ndarray) -> np.ndarray:
        return self.X @ W[:-1] + W[-1]

    def back(self, R: np.ndarray) -> np.ndarray:
        return np.vstack([self.X.T @ R, R.sum(axis=0)])

    def probabilities(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        top = Z.max(axis=1, keepdims=True)
        p = np.exp(Z - top)
        total = p.sum(axis=1, keepdims=True)
        own = Z[self.rows, self.label][:, None]
        return p / total, np.log(total) + top - own

    def residual(self, Z: np.ndarray) -> tuple[float, np.ndarray]:
        p, values = self.probabilities(Z)
        p[self.rows, self.label] -= 1.0
        return float(np.sum(self.s * values)), self.s * p

    def value_gradient(self, W: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        Z = self.predict(W)
        value, R = self.residual(Z)
        return value, self.back(R), Z

    def hessian_times(self, V: np.ndarray, Z: np.ndarray) -> np.ndarray:
        P, p = self.predict(V), self.probabilities(Z)[0]
        return self.back(self.s * p * (P - np.sum(p * P, axis=1, keepdims=True)))

    def ray(self, Z: np.ndarray, P: np.ndarray, steps: list[float]) -> list[tuple[float, float]]:
        results = [self.residual(Z + t * P) for t in steps]
        return [(value, float(np.vdot(R, P))) for value, R in results]


def flops(design: Design) -> int:
    """Of value and gradient: a multiply-add forward and one backward for each entry and class."""
    return 4 * CLASSES * int(design.X.nnz if sparse.issparse(design.X) else design.X.size)


def moved(design: Design) -> int:
    """Bytes: the rows once, y and s, and the predictors."""
    return design.nbytes + 8 * design.n * (CLASSES + 2)


def lines_of(X: sparse.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What both products gather: the columns of each row, and the rows of each column within groups of GROUP rows."""
    groups = [X[first : first + GROUP].tocsc() for first in range(0, X.shape[0], GROUP)]
    rows = np.concatenate([part.indices + GROUP * i for i, part in enumerate(groups)])
    lengths = np.concatenate([np.diff(part.indptr) for part in groups])
    ends = np.concatenate([[0], np.cumsum(lengths)])
    columns = X.indices.astype(np.int32)
    return columns, X.indptr.astype(np.int64), rows.astype(np.int32), ends.astype(np.int64)


def gathering(design: Design) -> float:
    """Seconds of a bare loop that gathers what value and gradient of sparse rows must, on all threads."""
    lanes = int(_native.fma_loop(1)) // 24
    width = -(-CLASSES // lanes) * lanes
    count, n = kernels.get_threads(), design.n
    cuts = np.linspace(0, n, count + 1).astype(int)
    W, Z = np.ones((design.D, width)), np.ones((-(-n // count) + GROUP, width))
    parts = [lines_of(design.X[first:last]) for first, last in zip(cuts[:-1], cuts[1:])]

    def one(part: tuple[np.ndarray, ...]) -> None:
        columns, starts, rows, ends = part
        _native.gather_loop(columns, starts, W, CLASSES, ROUNDS)
        _native.gather_loop(rows, ends, Z, CLASSES, ROUNDS)

    with ThreadPoolExecutor(count) as pool:
        each = map if ONE else pool.map
        return quickest({"gather": lambda: list(each(one, parts))}, 5)["gather"] / ROUNDS


def check(design: Design, W: np.ndarray, y: np.ndarray, s: np.ndarray, plain: NumPySoftmax) -> None:
    """A fast wrong answer is no answer."""
    value, G, _ = design.value_gradient(W, SOFTMAX, y, s)
    expected, H, _ = plain.value_gradient(W)
    tolerance = 1e-6 if design.X.dtype == np.float32 else 1e-10
    assert abs(value - expected) < tolerance and np.max(np.abs(G - H)) < tolerance * np.max(np.abs(H))


def folded(design: Design) -> Design:
    """The same nonzeros, their columns folded onto 64: W and G now fit the first cache."""
    X = design.X
    parts = X.data, X.indices % 64, X.indptr
    return Design(sparse.csr_array(parts, shape=X.shape), scale=design.scale, intercept=design.intercept)


def account(name: str, design: Design, W: np.ndarray, y: np.ndarray, s: np.ndarray, limit: Limits, turns: int) -> str:
    """Where the time goes, in measured numbers only: the two floors, and the parts of a pass, each alone."""
    Z = design.forward(W)
    contenders: dict[str, Callable[[], object]] = {
        "together": lambda: design.value_gradient(W, SOFTMAX, y, s),
        "forward": lambda: design.forward(W),
        "losses": lambda: kernels.residual(SOFTMAX, Z, y, s),
        "backward": lambda: design.backward(Z),
    }
    if sparse.issparse(design.X):
        small = folded(design)
        contenders["with W and G in the first cache"] = lambda: small.value_gradient(W, SOFTMAX, y, s)
    t = quickest(contenders, turns)
    floors = 1e3 * flops(design) / limit.fma, 1e3 * moved(design) / limit.read
    told = ", ".join(f"{part} {1e3 * seconds:.1f}" for part, seconds in t.items())
    return f"- {name}, ms: multiply-adds alone would take {floors[0]:.1f}, reading alone {floors[1]:.1f}; {told}."


def report(
    title: str, pixels: np.ndarray, labels: np.ndarray, layouts: dict[str, Design], limit: Limits, turns: int
) -> None:
    """One data set: value and gradient for every layout, then the Hessian product and a ray for the first."""
    rng = np.random.default_rng(0)
    n, y = len(labels), labels.astype(float)
    s = np.full(n, 1 / n)
    plain = NumPySoftmax(pixels / 255.0, y, s)
    W = 0.01 * rng.normal(size=(pixels.shape[1] + 1, CLASSES))
    for design in layouts.values():
        check(design, W, y, s, plain)

    def pass_over(design: Design) -> Callable[[], object]:
        return lambda: design.value_gradient(W, SOFTMAX, y, s)

    contenders: dict[str, Callable[[], object]] = {"NumPy, dense float64": lambda: plain.value_gradient(W)}
    contenders |= {name: pass_over(design) for name, design in layouts.items()}
    t = quickest(contenders, turns)
    base = t["NumPy, dense float64"]
    rows = [f"| NumPy, dense float64 | {1e3 * base:.1f} | 1.0 | | | | | |"]
    for name, design in layouts.items():
        gathers = gathering(design) if sparse.issparse(design.X) else 0.0
        allowed = max(gathers, flops(design) / limit.fma, moved(design) / limit.read)
        bytes_a_second, flops_a_second = moved(design) / t[name], flops(design) / t[name]
        rows.append(
            f"| {name} | {1e3 * t[name]:.1f} | **{base / t[name]:.1f}** "
            f"| {bytes_a_second / 1e9:.1f} | {bytes_a_second / limit.read:.0%} "
            f"| {flops_a_second / 1e9:.1f} | {flops_a_second / limit.fma:.0%} "
            f"| {allowed / t[name]:.0%}{f' (gathers alone: {1e3 * gathers:.1f} ms)' if gathers else ''} |"
        )
    say(f"### {title}: value and gradient")
    say()
    head = "| layout | ms | times faster | GB/s | of a plain read | GFLOP/s | of the FMA peak | of what is allowed |"
    table(head, rows)
    for name, design in layouts.items():
        say(account(name, design, W, y, s, limit, turns))
    say()
    say(f"### {title}: a Hessian product, and a ray with 4 steps")
    say()
    Z, V = plain.predict(W), rng.normal(size=W.shape)
    P, steps = plain.predict(V), [0.25, 0.5, 1.0, 2.0]
    name, design = next(iter(layouts.items()))
    t = quickest(
        {
            "Hn": lambda: plain.hessian_times(V, Z),
            "Ho": lambda: design.hessian_times(V, SOFTMAX, Z, y, s),
            "rn": lambda: plain.ray(Z, P, steps),
            "ro": lambda: kernels.ray(SOFTMAX, Z, P, steps, y, s),
        },
        turns,
    )
    rows = [
        f"| Hessian product, {name} | {1e3 * t['Hn']:.1f} | {1e3 * t['Ho']:.1f} | **{t['Hn'] / t['Ho']:.1f}** |",
        f"| ray (no pass over the rows) | {1e3 * t['rn']:.1f} | {1e3 * t['ro']:.1f} | **{t['rn'] / t['ro']:.1f}** |",
    ]
    table("| what | NumPy ms | ours ms | times faster |", rows)


def mnist(limit: Limits) -> None:
    data = load("mnist", layout="dense")
    X, y = data.X, data.y
    layouts = {
        "ours, CSR float64": Design(sparse.csr_array(X / 255.0), intercept=True),
        "ours, CSR uint8": Design(sparse.csr_array(X), scale=1 / 255, intercept=True),
        "ours, dense float64": Design(X / 255.0, intercept=True),
        "ours, dense uint8": Design(X, scale=1 / 255, intercept=True),
    }
    report("MNIST, 60,000 x 784 + intercept, 10 classes", X, y, layouts, limit, 15)


def cifar(limit: Limits) -> None:
    data = load("cifar10", layout="dense")
    X, y = data.X, data.y
    layouts = {
        "ours, float64": Design(X / 255.0, intercept=True),
        "ours, float32": Design((X / 255.0).astype(np.float32), intercept=True),
        "ours, uint8": Design(X, scale=1 / 255, intercept=True),
    }
    report("CIFAR-10, 50,000 x 3,072 + intercept, 10 classes", X, y, layouts, limit, 7)


def tiny(limit: Limits) -> None:
    """A client of 200 rows, as a simulation has a thousand: what counts is the cost of the call itself."""
    rng = np.random.default_rng(0)
    X, y, s, W = (
        rng.normal(size=(200, 20)),
        np.sign(rng.normal(size=200)),
        np.full(200, 1 / 200),
        rng.normal(size=(21, 1)),
    )

    def plain() -> tuple[float, np.ndarray]:
        m = y * (X @ W[:-1, 0] + W[-1, 0])
        r = -s * y / (1.0 + np.exp(m))
        return float(s @ np.logaddexp(0.0, -m)), np.append(X.T @ r, r.sum())

    design, repeats = Design(X, intercept=True), 500
    t = quickest(
        {
            "NumPy": lambda: [plain() for _ in range(repeats)],
            "ours": lambda: [design.value_gradient(W, LOGISTIC, y, s) for _ in range(repeats)],
        },
        21,
    )
    say("### Tiny, 200 x 20 + intercept, logistic: value and gradient")
    say()
    rows = [f"| {name} | {1e6 * t[name] / repeats:.1f} | {t['NumPy'] / t[name]:.1f} |" for name in t]
    table("| who | microseconds a call | times faster |", rows)


def sums(limit: Limits) -> None:
    """Second-order sums X'WX: of the multiply-adds of the upper triangle, which share of the peak."""
    rng = np.random.default_rng(0)
    say("### Second-order sums of dense rows, and of sparse ones")
    say()
    rows = []
    for n, d in ((20_000, 50), (10_000, 200), (4_000, 784)):
        X = rng.normal(size=(n, d))
        designs = {"float64": Design(X), "float32": Design(X.astype(np.float32))}
        designs["bytes"] = Design(rng.integers(0, 256, size=(n, d), dtype=np.uint8))
        for kind, design in designs.items():
            for many in (1, 4) if kind == "float64" else (1,):
                rows.append(sums_of(f"{n:,} x {d:,}, {kind}", design, rng.random((n, many)), n * d * (d + 1), limit))
    for n, d, each in ((20_000, 120, 14), (5_000, 784, 150)):
        X = sparse.random(n, d, density=each / d, format="csr", random_state=1)
        nonzeros = np.diff(X.indptr).astype(float)
        pairs = float(nonzeros @ (nonzeros + 1))
        for many in (1, 10):
            name = f"{n:,} x {d:,}, CSR, {each} a row"
            rows.append(sums_of(name, Design(sparse.csr_array(X)), rng.random((n, many)), pairs, limit))
    table("| rows | weights | ms | NumPy ms | times faster | of the FMA peak |", rows)


def sums_of(name: str, design: Design, V: np.ndarray, work: float, limit: Limits) -> str:
    """One line; `work` is the number of operations for one weight."""

    def plain() -> list[np.ndarray]:
        X = design.X.toarray() if sparse.issparse(design.X) else design.X
        return [X.T @ (v[:, None] * X) for v in V.T]

    t = quickest({"ours": lambda: design.grams(V), "NumPy": plain}, 2)
    share = work * V.shape[1] / t["ours"] / limit.fma
    return (
        f"| {name} | {V.shape[1]} | {1e3 * t['ours']:.3g} | {1e3 * t['NumPy']:.3g} "
        f"| **{t['NumPy'] / t['ours']:.1f}** | {share:.0%} |"
    )


def main() -> None:
    if ONE:
        kernels.set_threads(1)
        threadpool_limits(1)
    asked = [word for word in sys.argv[1:] if not word.startswith("--")]
    chosen = [one for one in (tiny, sums, mnist, cifar) if not asked or one.__name__ in asked]
    limit = limits()
    say("# Kernels")
    say()
    say(f"Printed by `python -m benchmarks.kernels {' '.join([*asked, '--save'])}{' --one' if ONE else ''}`.")
    say()
    say(
        f"{kernels.describe()}; NumPy {np.__version__}; "
        f"{'one thread, CPU time' if ONE else f'{kernels.get_threads()} threads'}; "
        f"load of the machine when this began: {os.getloadavg()[0]:.1f}."
    )
    say(
        f"Limits measured in this run: plain read {limit.read / 1e9:.1f} GB/s, "
        f"multiply-add {limit.fma / 1e9:.0f} GFLOP/s."
    )
    say()
    for benchmark in chosen:
        try:
            benchmark(limit)
        except InputError as missing:
            say(f"**{benchmark.__name__} was left out.** {missing}")
            say()
    if "--save" in sys.argv[1:]:
        place = PLACE.with_stem("-".join([PLACE.stem, *asked]))
        place.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
