"""BLAS with one thread: clients are the threads here, and more below them would fight for the same processors.

To look for the libraries takes milliseconds, longer than a small fit. They are looked for once; what is loaded later,
by a framework that brings its own BLAS, is found by whoever loads it.
"""

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401 (SciPy brings a BLAS of its own, which must be there to be found)

    return ThreadpoolController()


def one_blas_thread() -> Any:
    """A context in which BLAS uses one thread."""
    return _libraries().limit(limits=1, user_api="blas")
