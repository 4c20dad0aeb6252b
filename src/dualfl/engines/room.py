"""Whether what clients remember fits into memory: said before it is full, with the figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.errors import InputError

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]  # a module elsewhere

SAMPLE = 32  # clients whose states are weighed
MATTERS = 1e8  # bytes: with fewer nobody is asked how much is left


def check_room(name: str, states: Sequence[Any], clients: int) -> None:
    """Refuse states of so many clients, like these, that do not fit; two of each are there during an exchange."""
    numbers = numbers_of_its_own(states) / max(1, len(states))
    needed = 2 * 8.0 * numbers * clients
    if needed < MATTERS:
        return
    left = available()
    if needed > left:
        raise InputError(
            f"{name} remembers {numbers:,.0f} numbers of every client: {clients:,} x {numbers:,.0f} x 8 bytes are "
            f"{needed / 2e9:.3g} GB, twice that during an exchange, and {left / 1e9:.3g} GB are free; take fewer "
            "clients, or auto or dualfl, whose clients remember no more than their rows have."
        )


def numbers_of_its_own(states: Sequence[Any]) -> int:
    """Numbers in all states; an array that several have, as a broadcast, belongs to none."""
    held: dict[int, tuple[int, int]] = {}
    for state in states:
        for array in {id(one): one for one in arrays(state)}.values():
            held[id(array)] = array.size, held.get(id(array), (0, 0))[1] + 1
    return sum(size for size, times in held.values() if times == 1 or len(states) == 1)


def arrays(value: Any) -> Iterator[Any]:
    """Those in a state."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from arrays(each)
    elif is_dataclass(value):
        for field in fields(value):
            yield from arrays(getattr(value, field.name))


def available() -> float:
    """Bytes that this process may still take; infinite where nobody knows."""
    left = np.inf
    try:
        known = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        left = 1024.0 * int(known["MemAvailable"].split()[0])
        if resource is not None and (limit := resource.getrlimit(resource.RLIMIT_AS)[0]) != resource.RLIM_INFINITY:
            taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            left = min(left, limit - taken)
    except (OSError, KeyError, ValueError):
        return left
    return max(0.0, left)
