"""Flower's SuperNode, which looks for the next message sooner while a run is under way.

A SuperNode that has just answered looks for the next message at once, finds none, and sleeps for three seconds: most of
an exchange. Here it looks every third of a second after an answer, and every three seconds when none has come for long.
"""

from __future__ import annotations

import sys
import time
from typing import Any

EAGER, LOOKS = 0.3, 200  # seconds between two looks after an answer, and how many of them: a minute


class Clock:
    """Stands for the module `time` in Flower's loop."""

    def __init__(self) -> None:
        self.looks = LOOKS

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def answered(self) -> None:
        self.looks = 0

    def sleep(self, seconds: float) -> None:
        if seconds > 1:  # nothing has come; shorter waits are for an answer that is being computed
            self.looks += 1
            seconds = EAGER if self.looks <= LOOKS else seconds
        time.sleep(seconds)


def main() -> None:
    """`flower-supernode` with the same arguments."""
    from flwr.supernode import start_client_internal as loop
    from flwr.supernode.cli.flower_supernode import flower_supernode

    clock, push = Clock(), loop._push_messages

    def pushed(*given: Any, **named: Any) -> None:
        push(*given, **named)
        clock.answered()

    loop.time, loop._push_messages = clock, pushed
    sys.argv[0] = "flower-supernode"
    flower_supernode()


if __name__ == "__main__":
    main()
