"""What is odd about tables: one silo's own findings, and the facts by which silos are compared.

A record is JSON. Some of it must stay with whoever has the table: entries and the numbers of their rows (`quotes`),
counts, and spans of numbers. `told` is the record without them; levels of texts and names of columns are in it, because
silos tell each other those anyway to agree on columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

Kind = Literal["numbers", "text", "dates", "empty", "other"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or worth a look.

    kind   : what it is about, in a word
    column : where; "" is the whole table
    silos  : whose tables
    what   : a clause that quotes no entry and no row, except names of levels
    stops  : whether a fit would be refused
    mend   : rules that mend it, in the words of `rules.Rules`
    advice : what can be done otherwise
    rows   : how many rows; stays where the table is
    quotes : entries and where they are; stays where the table is
    """

    kind: str
    column: str
    silos: tuple[str, ...]
    what: str
    stops: bool = False
    mend: Mapping[str, Any] = field(default_factory=dict)
    advice: str = ""
    rows: int = 0
    quotes: str = ""

    @property
    def told(self) -> Finding:
        mend = {word: value for word, value in self.mend.items() if word != "na"}  # which quotes entries
        return replace(self, rows=0, quotes="", mend=mend)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Finding:
        return Finding(**{**content, "silos": tuple(content["silos"])})


@dataclass(frozen=True)
class Facts:
    """Of one column, what silos are compared by. From `present` on, it stays where the table is."""

    kind: Kind
    levels: tuple[str, ...] = ()  # of texts that may be a category, and of classes
    many: bool = False  # texts, and more of them than a category has
    zero_one: bool = False  # numbers, and each of them 0 or 1
    constant: bool = False  # one entry in all rows that have one
    present: int = 0
    missing: int = 0
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # level: class: rows
    spans: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # class: smallest and largest number

    @property
    def told(self) -> Facts:
        return Facts(self.kind, self.levels, self.many, self.zero_one, self.constant)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Facts:
        spans = {label: (low, high) for label, (low, high) in content["spans"].items()}
        return Facts(**{**content, "levels": tuple(content["levels"]), "spans": spans})


@dataclass(frozen=True)
class Inspection:
    """All that one silo finds in its table. `rows` are those that have a target; None where that is not told."""

    silo: str
    target: str
    classes: bool  # whether the target's entries are names of classes
    columns: Mapping[str, Facts]
    findings: tuple[Finding, ...]
    rows: int | None = None

    @property
    def told(self) -> Inspection:
        """What may leave a silo that tells no number of its own."""
        columns = {name: facts.told for name, facts in self.columns.items()}
        return replace(self, columns=columns, findings=tuple(one.told for one in self.findings), rows=None)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Inspection:
        columns = {name: Facts.from_json(facts) for name, facts in content["columns"].items()}
        findings = tuple(Finding.from_json(one) for one in content["findings"])
        return Inspection(**{**content, "columns": columns, "findings": findings})
