"""L-BFGS around the clients' own curvature: Newton steps of every client, and secant pairs for what these do not know.

The first metric is the mean of inverse Hessians of GIANT (Wang, Roosta-Khorasani, Xu and Mahoney, 2018), the two loops
are Liu and Nocedal's (1989). That the clients answer between the loops is this library's.

    x+   = mean argmin f_j, and E, E' at x = 0                                    first exchange
    E, E' at x+, a pair (s, y) = (x+ - x, E'(x+) - E'(x)), and x = x+              one exchange
    q    = E'(x) after the first loop over the pairs
    p    = mean (f_j''(x) + a_j I)^-1 q                                           one exchange
    x+   = x - p after the second loop

The metric is positive definite, and each pair is a secant condition that the direction keeps. So clients that are alike
take a few steps, as with DANE and GIANT, and on others the pairs learn what the mean of their curvatures does not know.
The damping a_j is a small share of one row's curvature over the number of rows: in directions with less than that a
client's Hessian is chance, and steps along them would be far too long.

A trial is accepted if E falls (Armijo's condition). Otherwise the next is nearer, where a cubic has its minimum.

Local steps are given up where they do not pay. They double the exchanges, so in a window of these they have to bring
Newton's decrement down by what L-BFGS would in as many; `plain` is how many it is expected to take to 1e-6. Where they
do not, or four trials in a row fail, the run goes on as L-BFGS, from the same point and with the same pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import (
    Algorithm,
    Card,
    Constants,
    Place,
    Round,
    Upload,
    ask,
    client_step,
    theory,
)
from dualfl.algorithms.second_order.conjugate_gradients import conjugate_gradients
from dualfl.algorithms.two_loops import Vectors, first_loop, second_loop
from dualfl.solvers.stopping import GradientNorm
from dualfl.typing import Array

ARMIJO = 1e-4
CURVED = 1e-12  # of |s||y|: a pair with less curvature is rounding
ROUNDING = 1e-14  # of E: a change that tells nothing
LEVEL = 1e-6  # the relative error for which `plain` is meant
LEAST, MOST = 0.1, 0.5  # of a trial that failed: where the next may lie
PATIENCE = 4  # trials in a row that fail
WINDOW, SHARE = 6, 1 / 8  # exchanges after which local steps are weighed: at least, and of `plain`
DAMPING = 0.02  # of a row's curvature over the rows: what a client's Hessian cannot know
ROUGH = 1e-2  # of its gradient at zero: what a client may leave of it at its own minimiser
CAP = 500  # iterations of a client's solver


@dataclass(frozen=True)
class Local:
    """Where a client was asked last: its Hessian there makes its next step."""

    x: Array


@dataclass(frozen=True)
class Server:
    x: Array
    E: float
    g: Array
    trial: Array  # where the next gradient is asked
    S: Vectors
    Y: Vectors
    bound: float
    mark: float = np.inf  # the decrement <g, p> when the window began
    since: int = 0  # exchanges since then
    failed: int = 0  # trials in a row that were not accepted
    local: bool = True  # whether clients still take local steps


@dataclass(frozen=True)
class LocalSecants(Algorithm):
    """L-BFGS with Newton steps of the clients, which are given up if they do not help.

    Parameters
    ----------
    memory : int, default 30
        How many secant pairs are kept.
    accuracy : float, default 0.001
        How exactly clients solve for their steps: what may be left, relative to q.
    plain : float, default 40.0
        Exchanges that L-BFGS is expected to take to 1e-6: what local steps are compared with.
    mu : float, default mu
        The strong convexity of the costs, for the certificate; measured if it is not given.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.LocalSecants(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    memory: int = 30
    accuracy: float = 1e-3
    plain: float = 40.0
    mu: float = theory("mu", lambda k, a: k.mu, zero=True)  # for the certificate only

    name = "local-secants"
    needs = frozenset({"gradient", "hessian", "local"})
    tries = True
    grid: ClassVar = {"accuracy": [1e-1, 1e-2, 1e-3]}
    card = Card(
        "Local steps between secants",
        2026,
        "this library",
        exchanges="2, later 1",
        up="2d + 3",
        down="2d",
        rate="linear; faster the more alike the clients",
    )

    def check(self, k: Constants) -> None:
        self.require(self.memory >= 1, "memory", "it must be at least 1 pair")
        self.require(0 < self.accuracy < 1, "accuracy", "it must lie in (0, 1)")
        self.require(0 < self.plain < np.inf, "plain", "it must be a number of exchanges > 0")

    def start(self, at: Place) -> Round:
        x = np.zeros(at.d)
        m = yield ask(self.first)
        return Server(x, m.E, m.g, m.own, (), (), self.lower_bound(at, self.mu, x, m))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.look, x=s.trial)
        p, slope = s.x - s.trial, float(s.g @ (s.x - s.trial))
        S, Y = self.learnt(s, -p, m.g - s.g)
        s = replace(s, S=S, Y=Y, since=s.since + 1, bound=max(s.bound, self.lower_bound(at, self.mu, s.trial, m)))
        same = abs(m.E - s.E) <= ROUNDING * abs(s.E) and np.linalg.norm(m.g) <= np.linalg.norm(s.g)
        if not (m.E <= s.E - ARMIJO * slope or same):  # energies that agree to rounding no longer tell, gradients do
            return self.nearer(s, p, slope, m.E, float(m.g @ p))
        s = replace(s, x=s.trial, E=m.E, g=m.g, failed=0)
        if not s.local:
            return replace(s, trial=s.x - plain_step(s.g, S, Y, s.E))
        q, weights = first_loop(s.g, S, Y)
        own = (yield ask(self.own_step, q=q)).p
        s, p = replace(s, since=s.since + 1), second_loop(own, S, Y, weights)
        if not s.g @ p > 0:  # far too unlike, or at rounding level
            p = plain_step(s.g, S, Y, s.E)
        return self.weighed(replace(s, trial=s.x - p), float(s.g @ p))

    def learnt(self, s: Server, step: Array, change: Array) -> tuple[Vectors, Vectors]:
        """The newest pairs, this one among them if it has curvature."""
        if not step @ change > CURVED * np.linalg.norm(step) * np.linalg.norm(change):
            return s.S, s.Y
        return (*s.S, step)[-self.memory :], (*s.Y, change)[-self.memory :]

    def nearer(self, s: Server, p: Array, slope: float, E: float, end: float) -> Server:
        """After a trial that failed: the next lies between it and x. Local steps are given up after a few."""
        failed = s.failed + 1
        if s.local and failed == PATIENCE:
            return replace(s, trial=s.x - plain_step(s.g, s.S, s.Y, s.E), failed=0, local=False)
        t = float(np.clip(cubic_minimum(s.E, slope, E, end), LEAST, MOST))
        return replace(s, trial=s.x - t * p, failed=failed)

    def weighed(self, s: Server, decrement: float) -> Server:
        """Whether local steps have paid, looked at whenever a window is over."""
        if np.isinf(s.mark):
            return replace(s, mark=decrement, since=0)
        if s.since < max(WINDOW, SHARE * self.plain):
            return s
        paid = decrement <= s.mark * LEVEL ** (s.since / self.plain)
        return replace(s, mark=decrement, since=0, local=paid)

    def model(self, s: Server) -> Array:
        return s.trial

    def bound(self, s: Server) -> float:
        return s.bound

    @client_step
    def first(self, f: ClientCost, c: Any, at: Place) -> tuple[Upload, Local]:
        x = np.zeros(at.d)
        E, g = f.value_gradient(x)
        own = f.local(
            0.0, x, warm=f.place(x), stop=GradientNorm(max(ROUGH * float(np.linalg.norm(g)), 1e-14), cap=CAP)
        ).x
        return at.send(g=g, own=own).also(**at.measured(f, x, E)), Local(x)

    @client_step
    def look(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        return at.send(g=g).also(**at.measured(f, x, E)), Local(x)

    @client_step
    def own_step(self, f: ClientCost, c: Local, at: Place, q: Array) -> tuple[Upload, Local]:
        damping = DAMPING * f.objective.L_row / f.n
        damping = damping if np.isfinite(damping) else 0.0
        p = conjugate_gradients(lambda v: f.hessian_times(c.x, v) + damping * v, q, self.accuracy, most=CAP)
        return at.send(p=p), c


def plain_step(g: Array, S: Vectors, Y: Vectors, E: float) -> Array:
    """L-BFGS's step. Without pairs it is the one that would end at an energy of 0 if E were linear."""
    if not S:
        return g * (abs(E) / max(float(g @ g), 1e-300))
    q, weights = first_loop(g, S, Y)
    p = second_loop(q * (float(S[-1] @ Y[-1]) / float(Y[-1] @ Y[-1])), S, Y, weights)
    return p if g @ p > 0 else g * (float(S[-1] @ S[-1]) / float(S[-1] @ Y[-1]))


def cubic_minimum(E: float, slope: float, end: float, end_slope: float) -> float:
    """Where in (0, 1) the cubic with these values and decreases at 0 and 1 is least; 0.5 if it has no minimum there."""
    a, b, rise = -slope, -end_slope, end - E
    if not np.isfinite(rise + b):
        return 0.0
    w = a + b - 3 * rise
    square = w * w - a * b
    if square < 0:
        return 0.5
    root = float(np.sqrt(square))
    below = b - a + 2 * root
    return 1 - (b + root - w) / below if below > 0 else 0.5
