"""How fast the network of a federation is: empty messages to all silos for the latency, longer ones for the bandwidth.

A silo sends back what it was sent, and computes nothing. An exchange ends with the slowest silo, so that one counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dualfl.algorithms.few_exchanges.time_model import MBIT, Network
from dualfl.errors import InputError

KIND = "echo"
LARGEST = 1 << 22  # bytes of a message; the coordinator's proxy takes 16 MB
A_DAY = 200  # messages at most; a measurement takes 18 at most
FIRST, TIMES = 1 << 16, 4  # bytes of the first long message, and how much longer the next one is
SAMPLES = 3
ENOUGH = 3.0  # times the latency: what a long message takes until it tells the bandwidth
DIGITS = 2  # of the figures: more would pretend that a network is the same tomorrow

Ask = Callable[..., Any]


def echoed(request: dict[str, Any]) -> dict[str, Any]:
    """A silo's answer."""
    padding = request["padding"]
    if not isinstance(padding, np.ndarray) or padding.dtype != np.uint8 or padding.ndim != 1:
        raise InputError("the padding of an echo must be bytes")
    if padding.size > LARGEST:
        raise InputError(f"an echo has at most {LARGEST:,} bytes, and this one has {padding.size:,}")
    return {"padding": padding}


def measured(ask: Ask, clock: Callable[[], float] = time.monotonic) -> Network:
    """Latency and bandwidth as `auto` wants them: seconds of an exchange, and megabits a second of one silo's line."""
    rng = np.random.default_rng(0)

    def seconds(size: int) -> float:
        times = []
        for _ in range(SAMPLES):
            padding = rng.integers(0, 256, size, dtype=np.uint8)  # nothing on the way can compress it
            begun = clock()
            ask(KIND, padding=padding)
            times.append(clock() - begun)
        return statistics.median(times)

    seconds(1)  # a first message may find services asleep
    latency, size = seconds(1), FIRST
    while (took := seconds(size)) < ENOUGH * latency and size < LARGEST:
        size *= TIMES
    sending = max(took - latency, latency / 10)  # below that a fast line looks like any other
    return Network(rounded(latency), rounded(2 * 8 * size / sending / MBIT))


def rounded(x: float) -> float:
    """
    >>> rounded(0.2139), rounded(941.7)
    (0.21, 940.0)
    """
    return float(f"{x:.{DIGITS}g}")
