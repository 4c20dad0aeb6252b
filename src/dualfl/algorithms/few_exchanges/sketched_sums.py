"""What clients of sketched-newton send: sums at the start, and at trial points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualfl.algorithms.client_cost import MomentCost
from dualfl.algorithms.contract import Place
from dualfl.algorithms.coordinates import Coordinates, ridge_scale
from dualfl.algorithms.cuts import LARGEST
from dualfl.algorithms.few_exchanges import dependence
from dualfl.algorithms.few_exchanges import sketched_metric as sketch
from dualfl.algorithms.few_exchanges.own_start import first_order_minimiser, own_minimiser
from dualfl.algorithms.few_exchanges.self_concordance import Asked, curvature_doubts, row_reach
from dualfl.algorithms.few_exchanges.smooth_sums import SmoothSilo
from dualfl.algorithms.packing import LONGER, SHORT, short, upper
from dualfl.solvers.row_view import rows_of
from dualfl.typing import Array

RAY = (*(0.5**i for i in range(1, 6)), 2.0**-7, 2.0**-10, 2.0**-14, 2.0**-20, 2.0**-30)
BEYOND = 1e100  # stands for an energy that overflows, as a Poisson loss can; such a trial is rejected


# Second-order sums, by name, and what else tells of single rows; without the number of the point behind it.
SECOND_ORDER = ("C", "CO", "own", "cross", "q", "theta", "M", "T", "W", "rough", "direct", "slip", "kinks_", "reach")


def without_second_order(sums: dict[str, Any], among: Sequence[str] = SECOND_ORDER) -> dict[str, Any]:
    """The sums of a client with few rows: E and E' as they are, and no curvature.

    What the others send is then less than the Hessian, by a matrix that is positive semidefinite. A bound of E* needs
    no more: along every line E is at least as curved as what the others have, and their rows alone must keep it.
    """
    found = {name: np.zeros_like(x) if name.rstrip("0123456789") in among else x for name, x in sums.items()}
    if "sizes2" in found:  # one number for all columns bounds them all
        found["sizes2"] = np.full_like(sums["sizes2"], np.max(sums["sizes2"]))
    if "unlike" in found:  # whether columns are others is not told, so none is taken to be
        found["unlike"] = np.ones_like(sums["unlike"])
    return found


def in_few_bits(sums: dict[str, Any]) -> dict[str, Any]:
    """The same, with short numbers for the metrics: they decide how fast steps are, and nothing that is proven.

    One that leaves nothing to a tail has 32 bits: it is the Hessian, beside which no secant pairs mend what is lost.
    """
    found = dict(sums)
    for i in range(len(sums["E"])):
        if f"M{i}" in sums:
            M, T = sums[f"M{i}"], sums[f"T{i}"]
            found |= {f"M{i}": short(M, SHORT if len(T) else LONGER), f"T{i}": short(T)}
    return found


def first_sums(f: MomentCost, at: Place, columns: int, widest: int, local: bool) -> dict[str, Any]:
    """The sums at the start."""
    zero = np.zeros(at.d)
    E, g = f.value_gradient(zero)
    M = np.broadcast_to(np.asarray(f.objective.convexity, dtype=float), (at.d,))
    sums: dict[str, Any] = {"g": g, "mu": f.mu, "M": M, "sizes2": SmoothSilo(f).sizes2 + at.grid, "grid": at.grid}
    sums |= at.measured(f, zero, E)
    if f.objective.shape[0] > widest:
        CO, _, S = f.sketched_moment(zero, scaled_directions(at, M.reshape(f.objective.shape[0], -1), columns))
        own, cross = f.column_moments(zero)
        sums |= {"CO": CO, "S": S, "own": own, "cross": cross}
        return sums | ({"theta": first_order_minimiser(f, own, cross, S)} if local else {})
    rows = rows_of(f.objective)
    working = None if rows is None or f.origin is not None else rows.model.working_sums()
    if rows is not None and working is not None:
        C, sums["q"], S = working[0], working[1] + rows.c, np.ones((1, 1))
    else:
        C, S = f.moment(zero)
    own, cross = np.diag(C), C[:, -1]
    sums |= {"C": upper(C), "S": S}
    if local and sketch.whole(C, S):
        theta = own_minimiser(f.objective, C, S, sums.get("q"))
        sums["theta"] = theta - (0.0 if f.origin is None else f.origin)
    elif local:
        sums["theta"] = first_order_minimiser(f, own, cross, S)
    return sums


@dataclass(frozen=True)
class Wanted:
    """What the server asks for."""

    X: Array  # points
    p: Array  # a ray that ends in the first of them, or nothing
    U: Array  # a new basis, or nothing
    B: Array
    ranks: Any  # of the metrics at the first points
    straight: float  # what straight pieces of a loss count for
    columns: Any  # of C Omega, from and to; in coordinates of `scale` and `centre`
    scale: Array
    centre: Array
    prove: bool  # whether metrics come with what makes a bound of them
    radius: float
    inner: Array
    guesses: Array  # of columns that are others
    short: bool = False  # whether metrics only steer, and travel in few bits


def sums_at(f: MomentCost, at: Place, U: Array, B: Array, asked: Wanted) -> dict[str, Any]:
    """The sums at all points."""
    values, slopes, off, off_g = [], [], [], []
    silo, more = SmoothSilo(f), beside(f, at, asked)
    for i, x in enumerate(asked.X):
        E, g = f.value_gradient(x)
        sound = bool(E < BEYOND) and bool(np.isfinite(g).all())
        values.append(E if sound else BEYOND**2)
        slopes.append(g if sound else np.zeros(at.d))
        error = at.measured(f, x, E) if sound else {"off": 0.0, "off_g": 0.0}  # nobody will use it
        off.append(error["off"] + at.grid)
        off_g.append(error["off_g"] + at.grid)
        more[f"spread{i}"] = min(silo.spread(f.place(x)), LARGEST) if sound else 0.0
        if i < len(asked.ranks):  # a trial beyond all bounds needs no metric, but everybody sends the same shapes
            more |= {f"{name}{i}": part for name, part in metric_at(f, at, x if sound else 0.0 * x, i, U, B, asked)}
        if i == 0 and len(asked.p):
            ray = f.along(x, asked.p, [1 - t for t in RAY])
            more["ray"] = np.nan_to_num(ray, nan=BEYOND, posinf=BEYOND)
    return {"E": np.array(values), "g": np.stack(slopes), "off": np.array(off), "off_g": np.array(off_g)} | more


def metric_at(f: MomentCost, at: Place, x: Array, i: int, U: Array, B: Array, asked: Wanted) -> Any:
    """The metric at one point, and how far off it may be."""
    parts = f.metric(x, U, B, asked.ranks[i], asked.straight)
    named = dict(zip("MTW", parts))
    if asked.prove:
        what = Asked(parts[0], U, asked.straight, asked.radius)
        named |= curvature_doubts(f.objective, f.place(x), at.weight, what)
    return named.items()


def beside(f: MomentCost, at: Place, asked: Wanted) -> dict[str, Any]:
    """What does not depend on the points."""
    sums: dict[str, Any] = {}
    if asked.prove and len(asked.U):
        sums["reach"] = row_reach(f.objective, asked.U, at.weight, asked.B, asked.inner)
    if asked.columns[1] > asked.columns[0]:
        where, (first, last) = Coordinates(asked.scale, asked.centre), asked.columns
        Omega = directions(at, len(asked.scale), first, last, where.apart)
        sums["CO"] = f.sketched_moment(np.zeros(at.d), where.to(Omega))[0]
    if len(asked.guesses):
        rows = rows_of(f.objective)
        unlike = None if rows is None else dependence.unlike(rows.model.design, asked.guesses)
        sums["unlike"] = np.ones(len(asked.guesses)) if unlike is None else unlike
    return sums


def directions(at: Place, D: int, first: int, last: int, apart: int) -> Array:
    """Columns of the random matrix that server and clients have in common; 0 for a feature that is apart."""
    drawn = [replace(at, round=-1).common(f"column {i}").signs((D,)) for i in range(first, last)]
    Omega = np.stack(drawn, axis=1)
    Omega[D - apart :] = 0.0
    return Omega


def scaled_directions(at: Place, M: Array, columns: int) -> Array:
    """The first of them in units in which the ridge M is the same everywhere; a last feature without one is apart."""
    Omega = directions(at, len(M), 0, columns, int(not M[-1].any()))
    return np.asarray(ridge_scale(M)[:, None] * Omega)
