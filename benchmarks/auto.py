"""Exchanges that `auto` needs on smooth problems: every partition, every mu, against the prototype and the others.

    python -m benchmarks.auto --quick        digits and a8a, seed 0
    python -m benchmarks.auto                all cells; digits and a8a over five partition seeds
    python -m benchmarks.auto cifar          CIFAR-10, all rows, even, Dirichlet 0.5 and by label
    python -m benchmarks.auto time           a whole fit of MNIST against scikit-learn on the pooled rows
    python -m benchmarks.auto sparse         10,000 and 20,000 sparse features
    python -m benchmarks.auto table          prints the table of the cells that are done

A cell is a data set, a partition and a mu. Its line says after how many exchanges the server holds a model of relative
error 1e-4, 1e-6, 1e-8; after how many that is certified; what the prototype needed; and what the others need to 1e-6:
on digits and a8a all algorithms of the library, elsewhere five of the best; DANE and DiSCO also as they are used in
practice. (`dualfl reproduce matrix` has all of them on MNIST.) They are stopped once they have used as
many exchanges as `auto`, since then they have lost: ">18" says so; so has who does not apply, or takes a minute. A cell
where somebody else is faster, the prototype included, or the certificate lags by more than four exchanges, counts as
lost.
Some of these partitions leave a client with one row, from which `auto` would by default ask for no second-order sums;
here it does (least_rows=1), since the rows are public.

E* is the energy of a run that its certificate ends at 1e-10. Cells are kept in results/auto.jsonl, and a run goes on
where the last one stopped. Needs the data in the folder that DUALFL_DATA names.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from dualfl.algorithms.few_exchanges import SketchedNewton
from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.data import Dataset, load, make_problem
from dualfl.engines import Problem, run
from dualfl.errors import DualflError
from dualfl.experiments.matrix import VARIANTS, hyperparameters
from dualfl.objectives import LinearModel, Logistic

CELLS, TABLE = Path("results/auto.jsonl"), Path("results/auto.md")
PARTITIONS = ("even", "dirichlet:0.5", "dirichlet:0.1", "label", "quantity:1000")
MUS = (1e-2, 1e-4, 1e-6)
LEVELS = (1e-4, 1e-6, 1e-8)
ROWS = {"mnist": 20_000}  # as in the prototype
SEEDS = {"digits": 5, "a8a": 5}
BEST = ("lbfgs", "dane", "disco", "giant", "dualfl")
AGAINST_ALL = ("digits", "a8a")
MOST = 200  # exchanges

# What the prototype needed to 1e-4, 1e-6, 1e-8, where it was run.
PROTOTYPE: dict[tuple[str, str, float], tuple[int | None, int, int]] = {
    ("mnist", "even", 1e-2): (2, 4, 6),
    ("mnist", "quantity:1000", 1e-2): (2, 4, 6),
    ("mnist", "dirichlet:0.5", 1e-2): (6, 7, 10),
    ("mnist", "dirichlet:0.1", 1e-2): (6, 7, 10),
    ("mnist", "label", 1e-2): (6, 7, 10),
    ("mnist", "even", 1e-4): (13, 18, 24),
    ("mnist", "label", 1e-4): (15, 20, 26),
    **{("mnist", partition, 1e-6): (66, 98, 123) for partition in PARTITIONS},
    ("a8a", "even", 1e-2): (1, 2, 2),
    ("a8a", "label", 1e-2): (4, 4, 5),
    ("a8a", "even", 1e-4): (2, 3, 3),
    ("a8a", "label", 1e-4): (5, 6, 6),
    ("a8a", "even", 1e-6): (3, 4, 5),
    ("a8a", "label", 1e-6): (5, 6, 7),
    ("digits", "even", 1e-2): (None, 3, 5),
    ("digits", "label", 1e-2): (None, 5, 7),
    ("digits", "even", 1e-4): (None, 7, 9),
    ("digits", "label", 1e-4): (None, 9, 11),
    ("digits", "even", 1e-6): (None, 18, 20),
    ("digits", "label", 1e-6): (None, 18, 20),
    ("cifar10", "even", 1e-2): (2, 4, 5),
}


def dataset(name: str) -> Dataset:
    data = load(name)
    rows = ROWS.get(name, len(data.y))
    return dataclasses.replace(data, X=data.X[:rows], y=data.y[:rows])


def known() -> dict[str, dict[str, Any]]:
    """What was computed before, by key."""
    if not CELLS.exists():
        return {}
    lines = (json.loads(line) for line in CELLS.read_text().splitlines())
    return {line["key"]: line for line in lines}


def keep(line: dict[str, Any]) -> dict[str, Any]:
    CELLS.parent.mkdir(exist_ok=True)
    with CELLS.open("a") as file:
        file.write(json.dumps(line) + "\n")
    return line


def minimum(name: str, data: Dataset, mu: float) -> float:
    """E*, which no partition changes, to 1e-10 of it."""
    key = f"minimum {name} {mu:g}"
    if key not in (cells := known()):
        result = run(
            make_problem(data, ridge=mu), make("auto", least_rows=1), rounds=4 * MOST, tol=1e-10, progress=True
        )
        assert result.stopped == "tol", result.stopped
        keep({"key": key, "energy": result.energy, "certificate": result.certificate})
        cells = known()
    return float(cells[key]["energy"])


def looseness(result: Any, star: float) -> list[float]:
    """Certificate over true error at every exchange that has a certificate, while the error is above rounding."""
    best, ratios = np.inf, []
    for row in result.history:
        best = min(best, row.energy)
        if row.certificate and best - star > 1e-9 * abs(star):
            ratios.append(row.certificate / (best - star))
    return ratios


def reached(result: Any, star: float) -> tuple[list[int | None], list[int | None]]:
    """Exchanges to every level: true, and certified."""
    best, true, certified = np.inf, [None] * len(LEVELS), [None] * len(LEVELS)
    for row in result.history:
        best = min(best, row.energy)
        for i, level in enumerate(LEVELS):
            if true[i] is None and best - star <= level * abs(star):
                true[i] = row.exchanges
            if certified[i] is None and row.certificate is not None and row.certificate <= level * abs(best):
                certified[i] = row.exchanges
    return true, certified


def cell(name: str, data: Dataset, partition: str, mu: float, seed: int) -> dict[str, Any]:
    """One cell: `auto`, and then the others with as many exchanges."""
    key = f"{name} {partition} {mu:g} {seed}"
    line, star = known().get(key), minimum(name, data, mu)
    problem = make_problem(data, partition=partition, ridge=mu, seed=seed)
    if line is None:
        line = keep(measured(key, problem, star) | {"data": name, "partition": partition, "mu": mu, "seed": seed})
    others = line.get("others", {})
    missing = [other for other in rivals(name) if other not in others] if seed == 0 else []
    if missing:
        found = {other: rival(problem, other, mu, star, line["true"][1] or MOST) for other in missing}
        line = keep(line | {"others": others | found})
    return line


def measured(key: str, problem: Problem, star: float) -> dict[str, Any]:
    """`auto` on one cell."""
    began = time.process_time()

    def enough(row: Any, theta: Any) -> bool:
        return row.certificate is not None and row.certificate <= LEVELS[-1] * abs(star)

    result = run(problem, make("auto", least_rows=1), rounds=MOST, stop=enough)
    seconds = time.process_time() - began
    true, certified = reached(result, star)
    floats = result.history[-1].floats_up / problem.N / problem.d
    line = {"key": key, "true": true, "certified": certified, "floats": floats, "cpu": seconds}
    return line | {"loose": looseness(result, star)}


def rivals(name: str) -> list[str]:
    """Who runs against `auto`, which chooses sketched-newton on all these problems."""
    if name == "cifar10":
        return []
    everybody = [other for other in ALGORITHMS if other not in ("auto", "sketched-newton")]
    return [*(everybody if name in AGAINST_ALL else BEST), *VARIANTS]


def rival(problem: Problem, name: str, mu: float, star: float, budget: int) -> int | None:
    """Exchanges that another algorithm needs to 1e-6; None if that is more than the budget."""

    def over(row: Any, theta: Any) -> bool:
        return row.exchanges >= budget or row.energy - star <= LEVELS[1] * abs(star)

    try:
        algorithm, given = hyperparameters(name, mu)
        result = run(problem, make(algorithm, **given), rounds=budget, stop=over, seconds=60)
    except DualflError:
        return None
    there = reached(result, star)[0][1]
    return there if there is not None and there <= budget else None


def cells_of(name: str, partitions: tuple[str, ...] = PARTITIONS, mus: tuple[float, ...] = MUS, seeds: int = 1) -> None:
    data = dataset(name)
    for mu in mus:
        for partition in partitions:
            drawn = partition.startswith("dirichlet")  # the others take rows in a fixed order
            for seed in range(seeds if drawn else 1):
                line = cell(name, data, partition, mu, seed)
                print(f"{line['key']:32s} {show(line['true'])}  certified {show(line['certified'])}", flush=True)


def show(counts: Any) -> str:
    return "/".join("-" if count is None else str(count) for count in counts)


def middle(lines: list[dict[str, Any]], field: str) -> list[int | None]:
    """The median over seeds; a count that one seed has not reached is beyond all others."""
    columns = zip(*(line[field] for line in lines))
    medians = [median_low([MOST * 9 if count is None else count for count in column]) for column in columns]
    return [None if m > MOST * 4 else m for m in medians]


def verdict(lines: list[dict[str, Any]], old: Any) -> str:
    true, certified = middle(lines, "true")[1], middle(lines, "certified")[1]
    if true is None:
        return "LOST: not reached"
    # The others ran on one partition, and are measured by what `auto` needed there.
    ahead = [(line["true"][1] or MOST) - n for line in lines for n in line.get("others", {}).values() if n is not None]
    if ahead and max(ahead) > 0:
        return f"LOST to one that needs {max(ahead)} fewer"
    if old is not None and true > old[1]:
        return f"LOST to the prototype's {old[1]}"
    if certified is None or certified > true + 4:
        return "LOST: certified late"
    return "won" if not ahead or max(ahead) < 0 else "tied"


def table() -> str:
    """All cells that are done, as Markdown."""
    groups: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for line in known().values():
        if "true" in line:
            groups.setdefault((line["data"], line["partition"], line["mu"]), []).append(line)
    head = ["data", "partition", "mu", "seeds", "auto", "certified", "prototype", "floats up / d", "best other", ""]
    rows = [head, ["---"] * len(head)]
    for (name, partition, mu), lines in sorted(groups.items(), key=lambda item: (item[0][0], -item[0][2], item[0][1])):
        old = PROTOTYPE.get((name, partition, mu))
        budget = lines[0]["true"][1]
        others = lines[0].get("others", {})
        fastest = min(((n, other) for other, n in others.items() if n is not None), default=None)
        told = f"{fastest[1]} {fastest[0]}" if fastest else f">{budget}, {len(others)} tried" if others else ""
        floats = f"{np.median([line['floats'] for line in lines]):.0f}"
        new, certified = show(middle(lines, "true")), show(middle(lines, "certified"))
        row = [name, partition, f"{mu:g}", str(len(lines)), new, certified, show(old) if old else "", floats]
        rows.append([*row, told, verdict(lines, old)])
    return markdown(rows)


def markdown(rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def loose_table() -> str:
    """How loose certificates are, by data and mu."""
    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for line in known().values():
        if line.get("loose"):
            groups.setdefault((line["data"], line["mu"]), []).append(line)
    rows = [["data", "mu", "runs", "certificate / true error: 10, 50, 90 %", "lag to 1e-6: median, most"], ["---"] * 5]
    for (name, mu), lines in sorted(groups.items(), key=lambda item: (item[0][0], -item[0][1])):
        ratios = np.concatenate([line["loose"] for line in lines])
        assert ratios.min() > 1 - 1e-6, "a certificate below the true error"
        lags = [line["certified"][1] - line["true"][1] for line in lines if line["certified"][1]]
        shares = ", ".join(f"{ratio:.3g}" for ratio in np.quantile(ratios, (0.1, 0.5, 0.9)))
        rows.append([name, f"{mu:g}", str(len(lines)), shares, f"{median_low(lags)}, {max(lags)}"])
    return markdown(rows)


def report() -> None:
    text = table()
    lost = text.count("LOST")
    heading = (
        "# Exchanges of `auto` on smooth problems\n\nPrinted by `python -m benchmarks.auto`: exchanges to relative "
        "error 1e-4/1e-6/1e-8, true and certified; 8 clients; medians over seeds. Best other: exchanges to 1e-6, `>n` "
        "if nobody needs at most as many as `auto`.\n\n"
    )
    loose = f"## How loose the certificate is\n\n{loose_table()}"
    TABLE.write_text(f"{heading}{text}\n\nCells lost: {lost}.\n\n{loose}\n")
    print(f"{text}\n\nCells lost: {lost}.\n\n{loose}\n\nWritten to {TABLE}.")


# -- other questions --------------------------------------------------------------------------------------


def against_sklearn() -> None:
    """A whole fit of MNIST to 1e-6, survey included, and scikit-learn's L-BFGS on the pooled rows to the same error."""
    from sklearn.linear_model import LogisticRegression

    data, mu = load("mnist"), 1e-2
    problem = make_problem(data, ridge=mu)
    star = run(problem, make("auto", least_rows=1), rounds=MOST, tol=1e-10).energy
    assert star is not None
    began, cpu = time.perf_counter(), time.process_time()
    result = run(problem, make("auto", least_rows=1), rounds=MOST, stop=lambda row, _: row.energy - star <= 1e-6 * star)
    ours, ours_cpu = time.perf_counter() - began, time.process_time() - cpu
    print(f"auto            {ours:6.2f} s, CPU {ours_cpu:6.2f} s, {result.history[-1].exchanges} exchanges", flush=True)
    sparse = sp.csr_array(data.X, dtype=np.float64) * data.scale
    ones = np.ones((len(data.y), 1))
    pooled = {"sparse": sp.csr_array(sp.hstack([sparse, ones])), "dense": np.hstack([sparse.toarray(), ones])}
    for kind, X in pooled.items():
        for tol in (1e-4, 3e-5, 1e-5, 3e-6):
            model = LogisticRegression(C=1 / (mu * len(data.y)), fit_intercept=False, tol=tol, max_iter=2000)
            began, cpu = time.perf_counter(), time.process_time()
            with threadpool_limits(2):
                model.fit(X, data.y)
            seconds, used = time.perf_counter() - began, time.process_time() - cpu
            error = (problem.value(np.ascontiguousarray(model.coef_.T).ravel()) - star) / star
            print(
                f"scikit-learn, {kind}: tol {tol:g} {seconds:6.2f} s, CPU {used:6.2f} s, error {error:.1e}", flush=True
            )
            if error <= 1e-6:
                break


class FixedSketch(SketchedNewton):
    """With the 256 columns it begins with."""

    def missing(self, s: Any) -> int:
        return 0


def many_features() -> None:
    """Sparse logistic regression with more features than a second moment may have; what growing the sketch is worth."""
    for D in (10_000, 20_000):
        rng = np.random.default_rng(0)
        n, nnz = 20_000, 40
        columns = np.minimum((rng.pareto(0.8, (n, nnz)) * 20).astype(int), D - 1)  # few frequent words, many rare ones
        X = sp.csr_array((np.ones(n * nnz), (np.repeat(np.arange(n), nnz), columns.ravel())), shape=(n, D))
        X.data[:] = 1 / np.sqrt(nnz)
        z = X @ (3 * rng.standard_normal(D)) + 0.5 * rng.standard_normal(n)
        y = np.where(z > 0, 1.0, -1.0)
        parts = np.array_split(np.argsort(z, kind="stable"), 8)
        for mu in (1e-2, 1e-4, 1e-5):
            problem = Problem([LinearModel(X[p], y[p], Logistic(), mu, intercept=True) for p in parts])
            for name, algorithm in {"auto": make("auto"), "fixed": FixedSketch(), "lbfgs": make("lbfgs")}.items():
                began = time.process_time()
                result = run(problem, algorithm, rounds=300, tol=1e-8)
                assert result.energy is not None
                true, certified = reached(result, result.energy)
                floats = result.history[-1].floats_up / problem.N / problem.d
                print(
                    f"D = {D} mu = {mu:g} {name:6s} {show(true)} certified {show(certified)} {floats:.0f}d, "
                    f"CPU {time.process_time() - began:.0f} s",
                    flush=True,
                )


def main(words: list[str]) -> None:
    with threadpool_limits(1):
        if words == ["time"]:
            against_sklearn()
        elif words == ["sparse"]:
            many_features()
        elif words == ["cifar"]:
            cells_of("cifar10", ("even", "dirichlet:0.5", "label"), (1e-2, 1e-4))
        elif words != ["table"]:
            quick = "--quick" in words
            for name in ("digits", "a8a") if quick else ("digits", "a8a", "mnist"):
                cells_of(name, seeds=1 if quick else SEEDS.get(name, 1))
    if words not in (["time"], ["sparse"]):
        report()


if __name__ == "__main__":
    main(sys.argv[1:])
