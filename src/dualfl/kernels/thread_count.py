"""How many threads a kernel may use. The number changes the time, never a bit of the result."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_for_all = int(os.environ.get("DUALFL_THREADS", 0)) or os.cpu_count() or 1
# 0 stands for "as for all"; a new thread starts there, so an engine's workers decide for themselves
_here: ContextVar[int] = ContextVar("dualfl_threads", default=0)


def get_threads() -> int:
    """The number of threads for kernels called from here.

    Returns
    -------
    int
        The number.

    Examples
    --------
    >>> from dualfl import kernels
    >>> kernels.get_threads() >= 1
    True
    """
    return _here.get() or _for_all


def set_threads(n: int) -> None:
    """Sets the number for the whole process; `threads(n)` overrides it for a block of code.

    Parameters
    ----------
    n : int
        How many threads.

    Examples
    --------
    >>> from dualfl import kernels
    >>> kernels.set_threads(kernels.get_threads())
    """
    global _for_all
    _for_all = _checked(n)


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Inside the block, kernels called by this thread use at most n threads.

    Parameters
    ----------
    n : int
        How many threads.

    Returns
    -------
    context manager
        For a `with` block.

    Examples
    --------
    >>> with threads(1):
    ...     get_threads()
    1
    """
    token = _here.set(_checked(n))
    try:
        yield
    finally:
        _here.reset(token)


def _checked(n: int) -> int:
    if n < 1:
        raise ValueError(f"threads is {n}: it must be at least 1")
    return int(n)
