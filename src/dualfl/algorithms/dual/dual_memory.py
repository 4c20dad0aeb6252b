"""What a client of DualFL remembers: four vectors, or, beside many others with few rows, what they are made of.

With nu = mu the minimiser of f_j - nu <zeta, .> is zeta plus a sum of the client's rows, so

    zeta - sent  =  X'B,      s  =  theta + X'B_before,      B and B_before with one line a row,

theta being what was broadcast, which all clients of a process share. Where all clients together would remember more
than `WORTH` numbers, those with few rows keep B instead. What the way there and back loses is counted in `drift`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.objectives.linear import LinearModel
from dualfl.solvers.row_span import span_of
from dualfl.solvers.row_view import rows_of
from dualfl.typing import Array

WORTH = 1 << 23  # numbers that all clients together remember: with fewer nothing is gained
SMALLER = 8  # times: features against rows
LOST = 1e-10  # of a vector: more than that is not left to the rows


@dataclass(frozen=True)
class Local:
    """A client's memory. `s` is its bracket of the round before, `sent` what it released last."""

    zeta: Array
    s: Array
    sent: Array
    warm: Array | None  # where its solver goes on
    t: float
    G0: float  # the unit of its thresholds
    drift: float = 0.0  # what rounding may have added to zeta so far

    def brackets(self, f: ClientCost, theta: Array) -> tuple[Array, Array]:
        """s of this round and of the one before."""
        return self.zeta + theta - self.sent, self.s

    def begin(self, f: ClientCost, zeta: Array) -> Array | None:
        """Where the solver begins."""
        return self.warm

    @property
    def released(self) -> float:
        """The length of what was sent."""
        return float(np.linalg.norm(self.sent))


@dataclass(frozen=True)
class InSpan:
    """The same in the span of the rows."""

    B: Array
    B_before: Array
    theta: Array  # as it was broadcast
    warm: Array | None  # dual variables; None where the solver goes on from a model
    t: float
    G0: float
    drift: float
    released: float

    def brackets(self, f: ClientCost, theta: Array) -> tuple[Array, Array]:
        X = model_of(f).design
        return theta + X.backward(self.B).ravel(), self.theta + X.backward(self.B_before).ravel()

    def begin(self, f: ClientCost, zeta: Array) -> Array | None:
        return zeta - model_of(f).design.backward(self.B).ravel() if self.warm is None else self.warm


def model_of(f: ClientCost) -> LinearModel:
    """The rows of a client that has some."""
    rows = rows_of(f.objective)
    assert rows is not None
    return rows.model


def kept(f: ClientCost, c: Local, theta: Array, N: int, nu: float) -> Local | InSpan:
    """The memory as it is kept: smaller, if that is worth it and loses nothing."""
    model = f.objective
    if N * 4 * f.d < WORTH or not isinstance(model, LinearModel) or nu != model.mu or f.origin is not None:
        return c
    if SMALLER * model.n > model.design.D or (span := span_of(model)) is None:
        return c
    shared, drift = [], c.drift
    for v in (c.zeta - c.sent, c.s - theta):
        B = span.back @ (span.back.T @ model.design.forward(model.matrix(v)))
        lost = float(np.linalg.norm(v - model.design.backward(B).ravel()))
        if lost > LOST * float(np.linalg.norm(v)):
            return c
        shared.append(B)
        drift += lost
    warm = None if c.warm is None or c.warm.size == f.d else c.warm
    return InSpan(shared[0], shared[1], theta, warm, c.t, c.G0, drift, c.released)
