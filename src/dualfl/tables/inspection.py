"""What a silo finds in its own table, before any fit: a pure function of the table and the rules it was read by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.errors import InputError, WrongEncoding
from dualfl.files import contents
from dualfl.tables.cells import (
    DECIMAL_COMMA,
    USUAL,
    decimal_commas,
    first_rows,
    level_of,
    odd_entries,
    perhaps_thousands,
    quoted,
    rows_with,
    with_unit,
)
from dualfl.tables.dates import WORD, is_date
from dualfl.tables.delimited import is_class_target, likely_encoding
from dualfl.tables.findings import Facts, Finding, Inspection, Kind
from dualfl.tables.reading import LARGEST, LONGEST, Table, as_text, has_points, is_numeric, missing, read_table
from dualfl.tables.rules import Rules
from dualfl.tables.schema import MOST_LEVELS
from dualfl.tables.suspicions import broken_letters, codes, names_rows, words_for_gaps
from dualfl.typing import AnyArray

SINCE = f"{WORD}2020-01-01"


def inspect_file(
    path: Path, rules: Rules, target: str = "", classes: bool | None = None
) -> tuple[Inspection, Table | None]:
    """What is found in a file; one in another encoding is read by the likeliest, so that the rest is found too.
    Besides, the table, if it could be read."""
    first: tuple[Finding, ...] = ()
    try:
        try:
            table = read_table(path, rules, (target,))
        except WrongEncoding as error:
            likely = likely_encoding(contents(path))
            table = read_table(path, replace(rules, encoding=likely), (target,))
            what = f"its text is not {rules.encoding.upper()}, and perhaps {likely}"
            first = (
                _finding("encoding", "", str(path), what, stops=True, mend={"encoding": likely}, quotes=error.where),
            )
    except InputError as error:
        own = Finding("unreadable", "", (str(path),), "it cannot be read", stops=True, quotes=str(error).rstrip("."))
        return Inspection(str(path), target, bool(classes), {}, (own,), 0), None
    found = inspect(table, rules, target, classes)
    return replace(found, findings=(*first, *found.findings)), table


def inspect(table: Table, rules: Rules, target: str = "", classes: bool | None = None) -> Inspection:
    """What is found in a table. Without a target nothing is said about it; `classes` is whether its entries are names
    of classes, and is guessed if nobody says it."""
    there = np.ones(table.rows, dtype=bool)
    if target in table.columns and table.columns[target].dtype.kind != "O":
        values = table.columns[target]
        there = ~missing(values)
        if classes is None:
            classes = is_class_target(values[there]) and not decimal_commas(as_text(values))
    used = table.kept(there) if there.any() else table  # rows without a target are read, but not fitted
    rows = _by_class(used.levels(target)) if classes and target in table.columns else {}
    columns: dict[str, Facts] = {}
    blank = without_entry(table)
    findings = _blank_rows(table.name, blank)
    for name in table.columns:
        fitted = _Column(used, name, rules, target, bool(classes), rows)
        columns[name] = fitted.facts()
        findings += replace(fitted, table=table, blank=blank).findings(fitted)
    return Inspection(table.name, target, bool(classes), columns, tuple(findings), int(there.sum()))


def without_entry(table: Table) -> AnyArray:
    """Rows in which no column has an entry, as spreadsheets leave them behind a table."""
    blank = np.ones(table.rows, dtype=bool)
    for values in (*table.columns.values(), *table.ids.values()):
        blank &= missing(values) if values.dtype.kind != "O" else False
    return blank


def _blank_rows(name: str, blank: AnyArray) -> list[Finding]:
    rows = (np.flatnonzero(blank) + 1).tolist()
    if not rows or blank.all():
        return []
    what, advice = "rows without any entry, which are left out where there is a target", "delete them"
    return [_finding("gaps", "", name, what, rows=len(rows), quotes=first_rows(rows), advice=advice)]


def _by_class(labels: AnyArray) -> dict[str, AnyArray]:
    """Which rows are of each class; none where there are so many that they are no classes."""
    known = np.unique(labels[labels != ""]).tolist()
    return {label: labels == label for label in known} if len(known) <= MOST_LEVELS else {}


def _finding(kind: str, column: str, silo: str, what: str, **more: Any) -> Finding:
    return Finding(kind, column, (silo,), what, **more)


@dataclass(frozen=True, eq=False)
class _Column:
    """One column, and how it is looked at."""

    table: Table
    name: str
    rules: Rules
    target: str
    classes: bool
    rows_of: dict[str, AnyArray]  # which rows are of each class
    blank: AnyArray | None = None  # rows without any entry, which are told once

    @property
    def values(self) -> AnyArray:
        return self.table.columns[self.name]

    @cached_property
    def gaps(self) -> AnyArray:
        return missing(self.values) if self.values.dtype.kind != "O" else np.zeros(len(self.values), dtype=bool)

    @property
    def is_target(self) -> bool:
        return self.name == self.target

    @property
    def as_levels(self) -> bool:
        """Whether its entries are names, be they numbers or not."""
        return self.name in self.rules.categorical or (self.is_target and self.classes)

    @cached_property
    def kind(self) -> Kind:
        if self.values.dtype.kind == "O":
            return "dates" if str(self.values[0]).startswith(("date", "timestamp")) else "other"
        if self.gaps.all():
            return "empty"
        if self.name in self.table.unclear:
            return self.table.unclear[self.name].kind
        if is_numeric(self.values):
            return "text" if self.name in self.rules.categorical else "numbers"
        if self.name in self.rules.categorical:
            return "text"
        if self._dates:
            return "dates"
        return "numbers" if decimal_commas(self.values) or odd_entries(self.values) else "text"

    @cached_property
    def known(self) -> list[str]:
        """The texts that there are."""
        found: list[str] = np.unique(self.values[~self.gaps]).tolist()
        return found

    @cached_property
    def _dates(self) -> dict[str, list[int]]:
        """Texts that are dates, if most are."""
        rows = rows_with(self.values, {text for text in self.known if is_date(text)})
        return rows if 2 * sum(map(len, rows.values())) > np.count_nonzero(~self.gaps) else {}

    # -- for others ------------------------------------------------------------------------------------

    def facts(self) -> Facts:
        kind, gaps, lost = self.kind, self.gaps, int(self.gaps.sum())
        present = len(gaps) - lost
        if kind in ("empty", "other") or (kind == "dates" and self.values.dtype.kind == "O"):
            return Facts(kind, present=present, missing=lost)
        if self.values.dtype.kind == "U" and self._no_levels():
            return Facts("other", present=present, missing=lost)
        text = kind == "text" or self.as_levels or not is_numeric(self.values)
        levels = self.table.levels(self.name) if text else None
        there = self.values[~gaps]
        if levels is None:
            low, high = float(there.min()), float(there.max())
            zero_one = bool(np.isin(there, (0.0, 1.0)).all())
            spans = {label: (float(some.min()), float(some.max())) for label, some in self._by_class(self.values)}
            spans = spans or {"": (low, high)}
            return Facts("numbers", (), False, zero_one, low == high, present, lost, spans=spans)
        known = np.unique(levels[~gaps]).tolist()
        names_people = names_rows(self.name, levels) and not self.as_levels  # perhaps; they are told to nobody
        many = len(known) > MOST_LEVELS or names_people
        zero_one = is_numeric(self.values) and bool(np.isin(there, (0.0, 1.0)).all())
        named = not many and (kind == "text" or self.as_levels)
        names, tables = (tuple(known), self._crossed(levels, known)) if named else ((), {})
        return Facts(kind, names, many and kind == "text", zero_one, len(known) == 1, present, lost, tables)

    def _by_class(self, values: AnyArray) -> Iterator[tuple[str, AnyArray]]:
        """The entries that are there, by the class of their row."""
        there = ~missing(values)
        for label, rows in self.rows_of.items() if not self.is_target else ():
            some = values[there & rows]
            if len(some):
                yield label, some

    def _crossed(self, levels: AnyArray, known: Sequence[str]) -> dict[str, dict[str, int]]:
        """How many rows each level has of each class."""
        found: dict[str, dict[str, int]] = {level: {} for level in known}
        pairs = list(self._by_class(levels)) or [("", levels[levels != ""])]
        for label, some in pairs:
            names, counts = np.unique(some, return_counts=True)
            for level, count in zip(names.tolist(), counts.tolist()):
                found[level][label] = count
        return found

    # -- for whoever has the table ---------------------------------------------------------------------

    def findings(self, fitted: _Column) -> Iterator[Finding]:
        """What is found in all rows, of which a fit takes those of `fitted`."""
        if self.values.dtype.kind == "O":
            yield from self._other_types()
        elif self.name in self.table.unclear:
            sentence = self.table.unclear[self.name].sentence
            drop = {} if self.is_target else {"drop": [self.name]}
            what = "entries that can be read in two ways"
            yield self._found(
                "unclear", what, stops=True, mend=drop, quotes=sentence.replace(f" in column {self.name!r}", "")
            )
        elif fitted.gaps.all():
            yield self._empty()
        elif is_numeric(self.values):
            yield from self._of_numbers()
        else:
            yield from self._of_texts(len(fitted.known))
        gaps = self.gaps if self.blank is None else self.gaps & ~self.blank
        if gaps.any() and not self.gaps.all():
            yield self._gaps(gaps)

    def _found(self, kind: str, what: str, **more: Any) -> Finding:
        return _finding(kind, self.name, self.table.name, what, **more)

    def _other_types(self) -> Iterator[Finding]:
        type_ = str(self.values[0])
        drop = {} if self.is_target else {"drop": [self.name]}
        if self.kind == "dates":
            yield self._found("dates", "dates, which are neither numbers nor texts", stops=True, mend={"dates": SINCE})
        else:
            what = f"entries of type {type_}, which are neither numbers nor texts"
            yield self._found("types", what, stops=True, mend=drop, advice="make them numbers or texts")

    def _empty(self) -> Finding:
        if self.is_target:
            return self._found(
                "gaps", "no entry at all in the target", stops=True, advice="fill it, or leave the file out"
            )
        advice = "let the mean of the others fill it (--allow-empty)"
        return self._found("empty", "no entry at all", stops=True, mend={"drop": [self.name]}, advice=advice)

    def _gaps(self, gaps: AnyArray) -> Finding:
        rows = (np.flatnonzero(gaps) + 1).tolist()
        if self.is_target:
            what, advice = "rows without the target, which are left out", "fill them, or leave them"
        else:
            becomes = "the mean of all" if self.kind == "numbers" else "a level of their own"
            what, advice = f"gaps, which become {becomes}", "fill them, or choose with --missing"
        return self._found("gaps", what, rows=len(rows), quotes=first_rows(rows), advice=advice)

    def _of_numbers(self) -> Iterator[Finding]:
        huge = (np.flatnonzero(np.abs(self.values) > LARGEST) + 1).tolist()
        if huge:
            what, advice = (
                "infinite or huge numbers",
                f"put numbers between -{LARGEST:g} and {LARGEST:g} there, or nothing",
            )
            yield self._found("numbers", what, stops=True, rows=len(huge), quotes=first_rows(huge), advice=advice)
            return
        if (self.is_target and not self.classes) or self.name in self.table.dates:
            pass
        elif names_rows(self.name, self.values) and not self.as_levels:
            what = "it names rows, as an identifier does: whole numbers, none of them twice"
            yield self._found("identifier", what, mend={"id": [self.name]}, advice="keep it if it measures something")
        for code in codes(self.values):
            rows = (np.flatnonzero(self.values == code) + 1).tolist()
            name = level_of(code)
            yield self._placeholder("a number, far from the others or often, that may stand for a gap", name, rows)

    def _placeholder(self, what: str, entry: str, rows: list[int]) -> Finding:
        mend = {"na": [f"{self.name}={entry}"]}
        return self._found("placeholder", what, mend=mend, rows=len(rows), quotes=quoted({entry: rows}))

    def _of_texts(self, levels: int) -> Iterator[Finding]:
        values, chosen = self.values, self.name in self.rules.categorical
        long = self._no_levels()
        if long is not None:
            yield long
            return
        dates = self._dates
        commas = {} if chosen or dates else decimal_commas(values)
        if commas:
            yield self._commas(commas)
        if dates and not chosen:
            yield from self._date_texts(dates, levels)
        elif self.kind == "numbers" or commas:
            yield from self._odd(commas.keys())
        elif not chosen and with_unit(values)[0]:
            yield self._unit(*with_unit(values))
        else:
            yield from self._words(levels)

    def _no_levels(self) -> Finding | None:
        """Texts that run over lines or are long, which a fit refuses as rows that a quotation mark has swallowed."""
        values = self.values
        bad = (
            (np.char.find(values, "\n") >= 0) | (np.char.find(values, "\r") >= 0) | (np.char.str_len(values) > LONGEST)
        )
        rows = (np.flatnonzero(bad) + 1).tolist()
        if not rows:
            return None
        what = f"texts with line breaks or of more than {LONGEST} characters, which are no categories"
        mend = {} if self.is_target else {"drop": [self.name]}
        advice = "look for a quotation mark that is too many"
        return self._found("text", what, stops=True, mend=mend, rows=len(rows), quotes=first_rows(rows), advice=advice)

    def _commas(self, commas: dict[str, list[int]]) -> Finding:
        rows = sum(map(len, commas.values()))
        mend: dict[str, object] = {"commas": [self.name]} if has_points(self.table) else {"decimal": ","}
        mend = mend if self.rules.spelling(self.name).decimal == "." else {}
        if perhaps_thousands(commas):  # read as decimal ones they might be a thousand times too small
            what, mend = "commas in the numbers, each before three digits: between thousands, or decimal", {}
            advice = f"take them out, or if they are decimal read them by --decimal '{self.name}=,'"
        elif any(
            "." in text and USUAL.number(text) is not None for text in self.known
        ):  # then commas cannot be the sign
            advice, what = "correct them", "commas in some numbers, and points in others"
            meant = {text: text.replace(",", ".") for text in commas}
            mend = {"recode": {self.name: meant}} if len(meant) <= 5 else {}
        else:
            advice, what = "take them out if they are not decimal", "commas in the numbers"
        return self._found("decimal", what, stops=True, mend=mend, advice=advice, rows=rows, quotes=quoted(commas, 2))

    def _date_texts(self, dates: dict[str, list[int]], levels: int) -> Iterator[Finding]:
        what = "dates, each of which would be a level of its own"
        rows = sum(map(len, dates.values()))
        stops = levels > MOST_LEVELS and not (self.is_target and self.classes)
        yield self._found("dates", what, stops=stops, mend={"dates": SINCE}, rows=rows, quotes=quoted(dates, 1))
        others = {text for text in self.known if text not in dates}
        if others:
            yield self._not_among("dates", rows_with(self.values, others), stops=False)

    def _odd(self, commas: Set[str]) -> Iterator[Finding]:
        known = set(self.known) - commas
        odd = {text for text in known if USUAL.number(text) is None}
        if odd:
            yield self._not_among("numbers", rows_with(self.values, odd), stops=True)

    def _unit(self, unit: str, entries: dict[str, list[int]]) -> Finding:
        what = f"numbers with {unit!r}, which a fit would treat as categories"
        few = len(self.known) <= MOST_LEVELS and not self.is_target
        mend = {"categorical": [self.name]} if few else {}
        rows, advice = sum(map(len, entries.values())), f"take {unit!r} out of the file"
        return self._found("odd", what, stops=True, mend=mend, advice=advice, rows=rows, quotes=quoted(entries, 2))

    def _not_among(self, kind: str, odd: dict[str, list[int]], stops: bool) -> Finding:
        what = f"entries that are not {kind}, although most are"
        mend = {"na": [f"{self.name}={text}" for text in odd]} if len(odd) <= 5 else {}
        rows = sum(map(len, odd.values()))
        return self._found("odd", what, stops=stops, mend=mend, advice="correct them", rows=rows, quotes=quoted(odd))

    def _words(self, levels: int) -> Iterator[Finding]:
        known = self.known
        if levels > MOST_LEVELS or (names_rows(self.name, self.values) and not self.as_levels):
            yield self._many(levels)
            return
        if commas := [text for text in known if DECIMAL_COMMA.fullmatch(text)]:
            found = rows_with(self.values, set(commas))
            what, advice = (
                "numbers with commas among texts",
                "correct the texts; if all are numbers, --decimal reads them",
            )
            count, quotes = sum(map(len, found.values())), quoted(found, 2)
            yield self._found("decimal", what, rows=count, quotes=quotes, advice=advice)
        for word in words_for_gaps(known):
            rows = rows_with(self.values, {word})[word]
            yield self._placeholder("a word that may stand for a gap", word, rows)
        broken = broken_letters(known)
        if broken:
            what = "letters that another encoding has spoiled"
            found = rows_with(self.values, set(broken))
            mend = {} if self.rules.encoding == "utf-8" else {"encoding": "utf-8"}
            count, quotes = sum(map(len, found.values())), quoted(found, 2)
            yield self._found("encoding", what, mend=mend, rows=count, quotes=quotes, advice="export the file again")

    def _many(self, levels: int) -> Finding:
        unique, rows = names_rows(self.name, self.values), int(np.count_nonzero(~self.gaps))
        stops = levels > MOST_LEVELS
        if unique:
            what = "it names rows, as an identifier does: no text occurs twice"
        else:
            what = f"more than {MOST_LEVELS} different texts, the most that a category may have"
        mend = {} if self.is_target else {"id" if unique else "drop": [self.name]}
        advice = "" if unique else "group its levels with --recode, or make it numbers"
        return self._found("identifier" if unique else "levels", what, stops=stops, mend=mend, advice=advice, rows=rows)
