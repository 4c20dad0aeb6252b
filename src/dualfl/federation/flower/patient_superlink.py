"""Flower's SuperLink for simulations, with patience.

The process that bears a run has 30 seconds of Flower's for loading its libraries, then the run has failed without a
word. A busy machine, or a slow disk, takes longer.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

PATIENCE = 180.0  # seconds, for loading libraries and between two signs of life; Flower has 30 and 60
STATES = ("in_memory_corestate", "sql_corestate")


def patient_states() -> list[Any]:
    """Flower's modules that keep the time of a run's process, with ours."""
    found = [importlib.import_module(f"flwr.supercore.corestate.{name}") for name in STATES]
    for module in found:
        module.HEARTBEAT_DEFAULT_INTERVAL, module.HEARTBEAT_PATIENCE = PATIENCE, 1
    return found


if __name__ == "__main__":
    patient_states()
    from flwr.superlink.cli import flower_superlink

    sys.argv[0] = "flower-superlink"
    flower_superlink()
