"""The fewest exchanges on nonsmooth and penalised problems: every algorithm, every partition, five seeds.

    DUALFL_DATA=... python -m benchmarks.auto_nonsmooth [--quick] [--only NAME] [--so-far]

Problems with a ridge of 1e-2 and 1e-4, eight clients, intercepts regularised; the method that `auto` picks against all
others of the library that apply, with their defaults (splitting methods have none here, so eta = 1; feddr also with a
balanced penalty). An exchange is one message down and one up. A model counts when the server has it. E* is found on the
pooled rows and certified to 1e-9. Skew is 1000:1 between the largest and the smallest client, 100:1 for small tables.
Others get as many exchanges as the method needed, and SECONDS: whoever is at 1e-6 by then has won or tied.
Cells are kept in results/auto-nonsmooth.json, and a run that was interrupted goes on from there; --so-far measures
nothing and prints the problems that are complete.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualfl.algorithms import Algorithm
from dualfl.algorithms.few_exchanges import FedIPM, OneShot, ProxNewton
from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.data import load
from dualfl.data.partitions import partition
from dualfl.engines import Problem, run
from dualfl.errors import DualflError
from dualfl.files import write_atomically
from dualfl.objectives import L1, Hinge, LinearModel, Logistic, Loss, Penalty, Quantile, Squared

COMMAND = "python -m benchmarks.auto_nonsmooth"
CELLS, TABLE = Path("results/auto-nonsmooth.json"), Path("results/auto-nonsmooth.md")
CLIENTS, SEEDS, MOST, SECONDS = 8, 5, 40, 5.0
LEVELS = (1e-3, 1e-4, 1e-6)
PARTITIONS = {"shuffled": "shuffled", "sorted": "label", "Dirichlet 0.3": "dirichlet:0.3", "skew": "quantity:1000"}
RIDGES = (1e-2, 1e-4)


class Data(NamedTuple):
    X: Any
    y: Any
    labels: Any  # what partitions go by: classes, or tenths of a real target
    scale: float


class Case(NamedTuple):
    """A problem, the method for it, and what AUTO's notes report to 1e-6: ridge -> one number a partition."""

    data: Callable[[], Data]
    loss: Loss
    method: Algorithm
    notes: dict[float, tuple[int, ...]]
    l1: float = 0.0  # of the smallest that makes everything zero


@cache
def classes(name: str, rows: int | None = None) -> Data:
    data = load(name)
    y = data.y[:rows]
    odd = y % 2 if len(data.classes) > 2 else y
    return Data(data.X[:rows], np.where(odd == 1, 1.0, -1.0), y, data.scale)


@cache
def diabetes() -> Data:
    data = load("diabetes")
    y = (data.y - data.y.mean()) / data.y.std()
    return Data(data.X, y, tenths(y), data.scale)


@cache
def synthetic() -> Data:
    """5,000 rows of 200 features, 40 of which matter; Laplace noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 200))
    theta = rng.standard_normal(200) * (np.arange(200) % 5 == 0)
    y = X @ theta + rng.laplace(size=5000)
    return Data(X, y, tenths(y), 1.0)


def tenths(y: Any) -> Any:
    return np.digitize(y, np.quantile(y, np.linspace(0, 1, 11)[1:-1]))


IPM, NEWTON, SHOT = FedIPM(least_rows=1), ProxNewton(least_rows=1), OneShot(least_rows=1)
CASES: dict[str, Case] = {
    "svm breast cancer": Case(
        lambda: classes("breast_cancer"), Hinge(), IPM, {1e-2: (11, 11, 11, 11), 1e-4: (15, 15, 15, 15)}
    ),
    "LAD diabetes": Case(diabetes, Quantile(0.5), IPM, {1e-2: (8, 14, 10, 9)}),
    "quantile 0.9 diabetes": Case(diabetes, Quantile(0.9), IPM, {1e-4: (12, 13, 12, 12)}),
    "lasso diabetes": Case(diabetes, Squared(), SHOT, {1e-2: (1, 1, 1, 1), 1e-4: (1, 1, 1, 1)}, 0.1),
    "svm a8a": Case(lambda: classes("a8a"), Hinge(), IPM, {1e-2: (6, 10, 10, 6), 1e-4: (10, 12, 12, 9)}),
    "LAD 5,000 x 200": Case(synthetic, Quantile(0.5), IPM, {1e-4: (14, 12, 13, 14)}),
    "lasso 5,000 x 200": Case(synthetic, Squared(), SHOT, {1e-2: (1, 1, 1, 1), 1e-4: (1, 1, 1, 1)}, 0.1),
    "l1 logistic a8a .1": Case(
        lambda: classes("a8a"), Logistic(), NEWTON, {1e-2: (3, 3, 3, 3), 1e-4: (3, 3, 3, 3)}, 0.1
    ),
    "l1 logistic a8a .01": Case(
        lambda: classes("a8a"), Logistic(), NEWTON, {1e-2: (5, 5, 5, 5), 1e-4: (5, 5, 5, 5)}, 0.01
    ),
    "svm MNIST parity": Case(
        lambda: classes("mnist", 5000), Hinge(), IPM, {1e-2: (8, 10, 10, 7), 1e-4: (12, 12, 12, 12)}
    ),
}
QUICK = ("svm breast cancer", "LAD diabetes", "quantile 0.9 diabetes", "lasso diabetes")

# Splitting methods take their penalty from mu and L, and there is no L here.
GIVEN: list[tuple[str, dict[str, Any]]] = [
    ("fedpd", {"eta": 1.0}),
    ("feddr", {"eta": 1.0}),
    ("feddr", {"eta": 1.0, "penalty_rule": "balanced"}),
    ("feddyn", {"alpha": 1.0}),
]
OURS = {"fedipm", "prox-newton", "one-shot", "auto"}


def problem(case: Case, ridge: float, how: str, seed: int, clients: int = CLIENTS) -> Problem:
    data = case.data()
    if how == "quantity:1000" and len(data.y) < 1600:
        how = "quantity:100"  # so that the smallest client has a row
    parts = partition(how, data.labels, clients, seed)
    models = [
        LinearModel(data.X[rows], data.y[rows], case.loss, ridge, intercept=True, scale=data.scale) for rows in parts
    ]
    return Problem(models, penalty=penalty(case))


def penalty(case: Case) -> Penalty | None:
    if not case.l1:
        return None
    data = case.data()
    model = LinearModel(data.X, data.y, case.loss, 0.0, intercept=True, scale=data.scale)
    return L1(case.l1 * float(np.abs(model.gradient(np.zeros(model.d))).max()))


@cache
def minimum(name: str, ridge: float) -> float:
    """E*, on the pooled rows, certified."""
    case = CASES[name]
    found = run(problem(case, ridge, "even", 0, 1), case.method, rounds=60, tol=1e-10, threads=1)
    assert found.energy is not None and found.certificate is not None and found.certificate <= 1e-9 * found.energy
    return found.energy


def measure(name: str, ridge: float, how: str, seed: int, algorithm: Algorithm, most: int) -> dict[str, Any]:
    """Exchanges to each level, by the true error and by the certificate, and the error at the end."""
    E = minimum(name, ridge)
    best, reached, proven = np.inf, [None] * len(LEVELS), [None] * len(LEVELS)
    ratios: list[float] = []

    def look(row: Any, theta: Any) -> bool:
        nonlocal best
        best = min(best, row.energy)
        error = (best - E) / abs(E)
        if row.certificate is not None and error > 1e-9:
            ratios.append(row.certificate / (best - E))
        for k, level in enumerate(LEVELS):
            if reached[k] is None and error <= level:
                reached[k] = row.exchanges
            if proven[k] is None and row.certificate is not None and row.certificate <= level * abs(best):
                proven[k] = row.exchanges
        valid = row.certificate is None or row.certificate >= best - E - 1e-9 * abs(E)
        assert valid, f"the certificate is wrong: {name}, {ridge}, {how}, {algorithm.name}, exchange {row.exchanges}"
        ours = algorithm.name in OURS
        return (proven[-1] is not None if ours else reached[-1] is not None) or row.exchanges >= most

    began = time.perf_counter()
    result = run(problem(CASES[name], ridge, how, seed), algorithm, rounds=most, seconds=600, stop=look, threads=1)
    return {
        "reached": reached,
        "proven": proven,
        "error": float((best - E) / abs(E)),
        "ratios": ratios,
        "floats": result.history[-1].floats_up / CLIENTS / max(result.history[-1].exchanges, 1),
        "seconds": time.perf_counter() - began,
    }


def rival(name: str, ridge: float, how: str, algorithm: str, options: dict[str, Any], most: int) -> dict[str, Any]:
    try:
        chosen = make(algorithm, **options)
        E, best = minimum(name, ridge), [np.inf]

        def there(row: Any, theta: Any) -> bool:
            best[0] = min(best[0], row.energy)
            return best[0] - E <= LEVELS[-1] * abs(E) or row.exchanges >= most

        case = problem(CASES[name], ridge, how, 0)
        result = run(case, chosen, rounds=most, seconds=SECONDS, stop=there, threads=1)
        return {"error": float((best[0] - E) / abs(E)), "exchanges": result.history[-1].exchanges}
    except DualflError as error:
        return {"refused": str(error)}


def rivals() -> list[tuple[str, dict[str, Any]]]:
    plain = [(name, {}) for name in ALGORITHMS if name not in OURS and not ALGORITHMS[name].drifts]
    return plain + GIVEN


# -- cells ------------------------------------------------------------------------------------------------


class Cells:
    """What has been measured, on disk after every cell."""

    def __init__(self, path: Path, sealed: bool) -> None:
        self.path, self.sealed = path, sealed
        self.kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if key not in self.kept and self.sealed:
            raise KeyError(key)
        if key not in self.kept:
            print(f"{key} ...", file=sys.stderr, flush=True)
            self.kept[key] = compute()
            write_atomically(self.path, json.dumps(self.kept, indent=0).encode())
        found: dict[str, Any] = self.kept[key]
        return found


def median(values: list[Any]) -> float:
    """The median, where what was never reached counts as infinity."""
    return float(np.median([np.inf if v is None else v for v in values]))


def number(value: float) -> str:
    return "-" if not np.isfinite(value) else f"{value:g}"


def cell(cells: Cells, name: str, ridge: float, part: str, seeds: int) -> dict[str, Any]:
    how, case = PARTITIONS[part], CASES[name]
    draws = seeds if part != "sorted" else 1  # sorting leaves nothing to draw
    own = [
        cells.get(f"{name}|{ridge}|{part}|{seed}", lambda s=seed: measure(name, ridge, how, s, case.method, MOST))
        for seed in range(draws)
    ]
    reached = [median([run["reached"][k] for run in own]) for k in range(len(LEVELS))]
    proven = median([run["proven"][-1] for run in own])
    most = int(min(reached[-1], MOST))
    found = {}
    for algorithm, options in rivals():
        label = algorithm + ("" if not options else " " + ",".join(f"{k}={v}" for k, v in options.items()))
        key = f"{name}|{ridge}|{part}|rival|{label}"
        found[label] = cells.get(key, lambda a=algorithm, o=options: rival(name, ridge, how, a, o, most))
    return {"own": own, "reached": reached, "proven": proven, "rivals": found}


def verdict(name: str, ridge: float, part: str, measured: dict[str, Any]) -> tuple[list[str], str]:
    """What is lost in this cell, and who comes closest."""
    lost, mine = [], measured["reached"][-1]
    applied = {k: v for k, v in measured["rivals"].items() if "error" in v}
    beaten = [k for k, v in applied.items() if v["error"] <= LEVELS[-1] and v["exchanges"] < mine]
    if beaten:
        lost.append(f"LOST to {', '.join(beaten)}")
    notes = CASES[name].notes.get(ridge)
    target = None if notes is None else notes[list(PARTITIONS).index(part)]
    if target is not None and mine > target:
        lost.append(f"LOST: the notes have {target}")
    if not measured["proven"] <= mine + 4:
        lost.append(f"LOST: certified {number(measured['proven'] - mine)} later")
    closest = min(applied, key=lambda k: applied[k]["error"]) if applied else "none applies"
    return lost, f"{closest} {applied[closest]['error']:.0e}" if applied else closest


def table(cells: Cells, names: list[str], seeds: int) -> str:
    lines = [
        "| problem | ridge | partition | method | to 1e-3/1e-4/1e-6 | certified | notes | next best | floats | |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lost_cells = total = others = hurried = 0
    ratios: dict[str, list[float]] = {}
    lags: dict[str, list[float]] = {}
    for name in names:
        for ridge in RIDGES:
            for part in PARTITIONS:
                measured = cell(cells, name, ridge, part, seeds)
                lost, closest = verdict(name, ridge, part, measured)
                total, lost_cells = total + 1, lost_cells + bool(lost)
                notes = CASES[name].notes.get(ridge)
                kind = f"{CASES[name].method.name}, ridge {ridge:g}"
                for one in measured["own"]:
                    ratios.setdefault(kind, []).extend(one["ratios"])
                    if one["proven"][-1] is not None and one["reached"][-1] is not None:
                        lags.setdefault(kind, []).append(one["proven"][-1] - one["reached"][-1])
                applied = [v for v in measured["rivals"].values() if "error" in v]
                others += len(applied)
                hurried += sum(v["exchanges"] < measured["reached"][-1] and v["error"] > LEVELS[-1] for v in applied)
                lines.append(
                    f"| {name} | {ridge:g} | {part} | {CASES[name].method.name} | "
                    f"{'/'.join(number(v) for v in measured['reached'])} | {number(measured['proven'])} | "
                    f"{'' if notes is None else notes[list(PARTITIONS).index(part)]} | {closest} | "
                    f"{measured['own'][0]['floats']:,.0f} | {'; '.join(lost)} |"
                )
    return "\n".join(
        [
            *lines,
            "",
            f"{total - lost_cells} of {total} cells hold, {lost_cells} are lost in some respect.",
            f"Of {others} runs of others, {hurried} had fewer exchanges, as {SECONDS:g} seconds had passed.",
            "",
            "| certificate | over the true error, 10/50/90 % | lag at 1e-6: median, most |",
            "|---|---|---|",
            *(looseness(kind, ratios[kind], lags[kind]) for kind in ratios),
        ]
    )


def looseness(kind: str, ratios: list[float], lags: list[float]) -> str:
    """How loose the certificates are, and how many exchanges they lag, in a line of a table."""
    spread = "/".join(f"{v:.3g}" for v in np.percentile(ratios, [10, 50, 90])) if ratios else "exact"
    return f"| {kind} | {spread} | {np.median(lags):g}, {max(lags):g} |"


def complete(cells: Cells, name: str, seeds: int) -> bool:
    try:
        table(cells, [name], seeds)
    except KeyError:
        return False
    return True


def main() -> None:
    asked = sys.argv[1:]
    quick, so_far = "--quick" in asked, "--so-far" in asked
    names = [asked[asked.index("--only") + 1]] if "--only" in asked else list(QUICK if quick else CASES)
    seeds = 2 if quick else SEEDS
    cells = Cells(CELLS.with_suffix(".quick.json") if quick else CELLS, so_far)
    missing = [name for name in names if so_far and not complete(cells, name, seeds)]
    text = table(cells, [name for name in names if name not in missing], seeds)
    if missing:
        text += f"\nNot measured yet: {', '.join(missing)}."
    print(text)
    if not quick and "--only" not in asked:
        head = (
            f"`{COMMAND}`: {CLIENTS} clients, median over {seeds} partition seeds. Certified: exchanges until 1e-6 is "
            "proven. Next best: the smallest relative error that any other algorithm of the library has after as many "
            "exchanges (seed 0). Floats: up, a client and exchange."
        )
        write_atomically(TABLE, f"{head}\n\n{text}\n".encode())


if __name__ == "__main__":
    main()
