"""How the clients of the experiments solve their local problems.

paper     AOGM until the relative change of the energy is below 1e-12, as the paper describes it
exact     our default solver until F(x) - min F <= 1e-12 is proven, which asks for as much, with far fewer gradients
raw       the same with all of the Gram metric, for raw pixels, whose local problems have conditions of 1e8
default   each algorithm's own accuracy, which theory or its authors give it
"""

from __future__ import annotations

from dataclasses import dataclass

from dualfl.objectives.base import Objective
from dualfl.solvers import AOGM, LBFGS, NewtonCG, PrimalDualGap, RelativeEnergy, Solution, Solver, StopRule, row_span
from dualfl.typing import Array

SMALL = 1e-12
FEW = 1_000  # coefficients; there iterations cost more than passes, and Newton-CG takes the fewest


@dataclass(frozen=True)
class AsInThePaper(AOGM):
    """AOGM with the paper's own rule, whatever rule the algorithm asks for."""

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        return super().solve(f, warm, RelativeEnergy(SMALL, cap=stop.cap))


@dataclass(frozen=True)
class Exact(LBFGS):
    """Our default solver to a proven gap, whatever rule the algorithm asks for; Newton's where that is quicker."""

    def solve(self, f: Objective, warm: Array | None, stop: StopRule) -> Solution:
        rule = PrimalDualGap(SMALL, cap=stop.cap)
        if f.d <= FEW and not row_span.applies(f, rule):
            return NewtonCG(metric="none").solve(f, warm, rule)
        return super().solve(f, warm, rule)


LOCAL_SOLVERS: dict[str, Solver | None] = {
    "paper": AsInThePaper(),
    "exact": Exact(),
    "raw": Exact(metric="full"),
    "default": None,
}
