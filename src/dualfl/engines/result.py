"""What a run has used up, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from dualfl.algorithms.contract import Algorithm, Constants
from dualfl.engines.client import ClientMemory
from dualfl.engines.history import History
from dualfl.engines.in_words import result_in_words
from dualfl.typing import Array


class Account(NamedTuple):
    """What a run has used up, kept by the engine and by nobody else."""

    exchanges: int = 0
    floats_up: int = 0
    floats_down: int = 0
    local_gradients: float = 0.0
    seconds: float = 0.0
    iterations: tuple[int, ...] = ()  # of the local solver of every client, in this round
    capped: int = 0  # local solves of this round that ended at their cap
    contacts: int = 0
    payload: float = 0.0


class Energy(NamedTuple):
    """E at a point as it was computed, and how far off it may be by rounding."""

    value: float
    rounding: float


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run.

    `print(result)` says it in a few lines. It can be pickled, and `result.history.to_csv(path)` writes the account.

    Attributes
    ----------
    theta : ndarray
        The model with the lowest energy seen, flat; of several that rounding does not tell apart, the last one.
        `result.model` has it in the shape of the model.
    energy : float or None
        E(theta).
    certificate : float or None
        A proven bound of E(theta) - E*, rounding included. Where it is None, `certificate_reason` says why.
    stopped : str
        Why the run ended: "tol" (also by `stop`), "rounds", "time", "interrupted", "diverged", or "contradiction"
        where what the clients sent proves a lower bound of E* above an energy.
    history : History
        One row a round: exchanges, floats, energy, certificate and more.
    algorithm : Algorithm
        The one that ran, with every default filled in.
    choice : str
        What `auto` picked and why; "" if the algorithm was given.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.DualFL(), rounds=200, tol=1e-6)
    >>> result.stopped, result.model.shape, result.certificate <= 1e-6 * result.energy
    ('tol', (5, 3), True)
    """

    theta: Array
    shape: tuple[int, ...]
    energy: float | None
    certificate: float | None
    certificate_reason: str
    stopped: str
    algorithm: Algorithm
    constants: Constants | None
    history: History
    state: Any
    silos: list[ClientMemory]
    choice: str = ""
    rounding: float | None = None  # how far off `energy` may be; the certificate is never below it

    def __repr__(self) -> str:
        return result_in_words(self)

    @property
    def model(self) -> Array:
        """theta in the shape of the model: one row a feature, one column a class."""
        return self.theta.reshape(self.shape)

    @property
    def rounds(self) -> int:
        return self.history[-1].round if len(self.history) else 0

    @property
    def capped(self) -> int:
        """How many local solves ended at their cap instead of their rule."""
        return sum(row.capped for row in self.history)
