"""Problems as people have them, and worse: one for every seed.

Losses, penalties and intercepts all; columns from 1e-8 to 1e8, nearly collinear, equal, constant or far from zero;
classes that a hyperplane separates; weights over six orders of magnitude; silos of one row, or sorted by their targets;
targets up to 1e9; float64, float32, bytes and sparse rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dualfl.engines import Problem
from dualfl.objectives import (
    L1,
    Absolute,
    BoxConstraint,
    ElasticNetPenalty,
    EpsilonInsensitive,
    GroupL2,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    Loss,
    NonNegative,
    Penalty,
    Poisson,
    Quantile,
    Softmax,
    Squared,
    SquaredHinge,
)

LOSSES = (
    "squared", "huber", "logistic", "softmax", "poisson", "squared hinge", "hinge", "absolute", "quantile", "epsilon",
)  # fmt: skip
PENALTIES = (
    "none",
    "ridge",
    "ridge",
    "l1",
    "elastic net",
    "ridge and l1",
    "group",
    "ridge and group",
    "positive",
    "box",
)
COLUMNS = ("plain", "plain", "scales", "one scale", "collinear", "equal", "shifted", "constant")
SILOS = ("even", "even", "sorted", "unequal", "single rows", "one")
ROWS = ("float64", "float64", "float32", "uint8", "sparse")


@dataclass(frozen=True)
class Case:
    """A problem and all that a reference needs to know of it."""

    words: str
    problem: Problem
    X: Any  # all rows as float64, the scale of bytes included, without the intercept
    y: Any
    weights: Any  # of all rows, of sum 1
    loss: Loss
    ridge: float
    penalty: Penalty | None
    intercept: Any


def case(seed: int, number: int) -> Case:
    """Problem `number` of the campaign `seed`."""
    rng = np.random.default_rng([seed, number])
    large = rng.random() < 0.03
    n, D = (int(rng.integers(200, 400)), int(rng.integers(8, 15))) if large else drawn_size(rng)
    kind, penalty, layout, silos, rows = (
        str(rng.choice(names)) for names in (LOSSES, PENALTIES, COLUMNS, SILOS, ROWS)
    )  # fmt: skip
    X, scale = features(rng, n, D, layout, rows)
    loss, y = targets(rng, kind, np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float) * scale)
    weights = 10.0 ** rng.uniform(-6, 0, n) if rng.random() < 0.25 else None
    intercept: Any = [False, True, "free"][int(rng.integers(3))]
    ridge, added = penalised(rng, penalty, loss, X, y, scale)
    if isinstance(added, GroupL2) and loss.outputs == 1:
        added = GroupL2(added.alpha, labels(np.random.default_rng([seed, number, 2]), D + bool(intercept)))
    parts = split(rng, silos, y)
    clients = [
        LinearModel(
            X[part], y[part], loss, ridge, weights=None if weights is None else weights[part], intercept=intercept,
            scale=scale,
        )
        for part in parts
    ]  # fmt: skip
    order = np.concatenate(parts)
    every = (np.asarray(X.toarray()) if sp.issparse(X) else X)[order].astype(np.float64) * scale
    w = np.ones(n) if weights is None else weights
    words = (
        f"{loss}, {penalty} ({ridge:.0e}, {added}), intercept {intercept}, {layout}, {silos} silos, {rows}, {n} x {D}"
    )
    return Case(
        words, Problem(clients, penalty=added), every, y[order], w[order], loss, ridge, added, intercept
    )  # fmt: skip


def drawn_size(rng: Any) -> tuple[int, int]:
    return int(rng.integers(2, 61)), int(rng.integers(1, 7))


def features(rng: Any, n: int, D: int, layout: str, rows: str) -> tuple[Any, float]:
    """The rows, and by what they are to be multiplied."""
    X = rng.standard_normal((n, D))
    if rows == "uint8":
        return rng.integers(0, 256, (n, D)).astype(np.uint8), float(rng.choice([1.0, 1 / 255, 1e3]))
    if layout == "scales":
        X = X * 10.0 ** rng.uniform(-8, 8, D)
    elif layout == "one scale":
        X = X * 10.0 ** rng.uniform(-8, 8)
    elif layout == "collinear" and D > 1:
        X[:, 1] = X[:, 0] + 10.0 ** rng.uniform(-11, -2) * X[:, 1]
    elif layout == "equal" and D > 1:
        X[:, 1] = X[:, 0]
    elif layout == "shifted":
        X[:, 0] += 10.0 ** rng.uniform(1, 6)
    elif layout == "constant":
        X[:, 0] = rng.choice([0.0, 1.0, 1e4])
    if rows == "float32":
        return X.astype(np.float32), 1.0
    if rows == "sparse":
        return sp.csr_array(np.where(rng.random((n, D)) < 0.5, X, 0.0)), 1.0
    return X, 1.0


def targets(rng: Any, kind: str, X: Any) -> tuple[Loss, Any]:
    """A loss, and targets that a linear model of these features explains in part, or all too well."""
    spread = np.sqrt((X**2).mean(axis=0))
    z = (X / np.where(spread > 0, spread, 1.0)) @ rng.standard_normal(X.shape[1])
    noise = float(rng.choice([0.0, 0.3, 2.0]))  # 0: classes are separable, targets exact
    z = z + noise * rng.standard_normal(len(z))
    if kind in ("logistic", "squared hinge", "hinge"):
        y = np.where(z - np.median(z) * (rng.random() < 0.5) > 0, 1.0, -1.0)
        return {"logistic": Logistic(), "squared hinge": SquaredHinge(), "hinge": Hinge()}[kind], y
    if kind == "softmax":
        k = int(rng.integers(3, 5))
        edges = np.quantile(z, np.linspace(0, 1, k + 1)[1:-1])
        return Softmax(k), np.searchsorted(edges, z).astype(float)
    if kind == "poisson":
        rate = np.exp(np.clip(z, -5, 5)) * 10.0 ** rng.uniform(-1, 4)
        return Poisson(), rng.poisson(rate).astype(float)
    size = 10.0 ** rng.uniform(-3, 9)
    y = size * z + (size * 10.0 ** rng.uniform(0, 3) if rng.random() < 0.3 else 0.0)
    losses = {
        "squared": Squared(),
        "huber": Huber(float(10.0 ** rng.uniform(-1, 1) * size)),
        "absolute": Absolute(),
        "quantile": Quantile(float(rng.uniform(0.05, 0.95))),
        "epsilon": EpsilonInsensitive(float(10.0 ** rng.uniform(-2, 0) * size)),
    }
    return losses[kind], y


def penalised(rng: Any, name: str, loss: Loss, X: Any, y: Any, scale: float) -> tuple[float, Penalty | None]:
    """A ridge and a penalty, whose strength is that of the data, more or less."""
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float) * scale
    model = LinearModel(dense, y, loss)
    steep = float(np.abs(slope(model)).max()) or 1.0
    alpha = float(steep * 10.0 ** rng.uniform(-4, 0.2))
    ridge = float(10.0 ** rng.uniform(-8, 2))
    return {
        "none": (0.0, None),
        "ridge": (ridge, None),
        "l1": (0.0, L1(alpha)),
        "elastic net": (0.0, ElasticNetPenalty(alpha, ridge)),
        "ridge and l1": (ridge, L1(alpha)),
        "group": (0.0, GroupL2(alpha)),
        "ridge and group": (ridge, GroupL2(alpha)),
        "positive": (float(rng.choice([0.0, ridge])), NonNegative()),
        "box": (
            float(rng.choice([0.0, ridge])),
            BoxConstraint(-float(rng.uniform(0.1, 1)), float(rng.uniform(0.1, 1))),
        ),
    }[name]


def labels(rng: Any, rows: int) -> tuple[int, ...] | None:
    """Of groups of several columns, mostly; None: every row of the model is one."""
    return None if rng.random() < 0.3 else tuple(int(label) for label in rng.integers(0, max(rows // 2, 1), rows))


def slope(model: LinearModel) -> Any:
    """A subgradient at zero."""
    from dualfl.engines.client import subgradient

    return subgradient(model, np.zeros(model.d))


def split(rng: Any, name: str, y: Any) -> list[Any]:
    """The rows of every silo."""
    n = len(y)
    order = np.argsort(y, kind="stable") if name == "sorted" else rng.permutation(n)
    if name == "one" or n < 3:
        return [order]
    if name == "single rows":
        return [order[i : i + 1] for i in range(min(n, 8) - 1)] + [order[min(n, 8) - 1 :]]
    if name == "unequal":
        cut = int(rng.integers(1, max(2, n // 10 + 1)))
        return [order[:cut], order[cut:]]
    return [part for part in np.array_split(order, int(rng.integers(2, 6))) if len(part)]
