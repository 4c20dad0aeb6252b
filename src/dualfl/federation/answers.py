"""The answers to all questions of one message: records where nothing is masked, else one row of words for all sums.

Every silo's own numbers (`each`) are never masked: a silo sends them where its operator allows that they are shown, and
None otherwise. Sums and maxima of all questions together lie under one mask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dualfl.algorithms.packing import largest
from dualfl.errors import InputError
from dualfl.federation import fixed_point
from dualfl.federation.chambers import CHECKS, TABLE_NAMES, FarChamber
from dualfl.federation.scales import SIZE, Scales
from dualfl.federation.sealing import Seal
from dualfl.tables.schema import Draft

Content = dict[str, Any]
WORK_BITS = 20  # counts of work are larger than coefficients, and need fewer digits
NAMES = (*TABLE_NAMES, *CHECKS)  # told in words, by every silo
MOMENTS = "this silo shows none of its own numbers, and so not its own moments; its operator decides on that"


def answer_all(
    far: FarChamber,
    asks: Sequence[Content],
    seal: Seal | None,
    scales: Scales | None = None,
    also: Mapping[str, fixed_point.Part] | None = None,
) -> Content:
    """What leaves; with a seal, nothing but names and what this silo shows of its own is to be seen of it.

    `scales`: where the points of long vectors stand; None: they take two words a number. `also`: what is added up with
    the answers.
    """
    experiment = far.experiment
    records = [one_answer(far, ask, {} if scales is None else scales.of(ask)) for ask in asks]
    if seal is None:
        return {"answers": [record.plain() for record in records]}
    own = [record.shown for record in records]
    sums: dict[str, fixed_point.Part] = dict(also or {})
    maxima: dict[str, float] = {}
    among = list(experiment.plan["names"])
    for i, record in enumerate(records):
        sums |= {f"{i}/{name}": part for name, part in record.parts(len(among)).items()}
        maxima |= {f"{i}/{name}": value for name, value in (record.maxima | record.sizes()).items()}
    return {"own": own, **seal.sealed(sums, maxima)}


class Record:
    """The answer to one question, before it leaves."""

    def __init__(
        self,
        summed: Mapping[str, Any] | None = None,
        *,
        shown: Any = None,
        maxima: Mapping[str, Any] | None = None,
        weight: float | None = None,
        value: Content | None = None,
        work: Any = None,
        points: Mapping[str, fixed_point.Point] | None = None,
    ) -> None:
        self.summed, self.shown, self.weight, self.value, self.work = summed, shown, weight, value, work
        self.points = points or {}
        self.maxima = dict(maxima or {})

    def plain(self) -> Content:
        if self.weight is None:
            return {"wire": self.summed, "own": self.shown}
        return {"wire": self.maxima or self.summed, "value": self.value, "work": self.work}

    def parts(self, silos: int) -> dict[str, fixed_point.Part]:
        """As whole numbers: sums in limbs that lose nothing, uploads of runs on the grid that their silo knows."""
        parts: dict[str, fixed_point.Part] = {}
        if self.weight is None:
            for name, x in (self.summed or {}).items():
                parts |= fixed_point.limbs(name, x, silos)
            return parts
        for name, value in fixed_point.flatten(self.summed or {}).items():
            x = fixed_point.dense(value)
            point = self.points.get(name) if np.size(x) >= fixed_point.LONG else None
            if point is not None and fixed_point.is_short(value):
                parts[name] = self._kept(self.weight * x, point.short, point.slot)
            elif point is not None and point.bits is not None:
                parts[name] = self._kept(self.weight * x, point.bits, fixed_point.WORD)
            elif np.shape(x):
                parts |= fixed_point.limbs(name, self.weight * x, silos, fixed_point.VECTOR)
            else:
                parts |= fixed_point.limbs(name, self.weight * x, silos)
        for name, x in (self.value or {}).items():
            parts |= fixed_point.limbs(f"probe:{name}", self.weight * x, silos)
        for name, x in ({} if self.work is None else self.work._asdict()).items():
            parts[f"work:{name}"] = fixed_point.Part(float(x), WORK_BITS, silos)
        return parts

    @staticmethod
    def _kept(x: Any, bits: int, slot: int) -> fixed_point.Part:
        """Numbers that do not fit are left out: the maximum that travels with them makes the sums void for all."""
        fits = fixed_point.carried(x, bits, slot)
        return fixed_point.Part(x if fits else np.zeros(np.shape(x)), bits, slot=slot)

    def sizes(self) -> dict[str, float]:
        """Of long vectors the largest number, whatever its sign, as it is added up."""
        if self.weight is None:
            return {}
        flat = {name: fixed_point.dense(x) for name, x in fixed_point.flatten(self.summed or {}).items()}
        return {f"{SIZE}{name}": self.weight * largest(x) for name, x in flat.items() if np.size(x) >= fixed_point.LONG}


def one_answer(far: FarChamber, ask: Content, points: Mapping[str, fixed_point.Point]) -> Record:
    if "verb" in ask:
        return query_answer(far, ask)
    if not far.takes_part(ask["fit"]):
        return Record(weight=0.0)
    if ask.get("step") is None:
        measured, weight = far.value(ask)
        return Record({}, weight=weight, value=measured)
    reply, value, weight = far.step(ask, points)
    if ask["reduce"] == "max":  # a silo without rows in this fit is below everybody
        maxima = reply.wire if weight else dict.fromkeys(reply.wire, -np.inf)
        return Record(maxima=maxima, weight=weight)
    return Record(reply.wire, weight=weight, value=value, work=reply.work, points=points)


def query_answer(far: FarChamber, ask: Content) -> Record:
    verb, reduce = ask["verb"], ask["reduce"]
    found = far.query(verb, ask["given"])
    if reduce == "none":
        return Record()
    if reduce == "each":
        if verb == "moments" and far.home.withholds:
            raise InputError(MOMENTS)
        kept = verb == "baseline" and not far.home.settings.get("show_baseline", far.home.roles is None)
        return Record(shown=found if verb in NAMES or (shows(far) and not kept) else None)
    if reduce != "sum":
        raise InputError(f"{reduce!r} is no way to put answers together")
    if verb in NAMES:
        raise InputError(f"{verb!r} is answered in words, which nobody can add up")
    if verb in ("count", "deviate") and far.has_plan and far.experiment.plan["secure"] is not None:
        check_reach(found, ask["given"]["draft"], len(far.experiment.plan["names"]))
    return Record(found)


def check_reach(sums: Mapping[str, Any], draft: Mapping[str, Any], silos: int) -> None:
    """Refuse sums of columns that are too large for words, and name the column."""
    columns, reach = Draft.from_json(draft).numeric, fixed_point.reach(silos)
    for x in sums.values():
        beyond = np.flatnonzero(~(np.abs(x) < reach))
        if np.shape(x) == (len(columns),) and len(beyond):
            raise InputError(
                f"column {columns[int(beyond[0])]!r} adds up to {reach:.0e} or more, which secure sums do not carry; "
                "divide it by a power of ten in every silo, or put it under 'ignore' in silo.json"
            )


def shows(far: FarChamber) -> bool:
    """Whether this silo's own numbers may be seen: its operator says so, or nothing is masked anyway.

    Where one silo alone withholds its own, those of all others would give them away.
    """
    if not far.has_plan or far.experiment.plan["secure"] is None:
        return True
    return not far.home.withholds and len(far.experiment.plan["withheld"]) != 1
