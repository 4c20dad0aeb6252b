"""The contract: what an algorithm is, and what it may see.

An algorithm is a frozen dataclass of hyperparameters, with defaults from theory, and two sides:

* `round(s, at)`, the server's side of ONE round of the paper, a generator. It yields what it asks of the clients,
  receives the weighted mean of their answers, and returns the server's next state. A method with three exchanges a
  round yields three times and reads like its page.
* named client steps, pure functions of one client's objective, its state and one message.

The engine carries messages, adds them up, counts floats and work, evaluates, certifies and checkpoints. Neither side
holds a generator, a clock or a file, so the same object gives the same iterates on every engine.

Arguments are called the same in all algorithms: s is the server's state, c a client's, f the client's cost, m the means
that come back, k the constants that `theory` computes a default from, and a the algorithm that it is for. Fields have
the letters of their paper. What may be asked of f stands in `client_cost`.

>>> from dataclasses import dataclass
>>> import numpy as np
>>> from dualfl.algorithms import Algorithm, Card, ask, client_step, theory
>>> from dualfl.engines import Problem, run
>>> from dualfl.objectives import Quadratic
>>> @dataclass(frozen=True)
... class Server:
...     x: np.ndarray
>>> @dataclass(frozen=True)
... class Toy(Algorithm):
...     "Gradient descent."
...     name = "toy"
...     step: float = theory("1 / L", lambda k, a: 1 / k.L)
...     def start(self, at):
...         return Server(x=np.zeros(at.d))
...     def round(self, s, at):
...         m = yield ask(self.send_gradient, x=s.x)
...         return Server(x=s.x - self.step * m.gradient)
...     @client_step
...     def send_gradient(self, f, c, at, x):
...         return at.send(gradient=f.gradient(x)), c
...     def model(self, s):
...         return s.x
>>> clients = [Quadratic(np.diag([1.0, 4.0]), b) for b in np.eye(2)]
>>> result = run(Problem(clients), Toy(), rounds=60)
>>> result.theta.round(6)
array([0.5  , 0.125])
"""

from __future__ import annotations

import copy
import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, ClassVar, Literal, Self

import numpy as np

from dualfl.algorithms.asking import Ask, Means, Round, State, ask, client_step, tell
from dualfl.algorithms.card import Card
from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.constants import Constants, Facts, theory
from dualfl.algorithms.place import PenaltyAtServer, Place, Upload, bad_answer
from dualfl.arguments import check, hints_of, shown
from dualfl.errors import InputError
from dualfl.objectives.penalties import Penalty
from dualfl.typing import Array

__all__ = [
    "Algorithm",
    "Ask",
    "Card",
    "Constants",
    "Facts",
    "Means",
    "PenaltyAtServer",
    "Place",
    "Round",
    "State",
    "Upload",
    "ask",
    "bad_answer",
    "client_step",
    "tell",
    "theory",
]

MOST = 10**7  # of anything that a hyperparameter counts: a round with more local steps would never end


class Algorithm(ABC):
    """A federated algorithm. Subclasses are frozen dataclasses of JSON-able hyperparameters.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import dualfl
    >>> from dualfl.algorithms import Algorithm, ask, client_step, theory
    >>> @dataclass(frozen=True)
    ... class Server:
    ...     x: np.ndarray
    >>> @dataclass(frozen=True)
    ... class Plain(Algorithm):
    ...     "Gradient descent."
    ...     name = "plain"
    ...     step: float = theory("1 / L", lambda k, a: 1 / k.L)
    ...     def start(self, at):
    ...         return Server(np.zeros(at.d))
    ...     def round(self, s, at):
    ...         m = yield ask(self.slope, x=s.x)
    ...         return Server(s.x - self.step * m.g)
    ...     @client_step
    ...     def slope(self, f, c, at, x):
    ...         return at.send(g=f.gradient(x)), c
    ...     def model(self, s):
    ...         return s.x
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> bool(dualfl.run(problem, Plain(), rounds=100).energy / dualfl.reference(problem) - 1 < 0.01)
    True
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]  # subclasses are dataclasses
    name: ClassVar[str]
    card: ClassVar[Card]
    needs: ClassVar[frozenset[str]] = frozenset({"gradient"})  # of: local gradient hessian samples dual
    penalty: ClassVar[Literal["server", "client"] | None] = None  # where a nonsmooth penalty may go
    uniform: ClassVar[bool] = False  # True: only for equal weights; the engine folds N w_j into the data part
    strongly_convex: ClassVar[bool] = True  # False: mu = 0 is fine
    nonconvex: ClassVar[bool] = False  # True: it is used on costs that are not convex; nothing is proven then
    warm: ClassVar[bool] = False  # True: takes `at.start` itself; otherwise the engine shifts the origin
    compresses: ClassVar[bool] = False  # True: works with a codec, because clients keep what they released
    drifts: ClassVar[bool] = False  # True: by design it does not reach the pooled optimum at a linear rate
    tries: ClassVar[bool] = False  # True: its model may be a trial, and one that is worse is taken back
    no_certificate: ClassVar[str] = "this algorithm gives no lower bound of E*"
    grid: ClassVar[dict[str, Sequence[Any]]] = {}  # what a search over hyperparameters tries
    clients_mu: ClassVar[float] = 0.0  # of a resolved algorithm: the strong convexity that the clients have

    # -- the two sides ----------------------------------------------------------------------------

    def client(self, f: ClientCost, at: Place) -> State:
        """A client's state before its first message."""
        return None

    @abstractmethod
    def start(self, at: Place) -> State | Round:
        """The server's first state, or a generator that asks for what it takes to have one."""

    @abstractmethod
    def round(self, s: State, at: Place) -> Round: ...

    @abstractmethod
    def model(self, s: State) -> Array:
        """What one would deploy now."""

    @property
    def additive(self) -> bool:
        """Whether clients send nothing but sums over their rows: then several of them may be computed as one."""
        return False

    def bound(self, s: State) -> float:
        """A proven lower bound of E*, below it whatever rounding did; -inf where there is none."""
        return -np.inf

    def lower_bound(self, at: Place, mu: float, x: Array, m: Means) -> float:
        """`at.lower_bound` with a mu that a user may have set: above that of the clients it proves nothing."""
        return at.lower_bound(min(mu, self.clients_mu), x, m)

    @property
    def certifies(self) -> bool:
        """Whether `bound` will say anything."""
        return type(self).bound is not Algorithm.bound

    # -- steps that many share --------------------------------------------------------------------

    @client_step
    def gradient(self, f: ClientCost, c: State, at: Place, x: Array) -> tuple[Upload, State]:
        return at.send(g=f.gradient(x)), c

    @client_step
    def value_gradient(self, f: ClientCost, c: State, at: Place, x: Array) -> tuple[Upload, State]:
        value, gradient = f.value_gradient(x)
        return at.send(g=gradient).also(**at.measured(f, x, value)), c

    # -- hyperparameters --------------------------------------------------------------------------

    undecided: ClassVar[bool] = False  # True: an engine must ask `specialise` what to run instead

    def specialise(self, k: Constants, penalty: Penalty | None) -> tuple[Algorithm, str]:
        """The algorithm to run on a problem with these constants (and `facts`), and one sentence that says why."""
        return self, ""

    def resolve(self, k: Constants) -> Self:
        """This algorithm with every open default filled in from theory, and everything checked."""
        self.check_kinds()
        filled = copy.copy(self)  # to be marked: the user's own may be bound to several problems
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            self.require(not (isinstance(value, float) and value != value), field.name, "it must be a number")
            if getattr(filled, field.name) is None and "compute" in field.metadata:
                filled = dataclasses.replace(filled, **{field.name: self._theory(field, k, filled)})
        filled.check(k)
        object.__setattr__(filled, "clients_mu", k.mu)
        return filled

    def check_kinds(self) -> None:
        """Refuse hyperparameters that are of the wrong kind, such as a text where a number should be."""
        hints = _kinds(type(self))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None or "compute" not in field.metadata:
                check(f"{self.name}: {field.name}", value, hints.get(field.name, Any))
            if isinstance(value, int) and abs(value) > MOST:
                raise InputError(f"{self.name}: {field.name} must be at most {MOST:,}, but it is {shown(value)}.")

    def _theory(self, field: dataclasses.Field[Any], k: Constants, filled: Self) -> float:
        with np.errstate(all="ignore"):
            try:
                value = field.metadata["compute"](k, filled)
            except ArithmeticError:  # Python's own floats divide by zero and overflow with an exception
                value = np.nan
        if not np.isfinite(value) or (value == 0 and not field.metadata["zero"]):
            with suppress(TypeError):  # of defaults that are still open
                filled.check(k)  # a hyperparameter outside its range is the better reason
            known = " or tell the cost its L, as in TorchFunction(L=...)," if k.L == np.inf else ""
            raise InputError(
                f"{self.name}: the default {field.name} = {field.metadata['formula']} is {value:g} for mu = {k.mu:g}, "
                f"L = {k.L:g}; give {field.name} yourself,{known} or take another algorithm."
            )
        return value if isinstance(value, int) else float(value)

    def check(self, k: Constants) -> None:  # noqa: B027 (most methods have something to check, not all)
        """Raise InputError for hyperparameters outside their range."""

    @property
    def resolved(self) -> bool:
        return all(
            getattr(self, field.name) is not None or "compute" not in field.metadata
            for field in dataclasses.fields(self)
        )

    def to_json(self) -> str:
        return json.dumps({"algorithm": self.name} | dataclasses.asdict(self))

    def require(self, ok: bool, field: str, right: str) -> None:
        """One sentence for a hyperparameter outside its range."""
        if not ok:
            raise InputError(f"{self.name}: {field} = {getattr(self, field)} is not allowed; {right}.")


@cache
def _kinds(algorithm: type[Algorithm]) -> dict[str, Any]:
    """The annotations of an algorithm; to find them takes as long as a small fit."""
    return hints_of(algorithm)
