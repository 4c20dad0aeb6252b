"""A cost that is not convex: a neural network with one hidden layer, in NumPy, so that nobody needs PyTorch to see it.

    (1/n) sum_i loss(softmax(tanh(x_i'V + a) W + c), y_i) + (ridge/2)|(V, a, W, c)|^2

The experiment runs methods that are used on such costs on MNIST, split by Dirichlet 0.1, and reports the error, the
length of the gradient and the accuracy on rows that no client has, round by round. All start at the same random
weights; zero is a saddle point. Steps and penalties come from an estimate of L, multiplied by the best of the factors
1, 1/5, 1/25, ..., which is searched for each method on a seed of its own, until two in a row are worse than the best.
Methods with local problems take at most twenty iterations of L-BFGS on them, the others ten gradient steps.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dualfl.algorithms.contract import Algorithm
from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.data import Dataset, load
from dualfl.data.partitions import partition
from dualfl.engines import Problem, run
from dualfl.engines.history import Row
from dualfl.errors import Diverged, InputError, NotSupported
from dualfl.objectives import Function, Objective
from dualfl.objectives.function import estimated_L
from dualfl.solvers import LBFGS, Solution, StopRule
from dualfl.typing import AnyArray, Array

MOST = 20  # iterations of a local solve
SAFE = 2.0  # times an estimate of L
FINER, LOST = 5.0, 2  # a factor of L is tried with a fifth of the one before, until so many in a row were worse
LEAST = 1e-6


@dataclass(frozen=True)
class Few(LBFGS):
    """L-BFGS that ends early: a client that solved a small proximal problem to the end would train a network of its
    own in every round."""

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        return super().solve(f, warm, replace(stop, cap=min(stop.cap, MOST)))


@dataclass(frozen=True)
class Layers:
    """The sizes of a network; its weights are one flat vector."""

    inputs: int
    hidden: int
    classes: int

    @property
    def d(self) -> int:
        return (self.inputs + 1) * self.hidden + (self.hidden + 1) * self.classes

    def split(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """V, a, W and c."""
        i = self.inputs * self.hidden
        j, k = i + self.hidden, i + self.hidden + self.hidden * self.classes
        return x[:i].reshape(self.inputs, self.hidden), x[i:j], x[j:k].reshape(self.hidden, self.classes), x[k:]

    def start(self, seed: int) -> Array:
        """Weights as Glorot and Bengio draw them, no offsets."""
        rng = np.random.default_rng(seed)
        V = rng.standard_normal((self.inputs, self.hidden)) * np.sqrt(2 / (self.inputs + self.hidden))
        W = rng.standard_normal((self.hidden, self.classes)) * np.sqrt(2 / (self.hidden + self.classes))
        return np.concatenate([V.ravel(), np.zeros(self.hidden), W.ravel(), np.zeros(self.classes)])

    def scores(self, X: Array, x: Array) -> tuple[Array, Array]:
        """The hidden layer and the scores of the classes."""
        V, a, W, c = self.split(x)
        hidden = np.tanh(X @ V + a)
        return hidden, hidden @ W + c

    def accuracy(self, X: Array, y: AnyArray, x: Array) -> float:
        return float(np.mean(np.argmax(self.scores(X, x)[1], axis=1) == y))


def network_cost(layers: Layers, X: Array, y: AnyArray, ridge: float, L: float = np.inf) -> Function:
    """The cost of one client."""
    n, own = len(y), np.arange(len(y))
    last: list[Any] = [None, None]  # a point and what came of it: a gradient is asked for after its value

    def forward(x: Array) -> tuple[Array, Array, float]:
        if last[0] is not x or x.flags.writeable:
            hidden, scores = layers.scores(X, x)
            scores = scores - scores.max(axis=1, keepdims=True)
            log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
            last[:] = x, (hidden, log_p, float(-log_p[own, y].mean() + ridge / 2 * (x @ x)))
        found: tuple[Array, Array, float] = last[1]
        return found

    def gradient(x: Array) -> Array:
        hidden, log_p, _ = forward(x)
        slope = np.exp(log_p)
        slope[own, y] -= 1
        slope /= n
        back = (slope @ layers.split(x)[2].T) * (1 - hidden**2)
        parts = ((X.T @ back).ravel(), back.sum(axis=0), (hidden.T @ slope).ravel(), slope.sum(axis=0))
        return np.asarray(np.concatenate(parts) + ridge * x)

    return Function(layers.d, lambda x: forward(x)[2], gradient, L=L, n=n, name="network", convex=False)


@dataclass(frozen=True)
class Nonconvex:
    """The experiment: how many rows, hidden units, clients and rounds."""

    dataset: str = "mnist"
    rows: int = 1_000
    hidden: int = 16
    clients: int = 10
    partition: str = "dirichlet:0.1"
    ridge: float = 1e-3
    rounds: int = 30
    seeds: int = 3
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("rows", 10), ("hidden", 1), ("clients", 1), ("rounds", 1), ("seeds", 1)):
            if not getattr(self, name) >= least:
                raise InputError(f"{name} must be at least {least}, but it is {getattr(self, name)}.")

    @property
    def algorithms(self) -> tuple[str, ...]:
        return self.only or tuple(name for name, cls in ALGORITHMS.own.items() if cls.nonconvex)


class Task(NamedTuple):
    """What one seed makes of the plan: clients, first weights, and as many rows again that no client has."""

    pieces: list[tuple[Array, AnyArray]]
    layers: Layers
    x0: Array
    L: float  # twice an estimate of the largest curvature at x0
    X: Array
    y: AnyArray
    ridge: float

    def problem(self, scale: float) -> Problem:
        """The clients, with the L of theory's steps multiplied by `scale`."""
        clients = [network_cost(self.layers, A, b, self.ridge, scale * self.L) for A, b in self.pieces]
        return Problem(clients, sizes=[len(b) for _, b in self.pieces], solvers=Few())

    def accuracy(self, x: Array) -> float:
        return self.layers.accuracy(self.X, self.y, x)


def task_of(plan: Nonconvex, data: Dataset, seed: int) -> Task:
    if data.n < 2 * plan.rows:
        raise InputError(f"{data.name} has {data.n} rows, and {plan.rows} to train and as many to test are asked for.")
    some = np.random.default_rng(seed).permutation(data.n)[: 2 * plan.rows]
    X = data.X[some]
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float) * data.scale
    y = data.y[some].astype(int)
    layers = Layers(X.shape[1], plan.hidden, len(data.classes))
    x0, own = layers.start(seed), y[: plan.rows]
    pieces = [(X[rows], own[rows]) for rows in partition(plan.partition, own, plan.clients, seed=seed)]
    pooled = network_cost(layers, X[: plan.rows], own, plan.ridge)
    L = SAFE * estimated_L(pooled, x0, points=1, steps=15)
    return Task(pieces, layers, x0, L, X[plan.rows :], y[plan.rows :], plan.ridge)


def chosen(name: str, L: float) -> Algorithm:
    """Where theory needs mu, what is usual on such costs: penalties and steps of the order of L."""
    given: dict[str, dict[str, Any]] = {
        "fedpd": {"eta": 1 / (2 * L)},
        "feddr": {"eta": 1 / (2 * L)},
        "feddyn": {"alpha": 2 * L},
        "fedprox": {"a": 2 * L, "K": 10},
        "scaffnew": {"p": 0.1},
    }
    return make(name, **given.get(name, {}))


def measured(plan: Nonconvex, tell: Callable[[str], None] = lambda line: None) -> list[dict[str, Any]]:
    """One line a round of every algorithm and seed, each algorithm with its best scale of L; `tell` gets a sentence
    for each algorithm, with the means over the seeds that ended well."""
    data, lines = load(plan.dataset), []
    tasks = [task_of(plan, data, seed) for seed in range(plan.seeds)]
    trial = task_of(plan, data, plan.seeds)  # a seed that is not reported
    for name in plan.algorithms:
        scale = tuned_scale(plan, trial, name)
        runs = [watched(plan, task, name, scale, seed) for seed, task in enumerate(tasks)]
        lines += [line for own in runs for line in own]
        tell(told(plan, name, scale, [own[-1] for own in runs]))
    return lines


def told(plan: Nonconvex, name: str, scale: float, ends: Sequence[dict[str, Any]]) -> str:
    """How an algorithm did, from the last round of each seed."""
    well = [end for end in ends if end["status"] == "ok"]
    head = f"{plan.clients} clients, {name}: "
    if not well:
        return head + str(ends[0]["status"])
    energy, accuracy = (float(np.mean([end[count] for end in well])) for count in ("energy", "accuracy"))
    failed = f", {len(ends) - len(well)} of {len(ends)} seeds failed" * (len(well) < len(ends))
    return f"{head}energy {energy:.4f}, accuracy {accuracy:.1%}, L times {scale:g}{failed}"


def tuned_scale(plan: Nonconvex, task: Task, name: str) -> float:
    """The factor of L with the lowest energy after all rounds: one search for all, over what all have in common."""
    scale, worse, best, least = 1.0, 0, 1.0, np.inf
    while worse < LOST and scale >= LEAST:
        last = watched(plan, task, name, scale, plan.seeds)[-1]
        if last["status"] == "ok" and last["energy"] < least:
            best, least, worse = scale, last["energy"], 0
        else:
            worse += 1
        scale /= FINER
    return best


def watched(plan: Nonconvex, task: Task, name: str, scale: float, seed: int) -> list[dict[str, Any]]:
    """One run: after every round the energy, the length of its gradient, and the accuracy."""
    problem, found = task.problem(scale), []
    E = problem.pooled

    def look(row: Row, theta: Array) -> bool:
        length = float(np.linalg.norm(E.fresh().gradient(theta)))
        counts = {count: getattr(row, count) for count in ("round", "exchanges", "contacts", "local_gradients")}
        found.append(counts | {"energy": row.energy, "gradient": length, "accuracy": task.accuracy(theta)})
        return False

    try:
        algorithm = chosen(name, scale * task.L)
        result = run(problem, algorithm, rounds=plan.rounds, start=task.x0, seed=seed, threads=1, stop=look)
        status = "diverged" if result.stopped == "diverged" else "ok"
    except Diverged as error:
        status = f"diverged: {error}"
    except (InputError, NotSupported) as error:
        status = f"does not apply: {error}"
    nothing = {"round": 0, "energy": np.nan, "gradient": np.nan, "accuracy": np.nan}
    about = {"algorithm": name, "clients": plan.clients, "seed": seed, "scale": scale, "status": status}
    return [about | line for line in found or [nothing]]


def to_csv(lines: Sequence[dict[str, Any]]) -> str:
    columns = ["algorithm", "clients", "seed", "scale", "round", "exchanges", "contacts", "local_gradients"]
    columns += ["energy", "gradient", "accuracy", "status"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def summary(lines: Sequence[dict[str, Any]]) -> str:
    """Medians over the seeds after the last round, best energy first, in Markdown."""
    last: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for line in lines:
        key = line["clients"], line["algorithm"]
        own = last.setdefault(key, [])
        if own and own[-1]["seed"] == line["seed"]:
            own[-1] = line
        else:
            own.append(line)

    def middle(own: list[dict[str, Any]], name: str) -> float:
        return float(np.median([line[name] for line in own]))

    heads = ["clients", "algorithm", "energy", "gradient", "accuracy", "local gradients", "factor of L"]
    text = [f"| {' | '.join(heads)} |", "|---|---|---:|---:|---:|---:|---:|"]
    for (clients, name), own in sorted(last.items(), key=lambda item: (item[0][0], middle(item[1], "energy"))):
        if own[0]["status"] != "ok":
            text.append(f"| {clients} | {name} | {own[0]['status']} | | | | |")
            continue
        cells = f"{middle(own, 'energy'):.4f} | {middle(own, 'gradient'):.1e} | {middle(own, 'accuracy'):.1%}"
        text.append(f"| {clients} | {name} | {cells} | {middle(own, 'local_gradients'):,.0f} | {own[0]['scale']:g} |")
    return "\n".join(text) + "\n"
