"""Rules that match no entry: a typing error in one leaves the table as if it had not been given.

A rule that is given for several files is idle if it matches in none of them; of rules for one file, in that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from dualfl.tables.findings import Finding
from dualfl.tables.reading import Table
from dualfl.tables.rules import Rules, gap_of

IDLE = "idle rule"  # the kind of such a finding
SHOWN = 4  # entries of a column that are shown instead
Part = tuple[str, str, str]  # word, column ("" is all of them), entry


def idle_rules(rules: Sequence[Rules], tables: Sequence[Table], in_silo: bool = False) -> list[Finding]:
    """One finding for each rule of which no table, of those that it is for, has an entry."""
    findings = []
    for part in dict.fromkeys(part for own in rules for part in _parts(own)):
        asked = [table for table, own in zip(tables, rules) if part in set(_parts(own))]
        if not any(_matches(part, table) for table in asked):
            word, column, _ = part
            names = tuple(table.name for table in asked)
            quotes = _entries(asked, column) if word == "recode" else ""
            findings.append(Finding(IDLE, column, names, _sentence(part, in_silo), quotes=quotes))
    return findings


def sentences(rules: Sequence[Rules], tables: Sequence[Table]) -> Iterator[str]:
    """The same, for commands that list no findings."""
    for one in idle_rules(rules, tables):
        yield f"{f'column {one.column!r}: ' * bool(one.column)}{one.what}{f' ({one.quotes})' * bool(one.quotes)}"


def _parts(rules: Rules) -> Iterator[Part]:
    for text in rules.na:
        yield ("na", *gap_of(text))
    for column, pairs in rules.recode.items():
        for entry in pairs:
            yield "recode", column, entry
    for column in rules.commas:
        yield "decimal", column, ""
    if rules.decimal == ",":
        yield "decimal", "", ""
    if rules.dates:
        yield "dates", "", ""
    if rules.fold_case:
        yield "fold_case", "", ""


def _matches(part: Part, table: Table) -> bool:
    word, column, entry = part
    return any(
        (word, entry) in found and column in ("", name) and (name in table.columns or name in table.ids)
        for name, found in table.matched.items()
    )


def _sentence(part: Part, in_silo: bool) -> str:
    word, column, entry = part
    name = f"{word!r} of silo.json" if in_silo else f"--{word.replace('_', '-')}"
    where = "" if column else " of any column"
    return {
        "na": f"no entry{where} is {entry!r}, which {name} counts as missing",
        "recode": f"no entry is {entry!r}, of which {name} says what it means",
        "decimal": f"no number{where} has a comma, which {name} takes for the decimal sign",
        "dates": f"no column holds dates, of which {name} would make numbers",
        "fold_case": f"no text has capitals or double blanks, which {name} would fold",
    }[word]


def _entries(tables: Sequence[Table], column: str) -> str:
    """A few entries that the column does have."""
    levels = (str(level) for table in tables if column in table.columns for level in np.unique(table.levels(column)))
    found = list(islice(dict.fromkeys(level for level in levels if level), SHOWN + 1))
    shown = ", ".join(f"{one!r:.40}" for one in found[:SHOWN])
    return f"its entries are {shown}{', ...' * (len(found) > SHOWN)}" if found else ""
