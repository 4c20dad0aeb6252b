"""Findings in words, and the rules that mend them as options of a command or as lines of a silo.json."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dualfl.tables.findings import Finding, Inspection

LISTED = {"columns": "--columns", "drop": "--drop", "id": "--id", "categorical": "--categorical", "na": "--na"}
SEVERAL = 3  # files that a line names
WORDS = 10  # of a command line that a remedy shows
ALIKE = ("constant", "columns")  # kinds of which a table with many columns may have many
SHARE = 0.2  # of gaps in a column, from which on a fit warns of them; it counts all of them anyway


@dataclass(frozen=True)
class Matter:
    """One thing that is odd, in all tables that have it."""

    findings: tuple[Finding, ...]

    @property
    def first(self) -> Finding:
        return self.findings[0]

    @property
    def stops(self) -> bool:
        """Whether a fit would be refused for it; one table is enough."""
        return any(one.stops for one in self.findings)

    @property
    def silos(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(silo for one in self.findings for silo in one.silos))

    @property
    def columns(self) -> str:
        return listed(list(dict.fromkeys(one.column for one in self.findings)))

    @property
    def title(self) -> str:
        return f"{self.columns}: {self.first.what}" if self.columns else self.first.what

    def remedy_in_silos(self) -> str:
        """The same, where every silo's operator must do it."""
        rules = "; ".join(dict.fromkeys(for_silo(one.mend) for one in self.findings if one.mend))
        advice = self.first.advice.replace("--recode", "'recode' in silo.json, as in")
        parts = (f"{rules} in silo.json" if rules else "", advice)
        return "; or ".join(part for part in parts if part)

    def remedy(self, every: Sequence[str]) -> str:
        """What can be done about it, where these are all files."""
        words = options(self.findings, every)
        more = " ..." if len(words) > WORDS else ""
        parts = (shlex.join(words[:WORDS]) + more, self.first.advice)
        return "; or ".join(part for part in parts if part)

    def line(self, every: Sequence[str]) -> str:
        """All of it in a sentence."""
        names = listed([brief(one, every) for one in self.silos])
        where = "" if len(self.silos) == len(every) > 1 else f"{' in ' * bool(self.columns)}{names}"
        head = f"{self.columns}{where}"
        rows = sum(one.rows for one in self.findings)
        quotes = next((one.quotes for one in self.findings if one.quotes), "")
        told = f" ({': '.join(part for part in (_rows(rows), quotes) if part)})" if quotes or rows else ""
        remedy = self.remedy(every)
        return f"{head}{': ' * bool(head)}{self.first.what}{told}{f'; {remedy}' if remedy else ''}"


def matters(findings: Iterable[Finding]) -> list[Matter]:
    """Findings that are the same in several tables, or that say no more than their columns, are one matter; what stops
    a fit comes first, and columns come in their order."""
    groups: dict[tuple[Any, ...], list[Finding]] = {}
    place: dict[str, int] = {}
    for one in findings:
        place.setdefault(one.column, len(place) if one.column else -1)
        entries = json.dumps(one.mend.get("na", "")) if one.kind == "placeholder" else ""
        same: Any = one.silos if one.kind in ALIKE else one.column
        groups.setdefault((one.kind, same, one.what, entries), []).append(one)
    found = [Matter(tuple(group)) for group in groups.values()]
    return sorted(found, key=lambda matter: (not matter.stops, place[matter.first.column]))


def warned(silos: Sequence[Inspection], together: Sequence[Finding]) -> list[str]:
    """What a fit warns of: a line for each matter that does not stop it, and that its account does not tell anyway."""
    names = [silo.silo for silo in silos]
    own = [one for silo in silos for one in silo.findings if one.kind != "gaps" or _many_gaps(one, silo)]
    others = [one for one in together if not (one.kind == "constant" and one.mend)]
    return [matter.line(names) for matter in matters([*own, *others]) if not matter.stops]


def _many_gaps(finding: Finding, silo: Inspection) -> bool:
    if not finding.column:  # rows without any entry
        return False
    facts = silo.columns[finding.column]
    return finding.column != silo.target and facts.missing >= SHARE * (facts.missing + facts.present)


# -- rules as options ---------------------------------------------------------------------------------------


def options(findings: Sequence[Finding], every: Sequence[str]) -> list[str]:
    """Words for the command line that mend all of these; for one file where others are written otherwise."""
    words: dict[str, None] = {}
    for one in findings:
        for part in _options(one.mend, one.silos, every):
            words[part] = None
    return [word for part in words for word in part.split("\0")]


def _options(mend: Mapping[str, Any], silos: Sequence[str], every: Sequence[str]) -> list[str]:
    found = []
    for word, value in mend.items():
        if word in LISTED:
            found += [f"{LISTED[word]}\0{name}" for name in value]
        elif word in ("decimal", "encoding"):
            names = [""] if len(every) == 1 else [f"{brief(silo, every)}=" for silo in silos]
            found += [f"--{word}\0{name}{value}" for name in names]
        elif word == "commas":
            files = [""] if len(every) == 1 else [f"{brief(silo, every)}:" for silo in silos]
            found += [f"--decimal\0{file}{name}=," for file in files for name in value]
        elif word == "recode":
            found += [f"--recode\0{name}={','.join(map(_pair, pairs.items()))}" for name, pairs in value.items()]
        elif word == "fold_case":
            found.append("--fold-case")
        elif word == "dates":
            found.append(f"--dates\0{value}")
    return found


def _pair(pair: tuple[str, str]) -> str:
    text = ":".join(pair)
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"') else text


def together(findings: Sequence[Finding]) -> list[Finding]:
    """Those that have rules, without rules that contradict others: an identifier need not be dropped, and what is
    dropped needs nothing else."""
    named = {name for one in findings for name in one.mend.get("id", ())}
    dropped = {name for one in findings for name in one.mend.get("drop", ())} - named
    chosen = []
    for one in findings:
        if one.column in dropped:
            mend = {word: value for word, value in one.mend.items() if word == "drop"}
        else:
            mend = {word: value for word, value in one.mend.items() if word != "drop"}
        chosen.append(replace(one, mend=mend))
    return [one for one in chosen if one.mend]


def for_silo(mend: Mapping[str, Any]) -> str:
    """The same rules as lines of a silo's silo.json.

    >>> for_silo({"drop": ["note"], "decimal": ","})
    '"ignore": ["note"], "decimal": ","'
    """
    named = {"ignore" if word == "drop" else word: value for word, value in mend.items()}
    return json.dumps(named, ensure_ascii=False)[1:-1]


def brief(silo: str, every: Sequence[str]) -> str:
    """A file by its own name, if no other has it."""
    name = Path(silo).name
    return name if [Path(one).name for one in every].count(name) == 1 else silo


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SEVERAL} more" if len(names) > SEVERAL else ""
    return ", ".join(names[:SEVERAL]) + more


def _rows(count: int) -> str:
    return "" if not count else f"{count:,} row{'s' * (count > 1)}"
