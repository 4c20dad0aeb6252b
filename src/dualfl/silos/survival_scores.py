"""How well a model of hazards does, from sums: pairs of rows within silos, and who of them died first."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dualfl.silos.chamber import SiloRows
from dualfl.silos.levelled_scores import level
from dualfl.silos.survival_sums import PairCounts, pair_counts


@dataclass(frozen=True, eq=False)
class SurvivalSums:
    """Pairs of rows of one silo of which it is known who died first, and whether the model knew."""

    n: int
    mass: float
    events: float
    concordant: float
    discordant: float
    tied_risk: float

    def __add__(self, other: SurvivalSums) -> SurvivalSums:
        return SurvivalSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def concordance(self) -> float:
        """Harrell's, of pairs within silos; nan where there are none."""
        total = self.concordant + self.discordant + self.tied_risk
        return (self.concordant + self.tied_risk / 2) / total if total else float("nan")

    def table(self) -> dict[str, float]:
        return {"rows": float(self.n), "events": self.events, "concordance": self.concordance}


def survival_sums(model: Any, silo: SiloRows, together: int = 1) -> SurvivalSums:
    """What one silo sends about a model of hazards. `together`: so many rows have one risk (`levelled`)."""
    time, event, risk = silo.more["time"], np.asarray(silo.y) > 0, model.decision_function(silo.X)
    if together > 1:
        risk = level(risk, together)
    labels = silo.more.get("strata", np.zeros(silo.n))
    parts = [labels == label for label in np.unique(labels)]
    pairs = PairCounts.of([pair_counts(time[part], event[part], risk[part]) for part in parts])
    events = silo.total(event.astype(np.float64))
    return SurvivalSums(silo.n, silo.mass, events, pairs.concordant, pairs.discordant, pairs.tied_risk)
