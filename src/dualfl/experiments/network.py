"""How long a run would take on a network: waiting, sending and computing, added up.

    time = exchanges * latency + (bytes up and down over one client's line) / bandwidth + (computing of one client)

Clients work and send at the same time, each over a line of its own. What an exchange sends over a line is the `payload`
of a history, the mean of the clients that are asked; and all are taken to have an equal share of the computing that was
measured here. A float is 8 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl.errors import InputError
from dualfl.typing import Array

BITS = 64  # of a float


@dataclass(frozen=True)
class Network:
    """latency : seconds of a round trip. bandwidth : megabits a second, of each client's line."""

    latency: float = 0.05
    bandwidth: float = 10.0

    def __post_init__(self) -> None:
        if not 0 <= self.latency < np.inf:
            raise InputError(f"The latency is a number of seconds >= 0, but it is {self.latency}.")
        if not 0 < self.bandwidth <= np.inf:
            raise InputError(f"The bandwidth is a positive number of megabits a second, but it is {self.bandwidth}.")

    def seconds(self, exchanges: Array, payload: Array, computing: Array | float = 0.0, clients: int = 1) -> Array:
        """The time since the start, `computing` that of all clients together; 0 leaves it out.

        >>> Network(0.1, 8.0).seconds(np.array([10.0]), np.array([1e6]), np.array([4.0]), 2)
        array([11.])
        """
        sending = payload * BITS / (1e6 * self.bandwidth)
        return exchanges * self.latency + sending + computing / clients

    def __str__(self) -> str:
        return f"{1e3 * self.latency:g} ms a round trip, {self.bandwidth:g} Mbit/s a client"
