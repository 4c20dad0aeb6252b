"""Sums of one exchange as they leave a silo: whole numbers, a tag behind them, masks over all.

`Total` is what is left when all silos' words are added up, on both sides: the coordinator opens it and hands it on with
its next question, and every silo checks the tag and reads the same numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.federation import fixed_point, tags
from dualfl.federation.field import P, Words, total
from dualfl.federation.ladders import from_rungs, ladder, to_rungs
from dualfl.federation.masks import Masks

Content = dict[str, Any]
SUMS, LARGEST = "sums", "largest"
OTHERS = (
    "The answers of silos do not fit together: {name!r} sent other fields than the rest. See that all have this "
    "version; which of them is at fault this does not tell."
)


@dataclass(frozen=True, eq=False)
class Seal:
    """What one silo puts on its words in one exchange; `label` is where the conversation stands (`chain`).

    One stream of each pair of silos masks first the sums and then the maxima. Where these begin in it depends on how
    many words the sums take, so the key of the stream belongs to all fields of the exchange: silos that sent others
    would have masks that do not cancel, and never one's maxima under the mask of another's sums.
    """

    masks: Masks
    group: bytes
    label: str
    among: Sequence[str]

    def sealed(self, sums: Mapping[str, fixed_point.Part], maxima: Mapping[str, Any]) -> Content:
        """Both, as they leave; what is empty is left out."""
        words, fields = {}, {}
        if sums:
            words[SUMS] = np.concatenate([fixed_point.to_words(name, *part) for name, part in sums.items()])
            fields[SUMS] = json.dumps([(name, np.shape(part.x), *part.kind) for name, part in sums.items()])
        if maxima:
            words[LARGEST], fields[LARGEST] = self._rungs(maxima), json.dumps(list(maxima))
        streams = self.masks.streams(mask_label(self.label, fields), list(self.among))
        first = self.masks.silo == self.among[0]
        return {
            what: {
                "words": streams.cover(tags.tagged(own, self.group, f"{self.label} {what}", first)),
                "fields": fields[what],
            }
            for what, own in words.items()
        }

    def _rungs(self, maxima: Mapping[str, Any]) -> Words:
        sizes = [len(ladder(name)) for name in maxima]
        noise = np.split(self.masks.noise(self.label, sum(sizes)), np.cumsum(sizes)[:-1])
        return np.concatenate([to_rungs(name, float(x), row) for (name, x), row in zip(maxima.items(), noise)])


def mask_label(label: str, fields: Mapping[str, str]) -> str:
    """Another one for other fields: their names, shapes and points, which tell where every word lies."""
    return f"{label} {hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()}"


def check_sealed(name: str, part: Any) -> None:
    """What a silo says it has sealed, before anything is computed from it: a text, and words modulo p."""
    known = isinstance(part, Mapping) and set(part) == {"fields", "words"} and isinstance(part["fields"], str)
    if not (known and is_row(part["words"])):
        raise InputError(f"Silo {name!r} sent something that is no row of masked words; see that it has this version.")


def is_row(words: Any) -> bool:
    """Whether these are words modulo p."""
    if not isinstance(words, np.ndarray) or words.dtype != np.uint64 or words.ndim != 1:
        return False
    return words.size > 0 and int(words.max()) < P


@dataclass(frozen=True, eq=False)
class Total:
    """The sum over all silos of what each sealed: its words with the tag behind them, and what they are.

    The names of fields are one text: a record of them takes a coordinator of many silos longer to read than the words.
    """

    text: str
    words: Words

    @cached_property
    def fields(self) -> Any:
        """(name, shape, bits after the point, bits of a slot if several share a word) of sums, names of maxima."""
        return json.loads(self.text)

    @staticmethod
    def of(parts: Mapping[str, Content]) -> Total:
        """What the coordinator adds up."""
        for name, part in parts.items():
            check_sealed(name, part)
        first = next(iter(parts.values()))
        for name, part in parts.items():
            if part["fields"] != first["fields"] or part["words"].shape != first["words"].shape:
                raise InputError(OTHERS.format(name=name))
        return Total(first["fields"], total([part["words"] for part in parts.values()]))

    def checked(self, group: bytes, label: str, what: str) -> Total:
        """The same, if its tag is true."""
        size = self.size(what)
        tags.check(self.words, group, f"{label} {what}", size)
        return self

    def size(self, what: str) -> int:
        """How many words the fields take."""
        if what == LARGEST:
            return sum(len(ladder(name)) for name in self.fields)
        return sum(fixed_point.count_of(math.prod(shape), *slot) for _, shape, _, *slot in self.fields)

    def sums(self) -> Content:
        found: Content = {}
        place = 0
        for name, shape, bits, *slots in self.fields:
            numbers, slot = math.prod(shape), slots[0] if slots else fixed_point.WORD
            size = fixed_point.count_of(numbers, slot)
            words = self.words[place : place + size]
            if shape:
                found[name] = fixed_point.from_words(words, bits, slot, numbers).reshape(shape)
            else:
                found[name] = fixed_point.number_from(int(words[0]), bits)
            place += size
        return fixed_point.whole(found)

    @cached_property
    def maxima(self) -> Content:
        rows = np.split(self.words[:-1], np.cumsum([len(ladder(name)) for name in self.fields])[:-1])
        return {name: from_rungs(name, row) for name, row in zip(self.fields, rows)}
