"""The client's side of an exchange: what a step sees of its objective, and how it answers.

`answer` is pure and idempotent: a request that was answered before gets the same reply again, and a client that
has missed or doubled a request is noticed. An engine stores the returned `Silo` before it lets the reply go.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dualfl import kernels
from dualfl.algorithms.client_cost import Solved
from dualfl.algorithms.contract import Algorithm, Place
from dualfl.algorithms.messages import as_remembered
from dualfl.errors import BrokenAlgorithm, Diverged, DualflError, InputError, NotSupported, OutOfTime
from dualfl.objectives.base import Objective
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.linear_point import DRIFT
from dualfl.objectives.penalties import Penalised
from dualfl.objectives.rounding import Rounding
from dualfl.objectives.tilted import Tilted
from dualfl.solvers.base import Solution, Solver, default_solver
from dualfl.solvers.stopping import GradientNorm, StopRule
from dualfl.typing import Array, frozen, sealed


class OutOfSync(DualflError):
    """A client and the server disagree about what was exchanged last."""


class Work(NamedTuple):
    """What a client did for one answer."""

    gradients: float = 0.0
    hessian_products: float = 0.0
    iterations: int = 0  # of the local solver
    capped: int = 0  # local solves that ended at their cap


class LocalCost:
    """f as a client step sees it (a `ClientCost`): evaluations, and LOCAL(a, tilt) by this client's own solver.

    With an `origin` x0 the algorithm works on f(x0 + .), so that every method can start anywhere.
    """

    def __init__(self, objective: Objective, solver: Solver | None = None, origin: Array | None = None) -> None:
        self.objective, self.origin = objective, origin
        self.solver = default_solver(objective) if solver is None else solver
        self.iterations = 0
        self.capped = 0
        self.remembers = False  # points, from message to message: only for a run that nobody resumes

    @property
    def d(self) -> int:
        return self.objective.d

    @property
    def n(self) -> int:
        return self.objective.n

    @property
    def mu(self) -> float:
        return self.objective.mu

    @property
    def L(self) -> float:
        return self.objective.L

    @contextmanager
    def until(self, deadline: float) -> Iterator[None]:
        """Work that begins after `deadline`, by time.perf_counter(), is not done: OutOfTime."""
        if time.perf_counter() > deadline:
            raise OutOfTime
        self.objective.cost.until = deadline
        try:
            yield
        finally:
            self.objective.cost.until = np.inf

    def place(self, x: Array) -> Array:
        return x if self.origin is None else sealed(x + self.origin)

    def value(self, x: Array) -> float:
        return self.objective.value(self.place(x))

    def gradient(self, x: Array) -> Array:
        return self.objective.gradient(self.place(x))

    def subgradient(self, x: Array) -> Array:
        """The gradient where there is one, and some subgradient where there is none."""
        return subgradient(self.objective, self.place(x))

    def value_gradient(self, x: Array) -> tuple[float, Array]:
        return self.objective.value_gradient(self.place(x))

    def rounding(self, x: Array, solved: bool = False) -> Rounding:
        """How far off value and gradient at x may be; `solved`: as `local` found them, with predictors that drift."""
        return self.objective.rounding(self.place(x), 2 * DRIFT if solved else 0.0)

    def hessian_times(self, x: Array, v: Array) -> Array:
        return self.objective.hessian_times(self.place(x), v)

    def hessian(self, x: Array) -> Array:
        return self.objective.hessian(self.place(x))

    def moment(self, x: Array) -> tuple[Array, Array]:
        """C and S with C (x) S about the data part of the Hessian at x."""
        return self.objective.moment(self.place(x))

    def sketched_moment(self, x: Array, Omega: Array) -> tuple[Array, float, Array]:
        """C Omega, the trace of C, and S."""
        return self.objective.sketched_moment(self.place(x), Omega)

    def column_moments(self, x: Array) -> tuple[Array, Array]:
        """The diagonal of C, and its last column."""
        return self.objective.column_moments(self.place(x))

    def feature_moment(self, x: Array) -> Array:
        """C alone, which takes no k x k block a row."""
        return self.objective.feature_moment(self.place(x))

    def metric(self, x: Array, U: Array, B: Array, rank: int, straight: float = 0.0) -> tuple[Array, Array, Array]:
        """The sums that a sketch of the Hessian at x needs."""
        return self.objective.metric(self.place(x), U, B, rank, straight)

    def along(self, x: Array, p: Array, steps: Sequence[float]) -> Array:
        """f(x + t p) for several t; no pass over the data beyond the first."""
        return self.objective.at(self.place(x)).ray(p).values(steps)

    def sample_gradient(self, rows: npt.NDArray[np.intp], x: Array) -> Array:
        return self.objective.sample_gradient(rows, self.place(x))

    def warm_at(self, x: Array) -> Array | None:
        """What to hand to `local` as `warm` to begin at x; None for solvers that go on from dual variables."""
        return None if "dual" in self.objective.offers else frozen(self.place(x))

    def local(self, a: float, tilt: Array, warm: Array | None = None, stop: StopRule | None = None) -> Solved:
        """argmin f(x) + (a/2)|x|^2 - <tilt, x>. `warm` is the `warm` of an earlier answer, or None."""
        tilt = frozen(tilt)
        shifted = tilt if self.origin is None or a == 0 else sealed(tilt + a * self.origin)
        problem = self.objective.tilted(a, shifted)
        self.solver.check(problem)
        solution = self.solver.solve(problem, warm, GradientNorm() if stop is None else stop)
        self.iterations += solution.iterations
        self.capped += solution.capped
        return self._solved(a, tilt, shifted, solution)

    def _solved(self, a: float, tilt: Array, shifted: Array, found: Solution) -> Solved:
        x, value = found.x, found.value + float(shifted @ found.x)
        here = x if self.origin is None else sealed(x - self.origin)
        subgradient = tilt + found.residual
        if a != 0:
            value -= a / 2 * float(x @ x)
            subgradient -= a * here
        return Solved(
            here,
            found.residual,
            sealed(subgradient),
            value,
            found.slack,
            found.iterations,
            found.capped,
            found.warm,
        )


class Envelope(NamedTuple):
    """One exchange as it reaches the clients."""

    round: int
    exchange: int
    step: str
    message: dict[str, Any]

    @property
    def id(self) -> tuple[int, int]:
        return self.round, self.exchange


class Reply(NamedTuple):
    wire: dict[str, Any]
    work: Work


@dataclass(frozen=True)
class ClientMemory:
    """Everything a client remembers between messages."""

    state: Any = None
    answered: tuple[int, int] | None = None  # id of the last exchange answered
    reply: Reply | None = None
    memory: dict[str, Array] = field(default_factory=dict)  # of the codec


def answer(
    algorithm: Algorithm,
    f: LocalCost,
    silo: ClientMemory,
    request: Envelope,
    place: Place,
    j: int,
    weight: float,
    after: tuple[int, int] | None,
) -> tuple[Reply, ClientMemory]:
    """Client j's answer to a request. `after` is what the server believes this client answered last."""
    if silo.answered == request.id and silo.reply is not None:
        return silo.reply, silo
    if silo.answered != after:
        raise OutOfSync(
            f"Client {j} has answered exchange {silo.answered}, and the server thinks it was {after}; "
            "resume both from the same checkpoint."
        )
    step = getattr(algorithm, request.step, None)
    if step is None:
        raise InputError(f"{request.step!r} is not a client step of {algorithm.name}; the two sides differ in version.")
    if not getattr(step, "is_client_step", False):
        raise BrokenAlgorithm(
            f"{request.step!r} is not a client step of {algorithm.name}; if it should be, write @client_step above it."
        )
    at = place.of_client(request.round, request.exchange, j, weight, silo.memory)
    # A resumed run remembers no points, so none may matter: value-then-gradient rounds differently from both at once.
    if not f.remembers:
        forget(f.objective)
    cost = f.objective.cost
    # From zero: a gradient of one row is a fraction, and differences of totals would round by what was done before.
    gradients, products, iterations, capped = cost.gradients, cost.hessian_products, f.iterations, f.capped
    cost.gradients = cost.hessian_products = 0.0
    try:
        state = algorithm.client(f, at) if silo.answered is None else silo.state
        sent, state = step(f, state, at, **request.message)
    except Diverged as error:
        raise Diverged(f"Client {j}, round {request.round} of {algorithm.name}: {error}") from error
    work = Work(cost.gradients, cost.hessian_products, f.iterations - iterations, f.capped - capped)
    cost.gradients += gradients
    cost.hessian_products += products
    reply = Reply(sent.wire, work)
    return reply, ClientMemory(as_remembered(state), request.id, reply, sent.memory or {})


def measured(f: Objective, x: Array, remembered: bool = False) -> dict[str, float]:
    """f at a point, and how far off it may be; infinite outside of a constraint.

    `remembered`: with its gradient, in one pass, because the next step is likely to ask for it.
    """
    E = f.value_gradient(x)[0] if remembered and f.smooth else f.value(x)
    return {"E": E, "off": f.rounding(x).value if np.isfinite(E) else 0.0}


def forget(f: Objective) -> None:
    """Drop the points that f and what it is made of remember."""
    f.forget()
    if isinstance(f, Tilted):
        forget(f.base)
    if isinstance(f, Penalised):
        forget(f.smooth_part)


def subgradient(f: Objective, x: Array) -> Array:
    """An element of the subdifferential of f at x."""
    if f.smooth:
        return f.gradient(x)
    if isinstance(f, Tilted):
        return sealed(subgradient(f.base, x) + f.a * x - f.c)
    if isinstance(f, Penalised) and f.smooth_part.smooth:
        return sealed(f.steepest(x, f.smooth_part.gradient(x)))
    if isinstance(f, LinearModel):
        f.cost.gradients += 1
        _, slopes = kernels.residual(f.loss, f.predictors(x), f.y, f.s)
        f.cost.passes += 0.5
        return sealed(f.design.backward(slopes).ravel() + f.ridge * f.ridge_part(x))
    raise NotSupported(f"{f.name} gives no subgradient; start at zero, or take a loss that has one.")
