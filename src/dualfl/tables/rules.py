"""What the entries of a table mean, as somebody who knows the table says it.

The same record serves a file on this machine (options of the commands), a silo elsewhere (its silo.json) and a model
(model.json), so that new files are read as those were to which it was fitted. An entry is first recoded, then it may be
a gap, a number, a date, and else it is a text.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date
from functools import cached_property
from typing import Any

from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.tables.cells import Spelling, tidy
from dualfl.tables.dates import WORD
from dualfl.tables.delimited import UTF8

NAMES = ("columns", "drop", "id", "categorical", "na", "commas")  # words that hold a list of texts
PREDICTING = ("id", "na", "recode", "decimal", "commas", "encoding", "fold_case", "dates")  # what new files are read by


@dataclass(frozen=True)
class Rules:
    """How one table is read.

    columns     : the features to take; () is all
    drop        : columns to leave out
    id          : columns that name a row; no features, and kept as they are written
    categorical : columns of which also numbers are names of levels
    na          : entries that are gaps: "999" in every column, "age=999" in one
    recode      : column -> entry -> what it means; "" is a gap
    decimal     : "." or ","
    commas      : columns whose decimal sign is the comma, where it is the point in others
    encoding    : of text files
    fold_case   : whether texts that differ by case or by blanks only are one level, in small letters
    dates       : "as-days-since:2020-01-01" makes numbers of columns of dates; "" leaves them
    """

    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    na: tuple[str, ...] = ()
    recode: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    decimal: str = "."
    commas: tuple[str, ...] = ()
    encoding: str = UTF8
    fold_case: bool = False
    dates: str = ""

    def __post_init__(self) -> None:
        for word in NAMES:
            object.__setattr__(self, word, _texts(word, getattr(self, word)))
        object.__setattr__(self, "recode", _recodes(self.recode))
        if self.decimal not in (".", ","):
            raise InputError(f"The decimal sign must be '.' or ',', but it is {self.decimal!r}.")
        if not isinstance(self.fold_case, bool):
            raise InputError(f"fold_case must be true or false, but it is {self.fold_case!r}.")
        _check_encoding(self.encoding)
        _since(self.dates)
        self._check_contradictions()

    def _check_contradictions(self) -> None:
        for name in (*self.drop, *self.id):
            what = "drop" if name in self.drop else "id"
            for other in ("columns", "categorical", *(("id",) if what == "drop" else ())):
                if name in getattr(self, other):
                    raise InputError(f"--{what} {name!r} and --{other} {name!r} contradict each other; give one.")

    # -- as text --------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        """Every word that says something."""
        usual = Rules()
        found = asdict(self)
        return {word: _plain(value) for word, value in found.items() if value != getattr(usual, word)}

    @staticmethod
    def from_json(content: Any) -> Rules:
        if not isinstance(content, Mapping):
            raise InputError(f"Rules are words with values, such as {{'decimal': ','}}, but here is {content!r:.40}.")
        known = [one.name for one in fields(Rules)]
        for word in content:
            if word not in known:
                raise InputError(nearest("rule", str(word), known))
        return Rules(**content)

    def with_more(self, content: Mapping[str, Any]) -> Rules:
        """These rules and others: lists and recodes are joined, other words replaced."""
        more = Rules.from_json(content)
        changes: dict[str, Any] = {word: getattr(more, word) for word in content}
        for word in NAMES:
            changes[word] = tuple(dict.fromkeys((*getattr(self, word), *getattr(more, word))))
        names = {*self.recode, *more.recode}
        changes["recode"] = {name: {**self.recode.get(name, {}), **more.recode.get(name, {})} for name in sorted(names)}
        return replace(self, **changes)

    @property
    def predicting(self) -> Rules:
        """Those that new files are read by; which columns a model takes, its schema says."""
        return Rules(**{word: getattr(self, word) for word in PREDICTING})

    # -- applied --------------------------------------------------------------------------------------

    def takes(self, name: str) -> bool:
        """Whether a column is a feature."""
        return name not in self.drop and name not in self.id and (not self.columns or name in self.columns)

    @property
    def wide(self) -> bool:
        """Whether a letter has more than one byte, and zeros among them."""
        return codecs.lookup(self.encoding).name.startswith(("utf-16", "utf-32"))

    def spelling(self, column: str) -> Spelling:
        """How the entries of a column are written."""
        return self._spelling(column) if column in self.named_columns else self._ordinary

    @cached_property
    def _ordinary(self) -> Spelling:
        return self._spelling("")

    def _spelling(self, column: str) -> Spelling:
        parts = [gap_of(text) for text in self.na]
        na = tuple(value for name, value in parts if name in ("", column))
        pairs = tuple(self.recode.get(column, {}).items())
        decimal = "," if column in self.commas else self.decimal
        return Spelling(na, decimal, pairs, self.fold_case, _since(self.dates))

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Every column that a rule names; one that no file has is a mistake."""
        gaps = [name for name, _ in map(gap_of, self.na) if name]
        lists = (self.columns, self.drop, self.id, self.categorical, self.commas, self.recode, gaps)
        return tuple(dict.fromkeys(name for names in lists for name in names))


def gap_of(text: str) -> tuple[str, str]:
    """(column, entry) of an entry that is a gap; no column where it is one everywhere.

    >>> gap_of("age=999"), gap_of("999"), gap_of("=x")
    (('age', '999'), ('', '999'), ('', '=x'))
    """
    name, equals, value = text.partition("=")
    return (name.strip(), value) if equals and name.strip() else ("", text)


def parse_recode(text: str) -> tuple[str, dict[str, str]]:
    """What COLUMN=FROM:TO,FROM:TO says; a pair in quotation marks may have commas.

    >>> parse_recode('died=yes:1,no:0')
    ('died', {'yes': '1', 'no': '0'})
    >>> parse_recode('ward="a, b:ab",c:')
    ('ward', {'a, b': 'ab', 'c': ''})
    """
    column, equals, pairs = text.partition("=")
    try:
        cells = next(csv.reader([pairs], strict=True), [])
    except csv.Error:
        cells = []
    found = {}
    for cell in cells:
        before, colon, after = cell.rpartition(":")
        if not colon or not before.strip() or before.strip() in found:
            cells = []
            break
        found[before.strip()] = after.strip()
    if not equals or not column.strip() or not cells:
        raise InputError(f"--recode is COLUMN=FROM:TO,FROM:TO, such as died=yes:1,no:0, but it is {text!r:.60}.")
    return column.strip(), found


def _texts(word: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable) or not all(isinstance(one, str) for one in given):
        raise InputError(f"{word!r} must be a list of texts, such as ['a', 'b'], but it is {given!r:.40}.")
    return tuple(tidy(one).strip() for one in given)


def _recodes(given: Any) -> dict[str, dict[str, str]]:
    good = isinstance(given, Mapping) and all(
        isinstance(name, str)
        and isinstance(pairs, Mapping)
        and all(isinstance(one, str) for pair in pairs.items() for one in pair)
        for name, pairs in given.items()
    )
    if not good:
        raise InputError(f"'recode' must be like {{'died': {{'yes': '1', 'no': '0'}}}}, but it is {given!r:.60}.")
    return {
        tidy(name).strip(): {tidy(one).strip(): tidy(other).strip() for one, other in pairs.items()}
        for name, pairs in given.items()
    }


def _check_encoding(name: Any) -> None:
    try:
        if codecs.lookup(name)._is_text_encoding:
            return
    except (LookupError, TypeError, ValueError):
        pass
    raise InputError(f"There is no encoding {name!r}; utf-8, cp1252 (Windows), latin-1 and utf-16 are common ones.")


def _since(rule: Any) -> date | None:
    """The day from which a rule for dates counts."""
    if rule == "":
        return None
    try:
        if rule.startswith(WORD):
            return date.fromisoformat(rule.removeprefix(WORD))
    except (AttributeError, ValueError):
        pass
    raise InputError(f"--dates is {WORD}YEAR-MONTH-DAY, such as {WORD}2020-01-01, but it is {rule!r:.60}.")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


USUAL_RULES = Rules()
