"""BLAS with one thread: clients are the threads here, and more below them would fight for the same processors.

To look for the libraries takes milliseconds, longer than a small fit. They are looked for once; what is loaded later,
by a framework that brings its own BLAS, is found by whoever loads it.

The limit is one of the process. It holds until the last thread that asked for it is done: with more threads BLAS adds
up in another order, and a run must not change its last bits because another one ended beside it.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import threadpoolctl


@cache
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401 (SciPy brings a BLAS of its own, which must be there to be found)

    return threadpoolctl.ThreadpoolController()


def _whoever_asks() -> None:
    """Newer versions of threadpoolctl heed one thread only, and who comes first need not be who leaves last."""
    clear = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


class _Limit:
    """Set by the first thread that comes, lifted by the last one that leaves."""

    def __init__(self) -> None:
        self.lock, self.own = threading.Lock(), threading.local()
        self.inside = 0  # threads
        self.limiter: Any = None

    def enter(self) -> None:
        depth = getattr(self.own, "depth", 0)
        if not depth:
            with self.lock:
                if not self.inside:
                    _whoever_asks()
                    self.limiter = _libraries().limit(limits=1, user_api="blas")
                self.inside += 1
        self.own.depth = depth + 1

    def leave(self) -> None:
        self.own.depth -= 1
        if not self.own.depth:
            with self.lock:
                self.inside -= 1
                self._lift()

    def _lift(self) -> None:
        if not self.inside and self.limiter is not None:
            _whoever_asks()
            self.limiter.restore_original_limits()
            self.limiter = None

    def forked(self) -> None:
        """In a child there is one thread, and a lock that another one held would never be opened."""
        self.lock = threading.Lock()
        self.inside = int(getattr(self.own, "depth", 0) > 0)
        self._lift()


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.forked)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which BLAS uses one thread."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()
