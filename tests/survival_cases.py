"""Random survival data, and the partial likelihood written out once more: a double loop, in extended precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

LD: Any = np.longdouble


@dataclass
class Survival:
    X: np.ndarray
    time: np.ndarray
    event: np.ndarray
    strata: np.ndarray
    entry: np.ndarray | None
    weights: np.ndarray
    ties: str
    offset: np.ndarray | None = None

    @property
    def n(self) -> int:
        return len(self.time)


def drawn(rng: np.random.Generator, n: int = 0, D: int = 3, late: bool | None = None) -> Survival:
    n = n or int(rng.integers(1, 40))
    tied = rng.random() < 0.7
    time = rng.integers(1, 8, n).astype(float) if tied else rng.random(n) + 1e-3
    late = bool(rng.random() < 0.5) if late is None else late
    return Survival(
        X=rng.normal(size=(n, D)),
        time=time,
        event=rng.random(n) < rng.choice([0.2, 0.6, 1.0]),
        strata=rng.integers(0, 3, n),
        entry=time - rng.random(n) * 5 - 1e-9 if late else None,
        weights=rng.random(n) + 0.1,
        ties=str(rng.choice(["efron", "breslow"])),
    )


def partial_likelihood(data: Survival, z: Any) -> Any:
    """-log of it, without any trick but the largest predictor taken off."""
    z, w = np.asarray(z).astype(LD), data.weights.astype(LD)
    total = LD(0)
    for stratum in np.unique(data.strata):
        inside = data.strata == stratum
        for t in np.unique(data.time[inside & data.event]):
            at_risk = inside & (data.time >= t)
            if data.entry is not None:
                at_risk &= data.entry < t
            dead = inside & data.event & (data.time == t)
            top = z[at_risk].max()
            risk = w * np.exp(np.minimum(z - top, 0))
            S, T, d = risk[at_risk].sum(), risk[dead].sum(), int(dead.sum())
            for k in range(d):
                share = LD(k) / d if data.ties == "efron" else LD(0)
                total += w[dead].sum() / d * (np.log(S - share * T) + top)
            total -= (w[dead] * z[dead]).sum()
    return total
