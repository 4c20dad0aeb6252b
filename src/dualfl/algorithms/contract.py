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
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.cuts import LARGEST, mean_cut, penalised, proven
from dualfl.algorithms.messages import canonical, not_finite
from dualfl.arguments import check, hints_of, shown
from dualfl.errors import BrokenAlgorithm, InputError
from dualfl.objectives.penalties import Penalised, Penalty
from dualfl.streams import Stream
from dualfl.typing import Array

MOST = 10**7  # of anything that a hyperparameter counts: a round with more local steps would never end
Means = SimpleNamespace
State = Any  # a small frozen dataclass of the algorithm's own
Step = TypeVar("Step", bound=Callable[..., Any])


class Ask(NamedTuple):
    """One exchange: call the client step `step` with `message` on the clients `to` (None: all)."""

    step: str
    message: dict[str, Any]
    to: Sequence[int] | None
    reduce: Literal["sum", "max"]
    answered: bool  # False: down only, no exchange is counted


def ask(
    step: Callable[..., Any],
    *,
    to: Sequence[int] | None = None,
    reduce: Literal["sum", "max"] = "sum",
    **message: Any,
) -> Ask:
    """Ask clients to run a step; the `yield` of it returns the weighted mean of what they send.

    Parameters
    ----------
    step : callable
        A client step of the algorithm.
    to : sequence of int, optional
        The numbers of the clients that are asked; None: all.
    reduce : {'sum', 'max'}, default 'sum'
        Whether answers are averaged by weight, or their maximum is taken.
    **message : object
        What the step is called with.

    Returns
    -------
    Ask
        What `round` yields.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.algorithms import ask, client_step
    >>> @client_step
    ... def slope(self, f, c, at, x):
    ...     return at.send(g=f.gradient(x)), c
    >>> ask(slope, x=np.zeros(2)).step
    'slope'
    """
    return Ask(step.__name__, {k: canonical(v) for k, v in message.items()}, to, reduce, True)


def tell(step: Callable[..., Any], *, to: Sequence[int] | None = None, **message: Any) -> Ask:
    """Let clients run a step that sends nothing back.

    Parameters
    ----------
    step : callable
        A client step of the algorithm.
    to : sequence of int, optional
        The numbers of the clients; None: all.
    **message : object
        What the step is called with.

    Returns
    -------
    Ask
        What `round` yields.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.algorithms import client_step, tell
    >>> @client_step
    ... def remember(self, f, c, at, x):
    ...     return None, x
    >>> tell(remember, x=np.zeros(2)).answered
    False
    """
    return ask(step, to=to, **message)._replace(answered=False)


Round = Generator[Ask, Means, State]


def client_step(function: Step) -> Step:
    """Marks a method as a step that the server may ask for; it can ask for no other method.

    Parameters
    ----------
    function : Step
        The method: (self, f, c, at, ...) -> (upload, new state).

    Returns
    -------
    function
        The same method.

    Examples
    --------
    >>> from dualfl.algorithms import client_step
    >>> @client_step
    ... def slope(self, f, c, at, x):
    ...     return at.send(g=f.gradient(x)), c
    >>> slope.is_client_step
    True
    """
    function.__dict__["is_client_step"] = True
    return function


class Upload:
    """What a client sends: `sent.x` is what the server will really get, after compression if there is any.

    A step keeps `sent.x`, not x: what a client remembers must be what it released.
    """

    __slots__ = ("memory", "released", "wire")

    def __init__(self, released: dict[str, Any], wire: dict[str, Any], memory: dict[str, Array] | None) -> None:
        self.released, self.wire, self.memory = released, wire, memory

    def __getattr__(self, name: str) -> Any:  # only for what is no attribute
        if name in Upload.__slots__ or name not in self.released:
            raise AttributeError(name)
        return self.released[name]

    def also(self, **fields: Any) -> Upload:
        """The same upload with further, uncompressed fields."""
        more = {k: canonical(v) for k, v in fields.items()}
        return Upload(self.released | more, self.wire | more, self.memory)


class PenaltyAtServer(Protocol):
    """The problem's penalty in the coordinates of the algorithm, whose zero is where the run starts."""

    @property
    def penalised(self) -> Penalised:
        """The penalty on some cost of the right shape, in the problem's own coordinates."""
        ...

    def prox(self, step: float, v: Array) -> Array: ...

    def value(self, x: Array) -> float: ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when a step runs, `at`. On the server j = -1.

    Parameters
    ----------
    seed : int
        The seed of the run.
    N : int
        How many clients there are.
    d : int
        How many coefficients a model has.
    round : int, default -1
        The number of the round, from 0; -1 while the algorithm starts.
    exchange : int, default 0
        The number of the exchange within the round.
    j : int, default -1
        The number of the client; -1 on the server.
    weight : float, default 1.0
        How much the client counts; all weights add up to 1.
    start : ndarray, optional
        Where the run starts, for algorithms that take it themselves.
    penalty : PenaltyAtServer, optional
        The problem's penalty, for algorithms that apply it at the server.
    codec : Codec, optional
        What compresses uploads.
    memory : dict[str, ndarray], optional
        What the client has sent before, for codecs.
    secret : int, optional
        By which the client draws rows, if nobody else is to know which; None: by the seed.

    Examples
    --------
    >>> from dualfl.algorithms import Place
    >>> Place(seed=0, N=8, d=3, round=2).cohort(3) == Place(seed=0, N=8, d=3, round=2).cohort(3)
    True
    """

    seed: int
    N: int
    d: int
    round: int = -1  # n = 0, 1, ... as in the paper; -1 while the algorithm starts
    exchange: int = 0  # within the round
    j: int = -1
    weight: float = 1.0  # w_j, the weights of all clients add up to 1
    start: Array | None = None  # where to start, for algorithms that take it themselves
    penalty: PenaltyAtServer | None = None  # the problem's penalty, for algorithms that apply it at the server
    codec: Codec | None = None
    memory: dict[str, Array] | None = None
    secret: int | None = None  # by which rows are drawn, where others know the seed

    def of_client(self, round: int, exchange: int, j: int, weight: float, memory: dict[str, Array]) -> Place:
        """This place as client j sees it in one exchange."""
        return Place(
            self.seed,
            self.N,
            self.d,
            round,
            exchange,
            j,
            weight,
            self.start,
            self.penalty,
            self.codec,
            memory,
            self.secret,
        )

    def rng(self, tag: str = "") -> np.random.Generator:
        """A stream of this client's own in this exchange; rows are drawn by the one called "rows"."""
        seed = self.seed if self.secret is None or tag != "rows" else self.secret
        return Stream(seed, "own:" + tag, self.j, self.round, self.exchange).generator()

    def common(self, tag: str) -> Stream:
        """A stream that the server and all clients share in this round."""
        return Stream(self.seed, "common:" + tag, -1, self.round, 0)

    def cohort(self, size: int) -> list[int]:
        """`size` clients, drawn afresh each round; everybody can work out who they are."""
        return self.common("cohort").subset(self.N, size)

    def prox(self, step: float, v: Array) -> Array:
        """The prox of the problem's penalty; without one, v."""
        return v if self.penalty is None else self.penalty.prox(step, v)

    def lower_bound(self, mu: float, x: Array, m: Means) -> float:
        """What strong convexity proves of E* from E and E' (without the penalty) at one point, rounding included:

        E*  >=  min over y of  E(x) + <g, y - x> + (mu/2)|y - x|^2 + penalty(y).

        m is the mean of what clients sent, by `measured`. What a codec makes of g is no gradient, and proves nothing.
        """
        if not mu > 0 or self.codec is not None:
            return -np.inf
        if not hasattr(m, "off"):
            raise BrokenAlgorithm(
                "A lower bound needs what clients say of their rounding errors; "
                "let them send at.send(g=g, **at.measured(f, x, E))."
            )
        cut = mean_cut(x, m.E, m.g, m.off, m.off_g, self.N)
        return proven(mu, [cut]) if self.penalty is None else penalised(mu, cut, self.penalty)

    def measured(self, f: ClientCost, x: Array, E: float) -> dict[str, float]:
        """A client's E as it is sent for a lower bound: with how far off it, and the length of its gradient, may be."""
        value, gradient = f.rounding(x)
        off_g = float(np.linalg.norm(gradient)) + float(np.sqrt(len(gradient))) * self.grid
        return {"E": E, "off": min(value, LARGEST), "off_g": min(off_g, LARGEST)}

    @property
    def grid(self) -> float:
        """The step of the grid on which arrays are sent; 0 if they are sent as they are."""
        return float(getattr(self.codec, "step", 0.0))

    def send(self, **fields: Any) -> Upload:
        """The upload of these fields, compressed if the run has a codec."""
        plain = {k: canonical(v) for k, v in fields.items()}
        if self.codec is None:
            return Upload(plain, plain, self.memory)
        for name, value in plain.items():  # a compressor could hide it
            if not_finite(value):
                raise InputError(bad_answer(self, name))
        stream = Stream(self.seed, "codec", self.j, self.round, self.exchange)
        return Upload(*self.codec.encode(plain, self.memory or {}, stream))


def bad_answer(at: Place, name: str) -> str:
    """What to say of a client that sends NaN or infinity."""
    when = f"in round {at.round}" if at.round >= 0 else "before the first round"
    return (
        f"Client {at.j} answered with NaN or infinity in {name!r} {when}; "
        "its data or its local solver broke down, so look at that client."
    )


@dataclass(frozen=True)
class Facts:
    """What kind of problem the clients have, for an algorithm that chooses another one."""

    loss: str  # that all linear models share, in words; "" if they differ or are no linear models
    smooth: bool
    piecewise: bool  # piecewise linear, with a dual
    moments: bool  # whether second-order sums can be asked for
    D: int  # features of a model
    k: int  # outputs
    free: bool  # an intercept without ridge
    least: int  # rows of the smallest client; 0 where costs have no rows
    alike: float | None = None  # how much more the clients differ than chance would have it


@dataclass(frozen=True)
class Constants:
    """Constants of the clients' costs, measured before the first round.

    Parameters
    ----------
    mu : float
        The smallest strong convexity.
    L : float
        The largest smoothness; infinite if somebody has no gradient.
    N : int
        How many clients there are.
    d : int
        How many coefficients a model has.
    L_row : float, default inf
        The smoothness of the worst single row.
    n : int, default 1
        Rows of the largest client.
    similarity : float, optional
        A bound of |f_j'' - E''|, if somebody measured it.
    facts : Facts, optional
        What kind of problem it is.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> constants = dualfl.run(problem, dualfl.DualFL(), rounds=1).constants
    >>> constants.N, constants.mu
    (3, 0.1)
    """

    mu: float  # the smallest strong convexity
    L: float  # the largest smoothness; inf if somebody has no gradient
    N: int
    d: int
    L_row: float = np.inf  # smoothness of the worst single row, for stochastic methods
    n: int = 1  # rows of the largest client
    similarity: float | None = None  # delta, a bound of |hess f_j - hess E|
    facts: Facts | None = None  # what kind of problem it is, if somebody asked

    @property
    def delta(self) -> float:
        """How unlike the clients' Hessians are; L - mu always bounds it."""
        return self.L - self.mu if self.similarity is None else self.similarity

    @property
    def kappa(self) -> float:
        return self.L / self.mu if self.mu > 0 else np.inf


def theory(formula: str, compute: Callable[[Constants, Any], float], *, zero: bool = False) -> Any:
    """A hyperparameter whose default is a formula of the constants and of the fields before it.

    Parameters
    ----------
    formula : str
        The formula in words, for people.
    compute : callable
        A function of the constants k and the algorithm a.
    zero : bool, default False
        Whether the value may be 0.

    Returns
    -------
    dataclasses.Field
        The default of a hyperparameter.

    Examples
    --------
    >>> from dualfl.algorithms import theory
    >>> theory("1 / L", lambda k, a: 1 / k.L).metadata["formula"]
    '1 / L'
    """
    return dataclasses.field(default=None, metadata={"formula": formula, "compute": compute, "zero": zero})


@dataclass(frozen=True)
class Card:
    """What a reader wants to know of an algorithm before using it; `dualfl algorithms` prints it.

    Parameters
    ----------
    title : str
        The name that its paper gives it.
    year : int
        When it was published.
    reference : str
        Its authors.
    exchanges : str
        How many exchanges a round has.
    up, down : str
        Floats that a client sends and receives in a round, for d coefficients.
    participation : str
        Which clients take part.
    needs : str
        What it asks of the costs.
    rate : str
        How many rounds it needs, in theory.
    accelerated : bool
        Whether the rate has the square root of kappa.
    deterministic : bool
        Whether it draws no random numbers.
    paper : str
        Where to find it: "arXiv:NUMBER", "doi:NUMBER" or an address; "" if it is not published.

    Examples
    --------
    >>> import dualfl
    >>> card = dualfl.DualFL.card
    >>> card.reference, card.year, card.link
    ('Park and Xu', 2023, 'https://arxiv.org/abs/2305.10294')
    """

    title: str
    year: int
    reference: str
    exchanges: str = "1"
    up: str = "d"
    down: str = "d"
    participation: str = "all"
    needs: str = "strongly convex, smooth"
    rate: str = ""
    accelerated: bool = False
    deterministic: bool = True
    paper: str = ""

    @property
    def link(self) -> str:
        """The address of the paper; "" if there is none."""
        scheme, _, number = self.paper.partition(":")
        homes = {"arXiv": "https://arxiv.org/abs/", "doi": "https://doi.org/"}
        return homes[scheme] + number if scheme in homes else self.paper


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
