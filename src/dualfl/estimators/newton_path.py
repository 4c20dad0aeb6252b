"""All penalties of a path by Newton's method, side by side: one pass over the rows serves all of them.

The fits of one fold have the mean loss F in common and differ in their penalty R_j only. So F, F' and F'' at a point
say how good it is for every one of them: E_j(x) = F(x) + R_j(x). Each exchange asks for these at one trial point a
penalty; all begin at zero. Then every fit goes on from the best point that any of them has tried,

    p_j  =  argmin over p of  <F'(x), p> + p'F''(x)p/2 + R_j(x + p),

so that a weak penalty begins where stronger ones have arrived, at the price of no exchange. Where fits have ended and
curvatures jump, those that are left also try the steps from the next best points: active sets differ there. A trial
that is no better than what is known is taken back, and its step is a quarter as long. Of counts a step moves the
logarithms by `FARTHEST` at most: farther out the model is wrong by powers of e, and a few rows outweigh all others,
which silos refuse (`federation.steep_points`). A fit ends where its model
promises a gain of at most tol times the energy of no model; near a minimiser that gain is E - E* but for terms of third
order.

Beside several classes a Hessian has many numbers. Then only some of the trials are sent with one, evenly spaced along
the path, and the others borrow: of all points with a Hessian the one from which <x - y, F'(x) - F'(y)> is least, which
is how far the two are apart in the curvature between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dualfl.errors import DualflError
from dualfl.objectives import Logistic, Poisson, Softmax, SquaredHinge
from dualfl.objectives.losses import Loss
from dualfl.silos.costs import Cost
from dualfl.silos.questions import Conversation, Exchange, Query, Silos
from dualfl.solvers.coordinate_descent import Separable, minimise_model
from dualfl.typing import AnyArray, Array

MOST = 2**24  # numbers in one message
BLOCKS = 2**21  # the same in all Hessians of a message, beside several classes
LARGEST, FEWEST = 1000, 2  # coefficients of several classes, and Hessians of a fold in a message, for this to pay
MORE = 4  # points from which a fit tries a step, where there is room and curvatures jump
SHORTER = 0.25  # of a step that was taken back
SHORTEST = 1e-5  # below it nothing is left to gain but rounding
FARTHEST = 1.0  # that a step moves the logarithms of counts, in their weighted quadratic mean


class Stalled(DualflError):
    """A fit of the path does not come to its end."""


def suits(model: Any) -> bool:
    """Whether this is a loss for which Newton's method needs few safeguards, and nobody wants another algorithm."""
    if getattr(model, "own_intercept", False):  # then a row's loss is not of its predictor alone
        return False
    return isinstance(model._cost(1.0).loss, Logistic | SquaredHinge | Poisson | Softmax) and model.algorithm == "auto"


def small(silos: Silos, loss: Loss, folds: int, penalties: int) -> bool:
    """Whether whole Hessians of so many fits can be sent at once, or some of them where others may borrow."""
    D = silos.features + 1
    if loss.outputs == 1:
        return folds * penalties * D * (D + 3) // 2 <= MOST
    gradients = folds * penalties * D * loss.outputs
    return D * loss.outputs <= LARGEST and spared(D, loss, folds) >= FEWEST and gradients <= MOST


def spared(D: int, loss: Loss, folds: int) -> int:
    """How many Hessians every fold may send in a message."""
    return BLOCKS // (folds * len(pairs_of(loss.outputs)[0]) * D * (D + 1) // 2)


def pairs_of(outputs: int) -> tuple[Any, Any]:
    """The outputs whose blocks of a Hessian are sent: for a softmax all rows of blocks add up to 0."""
    free = max(outputs - 1, 1)
    return np.triu_indices(free)


@dataclass
class Point:
    """F at a point; `half` is what silos send of its Hessian, if they do."""

    x: Array
    F: float
    g: Array
    half: Array | None
    outputs: int = 1
    whole: Array | None = None

    @property
    def H(self) -> Array:
        if self.whole is not None:
            return self.whole
        assert self.half is not None
        H = unfolded(self.half, len(self.x), self.outputs)
        self.whole = H if self.outputs == 1 else None  # beside several classes it is large, and seldom asked for
        return H


class Fits:
    """The fits of one loss on one choice of rows, one for each penalty."""

    def __init__(self, penalties: Sequence[Cost], mass: float, start: Point, tol: float) -> None:
        cost = penalties[0]
        self.cost, self.mass, self.tol = cost.without_penalty, mass, tol
        kept = np.ones(len(start.x))
        if cost.intercept == "free":
            kept[-cost.loss.outputs :] = 0.0
        self.ridge = np.array([one.ridge for one in penalties])[:, None] * kept
        self.l1 = np.array([one.l1 for one in penalties])[:, None] * kept
        self.m, self.outputs = len(penalties), cost.loss.outputs
        self.level = self.levels(cost.intercept == "free")
        self.room = self.m  # Hessians in a message, beside several classes
        self.curved: list[Point] = []  # points with a Hessian, from which others borrow
        self.more = MORE if isinstance(cost.loss, SquaredHinge) else 1
        self.at: list[Point | None] = [None] * self.m
        self.asked = np.zeros((0, len(start.x)))
        self.length = np.ones(self.m)
        self.step = np.zeros((self.m, len(start.x)))
        self.live = np.ones(self.m, dtype=bool)
        self.scale = abs(start.F)
        self.take([start])

    def levels(self, free: bool) -> AnyArray:
        """The columns whose coefficients have no common level at a minimiser, or need none. A softmax is blind to what
        the outputs have in common, and a ridge makes it 0; beside l1 only intercepts without a penalty are left."""
        D = self.ridge.shape[1] // self.outputs
        if self.outputs == 1:
            return np.arange(0)
        return np.arange(D - free, D) if self.l1.any() else np.arange(D)

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
        if self.outputs > 1:
            new = (point for point in points[len(known) :] if point.half is not None)
            self.curved = [*self.curved, *new][-2 * self.room - 1 :]
        E = self.energies(points)
        where = {id(point): i for i, point in enumerate(points)}
        for j in map(int, np.flatnonzero(self.live)):
            best, here = int(np.argmin(E[j])), self.at[j]
            if here is None or E[j, best] < E[j, where[id(here)]]:
                self.at[j] = points[best]
                self.step[j], gain = self.towards(j, points[best])
                self.length[j] = self.reach(points[best], self.step[j])
                self.live[j] = gain > self.tol * self.scale
            else:
                self.length[j] *= SHORTER
                self.live[j] = self.length[j] > SHORTEST
                if here.half is None:  # perhaps it is known better by now how F is curved there
                    self.step[j] = self.towards(j, here)[0]
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
                    step = self.towards(j, points[i])[0]
                    asked.append(points[i].x + self.reach(points[i], step) * step)
        return np.array(asked).reshape(-1, self.ridge.shape[1])

    def towards(self, j: int, point: Point) -> tuple[Array, float]:
        """The step from a point to the minimum of the model there, and the gain that it promises."""
        x, ridge, l1 = point.x, self.ridge[j], self.l1[j]
        Q = self.held(self.nearest(point).H) + np.diag(ridge)
        slope = point.g + ridge * x
        if not l1.any():
            p = -solved(Q, slope)
            return p, -float(slope @ p) / 2
        infinite = np.full(len(x), np.inf)
        P = Separable(l1, np.zeros(len(x)), -infinite, infinite)
        z = minimise_model(Q, Q @ x - slope, P, x, 1e-3 * np.sqrt(self.tol) * float(np.abs(slope).max()))
        p = z - x
        return p, -float(slope @ p + p @ Q @ p / 2 + l1 @ (np.abs(z) - np.abs(x)))

    def reach(self, point: Point, step: Array) -> float:
        """How much of a step is tried first."""
        if not isinstance(self.cost.loss, Poisson) or self.cost.intercept not in ("free", True):
            return 1.0
        H = self.nearest(point).H
        moved = float(np.sqrt(max(step @ H @ step, 0.0) / H[-1, -1]))  # of the intercept it is the mean weight
        return FARTHEST / max(moved, FARTHEST)

    def held(self, H: Array) -> Array:
        """The Hessian, with a curvature where the coefficients of a column move together; it is singular there."""
        blocks = H.reshape(-1, self.outputs, H.shape[1] // self.outputs, self.outputs).copy()
        for c in self.level:
            blocks[c, :, c, :] += np.trace(blocks[c, :, c, :]) / self.outputs
        return blocks.reshape(H.shape)

    def nearest(self, point: Point) -> Point:
        """The point whose Hessian serves at this one."""
        if point.half is not None:
            return point
        apart = [float((one.x - point.x) @ (one.g - point.g)) for one in self.curved]
        return self.curved[int(np.argmin(apart))]

    @property
    def second(self) -> Array:
        """Which trials are to be sent with their Hessians: some, evenly spaced."""
        n = len(self.asked)
        count = n if self.outputs == 1 else min(self.room, n)
        return np.unique(np.linspace(0, n - 1, count).round().astype(np.int64))

    @property
    def thetas(self) -> list[Array]:
        return [point.x for point in self.at if point is not None]


def solved(Q: Array, b: Array) -> Array:
    """Q^-1 b, in units in which the diagonal is 1; where Q is singular to rounding, with a little more on it."""
    sizes = np.diag(Q)
    units = 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0))
    Q, b = Q * units * units[:, None], b * units
    for little in (0.0, 1e-14, 1e-11):
        try:
            x = np.asarray(np.linalg.solve(Q + little * np.eye(len(b)), b), dtype=np.float64)
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(x).all() and x @ b >= 0:
            return x * units
    return b * units


def fitting(groups: Sequence[Fits], rounds: int, purpose: str) -> Conversation[None]:
    """Until the last fit has come to its end."""
    for group in groups:
        if group.outputs > 1:
            D = group.asked.shape[1] // group.outputs
            group.room = max(min(group.m, spared(D, group.cost.loss, len(groups))), 1)
    for _ in range(rounds):
        waiting = [group for group in groups if group.live.any()]
        if not waiting:
            return
        asked = [np.ascontiguousarray(group.asked) for group in waiting]
        chosen = [group.second for group in waiting]
        second = True if all(len(one) == len(x) for one, x in zip(chosen, asked)) else chosen
        (answer,) = yield Exchange(purpose, (looking([group.cost for group in waiting], asked, second),))
        for group, found in zip(waiting, points(waiting, asked, answer, second)):
            group.take(found)
    raise Stalled(f"{sum(int(group.live.sum()) for group in groups)} fits of the path have not come to an end")


def looking(costs: Sequence[Cost], thetas: Sequence[Array], second: bool | list[Array] = True) -> Query:
    """The question about each of several losses at some points, `second` of them with Hessians."""
    given = {"costs": [cost.as_json() for cost in costs], "thetas": list(thetas)}
    return Query("curvatures", given if second is True else given | {"second": second})


def starts(costs: Sequence[Cost], thetas: Sequence[Array], answer: Any, masses: Sequence[float]) -> list[Point]:
    """Of fits that all begin at one point each."""
    found = (np.asarray(answer[name]) for name in ("losses", "gradients", "hessians"))
    return [
        Point(x[0], float(F / mass), g / mass, h / mass, cost.loss.outputs)
        for cost, x, mass, F, g, h in zip(costs, thetas, masses, *found)
    ]


def points(
    groups: Sequence[Fits], thetas: Sequence[Array], answer: Any, second: bool | list[Array]
) -> list[list[Point]]:
    """What the answer to it says."""
    found, place, curved = [], 0, 0
    for i, (group, some) in enumerate(zip(groups, thetas)):
        rows = slice(place, place + len(some))
        place = rows.stop
        losses, gradients = (np.asarray(answer[name])[rows] / group.mass for name in ("losses", "gradients"))
        which = np.arange(len(some)) if isinstance(second, bool) else second[i]
        halves: list[Array | None] = [None] * len(some)
        for line in map(int, which):
            halves[line] = np.asarray(answer["hessians"][curved]) / group.mass
            curved += 1
        every = zip(some, losses, gradients, halves)
        found.append([Point(x, float(F), g, half, group.outputs) for x, F, g, half in every])
    return found


def unfolded(half: Array, d: int, outputs: int = 1) -> Array:
    """The Hessian from what is sent of it. Of a softmax the last row of blocks is what the others lack to 0."""
    D = d // outputs
    blocks = half.reshape(-1, D * (D + 1) // 2)
    upper = np.triu_indices(D)
    H = np.zeros((D, outputs, D, outputs))
    for a, b, block in zip(*pairs_of(outputs), blocks):
        B = np.empty((D, D))
        B[upper] = block
        B.T[upper] = block
        H[:, a, :, b] = B
        H[:, b, :, a] = B
    if outputs > 1:
        H[:, :-1, :, -1] = -H[:, :-1, :, :-1].sum(axis=3)
        H[:, -1, :, :-1] = H[:, :-1, :, -1].transpose(0, 2, 1)
        H[:, -1, :, -1] = -H[:, -1, :, :-1].sum(axis=2)
    return H.reshape(d, d)


def judging(groups: Sequence[tuple[Fits, Any]], purpose: str) -> Conversation[list[Array]]:
    """The summed loss of every fit on the rows that were left out, by one exchange."""
    costs = [replace(group.cost, rows=rows).as_json() for group, rows in groups]
    given = {"costs": costs, "thetas": [np.array(group.thetas) for group, _ in groups], "second": False}
    (answer,) = yield Exchange(purpose, (Query("curvatures", given),))
    ends = np.cumsum([group.m for group, _ in groups])[:-1]
    return np.split(np.asarray(answer["losses"]), ends)
