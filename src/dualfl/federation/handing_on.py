"""What the coordinator hands on: the hellos of all silos with the plan, and every sum with the question after it.

A silo signs its hello and whatever of its own numbers it shows, so that all hear the same; sums have tags (`tags`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dualfl.errors import InputError
from dualfl.federation import scales, signatures
from dualfl.federation.commitments import check_shape
from dualfl.federation.sealing import LARGEST, SUMS, Total
from dualfl.federation.wire import encode

Content = dict[str, Any]
HELLO = ("answers", "data", "withholds", "size", "offer", "boxes", "signed")  # what other silos hear of a hello
NOT_SIGNED = (
    "what is said to be of silo {name!r} is not signed by it; somebody may be in the middle, so compare the roster "
    "with that silo's operator"
)


def digest(content: Any) -> bytes:
    return hashlib.sha256(encode({"content": content})).digest()


def sign_hello(private: bytes, experiment: str, name: str, hello: Content) -> str:
    return signatures.sign(private, "hello", experiment.encode(), name.encode(), digest(_unsigned(hello)))


def _unsigned(hello: Mapping[str, Any]) -> Content:
    return {one: hello[one] for one in HELLO if one != "signed"}


def check_hellos(met: Mapping[str, Content], experiment: str, roster: Mapping[str, str]) -> None:
    for name, hello in met.items():
        check_shape(name, hello)
        parts = experiment.encode(), name.encode(), digest(_unsigned(hello))
        if not signatures.signed(roster[name], str(hello["signed"]), "hello", *parts):
            raise InputError(NOT_SIGNED.format(name=name))


def sign_own(private: bytes, label: str, name: str, own: Any) -> str:
    return signatures.sign(private, "own numbers", label.encode(), name.encode(), digest(own))


def check_own(own: Any, signed: Any, label: str, name: str, public: str) -> None:
    if not signatures.signed(public, str(signed), "own numbers", label.encode(), name.encode(), digest(own)):
        raise InputError(NOT_SIGNED.format(name=name))


@dataclass(frozen=True, eq=False)
class Totals:
    """All that came of one exchange: sums, maxima, and what every silo shows of its own."""

    sums: Total | None = None
    largest: Total | None = None
    own: Mapping[str, Any] | None = None
    signed: Mapping[str, Any] | None = None

    @staticmethod
    def of(answers: Mapping[str, Content]) -> Totals:
        """As the coordinator adds them up."""
        found = {}
        for what in (SUMS, LARGEST):
            parts = {name: answer[what] for name, answer in answers.items() if what in answer}
            if parts and len(parts) < len(answers):
                raise InputError("The answers of silos do not fit together: some sent sums and others none.")
            found[what] = Total.of(parts) if parts else None
        own = {name: answer["own"] for name, answer in answers.items()}
        signed = {name: answer.get("signed") for name, answer in answers.items()}
        return Totals(found[SUMS], found[LARGEST], own, signed)

    @property
    def numbers(self) -> int:
        return sum(total.words.size for total in (self.sums, self.largest) if total is not None)

    def too_large(self, silos: int) -> bool:
        """Whether numbers may have left their words, so that the sums are void and are asked for again."""
        if self.sums is None or self.largest is None:
            return False
        return scales.too_large(self.sums.fields, self.sizes(), silos)

    def sizes(self) -> Mapping[str, float]:
        """The secret maxima of this exchange, those of long vectors among them."""
        found: Content = {} if self.largest is None else self.largest.maxima
        return found

    def handed_on(self) -> Content | None:
        """As it travels with the next question; what its fields are every silo knows itself."""
        if self.own is None:
            return None
        words = {what: None if one is None else one.words for what, one in ((SUMS, self.sums), (LARGEST, self.largest))}
        return {**words, "own": dict(self.own), "signed": dict(self.signed or {})}


NOTHING = Totals()
