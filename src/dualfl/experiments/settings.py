"""What a single run is told. Commands read their defaults here, so this imports nothing that takes time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RunSettings:
    """Everything that decides what a run computes; two runs with equal settings give equal iterates."""

    dataset: str = "digits"  # a name, or the path of a file
    target: str | None = None  # of a file: what to predict, and whether it is a class
    task: str | None = None
    clients: int | None = None  # 8, or one for each value of column:NAME
    partition: str = "even"
    scale: str = "default"
    loss: str = "auto"
    ridge: float = 1e-2
    l1: float = 0.0
    algorithm: str = "dualfl"
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    solver: str | None = None
    codec: str | None = None
    rounds: int = 100
    tol: float | None = None
    seconds: float | None = None
    epsilon: float | None = None
    alpha: float | None = None
    seed: int = 0
    reference: bool = True
