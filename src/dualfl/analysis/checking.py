"""Everything that is wrong with the tables of silos far away, told by the silos themselves.

Each looks at its own table and tells which columns have which faults: no entry, no row, no count. It does so for a plan
that its operator has approved, and what it tells depends on nothing that the coordinator could choose.
"""

from __future__ import annotations

from dualfl.silos.questions import Conversation, Exchange, Query, Silos
from dualfl.tables.findings import Inspection

PURPOSE = "the check"


def checking(silos: Silos, target: str, classes: bool | None) -> Conversation[list[Inspection]]:
    """What each silo tells. The first exchange is a greeting: before there is a plan, nothing else is said."""
    yield Exchange(PURPOSE, (Query("greet", {}, "each"),))
    (told,) = yield Exchange(PURPOSE, (Query("inspect", {"target": target, "classes": classes}, "each"),))
    return [Inspection.from_json(one) for one in told]
