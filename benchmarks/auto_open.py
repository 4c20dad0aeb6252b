"""Questions about the methods of few exchanges that only a measurement answers.

    DUALFL_DATA=... python -m benchmarks.auto_open [many] [wide] [start] [limit] [short] [losses] [crowd] [units]

many   fedipm with 1,000 clients (svm a8a, shuffled and Dirichlet 0.3): does it need more exchanges than with 8?
wide   3,000 features, too many for d x d sums: which of the others is closest after 20 and 60 exchanges?
limit  what one-shot costs up to its limit of 2,000 coefficients: a lasso on 8 clients with 1,000 rows each
start  how far inside the box the mean of the local solutions should start: t_B by |b|, or by the bound of E*?
short  sketched-newton whose metrics travel with fewer digits: how few are enough?
losses Poisson's and Huber's loss, alike and sorted clients: auto against L-BFGS
crowd  sketched-newton with 8, 100 and 1,000 clients (softmax, MNIST, 20,000 rows shuffled, three seeds)
units  columns as people have them: breast cancer as it is and scaled, and one column far from zero
"""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.datasets import load_breast_cancer

from benchmarks.auto import dataset
from benchmarks.auto_nonsmooth import CASES, LEVELS, PARTITIONS, RIDGES, measure, median, minimum, problem
from dualfl.algorithms.few_exchanges import OneShot, SketchedNewton, sketched_newton
from dualfl.algorithms.few_exchanges.fedipm import FedIPM, Server
from dualfl.algorithms.registry import make
from dualfl.data import load, make_problem
from dualfl.engines import Problem, run
from dualfl.objectives import L1, Hinge, Huber, LinearModel, Logistic, Poisson, Softmax, Squared
from dualfl.optimum import reference
from dualfl.solvers import SDCA, PrimalDualGap, minimise


def many() -> None:
    print("svm a8a, exchanges to 1e-3/1e-4/1e-6 and certified 1e-6")
    for ridge in RIDGES:
        E = minimum("svm a8a", ridge)
        for part in ("shuffled", "dirichlet:0.3"):
            for clients in (8, 1000):
                found = run(
                    problem(CASES["svm a8a"], ridge, part, 0, clients),
                    FedIPM(least_rows=1),
                    rounds=30,
                    tol=1e-6,
                    threads=1,
                )
                best = np.minimum.accumulate(found.history.column("energy"))
                counts = [int(np.argmax(best - E <= level * E)) for level in LEVELS]
                print(f"  ridge {ridge:g}, {part}, {clients} clients: {counts}, certified {found.rounds}", flush=True)


WIDE: list[tuple[str, dict[str, Any]]] = [
    ("bundle", {}),
    ("dualfl", {}),
    ("cocoa", {}),
    ("feddr", {"eta": 1.0, "penalty_rule": "balanced"}),
]


def wide() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3000)) * (rng.random((4000, 3000)) < 0.02)
    y = np.where(X @ rng.standard_normal(3000) + rng.standard_normal(4000) > 0, 1.0, -1.0)
    print("svm, 4,000 rows, 3,000 features, relative error after 20 and 60 exchanges")
    for ridge in RIDGES:
        E = minimise(LinearModel(X, y, Hinge(), ridge), solver=SDCA(), stop=PrimalDualGap(1e-10, cap=2000)).value
        for part in ("shuffled", "sorted"):
            order = np.argsort(y, kind="stable") if part == "sorted" else rng.permutation(len(y))
            clients = [LinearModel(X[i], y[i], Hinge(), ridge) for i in np.array_split(order, 8)]
            for name, options in WIDE:
                found = run(Problem(clients), make(name, **options), rounds=60, seconds=60, threads=1)
                best = np.minimum.accumulate((found.history.column("energy") - E) / E)
                shown = [f"{best[min(k, len(best) - 1)]:.1e}" for k in (20, 60)]
                print(f"  ridge {ridge:g}, {part}, {name}: {' '.join(shown)} ({len(best) - 1} rounds)", flush=True)


class BySize(FedIPM):
    """t_B scaled by the mean |b|."""

    part = 0.01

    def rival_t(self, s: Server) -> float:
        return self.part * s.size


class Larger(BySize):
    part = 0.03


class ByBound(FedIPM):
    """t_B scaled by the lower bound of E* that the local solutions give, however few rows they have."""

    def rival_t(self, s: Server) -> float:
        return 0.1 * max(s.bound, 1e-6 * s.size)


def start() -> None:
    rules = {
        "0.01 |b|": BySize(least_rows=1),
        "0.03 |b|": Larger(least_rows=1),
        "0.1 bound": ByBound(least_rows=1),
        "bound d/(2 n_j)": FedIPM(least_rows=1),
    }
    names = {"LAD diabetes": 3, "quantile 0.9 diabetes": 3, "svm a8a": 1}
    print(
        "exchanges to 1e-6, certified, summed over two ridges and three partitions (medians of three seeds; a8a: one)"
    )
    for name, seeds in names.items():
        for rule, algorithm in rules.items():
            total = np.zeros(2)
            for ridge in RIDGES:
                for part in ("shuffled", "Dirichlet 0.3", "skew"):
                    runs = [measure(name, ridge, PARTITIONS[part], seed, algorithm, 40) for seed in range(seeds)]
                    total += [median([r[key][-1] for r in runs]) for key in ("reached", "proven")]
            print(f"  {name}, t_B = {rule}: {total[0]:g}, {total[1]:g}", flush=True)


def limit() -> None:
    rng = np.random.default_rng(0)
    print("one-shot, lasso, 8 clients x 1,000 rows")
    for d in (500, 1000, 2000):
        X = rng.standard_normal((8000, d))
        y = X[:, :20].sum(axis=1) + rng.standard_normal(8000)
        clients = [LinearModel(X[i], y[i], Squared()) for i in np.array_split(np.arange(8000), 8)]
        found = run(Problem(clients, penalty=L1(0.1)), OneShot(), rounds=1, threads=1)
        row = found.history[-1]
        assert found.certificate is not None and found.energy is not None
        print(
            f"  d = {d:,}: {row.floats_up / 8 * 8 / 1e6:.1f} MB a client, {row.seconds:.1f} s in all, "
            f"certified to {found.certificate / found.energy:.0e}",
            flush=True,
        )


def rounded(bits: int) -> Any:
    """What takes the place of `in_few_bits`: metrics on a grid of so many bits, as doubles."""

    def treat(sums: dict[str, Any]) -> dict[str, Any]:
        return {name: on_grid(x, bits) if name.rstrip("0123456789") in ("M", "T") else x for name, x in sums.items()}

    return treat


def on_grid(x: Any, bits: int) -> Any:
    top = float(np.abs(x).max(initial=0.0))
    step = 2.0 ** (np.ceil(np.log2(top)) - bits + 1) if top else 1.0
    return np.rint(x / step) * step


def mixed(seed: int, rows: int = 900, D: int = 130, k: int = 10) -> tuple[Any, Any]:
    """Columns that depend on each other, in units from 1 to 0.2, and ten classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 20)) @ rng.standard_normal((20, D)) / 5 + rng.standard_normal((rows, D))
    X *= np.geomspace(1, 0.2, D)
    return X, (3 * X @ rng.standard_normal((D, k)) + rng.gumbel(size=(rows, k))).argmax(axis=1).astype(float)


def exchanges(problem: Problem, algorithm: Any, E: float, level: float = 1e-6, most: int = 100) -> str:
    """How many exchanges until the relative error is at most the level."""
    found = run(
        problem, algorithm, rounds=most, reference=E, threads=1,
        stop=lambda row, _: row.exchanges >= most or row.energy - E <= level * abs(E),
    )  # fmt: skip
    row = found.history[-1]
    return str(row.exchanges) if row.energy - E <= level * abs(E) else f">{row.exchanges}"


def short() -> None:
    print("sketched-newton, exchanges to 1e-6 when the numbers of a metric have so many bits")
    digits = (53, 16, 14, 13, 12, 11, 10, 8)
    print(f"  {'':40s}" + "".join(f"{b:6d}" for b in digits))
    problems = {}
    for mu in (1e-2, 1e-3, 1e-4, 1e-5):
        X, y = mixed(0)
        parts = np.array_split(np.argsort(y), 3)
        problems[f"900 x 130, ten classes, mu = {mu:g}"] = Problem(
            [LinearModel(X[rows], y[rows], Softmax(10), mu) for rows in parts]
        )
    for mu in (1e-2, 1e-4):
        for part in ("even", "label"):
            problems[f"mnist, mu = {mu:g}, {part}"] = make_problem(dataset("mnist"), partition=part, ridge=mu)
    for name, split in problems.items():
        E, counts = reference(split), []
        for b in digits:
            with patch.object(sketched_newton, "in_few_bits", rounded(b)):
                counts.append(exchanges(split, SketchedNewton(least_rows=1), E))
        print(f"  {name:40s}" + "".join(f"{n:>6s}" for n in counts), flush=True)


def losses() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 50)) * 0.95 ** np.arange(50)
    counts = rng.poisson(np.exp(np.minimum(X @ rng.standard_normal(50) / 2, 5))).astype(float)
    diabetes = load("diabetes")
    cases = {"Poisson, 4,000 x 50": (X, counts, Poisson()), "Huber, diabetes": (diabetes.X, diabetes.y, Huber())}
    print("exchanges to 1e-6: auto, lbfgs")
    for name, (rows, y, loss) in cases.items():
        for mu in (1e-2, 1e-4):
            for part, order in {"even": np.arange(len(y)), "sorted": np.argsort(y, kind="stable")}.items():
                parts = np.array_split(order, 8)
                split = Problem([LinearModel(rows[i], y[i], loss, mu, intercept=True) for i in parts])
                E = reference(split, cache=False)
                rival = make("lbfgs", scale=1.0) if isinstance(loss, Poisson) else make("lbfgs")  # Poisson has no L
                found = [exchanges(split, method, E, most=200) for method in (make("auto"), rival)]
                print(f"  {name}, mu = {mu:g}, {part}: {found[0]}, {found[1]}", flush=True)


def crowd() -> None:
    data = dataset("mnist")
    print("sketched-newton, softmax on MNIST, 20,000 rows shuffled, mu = 1e-2: exchanges to 1e-6, three seeds")
    for clients in (8, 100, 1000):
        splits = [make_problem(data, clients, "shuffled", 1e-2, seed=seed) for seed in range(3)]
        counts = [exchanges(split, SketchedNewton(least_rows=1), reference(split)) for split in splits]
        print(f"  {clients:,} clients: {', '.join(counts)}", flush=True)


def units() -> None:
    data = load_breast_cancer()
    X, y = data.data, np.where(data.target > 0, 1.0, -1.0)
    rng = np.random.default_rng(0)
    ridge = 1 / (1e6 * len(y))  # LogisticRegression(C=1e6)
    print("breast cancer, logistic, C = 1e6, free intercept, 5 silos: exchanges to 1e-6 of auto, of prox-newton")
    rivals = make("auto", least_rows=1), make("prox-newton", least_rows=1)
    for name, T in {"as it is": 1.0, "in other units": 10.0 ** rng.uniform(-6, 6, X.shape[1])}.items():
        M = np.append(np.full(X.shape[1], ridge) * np.broadcast_to(T, X.shape[1]) ** 2, 0.0)
        silos = [LinearModel((X * T)[j::5], y[j::5], Logistic(), intercept="free").tilted(M) for j in range(5)]
        counts = [exchanges_to_best(Problem(silos), method) for method in rivals]
        print(f"  {name}: {counts[0]}, {counts[1]}", flush=True)
    x = rng.standard_normal((1000, 3))
    labels = np.where(x @ [0.8, -0.5, 0.3] + rng.logistic(size=1000) > 0, 1.0, -1.0)
    print("three columns, the first with this mean and deviation 1, logistic, mu = 1e-4, 5 silos; its coefficient")
    for mean in (0.0, 1e2, 1e3, 1e6):
        silos = [
            LinearModel(x[j::5] + [mean, 0, 0], labels[j::5], Logistic(), 1e-4, intercept="free") for j in range(5)
        ]
        theta = run(Problem(silos), make("auto"), rounds=10).theta
        print(f"  {mean:g}: {exchanges_to_best(Problem(silos), make('auto'))}, {theta[0]:.6f}", flush=True)


def exchanges_to_best(split: Problem, method: Any) -> int:
    """Exchanges to 1e-6 above the best energy of 60 rounds."""
    energies = run(split, method, rounds=60).history
    star = min(row.energy for row in energies)
    return next(row.exchanges for row in energies if row.energy - star <= 1e-6 * abs(star))


QUESTIONS = {
    "many": many, "wide": wide, "start": start, "limit": limit, "short": short, "losses": losses, "crowd": crowd,
    "units": units,
}  # fmt: skip

if __name__ == "__main__":
    for question in sys.argv[1:] or QUESTIONS:
        QUESTIONS[question]()
