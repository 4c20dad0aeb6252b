"""Silos of a federation in this process: keys, keepers, masks and messages are real, and nothing is sent anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dualfl.analysis.descriptions import WholeFit
from dualfl.deploy.keys import new_key_pair, write_secret
from dualfl.federation.courier import Came, Courier
from dualfl.federation.far_silos import AnalysisTerms, FarSilos
from dualfl.federation.fixed_point import BITS
from dualfl.federation.keeper import Keeper

FOLDS = "0123456789abcdef"  # the secret by which all silos deal folds, so that fits can be compared


class Near:
    """A transport to keepers in this process, which have their data in memory."""

    def __init__(self, homes: Sequence[Path]) -> None:
        self.keepers = {100 + i: Keeper(home) for i, home in enumerate(homes)}
        self.came: dict[str, bytes] = {}
        self.sent = 0

    def nodes(self) -> list[int]:
        return list(self.keepers)

    def push(self, messages: Mapping[int, bytes]) -> dict[int, str]:
        ids = {}
        for node, message in messages.items():
            self.sent += 1
            ids[node] = str(self.sent)
            self.came[ids[node]] = self.keepers[node].handle(message)
        return ids

    def pull(self, ids: Sequence[str], seconds: float) -> list[Came]:
        return [Came(id, self.came.pop(id)) for id in ids if id in self.came]


def make_homes(folder: Path, paths: Sequence[Path], target: str, **settings: Any) -> list[Path]:
    """A folder for every file, with keys and the roster of all."""
    homes, roster = [], {}
    for path in paths:
        home = folder / path.stem
        home.mkdir(parents=True)
        private, roster[home.name] = new_key_pair()
        write_secret(home / "key", private)
        silo = {"name": home.name, "data": str(path), "target": target, "identity": home.name, "minimum": 2}
        (home / "silo.json").write_text(json.dumps(silo | {"show_own_numbers": True} | settings))
        (home / "folds").write_text(FOLDS)
        homes.append(home)
    for home in homes:
        (home / "roster.json").write_text(json.dumps(roster))
    return homes


def near_silos(homes: Sequence[Path], analysis: WholeFit, masks: bool, experiment: str) -> FarSilos:
    names = tuple(sorted(home.name for home in homes))
    roster = json.loads((homes[0] / "roster.json").read_text())
    terms = AnalysisTerms(experiment, names, analysis.as_json(), BITS if masks else None, roster if masks else None)
    return FarSilos(Courier(Near(homes), poll=0.0, patience=5.0), terms)
