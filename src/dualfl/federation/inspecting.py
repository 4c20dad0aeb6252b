"""What a silo finds in its own data file: all of it for its operator, and of that what may be told to others.

Others hear which column has which fault, and names of levels as the policy lets them out; no entry, no row, no count.
"""

from __future__ import annotations

from dataclasses import replace

from dualfl.errors import InputError
from dualfl.federation.guarded import guarded
from dualfl.federation.rows import not_quoted, read_rows
from dualfl.federation.silo_folder import SiloFolder
from dualfl.tables.advice import matters
from dualfl.tables.findings import Inspection
from dualfl.tables.inspection import inspect


def inspected(home: SiloFolder, target: str, classes: bool | None) -> Inspection:
    """What leaves; the operator reads the rest in the silo's log."""
    rows = read_rows(home.data, home.settings.get("target"), home.rules)
    if target and target != rows.target:
        raise InputError(
            f"this silo's target is {rows.target!r}, and the check is about {target!r}; its operator can change "
            "'target' in silo.json"
        )
    with not_quoted("its rows cannot be looked at"):
        own = inspect(rows.table, home.rules, rows.target, classes)
        shown = inspect(guarded(rows, home.policy).table, home.rules, rows.target, own.classes).columns
    for matter in matters(own.findings):
        home.note(f"check: {matter.line([rows.table.name])}")
    columns = {name: replace(own.columns[name], levels=shown[name].levels) for name in shown}
    findings = tuple(replace(one, silos=(home.name,)) for one in own.findings if one.column in (*shown, ""))
    return replace(own, silo=home.name, columns=columns, findings=findings).told
