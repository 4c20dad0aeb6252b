"""Memory that nobody uses goes back to the system: the processes of a federation live for months.

Python looks through all its objects only when a quarter of them is new, and 100,000 are there once everything is
imported; what hangs together in circles piles up until then, with all that it holds. So what was imported is set aside
once, and the rest is looked through when there is time.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys


class Tidy:
    """Made when all is imported; called now and then."""

    def __init__(self) -> None:
        gc.collect()
        gc.freeze()

    def __call__(self) -> None:
        gc.collect()
        if sys.platform == "linux":
            with contextlib.suppress(AttributeError, OSError):  # malloc_trim is the GNU library's
                ctypes.CDLL(None).malloc_trim(0)
