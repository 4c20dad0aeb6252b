"""What leaves a silo: as it is, or as words under masks that cancel in the sum over all silos.

A masked number is an integer of fixed point (`fixed`), so that sums of masked words are exact; its masks (`masks`) are
drawn anew for every request. Maxima are not sums: they go as ladders, whose rungs are added and counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dualfl.engines.client import Reply, Work
from dualfl.errors import InputError
from dualfl.federation import fixed_point
from dualfl.federation.ladders import ladder, to_rungs
from dualfl.federation.masks import Masks
from dualfl.tables.schema import Draft

WORK_BITS = 20  # counts of work are larger than coefficients, and need fewer digits
Content = dict[str, Any]


class Uploads:
    """The uploads of one silo under one plan; without masks where the plan has none."""

    def __init__(self, plan: Content, masks: Masks | None, allow_sampling: bool) -> None:
        self.plan, self.masks, self.allow_sampling = plan, masks, allow_sampling

    def answer(self, reply: Reply, value: Content | None, request: Content, name: str, weight: float) -> Content:
        """What leaves: the upload, the value at the probe, and the account of the work."""
        if self.masks is None:
            return {"wire": reply.wire, "work": reply.work, "value": value}
        among = list(request["to"])
        self._check_among(among)
        if request["reduce"] == "max":
            return masked_maxima(self.masks, reply.wire, name, among)
        wire = fixed_point.flatten(reply.wire)
        if value is not None:
            wire |= {f"probe:{field}": number for field, number in value.items()}
        if len(among) < len(self.plan["names"]):
            wire["probe:mass"] = 1.0
        parts: dict[str, fixed_point.Part] = {}
        for field, x in wire.items():
            if np.shape(x):
                parts |= fixed_point.limbs(field, weight * x, len(among), fixed_point.VECTOR)
            else:
                parts |= fixed_point.limbs(field, weight * x, len(among))
        work: Work = reply.work
        parts |= {f"work:{k}": fixed_point.Part(float(v), WORK_BITS, len(among)) for k, v in work._asdict().items()}
        return masked(self.masks, parts, name, among)

    def _check_among(self, among: list[str]) -> None:
        """Two sums that differ by one silo tell what that silo sent, so a secret sum is over all."""
        if among != list(self.plan["names"]) and not self.allow_sampling:
            raise InputError(
                f"this request is to {len(among)} of {len(self.plan['names'])} silos, and two sums that differ by one "
                "silo are no secret; take an algorithm that asks all, or let every operator set 'allow_sampling' in "
                "silo.json"
            )
        if len(among) < 2:
            raise InputError("a sum over one silo is no secret; take an algorithm that asks all")

    def setup(self, wire: Content, name: str) -> Content:
        """Sums before the first round; nothing is weighted yet."""
        if self.masks is None:
            return {"wire": wire}
        among = list(self.plan["names"])
        parts: dict[str, fixed_point.Part] = {}
        for field, x in wire.items():
            if field != "levels":  # which are counts
                self._check_reach(x, fixed_point.reach(len(among)))
            parts |= fixed_point.limbs(field, x, len(among))
        return masked(self.masks, parts, name, among)

    def _check_reach(self, x: Any, reach: float) -> None:
        """Refuse sums of columns that are too large for words, and name the column."""
        beyond = np.flatnonzero(~(np.abs(x) < reach))
        if np.shape(x) and len(beyond):
            columns = Draft.from_json(self.plan["draft"]).numeric
            raise InputError(
                f"column {columns[int(beyond[0])]!r} adds up to {reach:.0e} or more, which secure sums do "
                "not carry; divide it by a power of ten in every silo, or put it under 'ignore' in silo.json"
            )

    def value(self, value: Content, name: str, weight: float) -> Content:
        if self.masks is None:
            return {"value": value}
        among = list(self.plan["names"])
        parts: dict[str, fixed_point.Part] = {}
        for field, number in value.items():
            parts |= fixed_point.limbs(f"probe:{field}", weight * number, len(among))
        return masked(self.masks, parts, name, among)


def masked(masks: Masks, parts: dict[str, fixed_point.Part], name: str, among: list[str]) -> Content:
    words = [fixed_point.to_words(field, *part) for field, part in parts.items()]
    fields = tuple((field, tuple(np.shape(part.x)), part.bits) for field, part in parts.items())
    return {"words": masks.cover(np.concatenate(words), name, among), "fields": fields}


def masked_maxima(masks: Masks, wire: Content, name: str, among: list[str]) -> Content:
    sizes = [len(ladder(field)) for field in wire]
    noise = np.split(masks.noise(name, sum(sizes)), np.cumsum(sizes)[:-1])
    words = [to_rungs(field, float(x), row) for (field, x), row in zip(wire.items(), noise)]
    return {"words": masks.cover(np.concatenate(words), name, among), "maxima": tuple(wire)}
