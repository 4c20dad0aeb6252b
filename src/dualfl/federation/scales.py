"""How long vectors travel in one word a number.

A word has 61 bits, of which a sum may use 59, so the point must stand where the numbers are. Nobody knows where that is
before silos have computed; but a run sends one vector after the other, and the next is hardly ever much larger. So with
every long vector travels a secret maximum (`ladders`): a power of two above the largest number of any silo. The next
vector of its kind has its point by it, with room for numbers 16 times as large. The maximum that travels with this one
proves, to everybody, whether it had its place; where it had not, or where nothing went before, numbers take two words.

What is lost is at most what adding up floating point numbers of that size may lose, and never more than 2^-40. Short
numbers, which only steer, lose more: they share a word (`packed_words`), with room for numbers 4 times as large.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dualfl.federation import packed_words
from dualfl.federation.fixed_point import BITS, LARGEST, WORD, Point, limit
from dualfl.federation.ladders import SIZES

Content = dict[str, Any]
Kind = tuple[int, str, str]
SIZE = "size:"  # before the name of a vector: the power of two above its largest number
HEADROOM, SHORT_HEADROOM, COARSEST = 16.0, 4.0, 40
LEAST = float(SIZES[0])  # below it is nothing but zeros, of which the next may be anything


def bits_for(largest: float, silos: int) -> int | None:
    """After the point, for numbers up to `largest` of so many silos; None where one word is not enough."""
    if not LEAST < largest < np.inf:
        return None
    bits = min(BITS, int(np.floor(np.log2(LARGEST / HEADROOM / silos / largest))))
    return bits if bits >= COARSEST else None


def point_for(largest: float, silos: int) -> Point | None:
    """Where the point stands after numbers up to `largest`; None if these tell nothing."""
    if not LEAST < largest < np.inf:
        return None
    slot = packed_words.width(silos)
    short = int(np.floor(np.log2(packed_words.room(slot, silos) / SHORT_HEADROOM / silos / largest)))
    return Point(bits_for(largest, silos), short, slot)


def too_large(fields: Iterable[Sequence[Any]], largest: Mapping[str, float], silos: int) -> bool:
    """Whether numbers of some vector that took one word each may have left their place."""
    for name, _, bits, *packed in fields:
        slot = packed[0] if packed else WORD
        place, _, field = name.partition("/")
        above = largest.get(f"{place}/{SIZE}{field}")
        if above is not None and not silos * above * 2.0**bits < limit(slot, silos):
            return True
    return False


class Scales:
    """Where the points of long vectors stand, as every silo knows it from what was opened before."""

    def __init__(self, silos: int) -> None:
        self.silos = silos
        self._points: dict[Kind, dict[str, Point]] = {}

    def of(self, ask: Mapping[str, Any]) -> dict[str, Point]:
        """By field of the answer to this question; those that are not named take two words."""
        kind = kind_of(ask)
        return {} if kind is None else self._points.get(kind, {})

    def note(self, asks: Sequence[Mapping[str, Any]], largest: Mapping[str, float]) -> None:
        """What came of an exchange."""
        found: dict[Kind, dict[str, Point]] = {}
        for name, above in largest.items():
            place, _, field = name.partition("/")
            kind = kind_of(asks[int(place)])
            if kind is None or not field.startswith(SIZE):
                continue
            point = point_for(above, self.silos)
            found.setdefault(kind, {}).update({} if point is None else {field.removeprefix(SIZE): point})
        self._points |= found

    def forget(self, numbers: Iterable[int]) -> None:
        """Fits that have ended."""
        gone = set(numbers)
        self._points = {kind: points for kind, points in self._points.items() if kind[0] not in gone}


def kind_of(ask: Mapping[str, Any]) -> Kind | None:
    """Which vectors are alike: those of one step of one fit."""
    if ask.get("step") is None:
        return None
    return int(ask["fit"]["number"]), str(json.loads(ask["algorithm"])["algorithm"]), str(ask["step"])
