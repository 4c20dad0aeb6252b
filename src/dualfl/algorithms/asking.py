"""What the server asks of clients: `ask` and `tell`, and which of an algorithm's methods may be asked for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, TypeVar

from dualfl.algorithms.messages import canonical

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
