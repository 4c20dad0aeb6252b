"""Parent and children live and die together.

A process that calls `hold` ends with the one that started it, however that one ends. On Linux the kernel sees to it
(PR_SET_PDEATHSIG). Other systems have nothing like it: there a thread looks every second whether the parent is still
the same, so a child may outlive its parent by a second.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

PARENT = "DUALFL_PARENT"  # the number of the process that must outlive this one
PR_SET_PDEATHSIG = 1
LOOK = 1.0  # seconds between two looks, where the kernel does not help


def hold() -> None:
    """Die with the parent that the environment names; without one, do nothing."""
    named = os.environ.pop(PARENT, "")
    if not named.isdigit():
        return
    parent = int(named)
    if not told_by_kernel():
        threading.Thread(target=look, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it ended before anybody was told
        os._exit(1)


def end_with(wait: Callable[[], Any]) -> None:
    """End this process when `wait` returns: what it waited for was a part without which this one is of no use."""

    def follow() -> None:
        wait()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def told_by_kernel() -> bool:
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    return bool(library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0)


def look(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)
