"""Where and when a step runs: what it may know besides its cost and its state, and how it sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dualfl.algorithms.asking import Means
from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.cuts import LARGEST, mean_cut, penalised, proven
from dualfl.algorithms.messages import canonical, not_finite
from dualfl.errors import BrokenAlgorithm, InputError
from dualfl.objectives.penalties import Penalised
from dualfl.streams import Stream
from dualfl.typing import Array


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
    round: int = -1
    exchange: int = 0
    j: int = -1
    weight: float = 1.0
    start: Array | None = None
    penalty: PenaltyAtServer | None = None
    codec: Codec | None = None
    memory: dict[str, Array] | None = None
    secret: int | None = None

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
