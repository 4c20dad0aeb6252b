"""The coordinator's side of an analysis, followed by a silo: it knows what must be asked next.

An analysis depends on its description and on the answers alone, and both are the same for all. A silo therefore drives
the same conversation, with the sums that the coordinator hands on, and compares: names, numbers of rounds, folds, steps
and the like must be equal, and so must vectors, but for what another processor or library may round otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dualfl.analysis.descriptions import from_json
from dualfl.errors import DualflError, InputError
from dualfl.federation.courier import Courier
from dualfl.federation.far_silos import AnalysisTerms, FarSilos
from dualfl.federation.handing_on import Totals
from dualfl.federation.scales import Scales
from dualfl.federation.wire import as_read
from dualfl.silos.questions import Exchange, Query

TOLERANCE = 1e-6  # of the largest number of a vector
EXACT = frozenset({type(None), bool, int, str})
OTHER = (
    "the coordinator asks something else than the plan and the sums imply ({where}); this silo answers nothing but the "
    "plan"
)
Content = dict[str, Any]


class Nobody:
    """A transport that reaches nobody: a silo only follows."""

    def nodes(self) -> list[int]:
        return []

    def push(self, messages: Mapping[int, bytes]) -> dict[int, str]:
        raise InputError("a silo asks nobody")

    def pull(self, ids: Sequence[str], seconds: float) -> list[Any]:
        return []


class Replica:
    """One analysis as a silo follows it; `met` is what all silos said before the plan."""

    def __init__(self, plan: Mapping[str, Any], experiment: str, met: Mapping[str, Content]) -> None:
        terms = AnalysisTerms(experiment, tuple(plan["names"]), plan["analysis"], plan["secure"])
        self.silos = FarSilos(Courier(Nobody()), terms)
        self.silos._sent = 1
        self.silos._meet(met)
        self.conversation = from_json(plan["analysis"]).conversation(self.silos)
        self.over = ""
        self.wide = False  # whether the last answers were void, and the same is asked again
        self.scales = Scales(len(terms.names))
        self.asks: list[Content] = []
        self._advance(None)
        self.first = as_read(self.asks)
        self._answer(dict(met), Totals())

    def check_first(self, asks: Any) -> None:
        """The question that a silo has answered before it knew the plan must be the plan's: which columns and rows."""
        where = difference(asks, self.first, "the first question")
        if where is not None:
            raise InputError(OTHER.format(where=where))

    def _advance(self, found: Any) -> None:
        """To the next exchange that needs a message."""
        try:
            while True:
                self.exchange: Exchange = self.conversation.send(found)
                for ask in self.exchange.asks:
                    if isinstance(ask, Query) and ask.verb == "encode":
                        self.silos._features = len(ask.given["mean"])
                if any(not isinstance(ask, Query) or ask.reduce != "none" for ask in self.exchange.asks):
                    break
                self.silos._notes += self.exchange.asks
                found = [{}] * len(self.exchange.asks)
        except StopIteration:
            self.over = "the analysis has come to its end, and nothing more is to be asked"
        except DualflError as error:
            self.over = f"the analysis has ended: {error}".rstrip(".")
        self.asks = [] if self.over else self.silos.asks_of(self.exchange)

    def _answer(self, answers: Mapping[str, Content], totals: Totals) -> None:
        if self.over:
            raise InputError(self.over)
        self.silos._opened = totals
        self.silos._ended = []
        try:
            found = self.silos.read(self.exchange, self.asks, answers)
        except DualflError as error:
            self.over = f"the analysis has ended: {error}".rstrip(".")
            return
        self._advance(found)

    def told(self, totals: Totals) -> None:
        """Go on by what came of the last exchange."""
        assert totals.own is not None
        self.wide = not self.over and totals.too_large(len(self.silos.names))
        if self.wide:
            self.silos._ended = []
            return
        self.scales.note(self.asks, totals.sizes())
        if self.silos.rows is None:
            try:
                self.silos.note_sizes(totals)
            except DualflError as error:
                self.over = f"the analysis has ended: {error}".rstrip(".")
                return
        self._answer({name: {"own": own} for name, own in totals.own.items()}, totals)
        self.scales.forget(self.silos._ended)

    def check(self, asks: Any, ended: Any, wide: Any = False) -> tuple[list[Content], list[int]]:
        """Refuse what the analysis does not ask here; returns its questions, and which fits have ended."""
        if self.over:
            raise InputError(self.over)
        own: list[Content] = as_read(self.asks)
        where = difference(asks, own, "the question")
        if where is None and sorted(map(int, ended)) != sorted(self.silos._ended):
            where = "which fits have ended"
        if where is None and wide is not self.wide:
            where = "whether numbers take two words"
        if where is not None:
            raise InputError(OTHER.format(where=where))
        return own, list(self.silos._ended)


def difference(given: Any, expected: Any, where: str) -> str | None:
    """Where the two differ by more than rounding explains; None if they do not."""
    kind = type(expected)
    if kind in EXACT and type(given) is kind and given == expected:  # most of a question
        return None
    if isinstance(expected, dict):
        if not isinstance(given, dict) or list(given) != list(expected):
            return where
        return first(difference(given[key], expected[key], f"{where}, {key}") for key in expected)
    if isinstance(expected, list | tuple):
        if not isinstance(given, list | tuple) or len(given) != len(expected):
            return where
        return first(difference(a, b, where) for a, b in zip(given, expected))
    if isinstance(expected, np.ndarray):
        if not isinstance(given, np.ndarray) or given.shape != expected.shape or given.dtype != expected.dtype:
            return where
        return None if np.array_equal(given, expected) or close(given, expected) else where
    if isinstance(expected, float):
        return None if isinstance(given, float) and close(np.array(given), np.array(expected)) else where
    if isinstance(expected, str) and expected[:1] == "{" and isinstance(given, str) and given != expected:
        try:
            return difference(json.loads(given), json.loads(expected), where)
        except ValueError:
            return where
    return None if type(given) is type(expected) and given == expected else where


def close(given: Any, expected: Any) -> bool:
    """Equal, but for rounding; what is not finite must be the same."""
    if given.dtype.kind not in "f":
        return bool(np.array_equal(given, expected))
    finite = np.isfinite(expected)
    if not np.array_equal(given[~finite], expected[~finite], equal_nan=True) or not np.isfinite(given[finite]).all():
        return False
    scale = float(np.abs(expected[finite]).max(initial=0.0))
    return bool((np.abs(given[finite] - expected[finite]) <= TOLERANCE * scale).all())


def first(found: Any) -> str | None:
    return next((one for one in found if one is not None), None)
