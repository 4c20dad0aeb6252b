"""Where a silo stands in the conversation of an analysis under masks, on its disk.

    fits           the last answer, what it was made of, and the chain of all that was said (`chambers` writes it)
    met            the hellos of all silos, as they signed them
    group          the key that silos have in common
    opened/N       what came of exchange N, as the coordinator handed it on and the tags proved it

A silo answers the last question again, with the same bytes, and otherwise only what follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dualfl.errors import InputError
from dualfl.federation.chain import Chain
from dualfl.federation.experiment import Experiment
from dualfl.federation.group_key import Share
from dualfl.federation.handing_on import Totals, check_hellos, check_own
from dualfl.federation.masks import Masks
from dualfl.federation.replica import Replica
from dualfl.federation.scales import Scales
from dualfl.federation.sealing import LARGEST, SUMS, Seal, Total
from dualfl.federation.silo_folder import write
from dualfl.federation.tags import FalseSum
from dualfl.federation.wire import decode, encode

Content = dict[str, Any]
NOT_NOW = "the coordinator does not hand on what came of the last exchange, so this silo cannot tell what follows"


@dataclass(frozen=True)
class Standing:
    """After an answer."""

    chain: Chain
    exchanges: int = 0
    label: str = ""  # of the last exchange
    fields: tuple[Any, Any] = (None, None)  # of its sums and maxima, None where there were none

    def as_content(self) -> Content:
        return {
            "chain": self.chain.digest,
            "length": self.chain.length,
            "exchanges": self.exchanges,
            "label": self.label,
            "fields": self.fields,
        }


class Line:
    """One experiment's conversation."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self.path = experiment, experiment.path
        self._replica: Replica | None = None
        self._followed = 0  # exchanges that the replica has heard of

    @property
    def masks(self) -> Masks:
        return self.experiment.masks

    @property
    def plan_digest(self) -> str:
        return Chain.of(self.experiment.id).said((self.path / "plan").read_bytes()).digest

    # -- joining ----------------------------------------------------------------------------------------

    def meet(self, met: Content) -> None:
        """Take note of all hellos; the shares of the common key are in them."""
        names, roster = list(self.experiment.plan["names"]), self.experiment.home.registered()
        if sorted(met) != names:
            raise InputError("the plan comes with the hellos of other silos than it names")
        check_hellos(met, self.experiment.id, roster)
        for name in names:
            if tuple(met[name]["offer"]) != tuple(self.experiment.plan["offers"][name]):
                raise InputError(f"the plan holds another key of silo {name!r} than its hello")
        if tuple(self.experiment.plan["withheld"]) != tuple(name for name in names if met[name]["withholds"]):
            raise InputError("the plan says of other silos than their hellos that they withhold their own numbers")
        self.experiment.fix("met", encode(met), "the plan comes with other hellos than before; start a new experiment")

    def share(self) -> Share:
        """What this silo puts into the common key: its hello has it in boxes for the others."""
        experiment, home = self.experiment, self.experiment.home
        private = (home.path / "key").read_bytes()
        return Share(home.name, experiment.id, experiment.secret(), private, home.registered())

    def group(self) -> bytes:
        """The common key, from the hellos that came with the plan."""
        path = self.path / "group"
        if not path.exists():
            met, names = decode((self.path / "met").read_bytes()), self.experiment.plan["names"]
            write(path, self.share().key(self.plan_digest, names, met))
        return path.read_bytes()

    # -- asking -----------------------------------------------------------------------------------------

    def standing(self) -> Standing:
        told = self.experiment.far.standing()
        if told is None:
            return Standing(Chain(self.plan_digest))
        chain = Chain(told["chain"], told["length"])
        return Standing(chain, told["exchanges"], told["label"], tuple(told["fields"]))

    def follow(self, request: Content, now: Standing, group: bytes) -> tuple[list[Content], list[int]]:
        """Check what came of the last exchange, and that this is what must be asked next.

        Returns the questions and which fits have ended, as this silo itself has found them: with what was sent instead,
        a coordinator could choose points within what rounding explains, and of columns whose sizes differ much that is
        any point.
        """
        totals = self._note_opened(request.get("opened"), now, group)
        self._catch_up(now.exchanges, totals)
        assert self._replica is not None
        return self._replica.check(request["asks"], request["ended"], request.get("wide", False))

    @property
    def scales(self) -> Scales | None:
        """Where the points of long vectors stand; None where the last answer was void, and all take two words."""
        assert self._replica is not None
        return None if self._replica.wide else self._replica.scales

    def _note_opened(self, opened: Any, now: Standing, group: bytes) -> Totals | None:
        """What came of the last exchange, on disk now; None before the first."""
        if now.exchanges == 0:
            return None
        try:
            totals = read_totals(opened, now)
        except (KeyError, TypeError, AttributeError):
            raise InputError(NOT_NOW) from None
        for what, total in ((SUMS, totals.sums), (LARGEST, totals.largest)):
            if total is not None:
                try:
                    total.checked(group, now.label, what)
                except FalseSum:
                    if self._was_true(opened, now):
                        raise InputError(NOT_NOW) from None
                    raise
        if list(totals.own or {}) != list(self.experiment.plan["names"]):
            raise InputError(NOT_NOW)
        # Nothing shown needs no signature: it is what a silo that withholds its numbers says.
        shown = {name: own for name, own in (totals.own or {}).items() if any(one is not None for one in own)}
        roster = self.experiment.home.registered() if shown else {}
        for name, own in shown.items():
            check_own(own, (totals.signed or {}).get(name), now.label, name, roster[name])
        write(self.path / "opened" / f"{now.exchanges:06d}", encode({"opened": opened, "fields": now.fields}))
        return totals

    def _was_true(self, opened: Content, now: Standing) -> bool:
        """Whether this came of an earlier exchange: a message that is late is refused, and ends nothing."""
        earlier = [encode({"opened": self._kept(number)["opened"]}) for number in range(1, now.exchanges)]
        return encode({"opened": opened}) in earlier

    def _kept(self, number: int) -> Content:
        return decode((self.path / "opened" / f"{number:06d}").read_bytes())

    def _catch_up(self, exchanges: int, last: Totals | None) -> None:
        """Let the replica hear what it has not heard: the last sums, or all of them if this process is new."""
        if self._replica is None or self._followed > exchanges:
            self._replica = Replica(self.experiment.plan, self.experiment.id, decode((self.path / "met").read_bytes()))
            self._replica.check_first(self._first())
            self._followed = 0
        while self._followed < exchanges:
            number = self._followed + 1
            totals = last if number == exchanges else None
            self._replica.told(totals or self._opened(number))
            self._followed = number

    def _first(self) -> Any:
        """The question of the hello."""
        try:
            return decode((self.path / "first").read_bytes())["asks"]
        except FileNotFoundError:
            raise InputError("this experiment was begun by an older version at this silo; start a new one") from None

    def _opened(self, number: int) -> Totals:
        kept = self._kept(number)
        return read_totals(kept["opened"], Standing(Chain(""), fields=tuple(kept["fields"])))

    def seal(self, message: bytes, now: Standing, group: bytes) -> tuple[Seal, Chain]:
        chain = now.chain.said(message)
        return Seal(self.masks, group, chain.digest, list(self.experiment.plan["names"])), chain

    def after(self, now: Standing, chain: Chain, content: Content) -> Content:
        """Where it stands after this answer; it is kept together with the answer itself."""
        sums, largest = (content[what]["fields"] if what in content else None for what in (SUMS, LARGEST))
        return Standing(chain, now.exchanges + 1, chain.digest, (sums, largest)).as_content()


def read_totals(opened: Content, now: Standing) -> Totals:
    """What the coordinator hands on, with the fields that this silo itself sent."""
    sums, largest = now.fields
    return Totals(
        None if sums is None else Total(sums, opened[SUMS]),
        None if largest is None else Total(largest, opened[LARGEST]),
        opened["own"],
        opened["signed"],
    )
