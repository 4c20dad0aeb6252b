"""One entry of a table: whether it is missing, a number, or text, and what a level of that name is called.

Texts are compared as people read them: in Unicode's composed form (NFC), without characters of no width, without blanks
around them. A level that is a number is called by that number, so 1, 1.0 and 01 are one level, in all files and in
`predict`; true, True and TRUE are one level too.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property

import numpy as np

from dualfl.tables.dates import AmbiguousDates, days_since
from dualfl.typing import AnyArray

GAPS = frozenset({"", "na", "n/a", "nan", "null"})  # how files write that there is no entry, in capitals or not
NO_WIDTH = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"))
WHOLE = re.compile(r"[-+]?\d+")
NEVER_DECIMAL = "'\u2019\u00a0\u202f"  # signs between thousands; a blank, a comma or a point may be one, too
DECIMAL_COMMA = re.compile(rf"[-+]?(?:\d{{1,3}}([. {NEVER_DECIMAL}])\d{{3}}(?:\1\d{{3}})*|\d*),\d+(?:[eE][-+]?\d+)?")
THOUSANDS = re.compile(rf"[-+]?\d{{1,3}}([., {NEVER_DECIMAL}])\d{{3}}(?:(\1)\d{{3}})*(?:([.,])\d+)?")
PERHAPS_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")  # or a number with three decimals
UNIT = re.compile(
    rf"(?P<before>[€$£¥]?) ?[-+]?(?:\d{{1,3}}(?:[., {NEVER_DECIMAL}]\d{{3}})+|\d+)(?:[.,]\d+)?"
    r"[ \u00a0\u202f]?(?P<behind>(?:[^\W\d_]|[%‰°€$£¥µ/])[^\d]{0,11})?"
)
MOST_AS_NAMES, NEARLY_ALL = 10, 0.9  # numbers with a unit that may be categories; part of a column
BOOLEAN = frozenset({"true", "false"})
EXACT = 2.0**53  # whole numbers from here on are not all told apart as floats
KEPT = 1000  # characters of a text that is kept as it is


def tidy(text: str) -> str:
    """The same words in one spelling; the text of a whole file at once.

    >>> tidy("Z\u0065\u0301ro\u200b") == "Z\u00e9ro"
    True
    """
    return text if text.isascii() else unicodedata.normalize("NFC", text.translate(NO_WIDTH))


def brief(text: str) -> str:
    """The text, or if it is a long one its beginning and a hash: arrays of text are as wide as their longest entry."""
    if len(text) <= KEPT:
        return text
    return f"{text[:100]}... {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


@dataclass(frozen=True)
class Spelling:
    """How a column writes gaps, besides the usual ways, the decimal point, levels and dates (`rules.Rules`)."""

    na: tuple[str, ...] = ()
    decimal: str = "."
    recode: tuple[tuple[str, str], ...] = ()  # what is written, and what it means
    fold_case: bool = False
    since: date | None = None  # dates become days since then

    @cached_property
    def _meanings(self) -> dict[str, str]:
        """By levels, so that a rule for 1 is one for 01, too."""
        return {self.level(text): meaning for text, meaning in self.recode}

    def meant(self, text: str) -> str:
        """The text itself, or what it is recoded to.

        >>> died = Spelling(recode=(("Yes", "1"), ("2", "")), fold_case=True)
        >>> [died.meant(text) for text in ("yes", "no", "02")]
        ['1', 'no', '']
        """
        return self._meanings.get(self.level(text), text) if self.recode else text

    @cached_property
    def _gaps(self) -> frozenset[str]:
        return GAPS | {tidy(text).strip().lower() for text in self.na}

    @cached_property
    def _codes(self) -> frozenset[float]:
        """Numbers that stand for a gap, such as -999."""
        return frozenset(value for value in map(self.number, self.na) if value is not None)

    @property
    def usual(self) -> bool:
        """Whether a number or an empty cell is nothing else."""
        return not self.na and self.decimal == "." and not self.recode and self.since is None

    def is_gap(self, text: str) -> bool:
        return text.lower() in self._gaps or (bool(self._codes) and self.number(text) in self._codes)

    def number(self, text: str) -> float | None:
        """The number that a text is, if it is one.

        >>> [Spelling().number(text) for text in ("01", "1e3", "1_000", "5O")]
        [1.0, 1000.0, None, None]
        >>> [Spelling(decimal=",").number(text) for text in ("1,5", "2", "1.5", "1.234,5")]
        [1.5, 2.0, None, 1234.5]
        """
        text = without_thousands(text, self.decimal)
        if self.decimal == ",":
            if "." in text:
                return None
            text = text.replace(",", ".")
        try:
            return None if "_" in text else float(text)
        except ValueError:
            return None

    def level(self, text: str) -> str:
        """What a level that is written so is called.

        >>> [Spelling().level(text) for text in ("01", "1.50", "TRUE", "9007199254740993", "A 1")]
        ['1', '1.5', 'true', '9007199254740993', 'A 1']
        """
        if text.lower() in BOOLEAN:
            return text.lower()
        value = self.number(text)
        if value is None or not math.isfinite(value):
            return brief(folded(text) if self.fold_case else text)
        return str(int(text)) if WHOLE.fullmatch(text) else level_of(value)

    # -- what of it the entries of a column have -------------------------------------------------------

    def matched(self, cells: Collection[str]) -> frozenset[tuple[str, str]]:
        """The rules that say something of these entries: which word, and which entry it is about.

        >>> sorted(Spelling(na=("-9", "x"), recode=(("1", "yes"),)).matched(["01", "-9.0", "2"]))
        [('na', '-9'), ('recode', '1')]
        """
        if self.usual and not self.fold_case:
            return frozenset()
        written = {cell.strip() for cell in cells}
        levels = {self.level(text) for text in written}
        found = {("recode", entry) for entry, _ in self.recode if self.level(entry) in levels}
        meant = {self.meant(text) for text in written}
        small, numbers = {text.lower() for text in meant}, {self.number(text) for text in meant} - {None}
        for entry in self.na:
            if tidy(entry).strip().lower() in small or self.number(entry) in numbers:
                found.add(("na", entry))
        there = {text for text in meant if not self.is_gap(text)}
        if self.decimal == "," and any("," in text and self.number(text) is not None for text in there):
            found.add(("decimal", ""))
        if self.since is not None and self._are_dates(there, self.since):
            found.add(("dates", ""))
        if self.fold_case and any(self.level(text) != replace(self, fold_case=False).level(text) for text in there):
            found.add(("fold_case", ""))
        return frozenset(found)

    @staticmethod
    def _are_dates(texts: Collection[str], since: date) -> bool:
        try:
            return bool(days_since(texts, since))
        except AmbiguousDates:
            return True  # and refused where they are used


def without_thousands(text: str, decimal: str) -> str:
    """The number without signs between thousands, where they can be nothing else: beside a decimal sign, or two of
    them, or a sign that is never decimal. 1,234 and 1.234 stay what they are.

    >>> [without_thousands(text, ".") for text in ("1,234.5", "1'234", "1,234,567", "1,234", "1 234", "1,23.4")]
    ['1234.5', '1234', '1234567', '1,234', '1 234', '1,23.4']
    """
    found = THOUSANDS.fullmatch(text)
    if found is None:
        return text
    sign, twice, decimal_sign = found.groups()
    if sign == decimal or decimal_sign not in (None, decimal):
        return text
    sure = decimal_sign or sign in NEVER_DECIMAL or (twice and sign != " ")
    return text.replace(sign, "") if sure else text


USUAL = Spelling()


class MixedPoints(ValueError):
    """A decimal point where commas are decimal: 1.234 may be one and a bit or a thousand."""


def folded(text: str) -> str:
    """In small letters, with single blanks.

    >>> folded("Heart  Surgery")
    'heart surgery'
    """
    return unicodedata.normalize("NFC", " ".join(text.lower().split()))


def level_of(value: float) -> str:
    """Whole numbers with all their digits, as labels have them; of others the digits that files agree on."""
    return f"{value + 0.0:.0f}" if value.is_integer() else f"{value:.15g}"


def parsed(cells: Sequence[str], spelling: Spelling = USUAL) -> tuple[AnyArray, AnyArray | None]:
    """A column: numbers where every entry that is there is one, nan for gaps; otherwise texts, "" for gaps.

    Besides, the levels of numbers that floats do not tell apart, if there are such.
    """
    values = _fast(cells) if spelling.usual else None
    if values is None:
        values = _careful(cells, spelling)
    if values.dtype.kind == "f" and bool((np.abs(values) >= EXACT).any()):
        return values, _mapped(cells, {cell: _exact(cell, spelling) for cell in set(cells)})
    return values, None


def _fast(cells: Sequence[str]) -> AnyArray | None:
    """Numbers and empty cells; None where anything else is among them."""
    try:
        values = np.fromiter([float(cell) if cell else math.nan for cell in cells], np.float64, len(cells))
    except ValueError:
        return None
    return None if any("_" in cell for cell in cells) else values  # 1_000 is a number to Python alone


def _careful(cells: Sequence[str], spelling: Spelling) -> AnyArray:
    """Each spelling is looked at once: in most columns there are few."""
    texts = {cell: spelling.meant(cell.strip()) for cell in set(cells)}
    there = {cell: text for cell, text in texts.items() if not spelling.is_gap(text)}
    if spelling.decimal == ",":
        for text in there.values():
            if "." in text and USUAL.number(text) is not None:
                raise MixedPoints(text)
    numbers = {cell: spelling.number(text) for cell, text in there.items()}
    if None not in numbers.values():
        return np.array([numbers.get(cell, math.nan) for cell in cells], dtype=np.float64)
    if spelling.since is not None and (days := days_since(set(there.values()), spelling.since)):
        return np.array([days[there[cell]] if cell in there else math.nan for cell in cells], dtype=np.float64)
    levels = {cell: spelling.level(text) for cell, text in there.items()}
    return np.array([levels.get(cell, "") for cell in cells], dtype=np.str_)


def _exact(cell: str, spelling: Spelling) -> str:
    text = spelling.meant(cell.strip())
    return "" if spelling.is_gap(text) else spelling.level(text)


def _mapped(cells: Sequence[str], known: dict[str, str]) -> AnyArray:
    return np.array([known[cell] for cell in cells], dtype=np.str_)


# -- what is odd about a column ----------------------------------------------------------------------------


def odd_entries(values: AnyArray) -> dict[str, list[int]]:
    """Of texts: those that are no numbers, with their rows from 1, if most entries are numbers; else none."""
    counts = _counted(values)
    numbers = {text for text in counts if USUAL.number(text) is not None}
    return rows_with(values, counts.keys() - numbers) if _most(counts, numbers) else {}


def decimal_commas(values: AnyArray) -> dict[str, list[int]]:
    """Of texts: those like 1,5 with their rows, if they and numbers are most entries; else none."""
    counts = _counted(values)
    commas = {text for text in counts if DECIMAL_COMMA.fullmatch(text)}
    numbers = {text for text in counts if commas and USUAL.number(text) is not None}
    return rows_with(values, commas) if commas and _most(counts, commas | numbers) else {}


def with_unit(values: AnyArray) -> tuple[str, dict[str, list[int]]]:
    """Of texts: the unit that stands behind, or before, nearly all of many different numbers, such as mg in 12 mg, and
    the entries that have it, with their rows; "" and none if there is none."""
    counts = _counted(values)
    found: dict[str, set[str]] = {}
    for text in counts:
        parts = UNIT.fullmatch(text)
        unit = "" if parts is None else parts["before"] + (parts["behind"] or "").strip()
        if unit:
            found.setdefault(unit, set()).add(text)
    unit, entries = max(found.items(), key=lambda one: len(one[1]), default=("", set()))
    if len(entries) <= MOST_AS_NAMES or sum(counts[text] for text in entries) < NEARLY_ALL * counts.total():
        return "", {}
    return unit, rows_with(values, entries)


def perhaps_thousands(commas: Collection[str]) -> bool:
    """Whether all of these commas may stand between thousands: 4,456 is one or the other."""
    return all(PERHAPS_THOUSANDS.fullmatch(text) for text in commas)


def _counted(values: AnyArray) -> Counter[str]:
    counts = Counter(values.tolist())
    counts.pop("", None)
    return counts


def _most(counts: Counter[str], some: Set[str]) -> bool:
    """Whether more than half of the entries are of this kind."""
    return 2 * sum(counts[text] for text in some) > counts.total()


def rows_with(values: AnyArray, wanted: Set[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row, text in enumerate(values.tolist() if wanted else (), start=1):
        if text in wanted:
            found.setdefault(text, []).append(row)
    return found


def quoted(entries: dict[str, list[int]], most: int = 3) -> str:
    """Entries with their rows: '5O' (row 3), 'Total' (rows 41, 82, ...) and 2 more."""
    first = list(entries.items())
    shown = [f"{text!r:.40} ({_numbered(rows)})" for text, rows in first[:most]]
    more = f" and {len(first) - most:,} more" if len(first) > most else ""
    return ", ".join(shown) + more


def _numbered(rows: Sequence[int], most: int = 3) -> str:
    word = "row" if len(rows) == 1 else "rows"
    return f"{word} {first_rows(rows, most)}"


def first_rows(rows: Sequence[int], most: int = 3) -> str:
    return f"{', '.join(f'{row:,}' for row in rows[:most])}{', ...' if len(rows) > most else ''}"
