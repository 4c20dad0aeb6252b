"""The client's side of an exchange: what a step sees of its objective, and how it answers.

`answer` is pure and idempotent: a request that was answered before gets the same reply again, and a client that
has missed or doubled a request is noticed. An engine stores the returned `Silo` before it lets the reply go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dualfl.algorithms.contract import Algorithm, Place, Upload
from dualfl.algorithms.messages import canonical
from dualfl.errors import DualflError, InputError
from dualfl.objectives.base import Objective
from dualfl.solvers.base import Solution, Solver, default_solver
from dualfl.solvers.stopping import GradientNorm, StopRule
from dualfl.typing import Array, frozen, sealed


class OutOfSync(DualflError):
    """A client and the server disagree about what was exchanged last."""


class Solved(NamedTuple):
    """The answer of LOCAL(a, c): argmin f(x) + (a/2)|x|^2 - <c, x>, up to the residual r.

    subgradient : c - a x + r, a subgradient of f at x up to `slack`, without asking f for one.
    value : f(x), not the value of the local problem.
    """

    x: Array
    residual: Array
    subgradient: Array
    value: float
    slack: float
    iterations: int
    capped: bool
    warm: Array


class Work(NamedTuple):
    """What a client did for one answer."""

    gradients: float = 0.0
    hessian_products: float = 0.0
    iterations: int = 0  # of the local solver
    capped: int = 0  # local solves that ended at their cap


class LocalCost:
    """f as a client step sees it: evaluations, and LOCAL(a, c) with this client's own solver.

    With an `origin` x0 the algorithm works on f(x0 + .), so that every method can start anywhere.
    """

    def __init__(self, objective: Objective, solver: Solver | None = None, origin: Array | None = None) -> None:
        self.objective, self.origin = objective, origin
        self.solver = default_solver(objective) if solver is None else solver
        self.iterations = 0
        self.capped = 0

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

    def place(self, x: Array) -> Array:
        return x if self.origin is None else sealed(x + self.origin)

    def value(self, x: Array) -> float:
        return self.objective.value(self.place(x))

    def gradient(self, x: Array) -> Array:
        return self.objective.gradient(self.place(x))

    def value_gradient(self, x: Array) -> tuple[float, Array]:
        return self.objective.value_gradient(self.place(x))

    def hessian_times(self, x: Array, v: Array) -> Array:
        return self.objective.hessian_times(self.place(x), v)

    def hessian(self, x: Array) -> Array:
        return self.objective.hessian(self.place(x))

    def along(self, x: Array, p: Array, steps: Sequence[float]) -> Array:
        """f(x + t p) for several t; no pass over the data beyond the first."""
        ray = self.objective.at(self.place(x)).ray(p)
        return np.array([ray.value(t) for t in steps])

    def sample_gradient(self, rows: Any, x: Array) -> Array:
        return self.objective.sample_gradient(rows, self.place(x))  # type: ignore[attr-defined, no-any-return]

    def local(self, a: float, c: Array, warm: Array | None = None, stop: StopRule | None = None) -> Solved:
        """argmin f(x) + (a/2)|x|^2 - <c, x>. `warm` is the `warm` of an earlier answer, or None."""
        shifted = c if self.origin is None or a == 0 else c + a * self.origin
        problem = self.objective.tilted(a, frozen(shifted))
        self.solver.check(problem)
        solution = self.solver.solve(problem, warm, GradientNorm() if stop is None else stop)
        self.iterations += solution.iterations
        self.capped += solution.capped
        return self._solved(a, c, shifted, solution)

    def _solved(self, a: float, c: Array, shifted: Array, found: Solution) -> Solved:
        x = found.x
        value = found.value - a / 2 * float(x @ x) + float(shifted @ x)
        here = x if self.origin is None else sealed(x - self.origin)
        return Solved(
            here,
            found.residual,
            sealed(c - a * here + found.residual),
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
class Silo:
    """Everything a client remembers between messages."""

    state: Any = None
    answered: tuple[int, int] | None = None  # id of the last exchange answered
    reply: Reply | None = None
    memory: dict[str, Array] = field(default_factory=dict)  # of the codec


def answer(
    algorithm: Algorithm,
    f: LocalCost,
    silo: Silo,
    request: Envelope,
    at: Place,
    after: tuple[int, int] | None,
) -> tuple[Reply, Silo]:
    """Answer a request. `after` is what the server believes this client answered last."""
    if silo.answered == request.id and silo.reply is not None:
        return silo.reply, silo
    if silo.answered != after:
        raise OutOfSync(
            f"Client {at.j} has answered exchange {silo.answered}, and the server thinks it was {after}; "
            "resume both from the same checkpoint."
        )
    step = getattr(algorithm, request.step, None)
    if step is None or not getattr(step, "is_client_step", False):
        raise InputError(f"{request.step!r} is not a client step of {algorithm.name}; the two sides differ in version.")
    here = replace(at, memory=silo.memory)
    # A resumed run remembers no points, so none may matter: value-then-gradient rounds differently from both at once.
    f.objective.forget()
    before, iterations, capped = f.objective.cost.copy(), f.iterations, f.capped
    state = algorithm.client(f, here) if silo.answered is None else silo.state
    sent, state = step(f, state, here, **request.message)
    done = f.objective.cost - before
    work = Work(done.gradients, done.hessian_products, f.iterations - iterations, f.capped - capped)
    reply = Reply(checked(sent, algorithm, at), work)
    return reply, Silo(settled(state), request.id, reply, sent.memory or {})


def checked(sent: Upload, algorithm: Algorithm, at: Place) -> dict[str, Any]:
    """What goes on the wire, or a sentence if it is not finite: one bad client must not poison the mean."""
    for name, value in sent.wire.items():
        numbers = getattr(value, "value", value)
        if not np.isfinite(numbers).all():
            raise InputError(
                f"Client {at.j} answered with NaN or infinity in {name!r} at round {at.round} of {algorithm.name}; "
                "its data or its local solver broke down, so look at that client."
            )
    return sent.wire


def settled(state: Any) -> Any:
    """A state with all its arrays contiguous and read-only, so that memory and disk give the same bits."""
    if state is None:
        return None
    changed = {}
    for name, value in vars(state).items():
        if isinstance(value, tuple):
            changed[name] = tuple(canonical(v) for v in value)
        else:
            changed[name] = canonical(value)
    return replace(state, **changed)
