"""What a silo finds in its own data file: all of it for its operator, and of that what may be told to others.

Others hear which column has which fault, and names of levels as the policy lets them out; no entry, no row, no count.
Nor do they hear of rules that match nothing, because those say which entries there are not.
"""

from __future__ import annotations

from dataclasses import replace

from dualfl.errors import InputError
from dualfl.federation.guarded import guarded
from dualfl.federation.rows import SiloRows, not_quoted, read_rows
from dualfl.federation.silo_folder import SiloFolder
from dualfl.tables.advice import matters
from dualfl.tables.findings import Finding, Inspection
from dualfl.tables.idle_rules import IDLE, idle_rules
from dualfl.tables.inspection import inspect, inspect_file
from dualfl.tables.reading import Table


def found_here(home: SiloFolder, classes: bool | None = None) -> tuple[Inspection, SiloRows | None]:
    """All that the operator may see, and the rows, if they could be read as silo.json says."""
    classes = classes if home.policy.task is None else home.policy.task == "classification"
    try:
        rows = read_rows(home.data, home.settings.get("target"), home.rules)
    except InputError:
        return inspect_file(home.data, home.rules, str(home.settings.get("target") or ""), classes)[0], None
    found = inspect(rows.table, home.rules, rows.target, classes)
    return replace(found, findings=(*found.findings, *idle_rules([home.rules], [rows.table], in_silo=True))), rows


def idle_here(home: SiloFolder) -> list[Finding]:
    """Rules of silo.json that match nothing; none where the file cannot be read, which is said elsewhere."""
    try:
        rules = home.rules
        if not any(idle_rules([rules], [Table("", {})])):  # there are none that could match
            return []
        return idle_rules([rules], [read_rows(home.data, home.settings.get("target"), rules).table], in_silo=True)
    except InputError:
        return []


def inspected(home: SiloFolder, target: str, classes: bool | None) -> Inspection:
    """What leaves; the operator reads the rest in the silo's log."""
    task = home.policy.task
    if task is not None and classes not in (None, task == "classification"):
        raise InputError(
            f"the target of this silo is for {task}, and the check is for another kind of target; its operator can "
            "change 'task' of the policy in silo.json"
        )
    with not_quoted("its rows cannot be looked at"):
        own, rows = found_here(home, classes)
    if target and own.target and target != own.target:
        raise InputError(
            f"this silo's target is {own.target!r}, and the check is about {target!r}; its operator can change "
            "'target' in silo.json"
        )
    for matter in matters(own.findings):
        home.note(f"check: {matter.line([own.silo])}")
    columns = {}
    if rows is not None:  # otherwise nobody knows yet what its columns are
        shown = inspect(guarded(rows, home.policy).table, home.rules, rows.target, own.classes).columns
        columns = {name: replace(own.columns[name], levels=shown[name].levels) for name in shown}
    told = (one for one in own.findings if one.column in (*columns, "") and one.kind != IDLE)
    findings = tuple(replace(one, silos=(home.name,)) for one in told)
    return replace(own, silo=home.name, columns=columns, findings=findings).told
