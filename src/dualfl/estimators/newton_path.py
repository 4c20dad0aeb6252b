"""All penalties of a path by Newton's method, side by side: one pass over the rows serves all of them.

The fits of one fold have the mean loss F in common and differ in their penalty R_j only. So F, F' and F'' at a point
say how good it is for every one of them: E_j(x) = F(x) + R_j(x). Each exchange asks for these at one trial point a
penalty; all begin at zero. Then every fit goes on from the best point that any of them has tried,

    p_j  =  argmin over p of  <F'(x), p> + p'F''(x)p/2 + R_j(x + p),

so that a weak penalty begins where stronger ones have arrived, at the price of no exchange. Where fits have ended and
curvatures jump, those that are left also try the steps from the next best points: active sets differ there. A trial
that is no better than what is known is taken back, and its step is a quarter as long. A fit ends where its model
promises a gain of at most tol times the energy of no model; near a minimiser that gain is E - E* but for terms of third
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualfl.errors import DualflError
from dualfl.objectives import Logistic, Poisson, SquaredHinge
from dualfl.silos.costs import Cost
from dualfl.silos.questions import Conversation, Exchange, Query, Silos
from dualfl.solvers.coordinate_descent import Separable, minimise_model
from dualfl.typing import Array

MOST = 2**24  # numbers in one message
MORE = 4  # points from which a fit tries a step, where there is room and curvatures jump
SHORTER = 0.25  # of a step that was taken back
SHORTEST = 1e-5  # below it nothing is left to gain but rounding


class Stalled(DualflError):
    """A fit of the path does not come to its end."""


def suits(model: Any) -> bool:
    """Whether this is a loss for which Newton's method needs few safeguards, and nobody wants another algorithm."""
    if getattr(model, "own_intercept", False):  # then a row's loss is not of its predictor alone
        return False
    return isinstance(model._cost(1.0).loss, Logistic | SquaredHinge | Poisson) and model.algorithm == "auto"


def small(silos: Silos, fits: int) -> bool:
    """Whether whole Hessians of so many fits can be sent at once."""
    d = silos.features + 1
    return fits * d * (d + 3) // 2 <= MOST


@dataclass
class Point:
    """F at a point."""

    x: Array
    F: float
    g: Array
    H: Array


class Fits:
    """The fits of one loss on one choice of rows, one for each penalty."""

    def __init__(self, penalties: Sequence[Cost], mass: float, start: Point, tol: float) -> None:
        cost = penalties[0]
        self.cost, self.mass, self.tol = cost.without_penalty, mass, tol
        kept = np.ones(len(start.x))
        if cost.intercept == "free":
            kept[-1] = 0.0
        self.ridge = np.array([one.ridge for one in penalties])[:, None] * kept
        self.l1 = np.array([one.l1 for one in penalties])[:, None] * kept
        self.m = len(penalties)
        self.more = MORE if isinstance(cost.loss, SquaredHinge) else 1
        self.at: list[Point | None] = [None] * self.m
        self.asked = np.zeros((0, len(start.x)))
        self.length = np.ones(self.m)
        self.step = np.zeros((self.m, len(start.x)))
        self.live = np.ones(self.m, dtype=bool)
        self.scale = abs(start.F)
        self.take([start])

    def energies(self, points: Sequence[Point]) -> Array:
        """E_j of every point: penalties by points."""
        X = np.array([point.x for point in points])
        F = np.array([point.F for point in points])
        found: Array = F + self.ridge @ (X * X).T / 2 + self.l1 @ np.abs(X).T
        return found

    def take(self, found: list[Point]) -> None:
        """Go on from the best point for each penalty."""
        known = list({id(point): point for point in self.at if point is not None}.values())
        points = [*known, *(point for point in found if np.isfinite(point.F))]
        if not points:
            raise Stalled("the loss is not finite where the fits start")
        E = self.energies(points)
        where = {id(point): i for i, point in enumerate(points)}
        for j in map(int, np.flatnonzero(self.live)):
            best, here = int(np.argmin(E[j])), self.at[j]
            if here is None or E[j, best] < E[j, where[id(here)]]:
                self.at[j], self.length[j] = points[best], 1.0
                self.step[j], gain = self.towards(j, points[best])
                self.live[j] = gain > self.tol * self.scale
            else:
                self.length[j] *= SHORTER
                self.live[j] = self.length[j] > SHORTEST
        self.asked = self.trials(points, E)

    def trials(self, points: list[Point], E: Array) -> Array:
        """Where F is to be looked at next: the step of every fit; where others have ended, steps from more points."""
        live = list(map(int, np.flatnonzero(self.live)))
        room, asked = min(self.m // max(len(live), 1), self.more, len(points)), []
        for j in live:
            here = self.at[j]
            assert here is not None
            asked.append(here.x + self.length[j] * self.step[j])
            for i in np.argsort(E[j], kind="stable")[:room]:
                if points[i] is not here:
                    asked.append(points[i].x + self.towards(j, points[i])[0])
        return np.array(asked).reshape(-1, self.ridge.shape[1])

    def towards(self, j: int, point: Point) -> tuple[Array, float]:
        """The step from a point to the minimum of the model there, and the gain that it promises."""
        x, ridge, l1 = point.x, self.ridge[j], self.l1[j]
        Q = point.H + np.diag(ridge)
        slope = point.g + ridge * x
        if not l1.any():
            p = -solved(Q, slope)
            return p, -float(slope @ p) / 2
        infinite = np.full(len(x), np.inf)
        P = Separable(l1, np.zeros(len(x)), -infinite, infinite)
        z = minimise_model(Q, Q @ x - slope, P, x, 1e-3 * np.sqrt(self.tol) * float(np.abs(slope).max()))
        p = z - x
        return p, -float(slope @ p + p @ Q @ p / 2 + l1 @ (np.abs(z) - np.abs(x)))

    @property
    def thetas(self) -> list[Array]:
        return [point.x for point in self.at if point is not None]


def solved(Q: Array, b: Array) -> Array:
    """Q^-1 b; where Q is singular to rounding, with a little more on its diagonal."""
    size = float(np.abs(np.diag(Q)).max())
    for little in (0.0, 1e-14, 1e-11):
        try:
            x = np.asarray(np.linalg.solve(Q + little * size * np.eye(len(b)), b), dtype=np.float64)
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(x).all() and x @ b >= 0:
            return x
    return b / size


def fitting(groups: Sequence[Fits], rounds: int, purpose: str) -> Conversation[None]:
    """Until the last fit has come to its end."""
    for _ in range(rounds):
        waiting = [group for group in groups if group.live.any()]
        if not waiting:
            return
        asked = [np.ascontiguousarray(group.asked) for group in waiting]
        (answer,) = yield Exchange(purpose, (looking([group.cost for group in waiting], asked),))
        for group, found in zip(waiting, points(asked, answer, [group.mass for group in waiting])):
            group.take(found)
    raise Stalled(f"{sum(int(group.live.sum()) for group in groups)} fits of the path have not come to an end")


def looking(costs: Sequence[Cost], thetas: Sequence[Array]) -> Query:
    """The question about each of several losses at some points."""
    return Query("curvatures", {"costs": [cost.as_json() for cost in costs], "thetas": list(thetas)})


def points(thetas: Sequence[Array], answer: Any, masses: Sequence[float]) -> list[list[Point]]:
    """What the answer to it says."""
    found, place = [], 0
    for some, mass in zip(thetas, masses):
        rows = slice(place, place + len(some))
        place = rows.stop
        sums = [np.asarray(answer[name])[rows] / mass for name in ("losses", "gradients", "hessians")]
        found.append([Point(x, float(F), g, unfolded(h, len(x))) for x, F, g, h in zip(some, *sums)])
    return found


def unfolded(h: Array, d: int) -> Array:
    H = np.empty((d, d))
    upper = np.triu_indices(d)
    H[upper] = h
    H.T[upper] = h
    return H


def judging(groups: Sequence[tuple[Fits, Any]], purpose: str) -> Conversation[list[Array]]:
    """The summed loss of every fit on the rows that were left out, by one exchange."""
    costs = [replace(group.cost, rows=rows).as_json() for group, rows in groups]
    given = {"costs": costs, "thetas": [np.array(group.thetas) for group, _ in groups], "second": False}
    (answer,) = yield Exchange(purpose, (Query("curvatures", given),))
    ends = np.cumsum([group.m for group, _ in groups])[:-1]
    return np.split(np.asarray(answer["losses"]), ends)
