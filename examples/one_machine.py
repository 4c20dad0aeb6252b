"""A deployment without a network: the silos' own programs answer in this process, byte for byte as they would
elsewhere.

    study, silos = Path("study"), [Path("silos/north"), Path("silos/river"), Path("silos/hill")]
    fit = fit_study(study, silos, target="readmitted", model="logistic")

The folders are those of `dualfl deploy init`, `join`, `admit` and `trust`; keys, plans, approvals and masks are real.
What is left out is what Flower does: connections, TLS, and waiting. Use it to try things; `dualfl fit --study` is the
real one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dualfl.analysis.descriptions import WholeFit
from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Fit, Wishes, fitting
from dualfl.federation.analysis_journal import AnalysisJournal
from dualfl.federation.courier import Came, Courier
from dualfl.federation.far_silos import AnalysisTerms, FarSilos
from dualfl.federation.fixed_point import BITS
from dualfl.federation.keeper import Keeper
from dualfl.silos.questions import drive
from dualfl.tables.schema import Request


class Here:
    """Carries messages to silos in this process, and counts their bytes."""

    def __init__(self, homes: Sequence[Path]) -> None:
        self.keepers = dict(enumerate(Keeper(home) for home in homes))
        self.came: list[Came] = []
        self.bytes_up = self.bytes_down = self.sent = 0

    def nodes(self) -> list[int]:
        return list(self.keepers)

    def push(self, messages: Mapping[int, bytes]) -> dict[int, str]:
        ids = {}
        for node, message in messages.items():
            self.sent += 1
            ids[node] = str(self.sent)
            answer = self.keepers[node].handle(message)
            self.came.append(Came(ids[node], answer))
            self.bytes_down += len(message)
            self.bytes_up += len(answer)
        return ids

    def pull(self, ids: Sequence[str], seconds: float) -> list[Came]:
        found = [each for each in self.came if each.sent in ids]
        self.came = [each for each in self.came if each.sent not in ids]
        return found


def fit_study(study: Path, homes: Sequence[Path], target: str, model: str, experiment: str = "first") -> Fit:
    """What `dualfl fit --study` does, over `Here`. The same experiment again goes on where it was."""
    recipe, wishes = Recipe(model), Wishes(Request(target))
    names = tuple(sorted(home.name for home in homes))
    roster = json.loads((study / "for-silos" / "roster.json").read_text(encoding="utf-8"))
    terms = AnalysisTerms(experiment, names, WholeFit(recipe, wishes).as_json(), BITS, roster)
    post = Courier(Here(homes), poll=0.0, patience=5.0)
    silos = FarSilos(post, terms, AnalysisJournal(study / f"{experiment}.journal"))
    fit = drive(fitting(silos, recipe, wishes), silos)
    return replace(fit, wishes=wishes, spent=silos.ledger.entries)
