"""What is wrong with the tables of silos far away: one exchange, in which every silo tells what it finds in its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dualfl.silos.questions import Conversation, Exchange, Query, Silos
from dualfl.tables.findings import Inspection


@dataclass(frozen=True)
class TableCheck:
    """`dualfl check --study`. Without a target every silo takes its own."""

    target: str = ""
    classes: bool | None = None

    def conversation(self, silos: Silos) -> Conversation[list[Inspection]]:
        query = Query("inspect", {"target": self.target, "classes": self.classes}, "each")
        (told,) = yield Exchange("what is wrong with tables", (query,))
        return [Inspection.from_json(one) for one in told]

    def as_json(self) -> dict[str, Any]:
        return {"analysis": "check", "target": self.target, "classes": self.classes}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> TableCheck:
        return TableCheck(str(content["target"]), content["classes"])
