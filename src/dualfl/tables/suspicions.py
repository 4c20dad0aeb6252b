"""What entries look like that they are not: gaps that are written as numbers or words, identifiers, broken letters.

These are guesses, so they are told as questions. Each says in its docstring when it speaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from dualfl.tables.cells import level_of
from dualfl.typing import AnyArray, Array

CODE = re.compile(r"-?9+|-?9+\.9+|-?8{2,}|-?7{2,}|-1|-8|-7")  # numbers that people write for no number
GAP_WORDS = (
    "unknown unk unbekannt inconnu desconocido ? ?? - -- --- . .. / // # * x? missing not_known not_available "
    "not_applicable not_recorded not_done not_reported n.a. n.a n.k. n/k n.d. nd n/d k.a. k.a tbd none_given "
    "unspecified undefined #n/a #na #ref! #value! #div/0! #name? #null! #num! (blank) (missing) (null) (none) <na> nil"
)
ROW_NAMES = re.compile(
    r"(id|ids|uid|uuid|guid|pid|nr|no|num|number|key|mrn|ssn|patient|subject|person|participant|record|case|index|row)"
)
BROKEN = re.compile("[\u00c2\u00c3][\u0080-\u00bf\u0152-\u0178\u2013-\u2122]|\u00e2\u20ac|\ufffd")
FEW, OFTEN = 10, 5  # rows below which nothing is said of identifiers; times that a code must occur if it is near
SURPRISING = 5.0  # expected pairs of equal numbers where there is none
LONG = 6  # digits of numbers that are more probably names than amounts, if all have so many


def codes(values: Array) -> list[float]:
    """Numbers like 999 or -1 that probably stand for a gap: they are written so, lie outside all others, and either
    farther out than the others are from each other, or often, or are the only negative numbers."""
    there = values[~np.isnan(values)]
    if not len(there) or not any(CODE.fullmatch(level_of(float(one))) for one in (there.min(), there.max())):
        return []
    known, counts = np.unique(there, return_counts=True)
    suspected = np.array([CODE.fullmatch(level_of(float(one))) is not None for one in known])
    rest = known[~suspected]
    if len(rest) < 2:
        return []
    low, high = float(rest.min()), float(rest.max())
    found = []
    for value, count in zip(known[suspected].tolist(), counts[suspected].tolist()):
        away = max(low - value, value - high)
        often = count >= OFTEN and count > 3 * counts.mean() and away >= 0.05 * (high - low)
        alone = value < 0 <= low and len(rest) > 2
        if away > 0 and (away > high - low or often or alone):
            found.append(value)
    return found


def words_for_gaps(levels: Iterable[str]) -> list[str]:
    """Texts like "unknown", "?" or "#N/A"."""
    known = GAP_WORDS.split()
    return [text for text in levels if "_".join(text.lower().split()) in known]


def names_rows(name: str, values: AnyArray) -> bool:
    """Whether a column is an identifier: no entry occurs twice, and that is no chance. Texts: always. Whole numbers:
    if they only rise or fall, or are called like one, or lie so close that some would be equal by chance, or all have
    the same number of digits, six or more."""
    if values.dtype.kind != "f":
        there = values[values != ""]
        return len(there) >= FEW and len(np.unique(there)) == len(there)
    there = values[~np.isnan(values)]
    if len(there) < FEW or not bool((there == np.floor(there)).all()):
        return False
    width = float(there.max() - there.min()) + 1
    if width < len(there) or len(np.unique(there)) < len(there):
        return False
    steps = np.diff(there)
    digits = {len(level_of(abs(float(one)))) for one in (there.min(), there.max())}
    return bool(
        (steps > 0).all()
        or (steps < 0).all()
        or any(ROW_NAMES.fullmatch(word) for word in _words(name))
        or len(there) ** 2 / (2 * width) > SURPRISING
        or (len(digits) == 1 and digits.pop() >= LONG)
    )


def _words(name: str) -> list[str]:
    """The words of a column's name: patientId and patient_id are two."""
    return re.sub(r"([a-z])([A-Z])", r"\1 \2", name).replace("_", " ").replace("-", " ").lower().split()


def broken_letters(levels: Iterable[str]) -> list[str]:
    """Texts in which letters of one encoding were read by another: MÃ¼nchen."""
    return [text for text in levels if BROKEN.search(text)]
